"""The tasks of the comparison, as numbers: data, objective and constraints, without any peer.

Only numpy is imported, so that each peer's own environment can read them. Every task is drawn from
one seed and has a unique solution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Blocks = list[tuple[Array, Array]]


class LeastSquares(NamedTuple):
    """min sum_i |A_i x - b_i|^2 subject to x >= 0: 8 owners of 40 rows, columns of unequal size."""

    blocks: Blocks

    def value(self, x: Array) -> float:
        return float(sum(((A @ x - b) ** 2).sum() for A, b in self.blocks))

    def violation(self, x: Array) -> float:
        return float(max(0.0, -x.min()) / np.abs(x).max())


class Logistic(NamedTuple):
    """min sum_i sum_k log(1 + exp(-b_ik a_ik'x)) + weight |x|_1: six owners of 8 to 2,000 rows."""

    blocks: Blocks
    weight: float = 2.0

    def value(self, x: Array) -> float:
        losses = sum(np.logaddexp(0.0, -b * (A @ x)).sum() for A, b in self.blocks)
        return float(losses + self.weight * np.abs(x).sum())

    def violation(self, x: Array) -> float:
        return 0.0


class Market(NamedTuple):
    """min sum_ig (c_ig x_ig^2 / 2 + p_ig x_ig), 0 <= x <= most, sum_i x_i = demand.

    Twelve agents i trade three goods g; the curvatures c differ by a factor of 1,000.
    """

    curvature: Array
    price: Array
    most: Array
    demand: Array

    def value(self, x: Array) -> float:
        return float((0.5 * self.curvature * x**2 + self.price * x).sum())

    def violation(self, x: Array) -> float:
        balance = np.abs(x.sum(axis=0) - self.demand).max() / self.demand.max()
        bounds = max(0.0, -x.min(), (x - self.most).max()) / self.most.max()
        return float(max(balance, bounds))


class NetworkLasso(NamedTuple):
    """min sum_i |A_i x_i - b_i|^2 + sum_(i,j) |x_i - x_j|_2: a 4 by 4 grid of two groups."""

    blocks: Blocks
    edges: list[tuple[int, int]]

    def value(self, x: Array) -> float:
        own = sum(((A @ x[i] - b) ** 2).sum() for i, (A, b) in enumerate(self.blocks))
        return float(own + sum(np.linalg.norm(x[i] - x[j]) for i, j in self.edges))

    def violation(self, x: Array) -> float:
        return 0.0


def _rows(rng: Any, count: int, truth: Array, spread: Any, noise: float) -> tuple[Array, Array]:
    A = rng.normal(size=(count, truth.size)) * spread
    return A, A @ truth + noise * rng.normal(size=count)


def tasks() -> dict[str, Any]:
    """Name -> task; a peer's function that solves it has the same name."""
    rng = np.random.default_rng(47)
    truth = np.maximum(rng.normal(size=10), 0)
    squares = [_rows(rng, 40, truth, np.geomspace(0.3, 3.0, 10), 1.0) for _ in range(8)]
    labelled, sparse = [], np.where(np.arange(10) % 3 == 0, 1.0, 0.0)
    for count in (8, 20, 50, 150, 500, 2000):
        A, score = _rows(rng, count, sparse, 1.0, 1.5)
        labelled.append((A, np.where(score > 0, 1.0, -1.0)))
    curvature = np.exp(rng.uniform(np.log(0.01), np.log(10), (12, 3)))
    most = rng.uniform(1, 5, (12, 3))
    market = Market(curvature, rng.normal(size=(12, 3)), most, 0.4 * most.sum(axis=0))
    edges = [(4 * r + c, 4 * r + c + 1) for r in range(4) for c in range(3)]
    edges += [(4 * r + c, 4 * r + c + 4) for r in range(3) for c in range(4)]
    groups = rng.normal(size=(2, 3))
    districts = [_rows(rng, 12, groups[i % 4 // 2], 1.0, 0.5) for i in range(16)]
    return {
        "least_squares": LeastSquares(squares),
        "logistic": Logistic(labelled),
        "market": market,
        "network_lasso": NetworkLasso(districts, edges),
    }


class Answer(NamedTuple):
    """The solution a peer returns, its rounds of messages, and its own words on the solution."""

    x: Array
    rounds: int | None
    said: str
