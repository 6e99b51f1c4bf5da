"""numpy alone: ADMM with residual balancing, about forty lines per task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.peers.tasks import Answer

MOST = 5000


def admm(
    clients: Callable[..., Any], combine: Callable[..., Any], start: Any, accuracy: float = 1e-7
) -> tuple[Any, Answer]:
    """Alternate clients, combination and prices until both residuals are small."""
    z, u, rho, said, k = start, np.zeros_like(start), 1.0, "round limit", 0
    for k in range(1, MOST + 1):
        x = clients(z - u, rho)
        old, z = z, combine(x + u, rho)
        u = u + x - z
        primal, dual = np.abs(x - z).max(), rho * np.abs(z - old).max()
        if max(primal, dual) <= accuracy * max(1.0, np.abs(x).max()):
            said = f"residuals below {accuracy:.0e}"
            break
        if k % 10 == 0 and not 0.1 <= primal / max(dual, 1e-300) <= 10:
            factor = 2.0 if primal > dual else 0.5
            rho, u = rho * factor, u / factor
    return z, Answer(z[0], k, said)


def shrunk(v: Any, by: float) -> Any:
    return np.sign(v) * np.maximum(np.abs(v) - by, 0)


def least_squares(task: Any) -> Answer:
    gram = np.array([2 * A.T @ A for A, _ in task.blocks])
    moment = np.array([2 * A.T @ b for A, b in task.blocks])

    def clients(v: Any, rho: float) -> Any:
        return np.linalg.solve(gram + rho * np.eye(10), (moment + rho * v)[:, :, None])[:, :, 0]

    def combine(w: Any, rho: float) -> Any:
        return np.tile(np.maximum(w.mean(axis=0), 0), (len(w), 1))

    return admm(clients, combine, np.zeros((8, 10)))[1]


def nearest(A: Any, b: Any, x: Any, v: Any, rho: float) -> Any:
    """Minimiser of logistic loss + rho/2 |x - v|^2 by Newton's method with backtracking from x."""

    def value(y: Any) -> float:
        return np.logaddexp(0, -b * (A @ y)).sum() + rho / 2 * ((y - v) ** 2).sum()

    for _ in range(30):
        p = 1 / (1 + np.exp(b * (A @ x)))
        slope = -A.T @ (b * p) + rho * (x - v)
        step = np.linalg.solve((A.T * (p * (1 - p))) @ A + rho * np.eye(10), slope)
        if slope @ step < 1e-18:
            break
        t = 1.0
        while t > 1e-9 and value(x - t * step) > value(x) - t / 4 * (slope @ step):
            t /= 2
        x = x - t * step
    return x


def logistic(task: Any) -> Answer:
    points = np.zeros((6, 10))

    def clients(v: Any, rho: float) -> Any:
        for i, (A, b) in enumerate(task.blocks):
            points[i] = nearest(A, b, points[i], v[i], rho)
        return points.copy()

    def combine(w: Any, rho: float) -> Any:
        return np.tile(shrunk(w.mean(axis=0), task.weight / rho / 6), (6, 1))

    return admm(clients, combine, np.zeros((6, 10)))[1]


def market(task: Any) -> Answer:
    def clients(v: Any, rho: float) -> Any:
        return np.clip((rho * v - task.price) / (task.curvature + rho), 0, task.most)

    def combine(w: Any, rho: float) -> Any:
        return w + (task.demand - w.sum(axis=0)) / 12

    z, answer = admm(clients, combine, np.zeros((12, 3)))
    return answer._replace(x=np.clip(z, 0, task.most))


def network_lasso(task: Any) -> Answer:
    """A copy of x_i for each edge at i; an edge shrinks the difference of its two copies."""
    ends = np.array(task.edges)
    degree = np.bincount(ends.ravel())
    gram = np.array([2 * A.T @ A for A, _ in task.blocks])
    moment = np.array([2 * A.T @ b for A, b in task.blocks])

    def clients(v: Any, rho: float) -> Any:
        total = moment.copy()
        np.add.at(total, ends, rho * v)
        matrix = gram + rho * degree[:, None, None] * np.eye(3)
        return np.linalg.solve(matrix, total[:, :, None])[:, :, 0][ends]

    def combine(w: Any, rho: float) -> Any:
        mean, difference = w.mean(axis=1, keepdims=True), w[:, 0] - w[:, 1]
        size = np.maximum(np.linalg.norm(difference, axis=1), 1e-300)
        half = difference * np.maximum(1 - 2 / rho / size, 0)[:, None] / 2
        return mean + np.stack([half, -half], axis=1)

    z, answer = admm(clients, combine, np.zeros((len(ends), 2, 3)))
    x = np.zeros((16, 3))
    np.add.at(x, ends, z)
    return answer._replace(x=x / degree[:, None])


PEERS = {
    "numpy, ADMM by hand": {
        each.__name__: each for each in (least_squares, logistic, market, network_lasso)
    }
}
