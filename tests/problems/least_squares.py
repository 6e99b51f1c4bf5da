"""Least squares and its regularisers, by closed forms and scikit-learn."""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import sklearn.linear_model
import sklearn.svm

from tests.problems.base import ROWS, Array, Shared, Smooth, data, polyhedral


@cache
def least_squares() -> Shared:
    """Normal equations."""
    A, b = data(3, seed=1)
    w = np.linalg.lstsq(A, b)[0]
    return Shared(
        "least squares",
        (3,),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - b[i::n]), []),
        float(np.sum((A @ w - b) ** 2)),
        w,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ w - b[i::n])),
    )


@cache
def ridge() -> Shared:
    """Normal equations with the regulariser on the diagonal."""
    A, b = data(3, seed=2)
    lam = 4.0
    w = np.linalg.solve(A.T @ A + lam * np.eye(3), A.T @ b)
    return Shared(
        "ridge",
        (3,),
        lambda x, i, n: (
            cp.Minimize(cp.sum_squares(A[i::n] @ x - b[i::n]) + lam / n * cp.sum_squares(x)),
            [],
        ),
        float(np.sum((A @ w - b) ** 2) + lam * w @ w),
        w,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ w - b[i::n]) + 2 * lam / n * w),
    )


def _shrunk(A: Array, b: Array, w: Array, l1: float, l2: float) -> Array:
    """The lasso's answer to all digits from the signs of an answer to a few."""
    live = np.abs(w) > 1e-8
    K = A[:, live]
    exact = np.zeros_like(w)
    exact[live] = np.linalg.solve(
        K.T @ K + l2 * np.eye(K.shape[1]), K.T @ b - l1 * np.sign(w[live])
    )
    return exact


def _penalised(name: str, A: Array, b: Array, w: Array, l1: float, l2: float) -> Shared:
    zero = w == 0
    assert zero.any()
    assert not zero.all()

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = A[i::n].T @ (A[i::n] @ w - b[i::n]) + l2 / n * w + l1 / n * np.sign(w)
        ones = np.full(int(zero.sum()), l1 / n)
        return g, np.eye(w.size)[:, zero], -ones, ones

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        cost = cp.sum_squares(A[i::n] @ x - b[i::n]) / 2 + l1 / n * cp.norm1(x)
        return (cost + l2 / (2 * n) * cp.sum_squares(x) if l2 else cost), []

    value = np.sum((A @ w - b) ** 2) / 2 + l1 * np.abs(w).sum() + l2 / 2 * w @ w
    return Shared(name, w.shape, share, float(value), w, polyhedral(parts))


@cache
def lasso() -> Shared:
    """Scikit-learn's ``Lasso``, whose objective is ours over the number of rows."""
    A, b = data(4, seed=3)
    l1 = 6.0
    fit = sklearn.linear_model.Lasso(l1 / ROWS, fit_intercept=False, tol=1e-10, max_iter=100_000)
    return _penalised("lasso", A, b, _shrunk(A, b, fit.fit(A, b).coef_, l1, 0.0), l1, 0.0)


@cache
def elastic_net() -> Shared:
    """Scikit-learn's ``ElasticNet``: alpha = (l1 + l2) / rows, l1_ratio = l1 / (l1 + l2)."""
    A, b = data(4, seed=4)
    l1, l2 = 6.0, 3.0
    fit = sklearn.linear_model.ElasticNet(
        (l1 + l2) / ROWS,
        l1_ratio=l1 / (l1 + l2),
        fit_intercept=False,
        tol=1e-10,
        max_iter=100_000,
    )
    return _penalised("elastic net", A, b, _shrunk(A, b, fit.fit(A, b).coef_, l1, l2), l1, l2)


@cache
def group_lasso() -> Shared:
    """Orthonormal columns make it a block shrinkage (Yuan and Lin 2006, equation 2.4)."""
    A, b = data(4, seed=5)
    Q = np.linalg.qr(A)[0]
    lam, groups = 1.5, (slice(0, 2), slice(2, 4))
    b = Q @ np.array([3.0, -1.0, 0.7, 0.5]) + 0.2 * (b - Q @ (Q.T @ b))
    w = np.zeros(4)
    for g in groups:
        part = Q[:, g].T @ b
        w[g] = max(0.0, 1 - lam / np.linalg.norm(part)) * part
    assert not w[groups[1]].any()
    assert w[groups[0]].any()

    def distance(s: Array, i: int, n: int) -> float:
        rest = s - Q[i::n].T @ (Q[i::n] @ w - b[i::n])
        live, dead = (rest[g] for g in groups)
        direction = w[groups[0]] / np.linalg.norm(w[groups[0]])
        outside = max(0.0, float(np.linalg.norm(dead)) - lam / n)
        return max(float(np.abs(live - lam / n * direction).max()), outside)

    return Shared(
        "group lasso",
        (4,),
        lambda x, i, n: (
            cp.sum_squares(Q[i::n] @ x - b[i::n]) / 2
            + lam / n * (cp.norm2(x[:2]) + cp.norm2(x[2:])),
            [],
        ),
        float(np.sum((Q @ w - b) ** 2) / 2 + lam * sum(np.linalg.norm(w[g]) for g in groups)),
        w,
        distance,
    )
