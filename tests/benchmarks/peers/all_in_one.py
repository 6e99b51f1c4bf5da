"""cvxpy, all in one problem, by solvers that cvxpy has an interface for, with their defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from tests.benchmarks.peers.tasks import Answer


def least_squares(task: Any, **options: Any) -> Answer:
    x = cp.Variable(10)
    loss = cp.sum([cp.sum_squares(A @ x - b) for A, b in task.blocks])
    return solved(cp.Problem(cp.Minimize(loss), [x >= 0]), x, options)


def logistic(task: Any, **options: Any) -> Answer:
    x = cp.Variable(10)
    losses = [cp.sum(cp.logistic(cp.multiply(-b, A @ x))) for A, b in task.blocks]
    return solved(cp.Problem(cp.Minimize(cp.sum(losses) + task.weight * cp.norm1(x))), x, options)


def market(task: Any, **options: Any) -> Answer:
    x = cp.Variable((12, 3))
    cost = cp.sum_squares(cp.multiply(np.sqrt(task.curvature / 2), x))
    cost += cp.sum(cp.multiply(task.price, x))
    rules = [x >= 0, x <= task.most, cp.sum(x, axis=0) == task.demand]
    return solved(cp.Problem(cp.Minimize(cost), rules), x, options)


def network_lasso(task: Any, **options: Any) -> Answer:
    x = cp.Variable((16, 3))
    loss = cp.sum([cp.sum_squares(A @ x[i] - b) for i, (A, b) in enumerate(task.blocks)])
    apart = cp.sum([cp.norm(x[i] - x[j]) for i, j in task.edges])
    return solved(cp.Problem(cp.Minimize(loss + apart)), x, options)


def solved(problem: cp.Problem, x: cp.Variable, options: dict[str, Any]) -> Answer:
    problem.solve(**options)
    return Answer(np.asarray(x.value), None, str(problem.status))


def by(solver: str, *several: Any) -> dict[str, Any]:
    return {each.__name__: partial(each, solver=solver) for each in several}


QUADRATIC = (least_squares, market)
CONIC = (least_squares, logistic, market, network_lasso)
PEERS = {
    "cvxpy, Clarabel": by("CLARABEL", *CONIC),
    "cvxpy, SCS": by("SCS", *CONIC),
    "cvxpy, OSQP": by("OSQP", *QUADRATIC),
    "cvxpy, PIQP": by("PIQP", *QUADRATIC),
    "cvxpy, HiGHS": by("HIGHS", *QUADRATIC),
}
