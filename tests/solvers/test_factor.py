"""Quadratics by a factor of each Hessian: exact whatever the units, the rows and their rank."""

import numpy as np
import pytest

from dald_model.solvers.exact.cholesky import Factor
from tests.solvers.quadratics import (
    exact,
    form,
    hessians,
    residual,
    run,
    units,
)

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


def test_factor_of_hilberts_matrix_is_stationary() -> None:
    # Condition 1e10 that no units take away: points are off by 1e-6, the gradient must not be
    size = 8
    hilbert = 1 / (1.0 + np.arange(size)[:, None] + np.arange(size))
    c = np.ones((1, size))
    _, step = run(Factor, [form(size)], hilbert[None], c)
    assert np.abs(hilbert @ step.points[0] + c).max() <= 1e-13 * np.abs(step.points).max()


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


def test_factor_needs_curvature_only_where_the_rows_leave_freedom() -> None:
    # x1 + x2 = 2 and minimise (x1 - x2)^2/2 - 3 x3 + x3^2/2: the Hessian is singular along (1, 1)
    H = np.array([[1.0, -1, 0], [-1, 1, 0], [0, 0, 1]])
    c = np.array([[0, 0, -3.0]])
    _, step = run(Factor, [form(3, ([[1.0, 1, 0]], [2.0]))], H[None], c)
    np.testing.assert_allclose(step.points, [[1, 1, 3]], rtol=1e-15)
    np.testing.assert_allclose(step.equality, [[0]], atol=1e-15)
    # x3 fixed, so that nothing is said of its curvature; indefinite else
    saddle = np.diag([1.0, 2.0, -5.0])
    _, step = run(Factor, [form(3, ([[0, 0, 1.0]], [2.0]))], saddle[None], np.ones((1, 3)))
    np.testing.assert_allclose(step.points, [[-1, -0.5, 2]], rtol=1e-15)
    np.testing.assert_allclose(step.equality, [[9]], rtol=1e-15)
    method = Factor([form(3, ([[1.0, 0, 0]], [2.0]))])
    assert method.factor(np.array([0]), saddle[None]).all()
