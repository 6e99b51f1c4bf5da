"""Hierarchical networks: the default order, the paper's matrix, levels from a root or by hand."""

from collections.abc import Hashable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from networkx.algorithms import bipartite

import dald_model as dm
from tests.expect import near, says
from tests.schedule.numbers import model_on

CHAIN = nx.path_graph("abc")

PAPER = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]])
"""Section VI-A: node 1 before node 2 before node 3, in a chain."""


def mean(graph: nx.Graph) -> float:
    return (len(graph) + 1) / 2


# --- the default order ----------------------------------------------------------------------------

BIPARTITE: dict[str, nx.Graph] = {
    "chain": nx.path_graph(5),
    "star": nx.star_graph(4),
    "ring": nx.cycle_graph(6),
    "tree": nx.full_rary_tree(2, 7),
    "grid": nx.grid_2d_graph(2, 3),
    "complete bipartite": nx.complete_bipartite_graph(2, 3),
    "pair": nx.path_graph(2),
}
OTHER: dict[str, nx.Graph] = {
    "triangle": nx.cycle_graph(3),
    "odd ring": nx.cycle_graph(5),
    "complete": nx.complete_graph(4),
    "wheel": nx.wheel_graph(6),
}


def proper(network: dm.HierarchicalNetwork, graph: nx.Graph) -> None:
    """Definitions 2 and 3: acyclic, each edge once, levels without edges, arcs upwards."""
    assert nx.is_directed_acyclic_graph(network)
    assert {frozenset(e) for e in network.edges} == {frozenset(e) for e in graph.edges}
    assert network.number_of_edges() == graph.number_of_edges()
    level = {name: at for at, names in enumerate(network.levels) for name in names}
    assert sorted(map(repr, level)) == sorted(map(repr, graph))
    assert all(level[one] < level[two] for one, two in network.edges)


@pytest.mark.parametrize("kind", BIPARTITE)
def test_a_bipartite_graph_is_gone_through_colour_by_colour(kind: str) -> None:
    """Two-block ADMM, which converges for every penalty."""
    graph = BIPARTITE[kind]
    network = model_on(graph).compile().network
    proper(network, graph)
    assert network.is_two_block
    first, second = network.levels
    assert bipartite.is_bipartite_node_set(graph, first)
    assert bipartite.is_bipartite_node_set(graph, second)


@pytest.mark.parametrize("kind", OTHER)
def test_an_odd_cycle_gets_few_levels_and_is_not_called_two_block(kind: str) -> None:
    graph = OTHER[kind]
    network = model_on(graph).compile().network
    proper(network, graph)
    assert not network.is_two_block
    assert len(network.levels) <= max(d for _, d in graph.degree) + 1, "Brooks"


@pytest.mark.parametrize("kind", [*BIPARTITE, *OTHER])
def test_the_default_order_reaches_the_mean(kind: str) -> None:
    graph = (BIPARTITE | OTHER)[kind]
    model = model_on(graph)
    result = model.solve()
    assert result.status == "optimal"
    assert [result[v] for v in model.monolithic().variables()] == near([mean(graph)] * len(graph))


def test_the_server_comes_last() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.square(w - i))
    network = model.compile().network
    assert network.levels == [[0, 1, 2], ["server"]]
    assert list(network) == [0, 1, 2, "server"]
    assert network.matrix.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]


def test_which_orders_are_two_block() -> None:
    def network(graph: nx.Graph, levels: list[list[Hashable]]) -> dm.HierarchicalNetwork:
        return dm.Sequence.levels(levels).network(graph)

    ring = nx.cycle_graph(4)
    assert network(ring, [[0, 2], [1, 3]]).is_two_block
    assert not network(ring, [[0], [1], [2], [3]]).is_two_block
    assert network(nx.path_graph(4), [[0], [1], [2], [3]]).is_two_block, "a tree: any order"


# --- the hierarchical matrix ----------------------------------------------------------------------


def test_the_papers_matrix_makes_the_round_trip() -> None:
    sequence = dm.Sequence.from_matrix(PAPER)
    network = sequence.network(CHAIN)
    assert network.levels == [["a"], ["b"], ["c"]]
    assert list(network.edges) == [("a", "b"), ("b", "c")]
    assert (network.matrix == PAPER).all()
    assert network.matrix.dtype.kind == "i"
    model = model_on(CHAIN)
    result = model.solve(sequence=sequence)
    assert result.value == near(2.0)
    assert result.verify().ok


def test_the_default_matrix_of_a_chain() -> None:
    """The middle is solved last: both ends are its direct descendants."""
    network = model_on(CHAIN).compile().network
    assert network.levels == [["a", "c"], ["b"]]
    assert network.matrix.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    again = dm.Sequence.from_matrix(network.matrix).network(CHAIN)
    assert again.levels == network.levels


@pytest.mark.parametrize("kind", [*BIPARTITE, *OTHER])
def test_every_matrix_makes_the_round_trip(kind: str) -> None:
    graph = (BIPARTITE | OTHER)[kind]
    network = dm.Sequence.natural().network(graph)
    proper(network, graph)
    matrix = network.matrix
    assert (np.diag(matrix) == [network.out_degree(n) for n in network]).all()
    assert (np.triu(matrix) == matrix).all(), "in the order of declaration"
    again = dm.Sequence.from_matrix(matrix).network(graph)
    assert set(again.edges) == set(network.edges)
    turned = dm.Sequence.from_matrix(_turned(matrix)).network(graph)
    assert set(turned.edges) == {(b, a) for a, b in network.edges}


def _turned(matrix: np.ndarray) -> np.ndarray:
    arcs = (matrix - np.diag(np.diag(matrix))).T
    return arcs + np.diag(arcs.sum(axis=1))


@pytest.mark.parametrize(
    ("matrix", "parts"),
    [
        (np.eye(2), ["shape (2, 2), expected (3, 3)", "'a', 'b', 'c'"]),
        (np.zeros(3), ["shape (3,), expected (3, 3)", "a row and a column for each"]),
        ([[1, 2, 0], [0, 1, 1], [0, 0, 0]], ["other entries than 0 and 1", "Definition 3"]),
        ([[1, -1, 0], [0, 1, 1], [0, 0, 0]], ["other entries than 0 and 1", "direct descendant"]),
        ([[1, np.nan, 0], [0, 1, 1], [0, 0, 0]], ["other entries than 0 and 1"]),
        ([[0, 1, 0], [0, 1, 1], [0, 0, 0]], ["out-degree 0 for 'a'", "its row has 1", "same num"]),
        ([[1, 1, 0], [0, 1, 1], [0, 0, 2]], ["out-degree 2 for 'c'", "its row has 0"]),
        ([[2, 1, 1], [0, 1, 1], [0, 0, 0]], ["an edge from 'a' to 'c'", "share no", "to 0"]),
        ([[1, 1, 0], [0, 0, 0], [0, 0, 0]], ["does not order", "'b' and 'c'", "entries to 1"]),
        ([[1, 1, 0], [1, 2, 1], [0, 0, 0]], ["cycle 'a' -> 'b'", "turn one of its edges round"]),
    ],
    ids=[
        "small",
        "vector",
        "two",
        "negative",
        "nan",
        "diagonal short",
        "diagonal long",
        "extra edge",
        "missing edge",
        "cycle of two",
    ],
)
def test_what_is_no_hierarchical_matrix(matrix: Any, parts: list[str]) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        model_on(CHAIN).solve(sequence=dm.Sequence.from_matrix(matrix))
    says(caught.value, "sequence: the hierarchical matrix", *parts)


def test_a_cycle_of_three_is_shown() -> None:
    circle = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    with pytest.raises(dm.SequenceError) as caught:
        model_on(nx.complete_graph("abc")).solve(sequence=dm.Sequence.from_matrix(circle))
    says(caught.value, "the cycle 'a' -> 'b' -> 'c'", "none of them could start")


def test_the_matrix_is_copied_when_it_is_given() -> None:
    matrix = PAPER.copy()
    sequence = dm.Sequence.from_matrix(matrix)
    matrix[:] = 7
    assert sequence.network(CHAIN).levels == [["a"], ["b"], ["c"]]


def test_rows_follow_the_declaration_and_the_server_is_the_last() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    model.client("b", cp.square(w))
    model.client("a", cp.square(w - 2))
    server_first = [[0, 0, 0], [0, 0, 0], [1, 1, 2]]
    result = model.solve(sequence=dm.Sequence.from_matrix(server_first))
    assert result[w] == near(1.0)


# --- from a root ----------------------------------------------------------------------------------

SHAPES = BIPARTITE | OTHER | {"prism": nx.circular_ladder_graph(3), "petersen": nx.petersen_graph()}


@pytest.mark.parametrize("depth_first", [False, True], ids=["breadth", "depth"])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_network_branches_from_any_root(kind: str, depth_first: bool) -> None:
    """Definition 2: the root, and nobody else, hands its value to nobody."""
    graph = SHAPES[kind]
    for root in graph:
        network = dm.Sequence.from_root(root, depth_first).network(graph)
        proper(network, graph)
        assert list(network) == list(graph)
        assert [n for n in network if network.out_degree(n) == 0] == [root]
        assert network.levels[-1] == [root]
        assert network.root == root
        again = dm.Sequence.from_matrix(network.matrix).network(graph)
        assert set(again.edges) == set(network.edges)


@pytest.mark.parametrize("kind", SHAPES)
def test_breadth_first_goes_down_the_distance_in_few_levels(kind: str) -> None:
    graph = SHAPES[kind]
    for root in graph:
        network = dm.Sequence.from_root(root).network(graph)
        far = nx.single_source_shortest_path_length(graph, root)
        assert all(far[one] >= far[two] for one, two in network.edges)
        least = max(far.values()) + 1
        rings = [graph.subgraph(n for n in graph if far[n] == d) for d in range(least)]
        colours = sum(1 + max(d for _, d in ring.degree) for ring in rings)
        assert least <= len(network.levels) <= colours, "greedy colours: at most 1 + degree"
        if kind in BIPARTITE:
            assert len(network.levels) == least


@pytest.mark.parametrize(
    ("graph", "root", "depth_first", "levels"),
    [
        (nx.path_graph("abcde"), "c", False, ["ae", "bd", "c"]),
        (nx.path_graph("abcde"), "a", False, ["e", "d", "c", "b", "a"]),
        (nx.cycle_graph(5), 0, False, [[2], [1, 3], [4], [0]]),
        (nx.cycle_graph(5), 0, True, [[4], [3], [2], [1], [0]]),
        (nx.complete_graph("abc"), "b", False, ["a", "c", "b"]),
        (nx.star_graph(3), 0, False, [[1, 2, 3], [0]]),
        (nx.star_graph(3), 2, False, [[1, 3], [0], [2]]),
        (nx.cycle_graph(6), 0, False, [[3], [2, 4], [1, 5], [0]]),
        (nx.cycle_graph(6), 0, True, [[5], [4], [3], [2], [1], [0]]),
    ],
)
def test_levels_from_a_root_by_hand(
    graph: nx.Graph, root: Hashable, depth_first: bool, levels: list[Any]
) -> None:
    found = dm.Sequence.from_root(root, depth_first=depth_first).network(graph).levels
    assert [set(level) for level in found] == [set(level) for level in levels]


def test_a_client_next_to_the_root_may_start_at_once() -> None:
    """Of the branches c - b - root and d - root, d waits for nobody."""
    graph = nx.Graph([("root", "b"), ("b", "c"), ("root", "d")])
    network = dm.Sequence.from_root("root").network(graph)
    assert [set(level) for level in network.levels] == [{"c", "d"}, {"b"}, {"root"}]


def test_which_client_is_the_root() -> None:
    chain = nx.path_graph("dcba")
    two_roots = dm.Sequence.levels(["db", "ca"]).network(chain)
    assert [n for n in two_roots if two_roots.out_degree(n) == 0] == ["c", "a"]
    assert two_roots.root == "a", "of c and a on the last level the one declared last"
    assert dm.Sequence.natural().network(chain).root == "a"
    uneven = dm.Sequence.levels(["da", "b", "c"]).network(chain)
    assert uneven.root == "c"
    w = cp.Variable()
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.square(w - i))
    assert model.compile().network.root == "server"


@pytest.mark.parametrize("root", ["z", 1, ["a"], None])
def test_a_root_that_is_no_client(root: Any) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        model_on(CHAIN).solve(sequence=dm.Sequence.from_root(root))
    says(caught.value, f"sequence: the root {root!r} is no client", "one of 'a', 'b', 'c'")


@pytest.mark.parametrize("depth_first", [False, True], ids=["breadth", "depth"])
def test_a_root_from_which_not_everybody_is_reached(depth_first: bool) -> None:
    apart = nx.Graph([("a", "b"), ("c", "d")])
    with pytest.raises(dm.SequenceError) as caught:
        dm.Sequence.from_root("b", depth_first).network(apart)
    says(caught.value, "'c', 'd' cannot be reached from the root 'b'", "Remark 1", "between the")


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "levels",
    [[["a", "c"], ["b"]], [["b"], ["a", "c"]], [["c"], ["b"], ["a"]], [{"a"}, "b", ("c",)]],
)
def test_levels_in_any_order_and_container(levels: Any) -> None:
    result = model_on(CHAIN).solve(sequence=dm.Sequence.levels(levels))
    assert result.status == "optimal"
    assert result.value == near(2.0)


def test_levels_direct_every_edge_upwards() -> None:
    network = dm.Sequence.levels([["b"], ["a", "c"]]).network(CHAIN)
    assert set(network.edges) == {("b", "a"), ("b", "c")}
    assert network.levels == [["b"], ["a", "c"]]


@pytest.mark.parametrize(
    ("levels", "parts"),
    [
        ([["a"], ["b"]], ["'c' is never visited", "Remark 1", "add it to a level"]),
        ([], ["'a', 'b', 'c' is never visited"]),
        ([["a"], ["b"], ["c", "z"]], ["'z' on level 3 is no client", "among 'a', 'b', 'c'"]),
        ([["a"], ["b"], ["c"], ["a"]], ["'a' stands on level 1 and again on level 4", "repeat"]),
        ([["a", "b"], ["c"]], ["neighbours 'a' and 'b' stand together on level 1", "different"]),
    ],
    ids=["never visited", "empty", "stranger", "twice", "neighbours"],
)
def test_levels_that_do_not_fit(levels: Any, parts: list[str]) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        model_on(CHAIN).solve(sequence=dm.Sequence.levels(levels))
    says(caught.value, "sequence:", *parts)


def test_the_natural_order() -> None:
    network = dm.Sequence.natural().network(nx.path_graph(["c", "a", "b"]))
    assert network.levels == [["c"], ["a"], ["b"]]
    assert model_on(nx.cycle_graph(5)).solve(sequence=dm.Sequence.natural()).value == near(10.0)
