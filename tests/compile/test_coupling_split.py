"""Couplings taken apart: what each party shares, and models of many couplings, against cvxpy."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

DATA = np.random.default_rng(3)


def clients(*shapes: Any) -> tuple[dm.Model, list[cp.Variable]]:
    x = [cp.Variable(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - i))
    return model, x


def sizes(model: dm.Model) -> list[int]:
    return [edge.size for edge in model.compile().edges]


P = cp.Parameter((2, 4), name="P", value=np.ones((2, 4)))


@pytest.mark.parametrize(
    ("couple", "expected"),
    [
        (lambda x, y: [cp.sum(x) + cp.sum(y) <= 1], [1, 1]),
        (lambda x, y: [x[:2] <= y[:2], x[1] + y[0] >= 0], [2, 2]),
        (lambda x, y: [cp.norm(x[:3] + y) <= 1, x[:3] >= y], [3, 3]),
        (lambda x, y: [cp.norm(cp.hstack([x[0], y[1]])) <= 1], [1, 1]),
        (lambda x, y: [cp.norm(x) + cp.sum_squares(y) <= 3], [1, 1]),
        (lambda x, y: [cp.norm(x) <= y[0], x[0] + y[0] >= -5], [2, 1]),
        (lambda x, y: [P @ x <= y[:2]], [2, 2]),  # a side with Parameters is shared whole
        (lambda x, y: [cp.sum(P @ cp.hstack([x[:2], y[:2]])) <= 1], [2, 2]),
        (lambda x, y: [0 * x[1] + x[0] <= y[0]], [1, 1]),
    ],
)
def test_parties_share_what_is_needed_and_the_answer_is_right(couple: Any, expected: Any) -> None:
    model, (x, y) = clients(4, 3)
    model.couple(*couple(x, y))
    assert sizes(model) == expected
    assert model.solve().verify().ok


def test_matrices_scalars_and_cones_of_matrices() -> None:
    model, (X, Y, z) = clients((2, 2), (2, 2), ())
    model.couple(X + Y.T + z * np.eye(2) >> 0.5 * np.eye(2), cp.trace(X) + z <= 0.3)
    assert model.solve().verify().ok


def test_curvature_that_rests_on_a_sign() -> None:
    """A power is increasing where its argument is nonnegative, which a free variable is not."""
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(name="y", nonneg=True)
    model = dm.Model()
    model.client("a", cp.square(x - 3))
    model.client("b", cp.square(y - 3))
    model.couple(objective=cp.power(cp.maximum(x, y) + x + y, 3) / 20)
    assert model.solve().verify().ok


def test_a_perspective_of_two_clients() -> None:
    x, s = cp.Variable(2, name="x"), cp.Variable(name="s", nonneg=True)
    model = dm.Model()
    model.client("a", cp.sum_squares(x - 2))
    model.client("b", cp.square(s - 1))
    model.couple(objective=cp.perspective(cp.sum_squares(x), s), name="ratio")
    local = model.compile()["ratio"].client.variables
    assert [v.name() for v in local] == ["s@ratio", "x@ratio"]
    assert local[0].is_nonneg(), "which cvxpy asks of the scale"


def test_two_couplings_may_have_a_variable_of_their_own_in_common() -> None:
    model, x = clients(2, 2, 2, 2)
    t = cp.Variable(2, name="t")
    model.couple(x[0] + x[1] == t, name="left")
    model.couple(x[2] + x[3] == -t, name="right")
    result = model.solve()
    assert result.verify().ok
    np.testing.assert_allclose(np.asarray(t.value), -(0 + 1 - 2 - 3) / -2 * np.ones(2), atol=1e-5)


def test_a_shared_variable_in_a_coupling_costs_no_further_party() -> None:
    w, x, y = cp.Variable(name="w"), cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    for name, v in {"a": x, "b": y, "c": cp.Variable()}.items():
        model.client(name, cp.square(w - 1) + cp.square(v))
    model.couple(w + x + y <= 0, name="limit")
    assert sorted(map(str, model.compile()["limit"].neighbours)) == ["a", "b"]
    assert model.solve().verify().ok


def chain(weights: list[float], turned: bool) -> dm.Model:
    """Seven points in a row, norms between neighbours with these weights, one sum over three."""
    rng = np.random.default_rng(5)
    x = [cp.Variable(2, name=f"x{i}") for i in range(7)]
    model = dm.Model("chain")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - rng.normal(size=2) - (i > 2)))
    for i, weight in enumerate(weights):
        apart = x[i + 1] - x[i] if turned and i % 2 else x[i] - x[i + 1]
        model.couple(objective=weight * cp.norm(apart), name=f"edge {i}")
    model.couple(cp.norm(x[0] + x[3] + x[6]) <= 2, name="three")
    return model


@pytest.mark.parametrize("weights", [[0.3] * 6, [0.1, 0.2, 0.4, 0.8, 0.2, 0.1]])
@pytest.mark.parametrize("turned", [False, True])
def test_edges_of_one_pattern_have_their_own_weights_and_ends(weights, turned):
    model = chain(weights, turned)
    result = model.solve()
    problem = model.monolithic()
    problem.solve(solver="CLARABEL")
    assert result.status == "optimal"
    assert result.value == pytest.approx(problem.value, rel=1e-5)
    for name, coupling in model.couplings.items():
        edges = {e for e in model.compile().edges if name in e.ends}
        owners = {end for edge in edges for end in edge.ends} - {name}
        expected = {i for i in range(7) if f"x{i}" in {v.name() for v in coupling.variables}}
        assert owners == expected


def test_couplings_that_are_alike_have_one_form():
    compiled = chain([0.3] * 6, turned=False).compile()
    assert len({id(compiled[f"edge {i}"].form) for i in range(6)}) == 1
    others = chain([0.1, 0.2, 0.4, 0.8, 0.2, 0.1], turned=False).compile()
    for i, weight in enumerate([0.1, 0.2, 0.4, 0.8, 0.2, 0.1]):
        form, point = others[f"edge {i}"].form, np.array([3.0, 0.0, 0.0, 4.0])
        assert form is not None
        assert form.objective(point) == pytest.approx(weight * 5)


def test_a_limit_and_a_cost_of_many_are_of_their_sums() -> None:
    """A quadratic of what 60 parties share would have 3,600 entries for each of these."""
    model, x = clients(*[5] * 60)
    total: Any = sum(x)
    cost = 0.01 * cp.sum_squares(cp.diff(total) - 1)
    limit: Any = total <= 100
    model.couple(limit, total[0] == 90, objective=cost, name="sums")
    form = model.compile()["sums"].form
    assert form is not None
    assert form.size <= 60 * 5 + 9
    assert form.cone.matrix.nnz <= 9 * 9
    result = model.solve()
    assert result.verify().ok
    problem = model.monolithic()
    problem.solve(solver=cp.CLARABEL)
    assert result.value == pytest.approx(problem.value, rel=1e-7)
    assert result.duals[limit] == pytest.approx(limit.dual_value, abs=1e-4)
