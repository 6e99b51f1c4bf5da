"""What a problem of the zoo is made of: data, distances to subdifferentials, a model on a graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.optimize

import dald_model as dm

Array = np.ndarray
Distance = Callable[[Array, int, int], float]
"""(s, i, n) -> how far s is from the subdifferential of client i of n, at the known optimum."""

ROWS = 24
"""Rows of data in a pack; 4 to 6 clients get 4 to 6 each."""


@dataclass(frozen=True)
class Built:
    """A problem on a graph, with what is known of each client.

    Attributes
    ----------
    model : dm.Model
    variables : dict
        Client -> its variable.
    points : dict
        Client -> the known optimum of that variable.
    distance : dict
        Client -> distance of a vector from the client's subdifferential at the optimum.
    maps : dict
        (client, neighbour) -> matrix of the client's side of that edge; the identity if missing.
    duals : dict
        Client -> the known dual values of its constraints; None where they are not unique.
    """

    model: dm.Model
    value: float
    variables: dict[Hashable, cp.Variable]
    points: dict[Hashable, Array]
    distance: dict[Hashable, Callable[[Array], float]]
    maps: dict[tuple[Hashable, Hashable], Array] = field(default_factory=dict)
    duals: dict[Hashable, list[Any]] = field(default_factory=dict)

    def force(self, name: Hashable, multipliers: dict[tuple[Hashable, Hashable], Array]) -> Array:
        """What the consensus constraints of a client ask of its subgradient, flat."""
        total = np.zeros(self.variables[name].size)
        for (tail, head), mu in multipliers.items():
            if name in (tail, head):
                other, sign = (head, 1.0) if name == tail else (tail, -1.0)
                total -= sign * self.maps.get((name, other), np.eye(total.size)).T @ mu
        return total


@dataclass(frozen=True)
class Shared:
    """A problem in one variable that all clients share.

    Attributes
    ----------
    share : callable
        (variable, i, n) -> objective and constraints of client ``i`` of ``n``.
    value, point :
        The known answer.
    distance : Distance
    attributes : dict
        Of the variable.
    duals : callable
        Client ``i`` of ``n`` -> the known dual values of its constraints; None where they are not
        unique.
    """

    name: str
    shape: tuple[int, ...]
    share: Callable[[cp.Variable, int, int], tuple[Any, list[Any]]]
    value: float
    point: Array
    distance: Distance
    attributes: dict[str, bool] = field(default_factory=dict)
    duals: Callable[[int, int], list[Any]] | None = None

    def on(self, graph: nx.Graph, style: str = "default") -> Built:
        """Put the problem on a graph.

        ``style`` is "peers" (every client its own variable, equalities along the edges),
        "topology" (one shared variable and ``model.topology``), "shared" (one shared variable,
        a server is made) or "server" (an explicit server). For the last two the hub of the star is
        the server, which is the default there; the default elsewhere is "peers".
        """
        hub = "hub" in graph
        style = ("shared" if hub else "peers") if style == "default" else style
        names = [name for name in graph if not (hub and name == "hub")]
        model = dm.Model(self.name)
        one = self._variable("w")
        variables = {name: self._variable(f"x{name}") for name in names}
        if style in ("shared", "topology"):
            variables = dict.fromkeys(names, one)
        for at, name in enumerate(names):
            model.client(name, *self.share(variables[name], at, len(names)))
        if style == "peers":
            model.consensus(*[variables[a] == variables[b] for a, b in graph.edges])
        elif style == "topology":
            model.topology(graph)
        elif style == "server":
            z = cp.Variable(self.shape, name="z")
            model.consensus(*[z == x for x in variables.values()])
        maps: dict[tuple[Hashable, Hashable], Array] = {}
        if self.attributes == {"symmetric": True} and style in ("shared", "topology"):
            # Of one shared matrix clients agree on the upper triangle
            whole = np.eye(one.size)
            is_upper = np.triu(np.ones(self.shape)).ravel(order="F") > 0
            maps = {(a, b): whole[is_upper] for a in names for b in (*names, "server")}
        distance = {
            name: (lambda s, at=at: self.distance(s, at, len(names)))
            for at, name in enumerate(names)
        }
        return Built(
            model,
            self.value,
            variables,
            dict.fromkeys(names, self.point),
            distance,
            maps,
            duals={name: self.duals(at, len(names)) for at, name in enumerate(names) if self.duals},
        )

    def _variable(self, name: str) -> cp.Variable:
        return cp.Variable(self.shape, name=name, **self.attributes)


def data(columns: int, seed: int, noise: float = 0.5) -> tuple[Array, Array]:
    """A regression: rows of features and what a sparse truth makes of them, with noise."""
    generator = np.random.default_rng(seed)
    A = generator.normal(size=(ROWS, columns))
    truth = np.where(np.arange(columns) % 2 == 0, 1.5, 0.0)
    return A, A @ truth + noise * generator.normal(size=ROWS)


@dataclass(frozen=True)
class Smooth:
    """Distance where the subdifferential is one vector, the gradient ``of(i, n)``."""

    of: Callable[[int, int], Array]

    def __call__(self, s: Array, i: int, n: int) -> float:
        """See :data:`Distance`."""
        return float(np.abs(s - self.of(i, n).reshape(-1, order="F")).max())


def polyhedral(parts: Callable[[int, int], tuple[Array, Array, Array, Array]]) -> Distance:
    r"""For :math:`\{g + Z\theta : l \le \theta \le u\}`: a least squares problem with bounds."""

    def distance(s: Array, i: int, n: int) -> float:
        g, Z, low, high = parts(i, n)
        if Z.shape[1] == 0:
            return float(np.abs(s - g).max())
        free = (low, np.where(high > low, high, np.nextafter(low, np.inf)))
        theta = scipy.optimize.lsq_linear(Z, s - g, free, method="bvls", tol=1e-15).x
        return float(np.abs(s - g - Z @ theta).max())

    return distance


def newton(w: Array, gradient: Callable[[Array], Array], hessian: Callable[[Array], Array]):
    """Three Newton steps: from a library's ten digits to all of them."""
    for _ in range(3):
        w = w - np.linalg.solve(hessian(w), gradient(w))
    return w
