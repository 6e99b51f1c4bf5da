"""The judge of the comparison: each task solved to high accuracy, and checked by another method.

No peer is asked how good its answer is. The error of an answer is its distance from the reference.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from sklearn.linear_model import LogisticRegression

from tests.benchmarks.peers import all_in_one
from tests.benchmarks.peers.tasks import Array, tasks

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
"""What Clarabel still reaches on the four tasks."""


class Reference(NamedTuple):
    """The solution, its value, and how far another method's solution is, relative."""

    x: Array
    value: float
    apart: float


@cache
def reference(name: str) -> Reference:
    """Clarabel's solution of the all-in-one problem at tight tolerances, and a second opinion."""
    task = tasks()[name]
    x = getattr(all_in_one, name)(task, solver="CLARABEL", **TIGHT).x
    return Reference(x, task.value(x), _distance(SECOND[name](task), x))


def judged(name: str, x: Any) -> dict[str, float]:
    """Error in the variables, in the value, and the violation of constraints, all relative."""
    best, task, x = reference(name), tasks()[name], np.asarray(x, dtype=float)
    return {
        "error": _distance(x, best.x),
        "value": (task.value(x) - best.value) / abs(best.value),
        "violation": task.violation(x),
    }


def _distance(x: Array, y: Array) -> float:
    return float(np.abs(x - y).max() / np.abs(y).max())


def _active_set(task: Any) -> Array:
    stacked = [np.concatenate(part) for part in zip(*task.blocks, strict=True)]
    return nnls(*stacked)[0]


def _coordinate_descent(task: Any) -> Array:
    A, b = (np.concatenate(part) for part in zip(*task.blocks, strict=True))
    fit = LogisticRegression(
        C=1 / task.weight,
        l1_ratio=1.0,
        solver="liblinear",
        fit_intercept=False,
        tol=1e-12,
        max_iter=100_000,
    )
    return fit.fit(A, b).coef_[0]


def _bisection(task: Any) -> Array:
    """A market clears at the price where demand of the agents is met."""
    low, high, x = np.full(3, -100.0), np.full(3, 100.0), np.zeros((12, 3))
    for _ in range(100):
        price = (low + high) / 2
        x = np.clip((price - task.price) / task.curvature, 0, task.most)
        short = x.sum(axis=0) < task.demand
        low, high = np.where(short, price, low), np.where(short, high, price)
    return x


def _splitting(task: Any) -> Array:
    options = {"solver": "SCS", "eps_abs": 1e-11, "eps_rel": 1e-11, "max_iters": 1_000_000}
    return all_in_one.network_lasso(task, **options).x


SECOND = {
    "least_squares": _active_set,
    "logistic": _coordinate_descent,
    "market": _bisection,
    "network_lasso": _splitting,
}
