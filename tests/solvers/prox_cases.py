r"""Clients whose proximal operators are known: as formulas in plain numpy, or to cvxpy alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, cast

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.solvers import known

M = 6


TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)


NEAR, BETTER, BETTER_OF_CONES = 1e-4, 1e-11, 1e-9


EXACT = 1e-12
"""The error that is asked of solvers."""


TOTALS, CENTRE = np.split(np.random.default_rng(7).normal(size=(3, M)), [2])


CENTRE = CENTRE[0]


def make_sub(cost: Any, rules: Iterable[Any] = (), *, name: str = "client") -> dm.Subproblem:
    """A client whose edges do not matter here."""
    return known.make_sub(cost, rules=list(rules), name=name)


def check(
    found: np.ndarray,
    cost: Any,
    rules: Iterable[Any],
    x: cp.Variable,
    v: np.ndarray,
    alpha: float,
    better: float = BETTER_OF_CONES,
) -> None:
    """That no better point is known: the goal has modulus 1, so the error is its root at most."""
    goal, rules = alpha * cost + cp.sum_squares(x - v) / 2, list(rules)
    best = minimise(goal, rules)
    assert found == pytest.approx(x.value, abs=NEAR)
    x.value = found
    assert goal.value <= best + better
    assert max((np.max(rule.violation()) for rule in rules), default=0.0) <= 1e-9


def minimise(goal: Any, rules: Iterable[Any] = ()) -> float:
    with warnings.catch_warnings():
        # A gap of 1e-13 is not always reached; what is reached is compared
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem = cp.Problem(cp.Minimize(goal), list(rules))
        return float(cast(float, problem.solve(solver="CLARABEL", **TIGHT)))


def soft(v: np.ndarray, width: Any) -> np.ndarray:
    return np.sign(v) * np.maximum(np.abs(v) - width, 0)


def on_simplex(v: np.ndarray, total: float) -> np.ndarray:
    """By bisection of the level, not by sorting."""
    low, high = v.min() - total - 1, v.max()
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(v - level, 0).sum() > total else (low, level)
    return np.maximum(v - (low + high) / 2, 0)


def block(v: np.ndarray, weight: float) -> np.ndarray:
    return max(0.0, 1 - weight / np.linalg.norm(v)) * v


def ball(v: np.ndarray, radius: float) -> np.ndarray:
    return min(1.0, radius / np.linalg.norm(v)) * v


X = cp.Variable(M)


NONNEG = cp.Variable(M, nonneg=True)


ZERO = 0 * cp.sum(X)


FORMULAS: dict[str, tuple[Any, list[Any], str, Callable[[np.ndarray, float], np.ndarray]]] = {
    "nothing": (ZERO, [], "soft threshold", lambda v, a: v),
    "l1": (0.3 * cp.norm1(X), [], "soft threshold", lambda v, a: soft(v, 0.3 * a)),
    "l1 with offsets and scales": (
        cp.sum(cp.abs(cp.multiply(np.arange(1, M + 1), X - CENTRE))),
        [],
        "soft threshold",
        lambda v, a: CENTRE + soft(v - CENTRE, a * np.arange(1, M + 1)),
    ),
    "l1 of some": (
        2 * cp.norm1(X[1:3]),
        [],
        "soft threshold",
        lambda v, a: np.r_[v[:1], soft(v[1:3], 2 * a), v[3:]],
    ),
    "a norm": (1.5 * cp.norm(X), [], "semismooth", lambda v, a: block(v, 1.5 * a)),
    "norms of groups": (
        cp.norm(X[:2]) + 0.5 * cp.norm(2 * X[2:5] - 1),
        [],
        "semismooth",
        lambda v, a: np.r_[block(v[:2], a), 0.5 + block(v[2:5] - 0.5, a), v[5:]],
    ),
    "a ball": (ZERO, [cp.norm(X - 1) <= 2], "semismooth", lambda v, a: 1 + ball(v - 1, 2)),
    "balls of groups": (
        ZERO,
        [cp.norm(X[:3]) <= 1, cp.sum_squares(X[3:]) <= 4],
        "semismooth",
        lambda v, a: np.r_[ball(v[:3], 1), ball(v[3:], 2)],
    ),
    "box": (ZERO, [X >= -0.5, 2 * X <= 1], "active_set", lambda v, a: v.clip(-0.5, 0.5)),
    "nonnegative": (
        0 * cp.sum(NONNEG),
        [],
        "active_set",
        lambda v, a: np.maximum(v, 0),
    ),
    "fixed": (
        ZERO,
        [X[1] == 3, X[0] >= 1],
        "active_set",
        lambda v, a: np.r_[max(v[0], 1), 3, v[2:]],
    ),
    "l1 and box": (
        cp.norm1(X),
        [X >= 0.25, X <= 1],
        "semismooth",
        lambda v, a: soft(v, a).clip(0.25, 1),
    ),
    "simplex": (
        ZERO,
        [X >= 0, cp.sum(X) == 2],
        "active_set",
        lambda v, a: on_simplex(v, 2),
    ),
    "simplex within bounds that say nothing": (
        ZERO,
        [X >= 0, X <= 1, -3 * cp.sum(X) == -3],
        "active_set",
        lambda v, a: on_simplex(v, 1),
    ),
    "simplex from lower bounds": (
        ZERO,
        [X >= -1, cp.sum(X) == 1],
        "active_set",
        lambda v, a: on_simplex(v + 1, 1 + M) - 1,
    ),
    "full simplex": (
        ZERO,
        [X >= 0, cp.sum(X) <= 2],
        "active_set",
        lambda v, a: np.maximum(v, 0) if np.maximum(v, 0).sum() <= 2 else on_simplex(v, 2),
    ),
    "two simplices and an absolute value": (
        cp.abs(X[5]),
        [X[:5] >= 0, cp.sum(X[:3]) == 1, cp.sum(X[3:5]) == 2],
        "semismooth",
        lambda v, a: np.r_[on_simplex(v[:3], 1), on_simplex(v[3:5], 2), soft(v[5:], a)],
    ),
    "planes": (
        ZERO,
        [TOTALS @ X == [1, 2]],
        "factor",
        lambda v, a: v - TOTALS.T @ np.linalg.solve(TOTALS @ TOTALS.T, TOTALS @ v - [1, 2]),
    ),
    "dependent planes and a box": (
        ZERO,
        [X[0] + X[1] == 1, 2 * X[0] + 2 * X[1] == 2, X[2:] >= 0],
        "active_set",
        lambda v, a: np.r_[v[:2] - (v[0] + v[1] - 1) / 2, np.maximum(v[2:], 0)],
    ),
}


SOLVED: dict[str, tuple[Any, list[Any], str]] = {
    "total variation": (cp.tv(X), [], "semismooth"),
    "half-spaces": (ZERO, [TOTALS @ X <= -1], "active_set"),
    "box and a plane": (ZERO, [X >= 0, TOTALS[0] @ X == 0.1], "active_set"),
    "l1 and simplex": (
        cp.norm1(X - CENTRE),
        [X >= 0, cp.sum(X) == 1],
        "semismooth",
    ),
    "l1 ball": (ZERO, [cp.norm1(X) <= 1], "conic"),
    "norms that overlap": (cp.norm(X[:4]) + cp.norm(X[2:]), [], "semismooth"),
    "norm and absolute values": (cp.norm(X) + cp.norm1(X), [], "semismooth"),
    "norm of uneven weights": (
        cp.norm(cp.multiply(np.arange(1, M + 1), X) - 1),
        [],
        "semismooth",
    ),
    "ball and box": (ZERO, [cp.norm(X - 1) <= 1, X <= 1], "semismooth"),
    "ball and planes": (cp.norm1(X), [cp.norm(X) <= 1, TOTALS @ X == 0], "semismooth"),
    "power cone": (cp.norm1(X), [cp.pnorm(X, 3) <= 1], "conic"),
}
