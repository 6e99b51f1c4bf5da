"""Table 8: couplings, as declared, compiled and solved, against the all-in-one solve."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.models.market import model as plants
from tests.benchmarks import common
from tests.expect import number
from tests.front.couplings import ZOO

OTHERS = ("CLARABEL", "PIQP", "OSQP", "SCS")
"""Who solves the all-in-one problem; the fastest that is right counts."""
RIGHT = 1e-5
REPEATS = 7
"""Of each, in turns: medians count."""


class Row(NamedTuple):
    """What was measured of one problem; the ratio is of whole times, ours over the fastest's."""

    name: str
    rounds: int | None
    gap: float
    certified: float
    ours: float
    theirs: float
    solver: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def row(name: str, make: Callable[[], dm.Model]) -> Row:
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    values: dict[str, float] = {}
    result: dm.Result | None = None
    solvers = [one for one in OTHERS if one in cp.installed_solvers()]
    for _ in range(REPEATS):
        model = make()
        begun = time.process_time()
        result = model.solve()
        ours.append(time.process_time() - begun)
        for solver in list(solvers):
            problem = make().monolithic()
            begun = time.process_time()
            with common.silent():
                try:
                    problem.solve(solver=solver)
                except cp.SolverError:
                    solvers.remove(solver)
                    continue
            theirs.setdefault(solver, []).append(time.process_time() - begun)
            values[solver] = number(problem.value)
    assert result is not None
    best = values["CLARABEL"]
    size = max(1.0, abs(best))
    right = [one for one in solvers if abs(values[one] - best) <= RIGHT * size]
    took = {solver: common.median(theirs[solver]) for solver in right}
    solver = min(took, key=took.__getitem__)
    rounds = result.rounds if result.status == "optimal" else None
    gap = abs(result.value - best) / size
    found = result.certificate().gap
    return Row(name, rounds, gap, found, common.median(ours), took[solver], solver)


def tied(count: int) -> dm.Model:
    """Least-squares clients on a cubic graph, each sharing three numbers with each neighbour."""
    rng, graph = np.random.default_rng(0), nx.random_regular_graph(3, count, seed=0)
    shared = {edge: cp.Variable(3) for edge in graph.edges}
    model = dm.Model()
    for node in graph:
        own = [v for edge, v in shared.items() if node in edge]
        A = rng.normal(size=(12, 9))
        model.client(node, cp.sum_squares(A @ cp.hstack(own) - rng.normal(size=12)))
    return model


def between_two() -> str:
    """Rounds and numbers sent where what two clients share is an edge, or has a server."""
    lines = []
    for count, is_plain in product((16, 60), (False, True)):
        found = []
        for graph in (None, "server"):
            model = tied(count)
            model.topology(graph)
            result = model.solve(acceleration=None) if is_plain else model.solve()
            assert result.status == "optimal"
            found += [result.rounds, 2 * result.rounds * model.compile().size]
        ratios = found[0] / found[2], found[1] / found[3]
        how = "plain" if is_plain else "default"
        lines.append([str(count), how, *map(str, found), *map(common.number, ratios)])
    heads = ["clients", "acceleration", "rounds, edge", "sent, edge", "rounds, server"]
    heads += ["sent, server", "rounds, edge / server", "sent, edge / server"]
    return (
        "What two clients share is an edge between them by default; a server for each is made by "
        '`model.topology("server")`. Sent: numbers, both ways, in all rounds; clients on a cubic '
        "graph.\n\n" + common.markdown(heads, lines)
    )


def table() -> str:
    problems: dict[str, Callable[[], dm.Model]] = {
        **{name: lambda b=build: b().model for name, build in ZOO.items()},
        "plants": plants,
    }
    rows = []
    for name, make in problems.items():
        common.say(f"8 couplings: {name}")
        rows.append(row(name.replace("_", " "), make))
    lines = [
        [
            one.name,
            str(one.rounds or "> 1000"),
            common.small(one.gap),
            common.small(one.certified),
            common.number(1e3 * one.ours),
            common.number(1e3 * one.theirs),
            one.solver,
            common.number(one.ratio),
        ]
        for one in rows
    ]
    ratios = [one.ratio for one in rows]
    heads = ["problem", "rounds", "gap", "certified gap", "whole [ms]", "all-in-one [ms]"]
    heads += ["by", "ratio"]
    return (
        "## 8. Couplings against the all-in-one solve\n\n"
        "By default options, one thread; of what was declared, compiled and solved, by us and by "
        f"cvxpy: medians of {REPEATS}, in turns; times are those of the processor. Ratio of whole "
        "times, ours over the fastest right solver's: geometric mean "
        f"{np.exp(np.log(ratios).mean()):.2g}, "
        f"worst {max(ratios):.2g}. The gap is to the all-in-one value, the certified gap was found "
        "without it.\n\n" + common.markdown(heads, lines) + "\n\n" + between_two()
    )
