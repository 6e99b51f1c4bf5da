"""Script of the tests of peers: every rank has its clients, and rank 0 compares with one process.

What a rank has to say it prints in one line after "told:".
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable
from itertools import combinations
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.coordinate.peers import AmongPeers
from dald_model.coordinate.state import State
from dald_model.engines.mpi_ranks import Peers

WIDTH = 3
PLAIN: dict[str, Any] = {
    "acceleration": None,
    "rho": 1.0,
    "stopping": dm.FixedBudget(1),
    "accuracy": 1e-13,
    "eps_pri": 0.0,
    "eps_dual": 0.0,
    "max_rounds": 25,
}
GRAPHS = {
    "path": nx.path_graph(12),
    "ring": nx.cycle_graph(range(1, 19, 2)),
    "grid": nx.grid_2d_graph(3, 4),
}


def client(name: Any, x: cp.Variable) -> tuple[cp.Expression, list[Any]]:
    """One of two kinds, with data of its own; on the ring all have an exact solver."""
    rng = np.random.default_rng(name)
    A, b = rng.normal(size=(8, WIDTH)), rng.normal(size=8)
    if np.sum(name) % 2:
        return cp.sum_squares(A @ x - b), [x >= -0.2]
    return cp.sum(cp.logistic(A @ x)) + cp.sum_squares(x - b[:WIDTH]), []


def whole(graph: nx.Graph) -> tuple[dm.Model, dict[Hashable, cp.Variable]]:
    """All clients in one process; an edge is on two of the variables."""
    model, x = dm.Model("whole"), {n: cp.Variable(WIDTH, name=f"x{n}") for n in graph}
    for name in graph:
        model.client(name, *client(name, x[name]))
    pairs = [(one, two) for one, two in combinations(graph, 2) if graph.has_edge(one, two)]
    model.consensus(*(x[one][:2] == x[two][:2] for one, two in pairs))
    return model, x


def part(graph: nx.Graph) -> tuple[dm.Peer, dict[Hashable, cp.Variable]]:
    """The clients of this rank, as many in a row at each."""
    peer, x = dm.Peer("part"), {}
    shares = np.array_split(np.arange(len(graph)), peer.size)
    owner = {list(graph)[at]: rank for rank, share in enumerate(shares) for at in share}
    for name in graph:
        if owner[name] == peer.rank:
            x[name] = cp.Variable(WIDTH, name=f"x{name}")
            peer.client(name, *client(name, x[name]))
    for one, two in graph.edges:
        if one in x and two in x:
            peer.consensus(x[one][:2] == x[two][:2])
        elif one in x or two in x:
            mine, other = (one, two) if one in x else (two, one)
            peer.agree_with(other, x[mine][:2])
    return peer, x


def gathered(own: Any) -> list[Any]:
    """What each rank has; for the tests alone it goes by pickle."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.allgather(own)


def close(one: Any, two: Any) -> None:
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def same_iterates(name: str, **options: Any) -> None:
    """After a fixed number of rounds, to 1e-12, with the history and the multipliers."""
    graph = GRAPHS[name]
    peer, x = part(graph)
    options = PLAIN | options
    mine = peer.solve(**options)
    values = gathered({name: v.value for name, v in x.items()})
    prices = gathered(mine.multipliers)
    if peer.rank == 0:
        model, y = whole(graph)
        all_ = model.solve(**options)
        for one in values:
            for owner, value in one.items():
                close(value, y[owner].value)
        for one in prices:
            for (tail, head), price in one.items():
                is_alike = (tail, head) in all_.multipliers
                ends = (tail, head) if is_alike else (head, tail)
                close(price if is_alike else -price, all_.multipliers[ends])
        columns = ["primal", "dual", "objective"]
        if name == "ring":  # where solvers are exact nothing is measured in one process either
            columns += ["primal_scaled", "dual_scaled"]
        for column in columns:
            close(mine.history[column], all_.history[column])
        close(mine.value, all_.value)
        print("told:", name, "same", mine.status, flush=True)


def ends_alike(name: str) -> None:
    """By its tolerances, with balanced penalties, at the optimum."""
    graph = GRAPHS[name]
    peer, x = part(graph)
    mine = peer.solve(eps_pri=1e-7, eps_dual=1e-7)
    again = peer.solve(start=mine)
    plain = peer.solve(acceleration=None)
    with tempfile.TemporaryDirectory() as folder:
        mine.save(path := Path(folder) / f"{peer.rank}.npz")
        saved = peer.solve(start=dm.load(path, peer))
    said = [(str(r.status), r.rounds, r.value) for r in (plain, mine, again, saved)]
    assert all(one == said for one in gathered(said)), "ranks differ"
    values = gathered({name: v.value for name, v in x.items()})
    if peer.rank == 0:
        model, y = whole(graph)
        problem = model.monolithic()
        problem.solve(cp.CLARABEL)
        apart = max(np.abs(v - y[n].value).max() for one in values for n, v in one.items())
        assert apart < 1e-5, apart
        np.testing.assert_allclose(mine.value, np.asarray(problem.value), rtol=1e-6)
        without, first, *later = [rounds for _, rounds, _ in said]
        assert {status for status, *_ in said} == {"optimal"}
        assert max(later) < first < without, said
        print("told:", name, "optimal", flush=True)


def who_holds_what() -> None:
    """The state is of own clients, their edges and the other ends of these."""
    graph = nx.path_graph(40)
    peer, x = part(graph)
    sent = []
    swapped = Peers.swapped

    def counted(self: Peers, outgoing: Any, incoming: Any) -> Any:
        sent.append(sum(values.size for values in outgoing.values()))
        return swapped(self, outgoing, incoming)

    Peers.swapped = counted
    mine = peer.solve(**PLAIN)
    Peers.swapped = swapped
    cut = 1 if peer.rank in (0, peer.size - 1) else 2
    state = mine.state
    assert state is not None
    assert len(x) == 40 // peer.size
    assert state.points.size == WIDTH * len(x) + 2 * cut
    assert state.mu.size == state.rho.size == 2 * (len(x) - 1 + cut)
    assert state.sides.shape == state.received.shape == (2, state.mu.size)
    compiled = whole(graph)[0].compile()
    all_ = State.start(compiled, np.ones(compiled.size))
    for name, array in vars(all_).items():
        if np.size(array) > 1:
            assert np.size(getattr(state, name)) < np.size(array)
    assert sum(sent) == PLAIN["max_rounds"] * 2 * cut
    assert isinstance(state.reduce, AmongPeers)
    everybody = gathered(True)
    if peer.rank == 0 and all(everybody):
        print("told: parts", flush=True)


def failing() -> None:
    """A client of the last rank that has no point ends the run of all, and is named to all."""
    peer = dm.Peer("failing")
    x = cp.Variable(name="x")
    rules = [x >= 1, x <= 0] if peer.rank == peer.size - 1 else []
    peer.client(peer.rank, cp.square(x), rules)
    for other in {peer.rank - 1, peer.rank + 1} & set(range(peer.size)):
        peer.agree_with(other, x)
    mine = peer.solve()
    said = str(mine.status), mine.culprit, "no point satisfies its own constraints" in mine.detail
    assert said == ("infeasible", peer.size - 1, True), said
    assert peer.solve(max_rounds=1).status == "infeasible"
    if peer.rank == 0:
        print("told: failed", flush=True)


def refused() -> None:
    """What ranks declare of an edge has to be the same, and all of them say so."""
    peer = dm.Peer("refused")
    x = cp.Variable(2, name="x")
    peer.client(peer.rank, cp.sum_squares(x))
    for other in {peer.rank - 1, peer.rank + 1} & set(range(peer.size)):
        peer.agree_with(other, x[:1] if (peer.rank, other) == (1, 0) else x)
    try:
        peer.solve()
    except dm.DeclarationError as error:
        said = gathered(str(error))
        if peer.rank == 0 and {*said} == {str(error)}:
            print("told:", error, flush=True)


if __name__ == "__main__":
    for name in GRAPHS:
        same_iterates(name)
    same_iterates("grid", acceleration=dm.Anderson(), max_rounds=8)
    who_holds_what()
    ends_alike("grid")
    failing()
    refused()
