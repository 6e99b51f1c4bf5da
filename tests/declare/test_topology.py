"""Shared variables, and the graphs over which clients agree on them."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near, says


def sharing(*targets: float, name: str = "shared") -> tuple[dm.Model, cp.Variable]:
    w = cp.Variable(2, name="w")
    model = dm.Model(name)
    for client, t in zip("abcdef", targets, strict=False):
        model.client(client, cp.sum_squares(w - np.array([t, 2 * t])))
    return model, w


GRAPHS: dict[str, nx.Graph] = {
    "path": nx.path_graph("abcd"),
    "star": nx.star_graph("abcd"),
    "ring": nx.cycle_graph("abcd"),
    "complete": nx.complete_graph("abcd"),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_shared_variable_over_any_graph_and_back_to_a_server(kind: str) -> None:
    model, w = sharing(1, 2, 4, 9)
    graph = GRAPHS[kind]
    model.topology(graph)
    result = model.solve()
    assert nx.utils.graphs_equal(nx.Graph(model.compile().graph.edges), nx.Graph(graph.edges))
    assert result[w] == near([4.0, 8.0])
    assert all(result[name][w] == near([4.0, 8.0]) for name in "abcd")
    assert result.verify().ok
    model.topology(None)
    result = model.solve()
    assert model.compile().servers == ("server",)
    assert result[w] == near([4.0, 8.0])


def test_shared_variables_and_equalities_go_together() -> None:
    """Clients a and b share w, b and c share v, a and c agree on u: the normal equations."""
    w, v, one, two = (cp.Variable(name=n) for n in ("w", "v", "one", "two"))
    model = dm.Model()
    model.client("a", cp.square(w - 1) + cp.square(one - w))
    model.client("b", cp.square(w - v))
    model.client("c", cp.square(v - 5) + cp.square(two))
    model.consensus(one == two)
    rows = np.array([[1, 0, 0], [-1, 0, 1], [1, -1, 0], [0, 1, 0], [0, 0, 1.0]])  # w, v, u
    known = np.linalg.lstsq(rows, np.array([1, 0, 0, 5, 0.0]))[0]
    for graph in (None, nx.path_graph("abc")):
        model.topology(graph)
        result = model.solve()
        assert [result[u] for u in (w, v, one)] == near(known)
        assert result[two] == near(result[one])


def test_the_users_graph_may_change_afterwards() -> None:
    model, w = sharing(1, 2, 6)
    graph = nx.path_graph("abc")
    model.topology(graph)
    graph.remove_edge("a", "b")
    assert model.solve()[w] == near([3.0, 6.0])


@pytest.mark.parametrize(
    ("graph", "parts"),
    [
        (3, ["given int", "expected an undirected networkx.Graph"]),
        ([("a", "b")], ["given list", "expected an undirected networkx.Graph"]),
        (nx.DiGraph([("a", "b"), ("b", "c")]), ["given DiGraph", "order", "sequence"]),
        (nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")]), ["given MultiGraph", "expected an"]),
        (nx.path_graph("abcz"), ["'z' is no client of 'shared'", "among 'a', 'b', 'c'"]),
        (nx.path_graph(3), ["0, 1, 2 are no clients", "expected nodes among"]),
        (nx.path_graph("ab"), ["client 'c'", "'w'", "no node of the graph", "add it"]),
        (
            nx.Graph(list(zip("abb", "bcb", strict=True))),
            ["client 'b'", "an edge to itself", "remove it"],
        ),
        (nx.empty_graph("abc"), ["'w'", "3 parts: {'a'}; {'b'}; {'c'}", "Remark 1", "add an edge"]),
    ],
    ids=["int", "list", "directed", "multi", "stranger", "numbers", "missing", "loop", "apart"],
)
def test_a_topology_that_does_not_fit_is_refused_at_once(graph: Any, parts: list[str]) -> None:
    model, w = sharing(1, 2, 6)
    with pytest.raises(dm.DeclarationError) as caught:
        model.topology(graph)
    says(str(caught.value), "topology", *parts)
    assert model.graph is None
    assert model.solve()[w] == near([3.0, 6.0])


def test_the_users_of_each_shared_variable_must_reach_one_another() -> None:
    v, w = cp.Variable(name="v"), cp.Variable(name="w")
    model = dm.Model()
    model.client("a", cp.square(w) + cp.square(v))
    model.client("b", cp.square(w))
    model.client("c", cp.square(v))
    with pytest.raises(dm.DisconnectedError) as caught:
        model.topology(nx.path_graph("abc"))
    says(str(caught.value), "the clients that use 'v'", "{'a'}; {'c'}", "add an edge")


def test_a_client_that_comes_after_the_topology_is_asked_for() -> None:
    model, w = sharing(1, 2, 6)
    model.topology(nx.path_graph("abc"))
    model.client("d", cp.sum_squares(w - 7))
    with pytest.raises(dm.DeclarationError) as caught:
        model.solve()
    says(str(caught.value), "topology: client 'd'", "'w'", "no node of the graph", "add it")
    model.topology(nx.path_graph("abcd"))
    assert model.solve()[w] == near([(1 + 2 + 6 + 7) / 4, (2 + 4 + 12 + 7) / 4])
