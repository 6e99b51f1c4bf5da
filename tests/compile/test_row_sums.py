"""Clients read from one of their rows against the same clients read as they stand, and cvxpy."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model._cvxpy import CanonicalProblem
from dald_model.compile import lowering
from dald_model.compile.lowered import Lowered
from dald_model.compile.lowering import Lowering
from dald_model.compile.row_replication import APART, is_row_sum
from dald_model.compile.structure import split
from dald_model.solvers.exact.conic import ClarabelProgram, Scaling
from tests.expect import flat

RNG = np.random.default_rng(0)
A, B, Y = RNG.normal(size=(7, 3)), RNG.normal(size=7), RNG.choice([-1.0, 1.0], 7)
MORE = RNG.normal(size=(5, 3))
X, BIAS, TABLE = cp.Variable(3, name="x"), cp.Variable(name="bias"), cp.Variable((2, 3))

BY_ROWS: dict[str, tuple[Any, list[Any]]] = {
    "squares": (cp.sum_squares(A @ X - B), []),
    "squares over a number": (cp.quad_over_lin(A @ X - B, 4), [X >= 0]),
    "absolute": (cp.norm1(A @ X - B), []),
    "hinge": (cp.sum(cp.pos(1 - cp.multiply(Y, A @ X + BIAS))) / 7 + cp.sum_squares(X), []),
    "pinball": (cp.sum(0.5 * cp.abs(B - A @ X) + 0.2 * (B - A @ X)), [X <= 2]),
    "quantile": (cp.sum(cp.maximum(0.9 * (B - A @ X), -0.1 * (B - A @ X))), []),
    "logistic": (cp.sum(cp.logistic(cp.multiply(-Y, A @ X))) / 7 + 0.1 * cp.norm1(X), [X <= 1]),
    "huber": (cp.sum(cp.huber(A @ X - B, 2)), [cp.norm(X) <= 2]),
    "squared hinge": (cp.sum(cp.square(cp.pos(1 - cp.multiply(Y, A @ X)))), []),
    "two sums": (cp.sum(cp.huber(A @ X - B)) + 3 * cp.sum(cp.exp(MORE @ X)), []),
    "a table": (cp.sum(cp.abs(TABLE - 1)) + cp.sum_squares(TABLE), [cp.sum(TABLE) == 1]),
    "beside a constant": (cp.norm1(A @ X - B) + 5 - cp.sum(cp.log(2 + X[:1])), []),
}
OTHERWISE: dict[str, tuple[Any, list[Any]]] = {
    "weights": (cp.sum(cp.multiply(np.arange(7.0), cp.abs(A @ X - B))), []),
    "inside another function": (cp.square(cp.norm1(A @ X - B)), []),
    "in a constraint": (cp.sum(X), [cp.sum_squares(A @ X - B) <= 9]),
    "by columns": (cp.sum(cp.sum(cp.abs(TABLE), axis=0) ** 2), []),
}
REFUSED: dict[str, tuple[Any, list[Any]]] = {
    "a number to every row": (cp.sum(cp.huber(A @ X - B) + 1), []),
    "beside an unknown function": (cp.norm1(A @ X - B) + cp.max(X), []),
    "an unknown function": (cp.sum(cp.power(cp.abs(A @ X - B), 1.7)), []),
}


def declared(name: str) -> dm.Client:
    cost, rules = {**BY_ROWS, **OTHERWISE, **REFUSED}[name]
    return dm.Client(name, cp.Minimize(cost), tuple(rules))


def solved(lowered: Lowered, c: np.ndarray) -> Any:
    """By the cone program, with curvature and a slope so that the answer is unique."""
    size = lowered.form.size
    program = ClarabelProgram(lowered.form.cone, Scaling(*np.ones((2, size))))
    program.set(np.eye(size))
    return program.minimise(c, 1e-10)


@pytest.mark.parametrize("name", BY_ROWS)
def test_one_row_says_what_all_rows_say(name: str) -> None:
    client = declared(name)
    one, all_rows = Lowering()._row_by_row(client), Lowering()._as_it_stands(client)
    assert one is not None
    assert all_rows is not None
    assert one.form.shape == all_rows.form.shape
    rng = np.random.default_rng(1)
    for scale in (0.1, 1.0, 10.0):
        point = scale * rng.normal(size=one.form.size)
        assert one.form.objective(point) == pytest.approx(all_rows.form.objective(point), rel=1e-12)
        assert one.form.violation(point) == pytest.approx(all_rows.form.violation(point), abs=1e-12)
    # The cone programs are the same but for the order of rows and columns
    first, second = one.form.cone, all_rows.form.cone
    assert sorted(map(str, first.cones)) == sorted(map(str, second.cones))
    assert first.rows.shape == second.rows.shape
    assert first.constant == pytest.approx(second.constant)
    for mine, theirs in (
        (first.matrix.toarray(), second.matrix.toarray()),
        (first.rows.toarray(), second.rows.toarray()),
        (first.linear, second.linear),
        (first.rhs, second.rhs),
    ):
        np.testing.assert_allclose(np.sort(flat(mine)), np.sort(flat(theirs)), rtol=0, atol=1e-12)
    c = rng.normal(size=one.form.size)
    found, other = solved(one, c), solved(all_rows, c)
    np.testing.assert_allclose(found.point, other.point, rtol=0, atol=1e-5)
    assert found.objective == pytest.approx(other.objective, rel=1e-7)
    duals = one.cone_duals(found.multipliers), all_rows.cone_duals(other.multipliers)
    for ours, others in zip(*duals, strict=True):
        for dual, theirs in zip(ours, others, strict=True):
            np.testing.assert_allclose(dual, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_no_sum_over_rows_is_read_as_it_stands(name: str) -> None:
    client = declared(name)
    assert all(group == APART for group in split(client, by_rows=True).groups)
    assert Lowering()._row_by_row(client) is None
    assert Lowering()(client) is not None


@pytest.mark.parametrize("name", REFUSED)
def test_what_one_row_does_not_say_is_found_out_and_read_as_it_stands(name: str) -> None:
    client, lowering = declared(name), Lowering()
    assert lowering._row_by_row(client) is None
    lowered = lowering(client)
    assert lowered is not None
    if lowered.form.valued:
        X.value = np.array([0.3, -1.0, 2.0])
        assert lowered.form.objective(X.value) == pytest.approx(client.cost.value, rel=1e-12)


def test_what_counts_as_a_sum_over_rows() -> None:
    v, w = cp.Variable(4), cp.Variable()
    assert is_row_sum(cp.sum(cp.abs(v) + 2))
    assert is_row_sum(cp.sum(cp.maximum(v, 0, w + np.zeros(4))))
    assert not is_row_sum(cp.sum(v))
    assert not is_row_sum(cp.sum(cp.abs(v) + np.arange(4)))
    assert not is_row_sum(cp.abs(w))
    assert not is_row_sum(cp.norm(v))
    assert not is_row_sum(cp.sum(cp.abs(TABLE), axis=0))
    assert not is_row_sum(cp.sum(cp.hstack([cp.abs(v), v])))
    assert not is_row_sum(cp.quad_over_lin(v, w))


def test_clients_of_any_number_of_rows_are_canonicalised_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lowering, "templates", {})
    count = 0
    once = CanonicalProblem.__init__

    def counted(self: CanonicalProblem, problem: cp.Problem) -> None:
        nonlocal count
        count += 1
        once(self, problem)

    monkeypatch.setattr(CanonicalProblem, "__init__", counted)
    rng, w = np.random.default_rng(2), cp.Variable(3, name="w")
    model = dm.Model("schools")
    for rows in range(1, 21):
        A, b = rng.normal(size=(rows, 3)), rng.normal(size=rows)
        model.client(rows, cp.sum(cp.huber(A @ w - b)) / rows + cp.norm1(w))
    compiled = model.compile()
    assert count == 1
    for rows in range(1, 21):
        form = compiled[rows].form
        assert form is not None
        assert form.cone.rows.shape[1] > form.size + rows
    assert count == 1
    assert model.solve().verify().ok
