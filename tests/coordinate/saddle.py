r"""Saddle points of zoo problems, and the Lyapunov function V measured from them along a run.

The saddle point is not this package's. Its points are the zoo's known answers. Its multipliers
are, where objectives have gradients, the shortest with :math:`A^\top\mu = -\nabla f(x^*)` for
:math:`\mathcal C = Ax`, by numpy; else the duals that Clarabel gives :math:`\mathcal C = 0` in the
all-in-one problem. The zoo's ``distance`` says how far they are from being multipliers, :math:`d_i`
for a client. A run's points are looked at through ``metrics``, its multipliers are replayed by (15)
from these.

With a saddle point that is :math:`d_i` off, the proof of
:mod:`dald_model.coordinate.convergence` gives

.. math::
    V^+ \le V - \sum_e w |a^+ - b|^2 - (1 - \sigma) \sum_e w |r|^2
    + 2 \sum_i d_i |x_i^+ - x_i^*|_1,

and so do clients that leave a gradient of :math:`d_i`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.zoo import GRAPHS, PROBLEMS, Array, Built

ONE = dm.FixedBudget(1)
CLIENT = 1e-10
"""The gradient that an exact client leaves, relative to the largest met."""
ROUNDING = 1e-13
"""Of a few hundred products and sums in V, relative to its largest term."""
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
SMOOTH = ("least_squares", "huber", "logistic", "partial_overlap", "unequal_dimensions")
"""Problems of the zoo whose objectives have gradients and no constraints."""


def _set(built: Built, compiled: dm.Compiled) -> dict[Hashable, Array]:
    """Client -> its variables at the known answer, where they are left."""
    points = {}
    for name, sub in compiled.items():
        at = built.points.get(name, next(iter(built.points.values())))  # a server's is all clients'
        points[name] = np.concatenate([np.ravel(at, order="F")])
        for variable in sub.variables:
            variable.save_value(sub.spread(points[name])[variable.id])
    return points


def _map(compiled: dm.Compiled, name: Hashable) -> tuple[Array, Array]:
    """A client's sides of its edges, G x + g, by cvxpy from what the user wrote: G and g."""
    sub, mine = compiled[name], [e for e in compiled.edges if name in e.ends]
    kept, columns = sub.point(), []

    def sides(x: Array) -> Array:
        for variable in sub.variables:
            variable.save_value(sub.spread(x)[variable.id])
        values: list[Any] = [e.side(name).value for e in mine]
        return np.concatenate([np.ravel(value) for value in values])

    offset = sides(np.zeros(sub.size))
    columns = [sides(x) - offset for x in np.eye(sub.size)]
    for variable in sub.variables:
        variable.save_value(sub.spread(kept)[variable.id])
    return np.array(columns).T, offset


def _slots(compiled: dm.Compiled, name: Hashable) -> tuple[Array, Array]:
    """The entries of a client's edges, and +1 where it is the tail, -1 where the head."""
    mine = [e for e in compiled.edges if name in e.ends]
    places = [np.arange(compiled.size)[compiled.slots[e.ends]] for e in mine]
    signs = [np.full(e.size, 1.0 if name == e.tail else -1.0) for e in mine]
    return np.concatenate(places), np.concatenate(signs)


class Saddle(NamedTuple):
    points: dict[Hashable, Array]
    mu: Array
    off: dict[Hashable, float]
    maps: dict[Hashable, tuple[Array, Array]]


def _gap(edge: dm.Edge) -> Any:
    return edge.side(edge.tail) - edge.side(edge.head)


def saddle_of(name: str, built: Built, compiled: dm.Compiled) -> Saddle:
    points = _set(built, compiled)
    maps = {client: _map(compiled, client) for client in compiled}
    if name in SMOOTH:
        A, slopes = [], []
        for client, sub in compiled.items():
            places, signs = _slots(compiled, client)
            part = np.zeros((compiled.size, sub.size))
            part[places] = signs[:, None] * maps[client][0]
            A.append(part)
            known = {} if sub.client.is_server else sub.client.cost.grad
            given = [np.ravel(known[v].toarray()) for v in sub.variables if v in known]
            slopes.append(np.concatenate(given) if given else np.zeros(sub.size))
        mu = np.linalg.lstsq(np.hstack(A).T, -np.concatenate(slopes))[0]
    else:
        clients = [sub.client for sub in compiled.values()]
        ties = [_gap(edge) == 0 for edge in compiled.edges]
        goal = sum(one.cost for one in clients if not one.is_server)
        rules = [rule for one in clients for rule in one.constraints]
        cp.Problem(cp.Minimize(goal), [*rules, *ties]).solve(solver=cp.CLARABEL, **TIGHT)
        duals: list[Any] = [tie.dual_value for tie in ties]
        mu = np.concatenate([np.ravel(dual) for dual in duals])
    by_edge = {ends: mu[slot] for ends, slot in compiled.slots.items()}
    off = {n: built.distance[n](built.force(n, by_edge)) for n in built.distance}
    for server in compiled.servers:
        places, signs = _slots(compiled, server)
        off[server] = float(np.abs(maps[server][0].T @ (signs * mu[places])).max())
    return Saddle(points, mu, off, maps)


class Path(NamedTuple):
    """V before each sweep and after the last, what each is to fall by, and what it may lack."""

    V: Array
    falls: Array
    slack: Array


def path_of(
    name: str,
    graph: str,
    sequence: dm.Sequence,
    rounds: int,
    spread: float = 3.0,
    scale: float = 1.0,
    **options: Any,
) -> Path:
    """V sweep after sweep; uneven penalties, entry by entry, but for ``spread`` 1."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    compiled = built.model.compile()
    saddle = saddle_of(name, built, compiled)
    homes = {
        client: built.variables.get(client, next(iter(built.variables.values())))
        for client in compiled
    }

    def look(iterate: dm.Iterate) -> Any:
        found = {}
        for client, variable in homes.items():
            is_server = client in compiled.servers
            value = iterate[variable] if is_server else iterate.copies(variable)[client]
            found[client] = np.ravel(value, order="F").copy()
        return found

    uneven = np.random.default_rng(2).uniform(-0.5, 0.5, compiled.size)
    rho = scale * spread**uneven
    result = built.model.solve(
        sequence=sequence, rho=rho, metrics={"x": look}, max_rounds=rounds,
        **{"stopping": ONE, "accuracy": 1e-10, "eps_pri": 0.0, "eps_dual": 0.0} | options,
    )  # fmt: skip
    network = sequence.network(compiled.graph, compiled.servers)
    rank = {client: at for at, level in enumerate(network.levels) for client in level}
    later = np.zeros(compiled.size, dtype=int)
    for edge in compiled.edges:
        later[compiled.slots[edge.ends]] = int(rank[edge.head] > rank[edge.tail])

    def sides(points: dict[Hashable, Array]) -> Array:
        values = np.empty((2, compiled.size))
        for client, (G, g) in saddle.maps.items():
            places, signs = _slots(compiled, client)
            values[(signs < 0).astype(int), places] = G @ points[client] + g
        return values

    at, w = np.arange(compiled.size), 2 * rho**2
    step = options.get("algorithm", dm.DALD()).dual_step
    best = sides(saddle.points)
    np.testing.assert_allclose(best[0], best[1], atol=1e-12)

    def lyapunov(mu: Array, b: Array) -> float:
        return float(((mu - saddle.mu) ** 2 / (step * w) + w * (b - best[later, at]) ** 2).sum())

    mu = np.zeros(compiled.size)
    b = sides({client: np.zeros(sub.size) for client, sub in compiled.items()})[later, at]
    path, falls, slack, steep = [lyapunov(mu, b)], [], [], float(np.abs(saddle.mu).max())
    for points in result.history.x:
        now = sides(points)
        a = now[1 - later, at]
        gap = now[0] - now[1]
        falls.append(float((w * (a - b) ** 2).sum() + (1 - step) * (w * gap**2).sum()))
        steep = max(steep, float(np.abs(mu + w * gap).max()), float((w * np.abs(a - b)).max()))
        away = {n: np.abs(points[n] - saddle.points[n]).sum() for n in points}
        lacks = sum(2 * (saddle.off[n] + CLIENT * steep) * away[n] for n in points)
        mu = mu + step * w * gap
        b = now[later, at]
        path.append(lyapunov(mu, b))
        prices = (np.abs(mu) + np.abs(saddle.mu)) ** 2 / (step * w)
        sizes = prices + w * (np.abs(now) + np.abs(best)).max(axis=0) ** 2
        slack.append(lacks + ROUNDING * float(sizes.sum()))
    gap = np.subtract(*sides(result.history.x.iloc[-1]))
    ends = np.concatenate([result.multipliers[e] for e in compiled.slots])
    np.testing.assert_allclose(  # of the last round: one update, with step 1, ahead of mu
        ends, mu + (1 - step) * w * gap, rtol=1e-9, atol=1e-9 * steep
    )
    return Path(np.array(path), np.array(falls), np.array(slack))
