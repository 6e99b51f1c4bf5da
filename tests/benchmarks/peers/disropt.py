"""DISROPT: ADMM between agents that are processes of MPI, each with two neighbours a side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peers.tasks import Answer, tasks

ROUNDS, PENALTY, OWNERS = 300, 20.0, 8


def least_squares(task: Any) -> Answer:
    return started(agent)


def started(function: Any) -> Answer:
    """One process of MPI per owner, each of which runs this file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.json"
        mpiexec = Path(sys.executable).with_name("mpiexec")
        command = [mpiexec, "-n", str(OWNERS), sys.executable, "-m", function.__module__, file]
        subprocess.run(list(map(str, command)), check=True, env=dict(os.environ), timeout=240)
        found = np.array(json.loads(file.read_text()))
    return Answer(found.mean(axis=0), ROUNDS, "nothing")


def agent(task: Any, file: str) -> None:
    mpi = import_module("mpi4py.MPI")
    rank = mpi.COMM_WORLD.Get_rank()
    near = sorted({(rank + step) % OWNERS for step in (-2, -1, 1, 2)})
    own = import_module("disropt.agents").Agent(near, near, in_weights=[1 / 5] * OWNERS)
    functions: Any = import_module("disropt.functions")
    A, b = task.blocks[rank]
    x = functions.Variable(10)
    loss = functions.QuadraticForm(x, A.T @ A) - (2 * A.T @ b[:, None]) @ x
    own.set_problem(import_module("disropt.problems").Problem(loss, [x >= np.zeros((10, 1))]))
    prices = {j: np.zeros((10, 1)) for j in [*near, rank]}
    method = import_module("disropt.algorithms").ADMM(own, prices, np.zeros((10, 1)))
    method.run(iterations=ROUNDS, penalty=PENALTY)
    every = mpi.COMM_WORLD.gather(np.ravel(method.z).tolist())
    if rank == 0:
        Path(file).write_text(json.dumps(every))


PEERS = {"DISROPT, ADMM": {"least_squares": least_squares}}

if __name__ == "__main__":
    agent(tasks()["least_squares"], sys.argv[1])
