"""Models of data dealt to a graph, and how two runs of one are told to be the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm

Array = np.ndarray

NATURAL = dm.Sequence.natural()
ONE = dm.FixedBudget(1)
EXACT = ("outer", "inner", "primal", "dual", "primal_scaled", "slack", "objective", "rho")
COUNTED = ("solved", "absent", "who", "fallbacks")
ARRAYS = ("sides", "received", "mu", "rho", "points", "objectives", "slack")
ULPS = 8 * np.finfo(float).eps
"""Of ``dual_scaled``: three products and a quotient in either order."""
ROUNDING = 1e-12
"""Of sessions that begin warm, relative to max(1, size)."""


# --- models ---------------------------------------------------------------------------------------


def deal(graph: nx.Graph, kinds: str = "s", m: int = 3, seed: int = 0) -> dm.Model:
    """Data dealt to the nodes, which agree along the edges.

    A letter a kind, in turn: least squares (s), with rows (r), with absolute values (a), a
    logistic loss (l).
    """
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=m)
    x = {node: cp.Variable(m, name=f"x{node}") for node in graph}
    model = dm.Model("dealt")
    for at, (node, v) in enumerate(x.items()):
        kind = kinds[at % len(kinds)]
        A = generator.normal(size=(2 * m, m))
        b = A @ truth + generator.normal(size=2 * m)
        cost = cp.sum_squares(A @ v - b)
        if kind == "a":
            cost = cost + 3 * cp.norm1(v)
        if kind == "l":
            cost = cp.sum(cp.logistic(cp.multiply(-np.sign(b), A @ v))) + cp.sum_squares(v)
        model.client(node, cost, [v >= 0, cp.sum(v) <= 1] if kind == "r" else [])
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model


def hospitals(sharing: int, count: int = 10) -> dm.Model:
    """A chain of peers of whom some use one variable as well, which has a server."""
    generator = np.random.default_rng(1)
    model, w = dm.Model("hospitals"), cp.Variable(2, name="w")
    z = [cp.Variable(2, name=f"z{at}") for at in range(count)]
    for at, v in enumerate(z):
        A, b = generator.normal(size=(2, 5, 2)), generator.normal(size=(2, 5))
        cost = cp.sum_squares(A[1] @ v - b[1])
        model.client(at, cost + cp.sum_squares(A[0] @ w - b[0]) if at < sharing else cost)
    model.consensus(*[one == two for one, two in pairwise(z)])
    return model


def sparse() -> nx.Graph:
    """A chain with random chords, some of which close odd cycles."""
    graph = nx.compose(nx.gnp_random_graph(20, 0.12, seed=2), nx.path_graph(20))
    assert not nx.is_bipartite(graph)
    return graph


CHAIN = nx.path_graph(12)


def same(one: dm.Result, two: dm.Result, exactly: bool = True) -> None:
    """Overlapped and serial: how the run ended, the history, the answer and the last iterate."""
    said = ("status", "rounds", "answer_round", "culprit", "detail", "eps_pri", "eps_dual")
    assert [getattr(one, n) for n in said] == [getattr(two, n) for n in said]
    for name in COUNTED:
        assert one.history[name].tolist() == two.history[name].tolist(), name
    for name in EXACT:
        _alike(one.history[name], two.history[name], 0.0 if exactly else ROUNDING, name)
    slack = ULPS if exactly else ROUNDING
    _alike(one.history.dual_scaled, two.history.dual_scaled, slack, "dual_scaled")
    slack = 0.0 if exactly else ROUNDING
    _alike(one.value, two.value, slack, "value")
    assert one.state is not None
    assert two.state is not None
    for name in ARRAYS:
        _alike(getattr(one.state, name), getattr(two.state, name), slack, name)
    assert one.multipliers.keys() == two.multipliers.keys()
    for ends, mu in two.multipliers.items():
        _alike(one.multipliers[ends], mu, slack, f"multipliers {ends}")
    for key, value in two.recovered.values.items():
        _alike(one.recovered.values[key], value, slack, "values")
    for key, duals in two.recovered.duals.items():
        for mine, theirs in zip(one.recovered.duals[key], duals, strict=True):
            # Multipliers are as much larger than points as the problem is curved.
            _alike(mine, theirs, 100 * slack, "duals")


def _alike(one: Any, two: Any, slack: float, what: str) -> None:
    ours, theirs = np.asarray(one, float), np.asarray(two, float)
    if slack == 0.0:
        np.testing.assert_array_equal(ours, theirs, what)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=slack, atol=slack, err_msg=what)
