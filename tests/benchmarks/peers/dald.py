"""dald_model with its defaults, by answers alone and with curvature."""

from __future__ import annotations

from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.benchmarks.peers.tasks import Answer


def least_squares(task: Any, **options: Any) -> Answer:
    x, model = cp.Variable(10, name="x"), dm.Model("least squares")
    for i, (A, b) in enumerate(task.blocks):
        model.client(i, cp.sum_squares(A @ x - b), [x >= 0])
    return solved(model, x, options)


def logistic(task: Any, **options: Any) -> Answer:
    x, model = cp.Variable(10, name="x"), dm.Model("logistic")
    for i, (A, b) in enumerate(task.blocks):
        share = task.weight / len(task.blocks) * cp.norm1(x)
        model.client(i, cp.sum(cp.logistic(cp.multiply(-b, A @ x))) + share)
    return solved(model, x, options)


def market(task: Any, **options: Any) -> Answer:
    x, model = cp.Variable((12, 3), name="x"), dm.Model("market")
    for i in range(12):
        cost = cp.sum_squares(cp.multiply(np.sqrt(task.curvature[i] / 2), x[i]))
        model.client(i, cost + task.price[i] @ x[i], [x[i] >= 0, x[i] <= task.most[i]])
    model.couple(cp.sum(x, axis=0) == task.demand)
    return solved(model, x, options)


def network_lasso(task: Any, **options: Any) -> Answer:
    x, model = cp.Variable((16, 3), name="x"), dm.Model("network lasso")
    for i, (A, b) in enumerate(task.blocks):
        model.client(i, cp.sum_squares(A @ x[i] - b))
    for i, j in task.edges:
        model.couple(objective=cp.norm(x[i] - x[j]))
    return solved(model, x, options)


def solved(model: dm.Model, x: cp.Variable, options: dict[str, Any]) -> Answer:
    result = model.solve(**options)
    return Answer(np.asarray(x.value), result.rounds, str(result.status))


ALL = (least_squares, logistic, market, network_lasso)
PEERS = {
    "dald_model, answers": {each.__name__: each for each in ALL},
    "dald_model, curvature": {each.__name__: partial(each, disclose="curvature") for each in ALL},
}
