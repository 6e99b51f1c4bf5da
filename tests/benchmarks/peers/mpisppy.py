"""mpi-sppy: progressive hedging with HiGHS; each owner is a scenario and x is the first stage."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks.peers.tasks import Answer

ROUNDS, PENALTY = 200, 100.0


def least_squares(task: Any) -> Answer:
    pyo: Any = import_module("pyomo.environ")
    sputils: Any = import_module("mpisppy.utils.sputils")

    def owner(name: str, **_: Any) -> Any:
        A, b = task.blocks[int(name.removeprefix("owner"))]
        H, c, model = A.T @ A, 2 * A.T @ b, pyo.ConcreteModel()
        model.x = pyo.Var(range(10), bounds=(0, None))
        x = [model.x[j] for j in range(10)]
        square = sum(H[j, k] * x[j] * x[k] for j in range(10) for k in range(10))
        model.loss = pyo.Objective(expr=square - sum(c[j] * x[j] for j in range(10)) + b @ b)
        sputils.attach_root_node(model, model.loss, [model.x])
        model._mpisppy_probability = "uniform"
        return model

    options = {
        "solver_name": "highs",
        "PHIterLimit": ROUNDS,
        "defaultPHrho": PENALTY,
        "convthresh": 1e-7,
        "verbose": False,
        "display_progress": False,
        "toc": False,
    }
    names = [f"owner{i}" for i in range(len(task.blocks))]
    hedging = import_module("mpisppy.opt.ph").PH(options, names, owner)
    distance, _, _ = hedging.ph_main()
    model = hedging.local_scenarios["owner0"]
    averages = model._mpisppy_model.xbars
    x = np.array([averages["ROOT", j].value for j in range(10)])
    return Answer(x, int(hedging._PHIter), f"convergence metric {distance:.0e}")


PEERS = {"mpi-sppy, progressive hedging": {"least_squares": least_squares}}
