"""Losses of regression and classification, by scikit-learn and scipy."""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize
import sklearn.linear_model
import sklearn.svm

from tests.problems.base import ROWS, Array, Shared, Smooth, data, newton, polyhedral


@cache
def huber() -> Shared:
    """``scipy.optimize.least_squares``, whose huber loss is half of cvxpy's, and Newton steps."""
    A, b = data(3, seed=6)
    b = b + np.where(np.arange(ROWS) % 7 == 0, 8.0, 0.0)
    width = 1

    def slope(w: Array, rows: slice = slice(None)) -> Array:
        return 2 * A[rows].T @ np.clip(A[rows] @ w - b[rows], -width, width)

    def bend(w: Array) -> Array:
        inside = A[np.abs(A @ w - b) < width]
        return 2 * inside.T @ inside

    fit = scipy.optimize.least_squares(
        lambda w: A @ w - b, np.zeros(3), loss="huber", f_scale=width
    )
    w = newton(fit.x, slope, bend)
    r = np.abs(A @ w - b)
    assert (r > width).any()
    return Shared(
        "huber",
        (3,),
        lambda x, i, n: (cp.sum(cp.huber(A[i::n] @ x - b[i::n], width)), []),
        float(np.where(r <= width, r**2, 2 * width * r - width**2).sum()),
        w,
        Smooth(lambda i, n: slope(w, slice(i, None, n))),
    )


@cache
def quantile() -> Shared:
    """``scipy.optimize.linprog`` (HiGHS): the linear programme of Koenker and Bassett (1978)."""
    A, b = data(3, seed=7)
    tau, eye = 0.3, np.eye(ROWS)
    cost = np.concatenate([np.zeros(3), np.full(ROWS, tau), np.full(ROWS, 1 - tau)])
    signs = [(None, None)] * 3 + [(0, None)] * (2 * ROWS)
    fit = scipy.optimize.linprog(cost, A_eq=np.hstack([A, eye, -eye]), b_eq=b, bounds=signs)
    zero = np.abs(A @ fit.x[:3] - b) < 1e-8
    assert zero.sum() == 3
    w = np.linalg.solve(A[zero], b[zero])
    r = b - A @ w

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        mine, on = A[i::n], zero[i::n]
        slopes = np.where(r[i::n] > 0, -tau, 1 - tau)[~on]
        Z = mine[on].T
        return mine[~on].T @ slopes, Z, np.full(Z.shape[1], -tau), np.full(Z.shape[1], 1 - tau)

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rest = b[i::n] - A[i::n] @ x
        return cp.sum(tau * cp.pos(rest) + (1 - tau) * cp.neg(rest)), []

    value = np.sum(np.maximum(tau * r, (tau - 1) * r)[~zero])
    return Shared("quantile", (3,), share, float(value), w, polyhedral(parts))


def _labels(A: Array, seed: int) -> Array:
    noise = np.random.default_rng(seed).normal(size=ROWS)
    return np.where(A @ np.array([1.0, -1.0, 0.5])[: A.shape[1]] + noise > 0, 1.0, -1.0)


@cache
def logistic() -> Shared:
    """Scikit-learn's ``LogisticRegression`` with C = 1, and Newton steps."""
    A, _ = data(3, seed=8)
    y = _labels(A, seed=8)
    fit = sklearn.linear_model.LogisticRegression(
        fit_intercept=False, solver="newton-cholesky", tol=1e-10
    )

    def chance(w: Array, rows: slice = slice(None)) -> Array:
        return 1 / (1 + np.exp(y[rows] * (A[rows] @ w)))

    def slope(w: Array) -> Array:
        return -A.T @ (y * chance(w)) + w

    def bend(w: Array) -> Array:
        p = chance(w)
        return (A.T * (p * (1 - p))) @ A + np.eye(3)

    w = newton(fit.fit(A, y).coef_[0], slope, bend)
    return Shared(
        "logistic",
        (3,),
        lambda x, i, n: (
            cp.sum(cp.logistic(cp.multiply(-y[i::n], A[i::n] @ x))) + cp.sum_squares(x) / (2 * n),
            [],
        ),
        float(np.log1p(np.exp(-y * (A @ w))).sum() + w @ w / 2),
        w,
        Smooth(lambda i, n: -A[i::n].T @ (y[i::n] * chance(w, slice(i, None, n))) + w / n),
    )


@cache
def svm() -> Shared:
    """Scikit-learn's ``SVC`` (libsvm) with a linear kernel; the last entry is the intercept."""
    A, _ = data(2, seed=9)
    y = _labels(A, seed=9)
    fit = sklearn.svm.SVC(kernel="linear", C=1.0, tol=1e-10).fit(A, y)
    near = np.concatenate([fit.coef_[0], fit.intercept_])
    full = np.column_stack([A, np.ones(ROWS)])
    on = np.abs(y * (full @ near) - 1) < 1e-6
    over = y * (full @ near) < 1 - 1e-6
    # libsvm stops at six digits or so; from its active set all of them follow: w and the
    # multipliers of the rows on the margin solve a linear system.
    edge, flat = y[on, None] * full[on], np.diag([1.0, 1.0, 0.0])
    system = np.block([[flat, -edge.T], [edge, np.zeros((on.sum(), on.sum()))]])
    answer = np.linalg.solve(system, np.concatenate([full[over].T @ y[over], np.ones(on.sum())]))
    w, theta = answer[:3], answer[3:]
    assert np.abs(w - near).max() < 1e-5
    assert theta.min() > 0
    assert theta.max() < 1

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        mine, sign = full[i::n], y[i::n]
        g = flat @ w / n - mine[over[i::n]].T @ sign[over[i::n]]
        Z = -(sign[on[i::n], None] * mine[on[i::n]]).T
        return g, Z, np.zeros(Z.shape[1]), np.ones(Z.shape[1])

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        margin = 1 - cp.multiply(y[i::n], full[i::n] @ x)
        return cp.sum(cp.pos(margin)) + cp.sum_squares(x[:2]) / (2 * n), []

    hinge = np.maximum(0, 1 - y * (full @ w))[over]
    value = float(hinge.sum() + w[:2] @ w[:2] / 2)
    return Shared("support vector machine", (3,), share, value, w, polyhedral(parts))
