"""Step methods: exact minimisers of many quadratics, by closed forms, certificates and peers."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

import dald_model as dm
from dald_model.compile.form import Form
from dald_model.solvers import Factor, SemismoothNewton
from dald_model.solvers.exact import semismooth_newton
from dald_model.solvers.exact.active_set import MISSED, ActiveSet
from tests.solvers.quadratics import (
    exact,
    form,
    hessians,
    make_term,
    residual,
    run,
    units,
    values,
)

TIGHT = 1e-10
"""Relative optimality residual of what counts as working accuracy, as the methods promise."""


def test_refusals_say_what_is_in_the_way() -> None:
    below, equal = (np.eye(3), np.ones(3)), (np.ones((1, 3)), [1.0])
    absolute = values(np.eye(3), np.ones(3))
    norm = make_term("norm", np.eye(3))
    smooth = make_term("logistic", np.eye(3))
    for kind, rows in ((Factor, None), (ActiveSet, below)):
        assert kind.refuses(form(3, None, rows, [smooth])) == ""
        assert kind.refuses(form(3, None, rows, [smooth, norm])) == "it has non-smooth terms (norm)"
    assert ActiveSet.refuses(form(3)) == "it has no rows"
    assert SemismoothNewton.refuses(form(3)) == "it has neither rows nor terms without a gradient"
    assert Factor.refuses(form(3, equal)) == ActiveSet.refuses(form(3, equal, below)) == ""
    assert Factor.refuses(form(3, None, below)) == "it has 3 rows of inequalities"
    assert Factor.refuses(form(3, terms=[absolute])) == "it has non-smooth terms (abs)"
    assert ActiveSet.refuses(form(3, equal, terms=[absolute])) == "it has non-smooth terms (abs)"


@pytest.mark.parametrize("size", [5, 30])
def test_the_lasso_is_that_of_sklearn(size: int) -> None:
    rng = np.random.default_rng(50)
    data, alpha = rng.normal(size=(100, size)), 0.2
    target = data[:, : size // 2] @ rng.normal(size=size // 2) + 0.1 * rng.normal(size=100)
    peer = Lasso(alpha, fit_intercept=False, tol=1e-15, max_iter=100_000).fit(data, target)
    H, c = data.T @ data / 100, -data.T @ target / 100
    given = form(size, terms=[values(np.eye(size), np.full(size, alpha))])
    _, step = run(SemismoothNewton, [given], H[None], c[None])
    np.testing.assert_allclose(step.points[0], peer.coef_, rtol=1e-7, atol=1e-8)
    assert ((step.points[0] == 0) == (peer.coef_ == 0)).all()
    assert (step.points[0] == 0).any()


@pytest.mark.parametrize("decades", [0, 9])
@pytest.mark.parametrize("weight", [1e-4, 1.0, 1e4])
def test_absolute_values_whatever_the_units(decades: float, weight: float) -> None:
    rng = np.random.default_rng(51)
    H = hessians(rng, 5, 12, decades)
    D, c = units(H), rng.normal(size=(5, 12)) / units(H)
    # Each value in the units of its variable
    forms = [
        form(12, terms=[values(np.diag(1 / D[i]), np.full(12, weight), rng.normal(size=12))])
        for i in range(5)
    ]
    _, step = run(SemismoothNewton, forms, H, c)
    for i in range(5):
        assert of_absolute_values(forms[i], H[i], c[i], step.points[i]) <= TIGHT


def of_absolute_values(given: Form, H: np.ndarray, c: np.ndarray, x: np.ndarray) -> float:
    """How far 0 is from the subdifferential, in units in which H has a diagonal of ones.

    A is square and regular, so that the subgradient is known.
    """
    (term,), D = given.terms, units(H)
    inside = term.matrix @ x + term.offset
    s = np.linalg.solve((term.matrix * D).T, -(H @ x + c) * D)
    at_kink = np.abs(inside) <= 1e-12 * (np.abs(term.matrix) @ np.abs(x) + np.abs(term.offset))
    off = np.where(
        at_kink, np.maximum(np.abs(s) - term.weight, 0), s - np.sign(inside) * term.weight
    )
    back = np.abs(D * (term.matrix.T @ off)).max()
    return back / max(np.abs(D * c).max(), np.abs(x / D).max(), np.abs(term.weight).max())


def program(rng: np.random.Generator, D: np.ndarray, counts: Sequence[int], reach: float) -> Form:
    """Random rows, many of which hold with equality at one point that all of them allow."""
    equalities, rows, bounds = counts
    size = D.size
    simple = np.zeros((bounds, size))
    simple[range(bounds), rng.integers(size, size=bounds)] = rng.choice([-2.0, 1.0], bounds)
    A = np.vstack([simple, rng.normal(size=(rows, size)) / D])[rng.permutation(bounds + rows)]
    E, inside = rng.normal(size=(equalities, size)) / D, reach * rng.normal(size=size) * D
    room = reach * rng.choice([0.0, 1.0], bounds + rows) * (np.abs(A) @ D)
    return form(size, (E, E @ inside), (A, A @ inside + room))


PROGRAMS = {
    "seed": st.integers(0, 2**32 - 1),
    "size": st.integers(1, 8),
    "counts": st.tuples(st.integers(0, 3), st.integers(0, 10), st.integers(0, 10)).filter(any),
    "decades": st.sampled_from([0, 3, 9]),
    "reach": st.sampled_from([0.0, 1e-6, 1.0, 1e4]),
}


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(**PROGRAMS)
def test_random_programs_fulfil_their_optimality_conditions(
    seed: int, size: int, counts: tuple[int, int, int], decades: float, reach: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = (min(counts[0], size - 1), *counts[1:])
    assume(any(counts))
    H = hessians(rng, 2, size, decades)
    c = rng.normal(size=(2, size)) / units(H)
    forms = [program(rng, units(h), counts, reach) for h in H]
    method, step = run(ActiveSet, forms, H, c)
    for again in (step, method.solve(np.arange(2), c)):
        assert max(residual(forms[i], H[i], c[i], again, i) for i in range(2)) <= TIGHT


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(**PROGRAMS)
def test_an_answer_is_right_or_said_to_be_none(
    seed: int, size: int, counts: tuple[int, int, int], decades: float, reach: float
) -> None:
    # Rows in units other than those of the variables: all but parallel where it counts
    rng = np.random.default_rng(seed)
    H = hessians(rng, 2, size, decades)
    c = 10.0 ** rng.uniform(-4, 5) * rng.normal(size=(2, size)) / units(H)
    forms = [program(rng, np.ones(size), counts, reach) for _ in H]
    method = ActiveSet(forms)
    method.factor(np.arange(2), H)
    step = method.solve(np.arange(2), c)
    for i in np.flatnonzero(~step.failed):
        # Rounding apart it is the same measure
        assert residual(forms[i], H[i], c[i], step, int(i)) <= 1.001 * MISSED


EPS = float(np.finfo(float).eps)


@pytest.mark.parametrize("rows", [0, 1, 3, 8])
@pytest.mark.parametrize("decades", [0, 9])
def test_factor_is_exact_whatever_the_units(rows: int, decades: float) -> None:
    rng = np.random.default_rng(10 + rows)
    H, c = hessians(rng, 4, 8, decades), rng.normal(size=(4, 8))
    c *= 1 / units(H)
    E, e = rng.normal(size=(4, rows, 8)), rng.normal(size=(4, rows))
    _, step = run(Factor, [form(8, (E[i], e[i])) for i in range(4)], H, c)
    for i in range(4):
        D = units(H[i])
        found = exact(H[i], c[i], E[i], e[i])
        # The condition that no choice of units takes away
        kappa = np.linalg.cond(H[i] * np.outer(D, D))
        kappa *= np.linalg.cond(E[i] * D / np.linalg.norm(E[i] * D, axis=1)[:, None]) if rows else 1
        scale = np.abs(found[:8] / D).max()
        assert np.abs((step.points[i] - found[:8]) / D).max() <= 100 * kappa * EPS * scale
        forces = np.abs(found[8:, None] * E[i] * D).max(initial=0)
        off = (step.equality[i] - found[8:])[:, None] * E[i] * D
        assert np.abs(off).max(initial=0) <= 100 * kappa * EPS * max(forces, scale)


def test_factor_with_dependent_rows() -> None:
    rng = np.random.default_rng(20)
    H, c = hessians(rng, 3, 5), rng.normal(size=(3, 5))
    E, e = rng.normal(size=(2, 5)), rng.normal(size=2)
    double, level = np.vstack([E, E[0] - 2 * E[1]]), np.r_[e, e[0] - 2 * e[1]]
    odd = [*level[:2], level[2] + 1]
    forms = [
        form(5, (double, level)),
        form(5, (double, odd)),
        form(5, (np.eye(5)[:3], e[[0, 0, 1]])),
    ]
    method = Factor(forms)
    assert method.factor(np.arange(3), H).tolist() == [False, True, False]
    step = method.solve(np.arange(3), c)
    assert step.failed.tolist() == [False, True, False]
    np.testing.assert_allclose(
        step.points[0], exact(H[0], c[0], E, e)[:5].astype(float), rtol=1e-12
    )
    assert residual(forms[0], H[0], c[0], step, 0) <= 1e-13
    assert residual(forms[2], H[2], c[2], step, 2) <= 1e-13


def test_rows_without_a_common_point_fail_and_others_do_not() -> None:
    eye = np.eye(2)
    forms = [
        form(2, None, (np.vstack([eye, -eye, [[1.0, 1]]]), b))
        for b in ([1.0, 1, 0, 0, 1], [1.0, 1, -2, 0, 1], [1, 1, 0, 0, -1.0], [1, 1, 0, 0, 2.0])
    ]
    method, which = ActiveSet(forms), np.arange(4)
    assert not method.factor(which, np.stack([eye] * 4)).any()
    for _ in range(2):
        step = method.solve(which, np.full((4, 2), -3.0))
        assert step.failed.tolist() == [False, True, True, False]
        np.testing.assert_allclose(step.points[[0, 3]], [[0.5, 0.5], [1, 1]], rtol=1e-14)


def test_more_rows_meet_in_a_point_than_it_has_coordinates() -> None:
    # All 2^4 sign patterns and the bounds meet in (1, 0, 0, 0): degenerate in the extreme
    signs = np.array(np.meshgrid(*[[-1.0, 1]] * 4)).reshape(4, -1).T
    given = form(4, None, (np.vstack([signs, np.eye(4), -np.eye(4)]), np.ones(24)))
    rng = np.random.default_rng(41)
    H = hessians(rng, 1, 4)
    method = ActiveSet([given])
    method.factor(np.array([0]), H)
    for _ in range(50):
        c = -1e3 * (np.eye(4)[:1] + 0.1 * rng.normal(size=(1, 4))) * [1, 0.1, 0.1, 0.1]
        step = method.solve(np.array([0]), c)
        assert not step.failed.any()
        assert residual(given, H[0], c[0], step) <= TIGHT


def test_numbers_of_one_variable_are_their_weighted_quantile() -> None:
    """Minimise h x^2 / 2 + sum w |x - b|: at a b, or where the slopes of both sides cancel."""
    rng = np.random.default_rng(0)
    for h in (1e-3, 1.0, 1e3):
        b, w = np.sort(rng.normal(size=31)), rng.uniform(0.1, 1, 31)
        _, step = run(
            SemismoothNewton,
            [form(1, terms=[values(np.ones((31, 1)), w, -b)])],
            np.full((1, 1, 1), h),
            np.zeros((1, 1)),
        )
        pieces = [(w[i:].sum() - w[:i].sum()) / h for i in range(32)]
        edges = np.concatenate([[-np.inf], b, [np.inf]])
        inside = [p for i, p in enumerate(pieces) if edges[i] < p < edges[i + 1]]
        kinks = [b[i] for i in range(31) if pieces[i + 1] <= b[i] <= pieces[i]]
        assert len(inside) + len(kinks) == 1
        assert step.points[0, 0] == pytest.approx((inside + kinks)[0], abs=1e-12)


def test_rows_without_a_common_point_fail_and_others_do_not_of_semismooth_newton() -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    forms = [
        form(2, None, (rows, right), [values(np.eye(2), [1.0, 1])]) for right in ([1, 1], [-1, -1])
    ]
    method, which = SemismoothNewton(forms), np.arange(2)
    assert not method.factor(which, np.tile(np.eye(2), (2, 1, 1))).any()
    for _ in range(2):
        step = method.solve(which, np.array([[-3.0, 0.5], [-3.0, 0.5]]))
        assert step.failed.tolist() == [False, True]
        assert step.points[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_variables_that_equality_rows_alone_tell(weight: float) -> None:
    """Flows along a line of buses: of the angles none but the last is curved."""
    rng, count = np.random.default_rng(7), 6
    D = np.diff(np.eye(count), axis=0)  # from the angles to the flows
    H = np.diag([*range(1, count + 1), *np.zeros(count - 1), weight])
    c, d = rng.normal(size=2 * count), rng.normal(size=count)
    E = np.hstack([np.eye(count), D.T @ D])
    A = np.hstack([np.zeros((2 * len(D), count)), np.vstack([D, -D])])
    given = form(2 * count, (E, d), (A, np.full(len(A), 0.3)))
    c[count:-1] = 0.0
    method, step = run(ActiveSet, [given], H[None], c[None])
    for one in (step, method.solve(np.arange(1), c[None])):
        x, nu, force = one.points[0], one.equality[0], one.inequality[0]
        assert not one.failed[0]
        assert (force >= 0).all()
        assert force.any()
        slack = 0.3 - A @ x
        size = np.abs(x).max() * max(1.0, weight)
        np.testing.assert_allclose(E @ x, d, atol=1e-10 * size)
        assert slack.min() >= -1e-10 * size
        assert np.abs(slack * force).max() <= 1e-9 * size
        np.testing.assert_allclose(H @ x + c + E.T @ nu + A.T @ force, 0, atol=1e-9 * size)
        assert one.energy[0] == pytest.approx(x @ H @ x, abs=1e-9 * size)


def test_without_curvature_another_solver_takes_over() -> None:
    """An intercept of the client's own, which no edge holds: H is singular in it."""
    rng = np.random.default_rng(6)
    w = cp.Variable(2, name="w")
    model = dm.Model("own intercepts")
    for at in range(3):
        A, b = rng.normal(size=(9, 2)), cp.Variable(name=f"b{at}")
        y = np.where(A[:, 0] + rng.normal(size=9) > 0, 1.0, -1.0)
        model.client(at, cp.sum(cp.pos(1 - cp.multiply(y, A @ w + b))) + cp.sum_squares(w))
    result = model.solve()
    assert {event.next for event in result.fallbacks} == {"conic"}
    assert result.verify().ok


@pytest.mark.parametrize("apart", [1e-5, 1e-6, 3e-8])
def test_rows_that_nearly_meet_are_told_apart_by_their_multipliers(apart: float) -> None:
    """Minimise h x^2 / 2 + w (|x| + |x - d|), zero, for d far below 1.

    While both rows are held at once their multipliers drift: by 1e6 h d of 2 w with each step, and
    200 steps are allowed. In two variables a third row is met between two others.
    """
    b = -np.array([0.0, apart])
    one = form(1, terms=[values(np.ones((2, 1)), np.full(2, 0.5), b)])
    _, step = run(SemismoothNewton, [one], np.full((1, 1, 1), 3e-3), np.zeros((1, 1)))
    assert not step.failed.any()
    assert abs(step.points[0, 0]) <= 1e-3 * apart
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    given = form(2, terms=[values(A, np.array([1.0, 1.0, 0.5]), np.array([0.0, 0.0, apart]))])
    _, step = run(SemismoothNewton, [given], 3e-3 * np.eye(2)[None], np.zeros((1, 2)))
    assert not step.failed.any()
    assert np.abs(step.points).max() <= 1e-3 * apart


def test_what_penalties_the_last_solve_left_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In 50 steps for another H, where the last penalties took some hundred; by optimality.

    Of logistic losses with an l1 norm: what a proximal gradient step leaves in its place.
    """
    monkeypatch.setattr(semismooth_newton, "LIMIT", 60)
    rng, m, rho = np.random.default_rng(0), 300, 3.0
    x, model, data = cp.Variable(m), dm.Model(), []
    for i in range(2):
        A = sp.random_array((1000, m), density=0.05, rng=rng).tocsr()
        A.data = rng.normal(size=A.nnz)
        y = np.where(A @ np.where(rng.random(m) < 0.2, 2.0, 0.0) > rng.normal(size=1000), 1, -1)
        data.append(sp.csr_array(A.multiply(-y[:, None])))
        cost = cp.sum(cp.logistic(data[-1] @ x)) + cp.norm1(x)
        model.client(i, cost)
    compiled = model.compile()
    forms = [one for name in range(2) if (one := compiled[name].form) is not None]
    method, both = SemismoothNewton(forms), np.arange(2)
    method.factor(both, np.tile(2.5e-3 * np.eye(m), (2, 1, 1)))
    alone = method.solve(both, np.zeros((2, m)), np.full((2, m), 1e-8))
    method.factor(both, np.tile(rho * np.eye(m), (2, 1, 1)))
    centre = alone.points.mean(axis=0)
    found = method.solve(both, np.tile(-rho * centre, (2, 1)), np.full((2, m), 1e-9))
    assert not (alone.failed | found.failed).any()
    for rows, point in zip(data, found.points, strict=True):
        slope = rows.T @ (1 / (1 + np.exp(-(rows @ point)))) + rho * (point - centre)
        ahead = point - slope
        best = np.sign(ahead) * np.maximum(np.abs(ahead) - 1, 0)
        np.testing.assert_allclose(point, best, atol=1e-6)
