"""DeDe: an allocation matrix, with constraints of rows and columns and an ADMM between the two."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks.peers.tasks import Answer

ROUNDS = 200


def market(task: Any, penalty: float) -> Answer:
    dede: Any = import_module("dede")
    x = dede.Variable((12, 3), nonneg=True)
    goods = [x[:, g].sum() == task.demand[g] for g in range(3)]
    agents = [x[i, :] <= task.most[i] for i in range(12)]
    cost = 0
    for i in range(12):
        cost += dede.sum_squares(dede.multiply(np.sqrt(task.curvature[i] / 2), x[i, :]))
        cost += task.price[i] @ x[i, :]
    problem = dede.Problem(dede.Minimize(cost), goods, agents)
    with contextlib.redirect_stdout(io.StringIO()):
        problem.solve(num_cpus=1, rho=penalty, num_iter=ROUNDS, solver="CLARABEL")
    found = read(problem, x)
    import_module("ray").shutdown()
    return Answer(found, ROUNDS, "nothing")


def read(problem: Any, x: Any) -> Any:
    """The allocation of the resources' side; the package leaves ``x.value`` empty."""
    get = import_module("ray").get
    workers = problem._subprob_cache.probs
    names = [each for one in workers for each in get(one.get_solution_idx_r.remote())]
    values = dict(zip(names, problem.sol_r, strict=True))
    return np.reshape([values[x.id, k] for k in range(x.size)], x.shape, order="F")


PEERS = {"DeDe": {"market": partial(market, penalty=1.0)}}
