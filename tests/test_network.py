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


def test_one_sweep_a_multiplier_update_only_where_that_is_safe() -> None:
    def per_update(model: dm.Model, sequence: dm.Sequence | None = None) -> int:
        return int(model.solve(sequence=sequence, max_rounds=60).history.inner.max())

    assert per_update(on(nx.cycle_graph(4))) == 1
    assert per_update(on(nx.path_graph(3)), dm.Sequence.natural()) == 1
    assert per_update(on(nx.cycle_graph(3))) > 1
    assert per_update(on(nx.cycle_graph(4)), dm.Sequence.natural()) > 1


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
        (lambda: dm.Sequence.random(1, seed=-1), "given seed=-1, expected an int from 0"),
    ],
)
def test_a_constructor_says_what_it_expected(make: Any, message: str) -> None:
    with pytest.raises(dm.SequenceError, match=re.escape(message)):
        make()
