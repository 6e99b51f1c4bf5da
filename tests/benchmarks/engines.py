"""A round in one process against one in two others: from which size of clients it pays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.engines import Processes
from tests.benchmarks import common

CLIENTS = 8
SHORT, LONG = 10, 60
"""Rounds of the two runs whose difference is what a round takes."""

Made = tuple[cp.Expression, list[Any]]


def squares(x: cp.Variable, A: np.ndarray, b: np.ndarray) -> Made:
    return cp.sum_squares(A @ x - b), []


def rows(x: cp.Variable, A: np.ndarray, b: np.ndarray) -> Made:
    return cp.sum_squares(A @ x - b), [x >= -0.1, A[: x.size // 2] @ x <= 1]


def logistic(x: cp.Variable, A: np.ndarray, b: np.ndarray) -> Made:
    losses = cp.logistic(cp.multiply(-np.sign(b), A @ x))
    return cp.sum(losses) + 0.1 * cp.sum_squares(x), []


def hinge(x: cp.Variable, A: np.ndarray, b: np.ndarray) -> Made:
    margins = cp.multiply(np.sign(b), A @ x)
    return cp.sum(cp.pos(1 - margins)) + 0.1 * cp.sum_squares(x), []


def cones(x: cp.Variable, A: np.ndarray, b: np.ndarray) -> Made:
    return cp.sum_squares(A @ x - b), [cp.norm(A[:9] @ x) <= 2, cp.norm(x, 4) <= 3]


KINDS: dict[str, tuple[Callable[..., Made], tuple[int, ...]]] = {
    "least squares": (squares, (50, 100, 200, 400)),
    "linear rows": (rows, (20, 50, 100, 200)),
    "logistic": (logistic, (20, 50, 100)),
    "hinge": (hinge, (20, 50, 100)),
    "cones": (cones, (5, 20, 50)),
}


def star(make: Callable[..., Made], size: int) -> dm.Model:
    """Clients of one kind around a server, each with three rows of data a variable."""
    w, model = cp.Variable(size, name="w"), dm.Model("engines")
    for i in range(CLIENTS):
        rng = np.random.default_rng(i)
        A = rng.normal(size=(3 * size, size)) / np.sqrt(size)
        model.client(i, *make(w, A, rng.normal(size=3 * size)))
    return model


def used(engine: Processes | None) -> np.ndarray:
    """CPU seconds so far of this process, and of those of an engine."""
    pids = [host.pid for host in engine.hosts()] if engine else []
    ticks = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    theirs = [(int(one[11]) + int(one[12])) / os.sysconf("SC_CLK_TCK") for one in ticks]
    return np.array([time.process_time(), *theirs])


def a_round(model: dm.Model, engine: Processes | None) -> np.ndarray:
    """CPU milliseconds of a round of the plain loop, in each process."""
    found = []
    for count in (SHORT, LONG):
        before = used(engine)
        model.solve(
            engine=engine,
            acceleration=None,
            rho=1.0,
            accuracy=1e-6,
            eps_pri=0.0,
            eps_dual=0.0,
            max_rounds=count,
        )
        found.append(used(engine) - before)
    return 1e3 * (found[1] - found[0]) / (LONG - SHORT)


def row(kind: str, size: int, engine: Processes) -> list[str]:
    common.say(f"15 engines: {kind}, {size}")
    model = star(KINDS[kind][0], size)
    pairs = [(a_round(model, None), a_round(model, engine)) for _ in range(3)]
    here = float(np.median([one[0] for one, _ in pairs]))
    own, *theirs = np.median([two for _, two in pairs], axis=0)
    found = [here, float(own), float(max(theirs)), here / float(own + max(theirs))]
    return [kind, str(size), *(f"{one:.2g}" for one in found)]


def table() -> str:
    with Processes(workers=2) as engine:
        found = [row(kind, size, engine) for kind, (_, sizes) in KINDS.items() for size in sizes]
    heads = ["clients", "m", "here, ms", "coordinator, ms", "busier process, ms", "gain"]
    return (
        "## 15. A round here and in two processes\n\n"
        f"{CLIENTS} clients of m variables and 3 m rows of data around a server, the plain loop "
        "with `engine=dm.engines.Processes(workers=2)`: CPU milliseconds of a round, from runs of "
        f"{LONG} and {SHORT} rounds, so that other work on the machine does not count. Gain: one "
        "process over coordinator and busier process, which follow each other where cores are "
        "free.\n\n" + common.markdown(heads, found)
    )
