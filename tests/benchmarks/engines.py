"""A round in one process against one in two others: from which size of clients it pays.

``mpiexec -n 3 python -m mpi4py -m tests.benchmarks.engines`` prints what a round costs there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.engines import MPI, Processes, Ray, mpi_ranks
from tests.benchmarks import common

CLIENTS = 8
SHORT, LONG = 10, 60
"""Rounds of the two runs whose difference is what a round takes."""
TINY, REPEATS = 5, 5
"""Variables of the clients whose rounds are overhead alone, and how often these are timed."""

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


class Host(Protocol):
    @property
    def pid(self) -> int | None: ...


class Local(Protocol):
    """An engine whose hosts are processes of this machine."""

    def hosts(self) -> Sequence[Host]: ...


def used(engine: Local | None) -> np.ndarray:
    """CPU seconds so far of this process, and of those of an engine."""
    pids = [host.pid for host in engine.hosts()] if engine else []
    ticks = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    theirs = [(int(one[11]) + int(one[12])) / os.sysconf("SC_CLK_TCK") for one in ticks]
    return np.array([time.process_time(), *theirs])


def run(model: dm.Model, engine: Any, count: int) -> None:
    """So many rounds of the plain loop."""
    model.solve(
        engine=engine,
        acceleration=None,
        rho=1.0,
        accuracy=1e-6,
        eps_pri=0.0,
        eps_dual=0.0,
        max_rounds=count,
    )


def a_round(model: dm.Model, engine: Local | None) -> np.ndarray:
    """CPU milliseconds of a round of the plain loop, in each process."""
    found = []
    for count in (SHORT, LONG):
        before = used(engine)
        run(model, engine, count)
        found.append(used(engine) - before)
    return 1e3 * (found[1] - found[0]) / (LONG - SHORT)


def row(kind: str, size: int, engines: Sequence[Local]) -> list[str]:
    common.say(f"15 engines: {kind}, {size}")
    model = star(KINDS[kind][0], size)
    for engine in engines:
        run(model, engine, 1)  # its processes are there
    here = float(np.median([a_round(model, None) for _ in range(3)]))
    found = [here]
    for engine in engines:
        own, *theirs = np.median([a_round(model, engine) for _ in range(3)], axis=0)
        found += [float(own), float(max(theirs)), here / float(own + max(theirs))]
    return [kind, str(size), *(f"{one:.2g}" for one in found)]


def least(engine: Local | None) -> np.ndarray:
    """CPU milliseconds of a round of tiny clients, in each process."""
    model = star(squares, TINY)
    run(model, engine, SHORT)
    return np.median([a_round(model, engine) for _ in range(REPEATS)], axis=0)


class Rank(NamedTuple):
    pid: int


class Ranks(MPI):
    """An engine whose hosts have numbers of processes, and which waits without its CPU."""

    def __init__(self) -> None:
        mpi_ranks.EAGER = 0.0
        super().__init__()

    def hosts(self) -> list[Any]:
        parent = os.getppid()
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        others = [int(pid) for pid in children if int(pid) != os.getpid()]
        for host, pid in zip(hosts := super().hosts(), others, strict=True):
            vars(host)["pid"] = pid
        return hosts


def least_of_mpi() -> np.ndarray | None:
    """The same of an MPI job with two hosts; None where there is no MPI."""
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    if mpiexec is None:
        return None
    words = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py", "-m", "tests.benchmarks.engines"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return np.array([float(one) for one in told.split()])


def overheads(processes: Processes, ray: Ray) -> str:
    """What a round costs beside the solving, and from when two hosts pay."""
    (here,) = least(None)
    found = {
        "Processes(workers=2)": least(processes),
        "MPI(), two hosts": least_of_mpi(),
        "Ray(hosts=2)": least(ray),
    }
    rows = []
    for name, one in found.items():
        if one is not None:
            more = one[0] + max(one[1:]) - here
            numbers = one[0], max(one[1:]), more, 2 * more
            rows.append([name, *(f"{each:.2g}" for each in numbers)])
    heads = ["engine", "coordinator, ms", "busier host, ms", "overhead, ms", "pays from, ms"]
    return f"In one process: {here:.2g} ms.\n\n" + common.markdown(heads, rows)


def table() -> str:
    with Processes(workers=2) as processes, Ray(hosts=2) as ray:
        beside = overheads(processes, ray)
        engines = [processes, ray]
        found = [row(kind, size, engines) for kind, (_, sizes) in KINDS.items() for size in sizes]
    heads = ["clients", "m", "here, ms"]
    for name in ("processes", "Ray"):
        heads += [f"{name}: coordinator, ms", "busier host, ms", "gain"]
    return (
        "## 15. A round here and at two hosts\n\n"
        f"{CLIENTS} clients around a server, the plain loop, CPU milliseconds of a round, from "
        f"runs of {LONG} and {SHORT} rounds, so that other work on the machine does not count. "
        f"First of tiny clients, least squares with m = {TINY}: what coordinator and busier host "
        "take, which follow each other where cores are free, beside one process. Two hosts that "
        "share the solving evenly gain from twice that, in milliseconds of a round in one "
        "process.\n\n"
        + beside
        + "\n\nThen clients of m variables and 3 m rows of data. Gain: one process over "
        "coordinator and busier host.\n\n" + common.markdown(heads, found)
    )


if __name__ == "__main__":
    print(*least(Ranks()))
