"""Clients that share parts only, by linear systems of the whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from tests.problems.base import Array, Built


@dataclass(frozen=True)
class Overlap:
    """Client i has one entry of its own and two for each neighbour: ``x0[1:3] == x1[3:5]``.

    Normal equations of the whole; each multiplier is the gradient of one client in the entries
    that it shares with the other, whatever the graph.
    """

    name: str = "partial overlap"

    def on(self, graph: nx.Graph) -> Built:
        """Put the problem on a graph."""
        generator = np.random.default_rng(18)
        edges = list(graph.edges)
        model, start = dm.Model(self.name), len(graph)
        places: dict[Hashable, list[int]] = {name: [at] for at, name in enumerate(graph)}
        slots: dict[tuple[Hashable, Hashable], slice] = {}
        for a, b in edges:
            for one, two in ((a, b), (b, a)):
                slots[one, two] = slice(len(places[one]), len(places[one]) + 2)
                places[one] += [start, start + 1]
            start += 2
        data = {
            name: (
                generator.normal(size=(len(at) + 3, len(at))),
                generator.normal(size=len(at) + 3),
            )
            for name, at in places.items()
        }
        stacked = np.vstack([A @ np.eye(start)[places[name]] for name, (A, _) in data.items()])
        target = np.concatenate([b for _, b in data.values()])
        z = np.linalg.lstsq(stacked, target)[0]
        x = {name: cp.Variable(len(at), name=f"x{name}") for name, at in places.items()}
        for name, (A, b) in data.items():
            model.client(name, cp.sum_squares(A @ x[name] - b))
        model.consensus(*[x[a][slots[a, b]] == x[b][slots[b, a]] for a, b in edges])
        points = {name: z[at] for name, at in places.items()}
        maps = {pair: np.eye(len(places[pair[0]]))[slot] for pair, slot in slots.items()}
        return Built(
            model,
            float(np.sum((stacked @ z - target) ** 2)),
            x,
            points,
            _gradients(data, points),
            maps,
        )


@dataclass(frozen=True)
class Unequal:
    """Clients of two and three dimensions agree on two: ``M @ x == y``, ``M @ x == N @ y``.

    The linear system of optimality (KKT) of the whole, with the common summary as an unknown.
    """

    name: str = "unequal dimensions"

    def on(self, graph: nx.Graph) -> Built:
        """Put the problem on a graph."""
        generator = np.random.default_rng(19)
        model, data, maps, x = dm.Model(self.name), {}, {}, {}
        for at, name in enumerate(graph):
            size = 2 + at % 2
            data[name] = generator.normal(size=(size + 2, size)), generator.normal(size=size + 2)
            maps[name] = generator.normal(size=(2, 3)) + np.eye(2, 3) if size == 3 else np.eye(2)
            x[name] = cp.Variable(size, name=f"x{name}")
        sizes = [v.size for v in x.values()]
        total, n = sum(sizes), len(sizes)
        hessian, linear = np.zeros((total + 2, total + 2)), np.zeros(total + 2)
        rules = np.zeros((2 * n, total + 2))
        cuts = np.cumsum([0, *sizes])
        for at, name in enumerate(graph):
            mine = slice(cuts[at], cuts[at + 1])
            A, b = data[name]
            hessian[mine, mine], linear[mine] = 2 * A.T @ A, 2 * A.T @ b
            rules[2 * at : 2 * at + 2, mine] = maps[name]
            rules[2 * at : 2 * at + 2, total:] = -np.eye(2)
        system = np.block([[hessian, rules.T], [rules, np.zeros((2 * n, 2 * n))]])
        answer = np.linalg.solve(system, np.concatenate([linear, np.zeros(2 * n)]))
        points = {name: answer[cuts[at] : cuts[at + 1]] for at, name in enumerate(graph)}
        value = sum(np.sum((A @ points[name] - b) ** 2) for name, (A, b) in data.items())
        for name, (A, b) in data.items():
            model.client(name, cp.sum_squares(A @ x[name] - b))
        side = {name: x[name] if x[name].size == 2 else maps[name] @ x[name] for name in graph}
        model.consensus(*[side[a] == side[b] for a, b in graph.edges])
        pairs = {(a, b): maps[a] for one, two in graph.edges for a, b in ((one, two), (two, one))}
        return Built(model, float(value), x, points, _gradients(data, points), pairs)


def _gradients(
    data: dict[Hashable, tuple[Array, Array]], points: dict[Hashable, Array]
) -> dict[Hashable, Callable[[Array], float]]:
    slopes = {name: 2 * A.T @ (A @ points[name] - b) for name, (A, b) in data.items()}
    return {name: (lambda s, g=g: float(np.abs(s - g).max())) for name, g in slopes.items()}


@cache
def partial_overlap() -> Overlap:
    return Overlap()


@cache
def unequal_dimensions() -> Unequal:
    return Unequal()
