"""cvxpy in a loop: one DPP problem per owner, re-solved with new Parameters by the ADMM by hand."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from tests.benchmarks.peers.by_hand import admm, shrunk
from tests.benchmarks.peers.tasks import Answer

ACCURACY = 1e-5
"""What the solver's own accuracy of an owner's problem lets residuals reach."""


class Owner:
    """Minimiser of loss(x) + rho/2 |x - v|^2, where the root of rho and its product with v move."""

    def __init__(self, size: int, loss: Any, rules: Any = lambda x: []) -> None:
        self.x, self.root, self.target = (
            cp.Variable(size),
            cp.Parameter(nonneg=True),
            cp.Parameter(size),
        )
        near = cp.sum_squares(self.root * self.x - self.target) / 2
        self.problem = cp.Problem(cp.Minimize(loss(self.x) + near), rules(self.x))

    def __call__(self, v: Any, rho: float) -> Any:
        self.root.value, self.target.value = np.sqrt(rho), np.sqrt(rho) * v
        self.problem.solve(solver=cp.CLARABEL)
        return self.x.value


def least_squares(task: Any) -> Answer:
    owners = [Owner(10, lambda x, A=A, b=b: cp.sum_squares(A @ x - b)) for A, b in task.blocks]

    def combine(w: Any, rho: float) -> Any:
        return np.tile(np.maximum(w.mean(axis=0), 0), (8, 1))

    return admm(together(owners), combine, np.zeros((8, 10)), ACCURACY)[1]


def logistic(task: Any) -> Answer:
    owners = [
        Owner(10, lambda x, A=A, b=b: cp.sum(cp.logistic(cp.multiply(-b, A @ x))))
        for A, b in task.blocks
    ]

    def combine(w: Any, rho: float) -> Any:
        return np.tile(shrunk(w.mean(axis=0), task.weight / rho / 6), (6, 1))

    return admm(together(owners), combine, np.zeros((6, 10)), ACCURACY)[1]


def market(task: Any) -> Answer:
    owners = [
        Owner(
            3,
            lambda x, c=c, p=p: cp.sum_squares(cp.multiply(np.sqrt(c / 2), x)) + p @ x,
            lambda x, most=most: [x >= 0, x <= most],
        )
        for c, p, most in zip(task.curvature, task.price, task.most, strict=True)
    ]

    def combine(w: Any, rho: float) -> Any:
        return w + (task.demand - w.sum(axis=0)) / 12

    z, answer = admm(together(owners), combine, np.zeros((12, 3)), ACCURACY)
    return answer._replace(x=np.clip(z, 0, task.most))


def together(owners: list[Owner]) -> Any:
    return lambda v, rho: np.array([each(v[i], rho) for i, each in enumerate(owners)])


PEERS = {"cvxpy, DPP loop": {each.__name__: each for each in (least_squares, logistic, market)}}
