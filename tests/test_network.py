"""Hierarchical networks and sequences: the paper's matrix, levels, and who takes part when."""

import re
from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from networkx.algorithms import bipartite

import dald_model as dm
from dald_model.schedule.moment import Residuals
from dald_model.solvers import NAMED, Answers, Solver, Turn

NEAR = 1e-5
"""How far a point may be from the known one: ten times the default tolerances of ``solve``."""

PAPER = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]])
"""Section VI-A: node 1 before node 2 before node 3, in a chain."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def says(error: BaseException, *parts: str) -> None:
    for part in parts:
        assert part in str(error), f"{part!r} is not in: {error}"


def on(graph: nx.Graph) -> dm.Model:
    """One number a node, pulled to 1, 2, 3, ...: the mean wins."""
    x = {node: cp.Variable(name=f"x{node}") for node in graph}
    model = dm.Model("numbers")
    for t, (node, v) in enumerate(x.items(), start=1):
        model.client(node, cp.square(v - t))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model


def mean(graph: nx.Graph) -> float:
    return (len(graph) + 1) / 2


CHAIN = nx.path_graph("abc")


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
    network = on(graph).compile().network
    proper(network, graph)
    assert network.is_two_block
    first, second = network.levels
    assert bipartite.is_bipartite_node_set(graph, first)
    assert bipartite.is_bipartite_node_set(graph, second)


@pytest.mark.parametrize("kind", OTHER)
def test_an_odd_cycle_gets_few_levels_and_is_not_called_two_block(kind: str) -> None:
    graph = OTHER[kind]
    network = on(graph).compile().network
    proper(network, graph)
    assert not network.is_two_block
    assert len(network.levels) <= max(d for _, d in graph.degree) + 1, "Brooks"


@pytest.mark.parametrize("kind", [*BIPARTITE, *OTHER])
def test_the_default_order_reaches_the_mean(kind: str) -> None:
    graph = (BIPARTITE | OTHER)[kind]
    model = on(graph)
    result = model.solve()
    assert result.status == "optimal"
    assert [result[v] for v in model.monolithic().variables()] == near([mean(graph)] * len(graph))


@pytest.mark.parametrize("rho", [0.3, 3.0])
@pytest.mark.parametrize("kind", ["ring", "star"])
def test_the_default_order_converges_for_any_penalty_where_it_says_so(
    kind: str, rho: float
) -> None:
    result = on(BIPARTITE[kind]).solve(
        rho=rho, stopping=dm.FixedBudget(v_max=1), eps_pri=1e-4, eps_dual=1e-4
    )
    assert result.status == "optimal"


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
    model = on(CHAIN)
    result = model.solve(sequence=sequence)
    assert result.value == near(2.0)
    assert result.verify().ok


def test_the_default_matrix_of_a_chain() -> None:
    """The middle is solved last: both ends are its direct descendants."""
    network = on(CHAIN).compile().network
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
        on(CHAIN).solve(sequence=dm.Sequence.from_matrix(matrix))
    says(caught.value, "sequence: the hierarchical matrix", *parts)


def test_a_cycle_of_three_is_shown() -> None:
    circle = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    with pytest.raises(dm.SequenceError) as caught:
        on(nx.complete_graph("abc")).solve(sequence=dm.Sequence.from_matrix(circle))
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


def test_neighbours_at_equal_distance_are_split_by_colour() -> None:
    """Around the hub of a wheel lies a ring of five, which no two colours do: 3 levels below it.

    Directed from node to node the ring alone could take five.
    """
    network = dm.Sequence.from_root(0).network(nx.wheel_graph(6))
    assert len(network.levels) == 4
    assert sorted(map(len, network.levels[:-1])) == [1, 2, 2]


def test_a_client_next_to_the_root_may_start_at_once() -> None:
    """Of the branches c - b - root and d - root, d waits for nobody."""
    graph = nx.Graph([("root", "b"), ("b", "c"), ("root", "d")])
    network = dm.Sequence.from_root("root").network(graph)
    assert [set(level) for level in network.levels] == [{"c", "d"}, {"b"}, {"root"}]


@pytest.mark.parametrize("depth_first", [False, True], ids=["breadth", "depth"])
@pytest.mark.parametrize("kind", ["ring", "tree", "odd ring", "wheel"])
def test_a_sequence_from_a_root_reaches_the_mean(kind: str, depth_first: bool) -> None:
    graph = SHAPES[kind]
    root = next(iter(graph))
    result = on(graph).solve(sequence=dm.Sequence.from_root(root, depth_first=depth_first))
    assert result.status == "optimal"
    assert result.verify().ok


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
        on(CHAIN).solve(sequence=dm.Sequence.from_root(root))
    says(caught.value, f"sequence: the root {root!r} is no client", "one of 'a', 'b', 'c'")


@pytest.mark.parametrize("depth_first", [False, True], ids=["breadth", "depth"])
def test_a_root_from_which_not_everybody_is_reached(depth_first: bool) -> None:
    apart = nx.Graph([("a", "b"), ("c", "d")])
    with pytest.raises(dm.SequenceError) as caught:
        dm.Sequence.from_root("b", depth_first).network(apart)
    says(caught.value, "'c', 'd' cannot be reached from the root 'b'", "Remark 1", "between the")


# --- the five kinds of Figs. 2 and 3 --------------------------------------------------------------
# The figures' pictures are not in the paper's source. Section V-A says that (a), (b) and (e) show
# full cycles, (c) a partial cycle and (d) a selective-repetitive one; here is one of each kind.

TREE = nx.Graph([(1, 5), (2, 5), (3, 6), (4, 6), (5, 7), (6, 7)])
TREE_NODES = [1, 2, 3, 4, 5, 6, 7]

FIG_A = [  # full cycle with a server: three clients, then the server
    [1, 0, 0, 1],
    [0, 1, 0, 1],
    [0, 0, 1, 1],
    [0, 0, 0, 0],
]
FIG_B = [  # full cycle peer to peer: a chain, one client after the other
    [1, 1, 0, 0],
    [0, 1, 1, 0],
    [0, 0, 1, 1],
    [0, 0, 0, 0],
]
FIG_C = [  # partial cycle of the tree: only 1, 2 and 5 are solved
    [1, 0, 0, 0, 1, 0, 0],
    [0, 1, 0, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
]
FIG_E = [  # full cycle of a tree of three levels with root 7
    [1, 0, 0, 0, 1, 0, 0],
    [0, 1, 0, 0, 1, 0, 0],
    [0, 0, 1, 0, 0, 1, 0],
    [0, 0, 0, 1, 0, 1, 0],
    [0, 0, 0, 0, 1, 0, 1],
    [0, 0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 0, 0, 0],
]


def obeys(stages: list[list[Hashable]], names: list[Any], matrix: list[list[int]]) -> None:
    """Definitions 2 and 3 of a matrix written by hand, and the stages it allows."""
    a = np.array(matrix)
    arcs = a - np.diag(np.diag(a))
    assert (np.diag(a) == arcs.sum(axis=1)).all(), "the diagonal is the out-degree"
    stage = {name: at for at, level in enumerate(stages) for name in level}
    assert sum(map(len, stages)) == len(stage), "nobody twice"
    part = {names[i] for i in range(len(names)) if arcs[i].any() or arcs[:, i].any()}
    assert set(stage) == part
    assert all(stage[names[i]] < stage[names[j]] for i, j in np.argwhere(arcs))
    roots = [names[i] for i in range(len(names)) if names[i] in part and a[i, i] == 0]
    assert stages[-1] == roots, "the root is solved last, and alone"


def tree() -> dm.HierarchicalNetwork:
    graph = nx.Graph()
    graph.add_nodes_from(TREE_NODES)
    graph.add_edges_from(TREE.edges)
    return dm.Sequence.from_root(7).network(graph)


def stages(sequence: dm.Sequence, full: bool = False) -> list[list[Hashable]]:
    """One inner loop on the tree, where the neighbours of 1, 2 and 5 have moved most."""
    moved: dict[Hashable, float] = {1: 3, 2: 2, 3: 0, 4: 0, 5: 1, 6: 0, 7: 0}
    graph = nx.Graph()
    graph.add_nodes_from(TREE_NODES)
    graph.add_edges_from(TREE.edges)
    bound = sequence.along(dm.Sequence.from_root(7)).bind(graph)
    unknown = Residuals(*4 * [np.inf])
    return bound.stages(dm.Moment(1, 1, 1, tuple(graph), (), True, full, unknown, lambda: moved))


def test_figure_a_a_full_cycle_with_a_server() -> None:
    w = cp.Variable()
    model = dm.Model()
    for i in (1, 2, 3):
        model.client(i, cp.square(w - i))
    compiled = model.compile()
    assert compiled.network.matrix.tolist() == FIG_A
    obeys(compiled.network.levels, [1, 2, 3, "server"], FIG_A)
    from_root = dm.Sequence.from_root("server").network(compiled.graph)
    assert from_root.matrix.tolist() == FIG_A
    result = model.solve(sequence=dm.Sequence.from_matrix(FIG_A))
    assert result[w] == near(2.0)


def test_figure_b_a_full_cycle_along_a_chain() -> None:
    graph = nx.path_graph([1, 2, 3, 4])
    for sequence in (
        dm.Sequence.natural(),
        dm.Sequence.from_root(4),
        dm.Sequence.from_root(4, depth_first=True),
        dm.Sequence.from_matrix(FIG_B),
    ):
        network = sequence.network(graph)
        assert network.matrix.tolist() == FIG_B
        obeys(network.levels, [1, 2, 3, 4], FIG_B)


def test_figure_c_a_partial_cycle() -> None:
    assert stages(dm.Sequence.greedy(3)) == [[1, 2], [5]]
    obeys(stages(dm.Sequence.greedy(3)), TREE_NODES, FIG_C)
    assert stages(dm.Sequence.greedy(1)) == [[1]], "or a single subproblem"
    assert stages(dm.Sequence.greedy(3), full=True) == tree().levels, "as the last inner loop"


def test_figure_d_a_selective_repetitive_cycle() -> None:
    """It can be achieved by combining the first two: a partial cycle (c), then the full one (e)."""
    twice = stages(dm.Sequence.repeat([1, 2, 5]))
    obeys(twice[:2], TREE_NODES, FIG_C)
    obeys(twice[2:], TREE_NODES, FIG_E)
    visits = [sum(name in level for level in twice) for name in TREE_NODES]
    assert visits == [2, 2, 1, 1, 2, 1, 1]


def test_figure_e_a_full_cycle_along_a_tree() -> None:
    network = tree()
    assert network.matrix.tolist() == FIG_E
    assert [set(level) for level in network.levels] == [{1, 2, 3, 4}, {5, 6}, {7}]
    obeys(network.levels, TREE_NODES, FIG_E)
    given = dm.Sequence.from_matrix(FIG_E).network(network.to_undirected())
    assert set(given.edges) == {(1, 5), (2, 5), (3, 6), (4, 6), (5, 7), (6, 7)}
    assert given.root == 7


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "levels",
    [[["a", "c"], ["b"]], [["b"], ["a", "c"]], [["c"], ["b"], ["a"]], [{"a"}, "b", ("c",)]],
)
def test_levels_in_any_order_and_container(levels: Any) -> None:
    result = on(CHAIN).solve(sequence=dm.Sequence.levels(levels))
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
        on(CHAIN).solve(sequence=dm.Sequence.levels(levels))
    says(caught.value, "sequence:", *parts)


def test_a_sequence_is_held_against_the_graph_before_anything_is_computed() -> None:
    log = Log()
    for sequence in (
        dm.Sequence.levels([["a"]]),
        dm.Sequence.from_matrix(np.eye(3)),
        dm.Sequence.repeat(["z"]),
    ):
        with pytest.raises(dm.SequenceError):
            on(CHAIN).solve(sequence=sequence, solver=log)
    assert log.turns == []


def test_the_natural_order() -> None:
    network = dm.Sequence.natural().network(nx.path_graph(["c", "a", "b"]))
    assert network.levels == [["c"], ["a"], ["b"]]
    assert on(nx.cycle_graph(5)).solve(sequence=dm.Sequence.natural()).value == near(10.0)


# --- who is solved when ---------------------------------------------------------------------------


class Log:
    """A solver, which writes down whose turn it was."""

    name = "log"

    def __init__(self, solver: Solver = NAMED["factor"]) -> None:
        self.solver, self.batches, self.refuses = solver, solver.batches, solver.refuses
        self.turns: list[tuple[Hashable, ...]] = []

    def open(self, subproblems: Sequence[Any]) -> Any:
        session = self.solver.open(subproblems)

        def minimise(turn: Turn, tolerance: float) -> Answers:
            self.turns.append(tuple(subproblems[i].name for i in turn.which))
            return session.minimise(turn, tolerance)

        return SimpleNamespace(minimise=minimise)


def test_a_sweep_follows_the_levels_and_solves_a_level_together() -> None:
    for levels, turns in [
        ([["a", "c"], ["b"]], [("a", "c"), ("b",)]),
        ([["c"], ["b"], ["a"]], [("c",), ("b",), ("a",)]),
        ([["b"], ["c"], ["a"]], [("b",), ("a", "c")]),  # no edge between them: side by side
    ]:
        for kind in ("factor", "conic", "reference"):
            log = Log(NAMED[kind])
            on(CHAIN).solve(sequence=dm.Sequence.levels(levels), solver=log, max_rounds=2)
            assert log.turns == 2 * turns


def test_gauss_seidel_uses_the_newest_values_of_lower_levels() -> None:
    """One round from zero with rho = 1: x = (t + sum of neighbours) / (1 + degree)."""
    model = on(CHAIN)
    a, b, c = model.monolithic().variables()
    result = model.solve(sequence=dm.Sequence.natural(), rho=1.0, max_rounds=1)
    first = 1 / 2
    second = (2 + first + 0) / 3
    assert [result[a], result[b], result[c]] == near([first, second, (3 + second) / 2])
    result = model.solve(sequence=dm.Sequence.levels(["b", "ac"]), rho=1.0, max_rounds=1)
    middle = 2 / 3
    assert [result[a], result[b], result[c]] == near([(1 + middle) / 2, middle, (3 + middle) / 2])


def test_the_dual_residual_is_how_far_the_higher_neighbour_moved() -> None:
    """(A2-6): after a sweep of the chain in natural order, x_j of this sweep less that before."""
    model = on(CHAIN)
    variables = model.monolithic().variables()
    sequence, one = dm.Sequence.natural(), dm.FixedBudget(v_max=1)
    before = np.zeros(3)
    for rounds in (1, 2, 3, 4):
        result = model.solve(sequence=sequence, stopping=one, rho=1.0, max_rounds=rounds)
        now = np.array([float(result[v]) for v in variables])
        last = result.history.iloc[-1]
        assert last.dual == near(np.abs(now - before)[1:].max())
        assert last.primal == near(np.abs(np.diff(now)).max())
        before = now


SEQUENCES = {
    "random 1": dm.Sequence.random(k=1, seed=3),
    "random 2": dm.Sequence.random(k=2),
    "random all": dm.Sequence.random(k=99),
    "greedy 1": dm.Sequence.greedy(1),
    "greedy 2": dm.Sequence.greedy(k=2),
    "repeat": dm.Sequence.repeat(["b"]),
    "repeat thrice": dm.Sequence.repeat(["b", "a"], times=3),
    "repeat nobody": dm.Sequence.repeat([]),
}


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("shape", ["chain", "triangle"])
def test_partial_and_repetitive_sequences_reach_the_mean_and_verify(kind: str, shape: str) -> None:
    graph = CHAIN if shape == "chain" else nx.complete_graph("abc")
    result = on(graph).solve(sequence=SEQUENCES[kind])
    assert result.status == "optimal"
    assert result.value == near(2.0)
    check = result.verify()
    assert check.ok, check


def test_a_partial_cycle_solves_k_clients_and_closes_with_all() -> None:
    """Section V-A: the last inner loop of an outer loop is a full cycle."""
    for sequence in (dm.Sequence.random(k=2), dm.Sequence.greedy(2)):
        result = on(nx.path_graph(5)).solve(sequence=sequence, max_rounds=40)
        history = result.history
        ends = history.outer.diff(-1).ne(0).to_numpy()[:-1]
        solved = history.solved.to_numpy()[:-1]
        assert ends.any()
        assert not ends.all()
        assert set(solved[ends]) == {5}
        assert set(solved[~ends]) == {2}


def test_every_client_has_its_turn_at_random() -> None:
    log = Log()
    graph = nx.path_graph(6)
    on(graph).solve(sequence=dm.Sequence.random(k=2), solver=log, max_rounds=40)
    assert {name for turn in log.turns for name in turn} == set(graph)


def test_random_is_reproducible_from_its_seed() -> None:
    def path(seed: int) -> list[tuple[Hashable, ...]]:
        log = Log()
        on(nx.path_graph(5)).solve(
            sequence=dm.Sequence.random(k=2, seed=seed), solver=log, max_rounds=12
        )
        return log.turns

    assert path(0) == path(0)
    assert path(0) != path(1)


def test_greedy_takes_the_client_whose_neighbours_moved_most() -> None:
    """From zero nobody has moved, so the first goes; that is news for b; b's is news for a and c.

    The fourth inner loop is the last of the outer loop, hence full.
    """
    log = Log()
    on(CHAIN).solve(sequence=dm.Sequence.greedy(1), solver=log, rho=1.0, max_rounds=4)
    assert log.turns == [("a",), ("b",), ("a",), ("a", "c"), ("b",)]
    log = Log()
    on(nx.path_graph("cab")).solve(sequence=dm.Sequence.greedy(2), solver=log, max_rounds=2)
    assert log.turns[0] == ("c",)
    assert log.turns[1] == ("a",), "of the two that were chosen c stands lower"


def test_repeat_visits_its_clients_more_often() -> None:
    log = Log()
    on(CHAIN).solve(sequence=dm.Sequence.repeat(["b", "c"], times=3), solver=log, max_rounds=1)
    assert log.turns == [("c",), ("b",), ("c",), ("b",), ("a", "c"), ("b",)]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None])
def test_counts_are_whole_numbers_from_one(wrong: Any) -> None:
    for name, make in [
        ("random", lambda: dm.Sequence.random(k=wrong)),
        ("greedy", lambda: dm.Sequence.greedy(wrong)),
        ("repeat", lambda: dm.Sequence.repeat(["a"], times=wrong)),
    ]:
        with pytest.raises(dm.SequenceError) as caught:
            make()
        says(caught.value, f"Sequence.{name}: given {wrong!r}, expected a whole number from 1")


def test_repeating_a_stranger() -> None:
    with pytest.raises(dm.SequenceError) as caught:
        on(CHAIN).solve(sequence=dm.Sequence.repeat(["a", "z"]))
    says(caught.value, "'z' in repeat is no client", "expected names among 'a', 'b', 'c'")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dm.Sequence.levels(3), "Sequence.levels: given 3, expected a list of levels"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: dm.Sequence.levels([1, 2]), "expected a list of levels, each a list of clients"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: dm.Sequence.repeat(3), "Sequence.repeat: given 3, expected a list of clients"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: dm.Sequence.from_matrix([[1, 1], [0]]), "expected a square array of numbers"),
        (lambda: dm.Sequence.from_root("a", "b"), "given depth_first='b', expected True or False"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: dm.Sequence.random(1, seed=-1), "given seed=-1, expected an int from 0"),
    ],
)
def test_a_constructor_says_what_it_expected(make: Any, message: str) -> None:
    with pytest.raises(dm.SequenceError, match=re.escape(message)):
        make()
