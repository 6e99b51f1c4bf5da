"""SemismoothNewton against certificates, closed forms, scikit-learn and Clarabel."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

import dald_model as dm
from dald_model.solvers.exact import semismooth_newton
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton
from tests.solvers.quadratics import form, hessians, run, values


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


def test_the_support_vector_machine_is_that_of_sklearn() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(120, 5))
    y = np.where(A @ rng.normal(size=5) + 0.5 * rng.normal(size=120) > 0, 1.0, -1.0)
    # max(0, 1 - y a'x) is half of (1 - y a'x) + |1 - y a'x|
    hinge = values(-A * y[:, None], np.full(120, 0.5), np.ones(120))
    slope = -(A * y[:, None]).sum(axis=0) / 2
    # Their intercept is there but not used: mirrored data have none
    both, signs = np.vstack([A, -A]), np.concatenate([y, -y])
    theirs = SVC(kernel="linear", C=0.5, tol=1e-10).fit(both, signs)
    _, step = run(SemismoothNewton, [form(5, terms=[hinge])], np.eye(5)[None], slope[None])

    def objective(w: np.ndarray) -> float:
        return float(w @ w / 2 + np.maximum(0, 1 - y * (A @ w)).sum())

    mine, other = objective(step.points[0]), objective(theirs.coef_[0])
    assert mine <= other <= mine * (1 + 1e-7)  # libsvm keeps its kernel in single precision


def test_l1_in_a_box_is_soft_thresholded_and_clipped() -> None:
    """Separable where H is diagonal: clip(shrink(-c / h, w / h), l, u), with exact zeros."""
    rng = np.random.default_rng(2)
    h, c, w = rng.uniform(0.5, 3, (2, 9)), 4 * rng.normal(size=(2, 9)), 1.5
    box = np.vstack([np.eye(9), -np.eye(9)]), np.concatenate([np.full(9, 0.7), np.full(9, 0.3)])
    given = form(9, None, box, [values(sp.eye_array(9).toarray(), np.full(9, w))])
    H = np.array([np.diag(one) for one in h])
    _, step = run(SemismoothNewton, [given, given], H, c)
    shrunk = np.sign(-c) * np.maximum(np.abs(c) - w, 0) / h
    expected = np.clip(shrunk, -0.3, 0.7)
    np.testing.assert_allclose(step.points, expected, rtol=0, atol=1e-12)
    assert ((step.points == 0) == (expected == 0)).all()
    assert (step.points >= -0.3).all()
    assert (step.points <= 0.7).all()
    # The forces of the box balance what is left of the slope
    left = h * step.points + c + w * np.sign(step.points)
    held = step.inequality[:, :9] - step.inequality[:, 9:]
    np.testing.assert_allclose(held, np.where(expected == 0, 0, -left), atol=1e-8)


def test_repeated_and_empty_rows_do_no_harm() -> None:
    """Far more rows meet in a point than it has coordinates."""
    rng = np.random.default_rng(3)
    A = rng.integers(-1, 2, size=(40, 4)).astype(float)
    A = np.vstack([A, A, np.zeros((2, 4))])
    given = form(4, terms=[values(A, np.ones(82), np.round(rng.normal(size=82)))])
    H, c = hessians(rng, 1, 4), np.zeros((1, 4))
    _, step = run(SemismoothNewton, [given], H, c)
    x, (term,) = cp.Variable(4), given.terms
    goal = cp.quad_form(x, H[0]) / 2 + cp.norm1(term.matrix @ x + term.offset)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL", **tight)
    assert x.value is not None
    np.testing.assert_allclose(step.points[0], x.value, atol=1e-6)


def test_rows_without_a_common_point_fail_and_others_do_not() -> None:
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


@pytest.mark.parametrize("density", [0.02, 0.6])
def test_clients_of_other_numbers_of_rows_are_solved_together(density: float) -> None:
    """One session for all; every answer is the one that cvxpy finds for the client alone."""
    rng = np.random.default_rng(5)
    w = cp.Variable(6, name="w")
    model = dm.Model("districts")
    for at, count in enumerate([3, 40, 7, 90, 200, 11]):
        A = sp.random_array((count, 6), density=density, rng=rng, data_sampler=rng.normal).toarray()
        b = rng.normal(size=count)
        model.client(at, cp.sum(cp.maximum(0.9 * (A @ w - b), 0.1 * (b - A @ w))), [w <= 2])
    compiled = model.compile()
    assert sum(len(row.clients) for row in compiled.explain() if row.solver == "semismooth") == 6
    runs = [
        model.solve(solver=s, accuracy=1e-9, eps_pri=0, eps_dual=0, max_rounds=4)
        for s in ("auto", "reference")
    ]
    ours, theirs = (np.concatenate(list(r.compiled.gather(r.recovered).values())) for r in runs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


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
