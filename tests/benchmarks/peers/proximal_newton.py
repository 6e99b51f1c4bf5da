"""Proximal Newton, as NVFlare's recipe of that method: owners send gradient and Hessian.

The server solves the quadratic model with the constraint or the l1 norm and takes the full step.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from tests.benchmarks.peers.tasks import Answer

MOST, ACCURACY = 50, 1e-7


def least_squares(task: Any) -> Answer:
    def told(A: Any, b: Any, x: Any) -> Any:
        return 2 * A.T @ (A @ x - b), 2 * A.T @ A

    return newton(task.blocks, told, lambda y: (0, [y >= 0]))


def logistic(task: Any) -> Answer:
    def told(A: Any, b: Any, x: Any) -> Any:
        p = 1 / (1 + np.exp(b * (A @ x)))
        return -A.T @ (b * p), (A.T * (p * (1 - p))) @ A

    return newton(task.blocks, told, lambda y: (task.weight * cp.norm1(y), []))


def newton(blocks: Any, told: Any, rest: Any) -> Answer:
    x, y = np.zeros(10), cp.Variable(10)
    for k in range(1, MOST + 1):
        slopes, curvatures = zip(*(told(A, b, x) for A, b in blocks), strict=True)
        model = sum(slopes) @ (y - x) + cp.quad_form(y - x, cp.psd_wrap(sum(curvatures))) / 2
        extra, rules = rest(y)
        cp.Problem(cp.Minimize(model + extra), rules).solve(solver=cp.CLARABEL)
        step, x = np.abs(y.value - x).max(), np.asarray(y.value)
        if step <= ACCURACY:
            return Answer(x, k, f"step below {ACCURACY:.0e}")
    return Answer(x, MOST, "round limit")


PEERS = {"proximal Newton": {each.__name__: each for each in (least_squares, logistic)}}
