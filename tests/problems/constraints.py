"""Orthant, simplex and budgets, by closed forms and scipy."""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize

from tests.problems.base import ROWS, Array, Shared, data, polyhedral


@cache
def nonnegative() -> Shared:
    """``scipy.optimize.nnls``; one client alone knows the signs, so its dual is the gradient."""
    A, b = data(4, seed=10)
    b = b - A[:, 1] * 2
    w = scipy.optimize.nnls(A, b)[0]
    live = w > 0
    assert not live.all()
    w[live] = np.linalg.lstsq(A[:, live], b)[0]
    slope = 2 * A.T @ (A @ w - b)

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = 2 * A[i::n].T @ (A[i::n] @ w - b[i::n])
        Z = -np.eye(4)[:, ~live] if i == 0 else np.zeros((4, 0))
        return g, Z, np.zeros(Z.shape[1]), np.full(Z.shape[1], np.inf)

    return Shared(
        "non-negative least squares",
        (4,),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - b[i::n]), [x >= 0] if i == 0 else []),
        float(np.sum((A @ w - b) ** 2)),
        w,
        polyhedral(parts),
        duals=lambda i, n: [np.where(live, 0.0, slope)] if i == 0 else [],
    )


@cache
def simplex() -> Shared:
    """Projection onto the simplex by sorting (Held, Wolfe, Crowder 1974); all know the rules."""
    points = np.random.default_rng(11).normal(size=(ROWS, 4)) + np.array([0.8, 0.2, -0.6, 0.1])
    mean = points.mean(axis=0)
    ordered = np.sort(mean)[::-1]
    steps = (np.cumsum(ordered) - 1) / np.arange(1, 5)
    w = np.maximum(mean - steps[np.flatnonzero(ordered > steps)[-1]], 0.0)
    assert 0 < (w == 0).sum() < 3

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        g = (w - points[i::n]).sum(axis=0)
        Z = np.column_stack([np.ones(4), -np.eye(4)[:, w == 0]])
        low = np.zeros(Z.shape[1])
        low[0] = -np.inf
        return g, Z, low, np.full(Z.shape[1], np.inf)

    return Shared(
        "simplex",
        (4,),
        lambda x, i, n: (
            sum(cp.sum_squares(x - p) for p in points[i::n]) / 2,
            [x >= 0, cp.sum(x) == 1],
        ),
        float(np.sum((w - points) ** 2) / 2),
        w,
        polyhedral(parts),
    )


@cache
def portfolio() -> Shared:
    """The efficient frontier (Merton 1972): the first client bounds the risk, the last the sum."""
    generator = np.random.default_rng(12)
    gains = generator.normal(size=(ROWS, 3)) / 20 + np.array([0.02, 0.05, 0.03])
    gain = gains.sum(axis=0)
    factor = np.tril(generator.normal(size=(3, 3)) / 3 + np.eye(3))
    risk = factor @ factor.T
    inverse, one = np.linalg.inv(risk), np.ones(3)
    A, B, C = one @ inverse @ one, one @ inverse @ gain, gain @ inverse @ gain
    bound = 1.5 / np.sqrt(A)
    slope = np.sqrt((bound**2 - 1 / A) / (C - B**2 / A))
    w = inverse @ (one / A + slope * (gain - B / A * one))
    price = bound / slope  # of the risk; that of the sum follows from stationarity
    level = B / A - 1 / (slope * A)

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        rays = [(risk @ w / bound, 0.0)] if i == 0 else []
        rays += [(one, -np.inf)] if i == n - 1 else []
        Z = np.column_stack([r for r, _ in rays]) if rays else np.zeros((3, 0))
        return (
            -gains[i::n].sum(axis=0),
            Z,
            np.array([r for _, r in rays]),
            np.full(Z.shape[1], np.inf),
        )

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rules: list[Any] = [cp.SOC(bound, factor.T @ x)] if i == 0 else []
        rules += [cp.sum(x) == 1] if i == n - 1 else []
        return cp.Maximize(gains[i::n].sum(axis=0) @ x), rules

    def duals(i: int, n: int) -> list[Any]:
        known: list[Any] = [[price, -price * factor.T @ w / bound]] if i == 0 else []
        return known + ([level] if i == n - 1 else [])

    return Shared("portfolio", (3,), share, float(gain @ w), w, polyhedral(parts), duals=duals)


@cache
def entropy() -> Shared:
    """The Gibbs distribution: softmax, its value the free energy; the first client has the sum."""
    costs = np.random.default_rng(13).normal(size=(ROWS, 3)) / 3
    cost = costs.sum(axis=0)
    w = np.exp(-cost) / np.exp(-cost).sum()
    free = -np.log(np.exp(-cost).sum())

    def parts(i: int, n: int) -> tuple[Array, Array, Array, Array]:
        Z = np.ones((3, 1)) if i == 0 else np.zeros((3, 0))
        wide = np.full(Z.shape[1], np.inf)
        return costs[i::n].sum(axis=0) + (np.log(w) + 1) / n, Z, -wide, wide

    return Shared(
        "entropy",
        (3,),
        lambda x, i, n: (
            costs[i::n].sum(axis=0) @ x - cp.sum(cp.entr(x)) / n,
            [cp.sum(x) == 1] if i == 0 else [],
        ),
        float(free),
        w,
        polyhedral(parts),
        # Stationarity of the sum: cost + log w + 1 + level = 0, and log w = free - cost.
        duals=lambda i, n: [-1.0 - free] if i == 0 else [],
    )
