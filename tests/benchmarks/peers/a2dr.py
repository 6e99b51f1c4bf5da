"""A2DR: a proximal operator per owner, and linear equations between them; its defaults."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks.peers.by_hand import nearest
from tests.benchmarks.peers.tasks import Answer


def least_squares(task: Any) -> Answer:
    prox: Any = import_module("a2dr.proximal")
    owners = [partial(prox.prox_sum_squares_affine, F=A, g=b) for A, b in task.blocks]
    operators = [*owners, prox.prox_nonneg_constr]
    return solved(operators, equal(9, 10), np.zeros(80), lambda x: x[-1])


def logistic(task: Any) -> Answer:
    prox: Any = import_module("a2dr.proximal")

    def owner(v: Any, t: float, A: Any, b: Any) -> Any:
        return nearest(A, b, v, v, 1 / t)

    owners = [partial(owner, A=A, b=b) for A, b in task.blocks]
    last = partial(shrunk_by, prox=prox.prox_norm1, weight=task.weight)
    return solved([*owners, last], equal(7, 10), np.zeros(60), lambda x: x[-1])


def shrunk_by(v: Any, t: float, prox: Any, weight: float) -> Any:
    return prox(v, t * weight)


def market(task: Any) -> Answer:
    def agent(v: Any, t: float, i: int) -> Any:
        return np.clip((v / t - task.price[i]) / (task.curvature[i] + 1 / t), 0, task.most[i])

    agents = [partial(agent, i=i) for i in range(12)]
    return solved(agents, [np.eye(3)] * 12, task.demand, np.array)


def network_lasso(task: Any) -> Answer:
    """One operator per node and one per edge, whose variable is the difference of its ends."""
    prox: Any = import_module("a2dr.proximal")
    nodes = [partial(prox.prox_sum_squares_affine, F=A, g=b) for A, b in task.blocks]
    ends = np.array(task.edges)
    incidence = (np.arange(16) == ends[:, :1]) - 1.0 * (np.arange(16) == ends[:, 1:])
    columns = np.hstack([incidence, -np.eye(len(ends))]).T
    matrices = [np.kron(column[:, None], np.eye(3)) for column in columns]
    operators = [*nodes, *[prox.prox_norm2] * len(ends)]
    return solved(operators, matrices, np.zeros(3 * len(ends)), lambda x: np.array(x[:16]))


def equal(count: int, size: int) -> list[Any]:
    """Matrices for x_1 = x_2, x_2 = x_3 and so on."""
    chain = np.eye(count - 1, count) - np.eye(count - 1, count, k=1)
    return [np.kron(chain[:, [i]], np.eye(size)) for i in range(count)]


def solved(operators: list[Any], matrices: list[Any], right: Any, read: Any) -> Answer:
    found = import_module("a2dr").a2dr(operators, matrices, right, verbose=False)
    primal, dual = found["primal"][-1], found["dual"][-1]
    said = f"residuals {primal:.0e}, {dual:.0e}"
    return Answer(read(found["x_vals"]), int(found["num_iters"]), said)


ALL = (least_squares, logistic, market, network_lasso)
PEERS = {"A2DR": {each.__name__: each for each in ALL}}
