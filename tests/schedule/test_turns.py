"""Who takes part when: the kinds of Figs. 2 and 3 by hand, and turns written down in runs."""

import re
from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Answers, Solver, Turn
from tests.expect import near, says
from tests.schedule.numbers import model_on
from tests.schedule.turns import UNKNOWN

CHAIN = nx.path_graph("abc")

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
    return bound.stages(dm.Moment(1, 1, 1, tuple(graph), (), True, full, UNKNOWN, lambda: moved))


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


def test_a_sequence_is_held_against_the_graph_before_anything_is_computed() -> None:
    log = Log()
    for sequence in (
        dm.Sequence.levels([["a"]]),
        dm.Sequence.from_matrix(np.eye(3)),
        dm.Sequence.repeat(["z"]),
    ):
        with pytest.raises(dm.SequenceError):
            model_on(CHAIN).solve(sequence=sequence, solver=log)
    assert log.turns == []


# --- who is solved when ---------------------------------------------------------------------------


class Log:
    """A solver, which writes down whose turn it was."""

    name = "log"

    def __init__(self, solver: Solver = NAMED["factor"]) -> None:
        self.solver, self.batches, self.refuses = solver, solver.batches, solver.refuses
        self.is_exact = solver.is_exact
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
            model_on(CHAIN).solve(sequence=dm.Sequence.levels(levels), solver=log, max_rounds=2)
            assert log.turns == 2 * turns


def test_a_partial_cycle_solves_k_clients_and_closes_with_all() -> None:
    """Section V-A: the last inner loop of an outer loop is a full cycle."""
    for sequence in (dm.Sequence.random(k=2), dm.Sequence.greedy(2)):
        result = model_on(nx.path_graph(5)).solve(sequence=sequence, max_rounds=40)
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
    model_on(graph).solve(sequence=dm.Sequence.random(k=2), solver=log, max_rounds=40)
    assert {name for turn in log.turns for name in turn} == set(graph)


def test_random_is_reproducible_from_its_seed() -> None:
    def path(seed: int) -> list[tuple[Hashable, ...]]:
        log = Log()
        model_on(nx.path_graph(5)).solve(
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
    model_on(CHAIN).solve(sequence=dm.Sequence.greedy(1), solver=log, rho=1.0, max_rounds=4)
    assert log.turns == [("a",), ("b",), ("a",), ("a", "c"), ("b",)]
    log = Log()
    model_on(nx.path_graph("cab")).solve(sequence=dm.Sequence.greedy(2), solver=log, max_rounds=2)
    assert log.turns[0] == ("c",)
    assert log.turns[1] == ("a",), "of the two that were chosen c stands lower"


def test_repeat_visits_its_clients_more_often() -> None:
    log = Log()
    model_on(CHAIN).solve(
        sequence=dm.Sequence.repeat(["b", "c"], times=3), solver=log, max_rounds=1
    )
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
        model_on(CHAIN).solve(sequence=dm.Sequence.repeat(["a", "z"]))
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
