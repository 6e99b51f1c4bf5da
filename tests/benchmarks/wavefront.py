"""Table 6: sweeps that overlap against one after the other, and one sweep against the default."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any
from unittest import mock

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.coordinate import diagnosis as diagnose
from dald_model.coordinate import sweeper_choice
from tests.benchmarks import common
from tests.benchmarks.common import LEAST_SQUARES, QP, Kind

COUNTS = (10, 100, 1000)
SWEEPS = {10: 500, 100: 500, 1000: 60}
"""So that the serial run takes seconds."""
SIZE, ROWS = 10, 20
MOST = 2000


# --- time -----------------------------------------------------------------------------------------


def chain(kind: Kind, count: int) -> dm.Model:
    """Clients with a vector each, and neighbours agree."""
    model, x = dm.Model(f"chain of {count}"), [kind.variable(SIZE) for _ in range(count)]
    for at, (A, b) in enumerate(kind.data(count, ROWS, SIZE)):
        model.client(at, *kind.build(x[at], A, b))
    model.consensus(*[one == two for one, two in pairwise(x)])
    return model


def timed(model: dm.Model, sweeps: int, overlaps: bool, stopping: Any) -> tuple[float, Any]:
    """Seconds of a run of so many sweeps, compiled before; the best of 2 up to 100 clients."""
    no = mock.patch.object(sweeper_choice, "pays", return_value=False)
    # In a serial run somebody looks for certificates of failure every 25 rounds, in one that
    # overlaps at the end of a block: that is not what is compared.
    looks = mock.patch.object(diagnose, "PERIOD", 10**9)
    options: dict[str, Any] = {"rho": 1.0, "eps_pri": 0.0, "eps_dual": 0.0, "max_rounds": sweeps}
    options |= {"sequence": dm.Sequence.natural(), "stopping": stopping, "acceleration": None}
    best = np.inf
    result = None
    for _ in range(2 if len(model.clients) <= 100 else 1):
        with looks, nullcontext() if overlaps else no, common.undisturbed():
            result = model.solve(**options)
        best = min(best, result.seconds)
    return best, result


def row(kind: Kind, count: int) -> list[str]:
    common.say(f"6 wavefront: {count} clients, {kind.name}")
    model, sweeps, stopping = chain(kind, count), SWEEPS[count], dm.FixedBudget(1)
    model.solve(sequence=dm.Sequence.natural(), stopping=stopping, max_rounds=1, acceleration=None)
    ours, found = timed(model, sweeps, True, stopping)
    serial, known = timed(model, sweeps, False, stopping)
    apart = np.abs(found.state.points - known.state.points).max()
    steps = count * sweeps / (count + 2 * (sweeps - 1))
    return [
        kind.name,
        f"{count:,}",
        str(sweeps),
        common.times(serial / ours),
        common.number(steps),
        common.number(1e3 * serial / sweeps),
        common.number(1e3 * ours / sweeps),
        "bit for bit" if apart == 0 else common.small(apart),
    ]


# --- rounds ---------------------------------------------------------------------------------------


def _squares(x: cp.Variable, rng: np.random.Generator) -> tuple[Any, list[Any]]:
    return cp.sum_squares(rng.normal(size=(6, 3)) @ x - rng.normal(size=6)), []


def _absolute(x: cp.Variable, rng: np.random.Generator) -> tuple[Any, list[Any]]:
    return cp.norm1(rng.normal(size=(6, 3)) @ x - rng.normal(size=6)), []


def _linear(x: cp.Variable, rng: np.random.Generator) -> tuple[Any, list[Any]]:
    rows = rng.normal(size=(2, 3))
    box = [x >= rng.uniform(-2, -0.5, 3), x <= rng.uniform(0.5, 2, 3)]
    return rows[0] @ x, [*box, rows[1] @ x <= rng.uniform(0.2, 1)]


PROBLEMS: dict[str, Callable[..., tuple[Any, list[Any]]]] = {
    "least squares": _squares,
    "absolute values": _absolute,
    "linear program": _linear,
}
GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "cubic, 8": lambda: nx.random_regular_graph(3, 8, seed=4),
    "wheel, 6": lambda: nx.wheel_graph(6),
    "ring, 7": lambda: nx.cycle_graph(7),
    "chords, 10": lambda: nx.connected_watts_strogatz_graph(10, 4, 0.3, seed=1),
    "grid 2 x 3": lambda: nx.grid_2d_graph(2, 3),
    "tree, 6": lambda: nx.full_rary_tree(2, 6),
}
CONDITIONS: dict[str, Any] = {
    "one sweep": dm.FixedBudget(1),
    "(B2)": dm.ShrinkingTolerance(),
    "default": None,
}


def dealt(graph: nx.Graph, share: Callable[..., tuple[Any, list[Any]]]) -> dm.Model:
    rng = np.random.default_rng(36)
    x = {node: cp.Variable(3) for node in graph}
    model = dm.Model("dealt")
    for node, variable in x.items():
        model.client(node, *share(variable, rng))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model


def rounds(problem: str, graph: str) -> list[str]:
    common.say(f"6 wavefront: {problem} on {graph}")
    model = dealt(GRAPHS[graph](), PROBLEMS[problem])
    exact = model.monolithic()
    best: Any = exact.solve(solver=cp.CLARABEL, **common.TIGHT)
    cells, counts = [], []
    for condition in CONDITIONS.values():
        result = model.solve(stopping=condition, max_rounds=MOST, acceleration=None)
        gap = abs(result.value - best) / max(1.0, abs(best))
        done = str(result.status) == "optimal" and gap <= 1e-5
        counts.append(float(result.rounds) if done else np.nan)
        cells.append(str(result.rounds) if done else f"{result.status} at {result.rounds}")
    over = [counts[0] / count for count in counts[1:]]
    return [problem, graph, *cells, *map(common.times, over)]


def table() -> str:
    times = [row(kind, count) for kind in (LEAST_SQUARES, QP) for count in COUNTS]
    heads = ["clients", "count", "sweeps", "serial / overlapped", "serial / overlapped steps"]
    heads += ["serial [ms a sweep]", "overlapped [ms a sweep]", "points apart"]
    found = [rounds(problem, graph) for problem in PROBLEMS for graph in GRAPHS]
    counted = ["problem", "graph", *CONDITIONS, "one sweep / (B2)", "one sweep / default"]
    return (
        "## 6. Sweeps that overlap\n\n"
        f"A chain in natural order, m={SIZE}, N={ROWS}, one sweep an update, penalty fixed; the "
        "whole run, compiled before, of which the start-up of the wavefront and of each block is "
        "a part. Steps: how many fewer there are, which is what the wavefront promises in one "
        "block. Nobody looks for certificates of failure.\n\n"
        + common.markdown(heads, times)
        + f"\n\nRounds to 1e-6 with the default penalty, at most {MOST:,}, by colour: one sweep an "
        "update against (B2) and the default.\n\n" + common.markdown(counted, found)
    )
