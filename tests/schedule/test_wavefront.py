"""Wavefronts: overlapped sweeps give the serial iterates, as early as can be."""

import math
from collections.abc import Hashable, Iterator
from fractions import Fraction
from itertools import islice, pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dald_model.errors import SequenceError
from dald_model.schedule import network as networks
from dald_model.schedule.wavefront import Task, parallelism, wavefront

Stages = list[list[Hashable]]

many = settings(max_examples=150, deadline=None, derandomize=True)


def one_by_one(graph: nx.Graph) -> Stages:
    return [[name] for name in graph]


@st.composite
def graphs(draw: st.DrawFn, connected: bool = False) -> nx.Graph:
    """Up to eight clients, any edges; a tree and any edges where it must hang together."""
    count = draw(st.integers(1, 8))
    graph = nx.empty_graph(count)
    if connected:
        graph.add_edges_from((draw(st.integers(0, i - 1)), i) for i in range(1, count))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    if pairs:
        graph.add_edges_from(draw(st.sets(st.sampled_from(pairs))))
    return graph


@st.composite
def orders(draw: st.DrawFn) -> tuple[nx.Graph, Stages]:
    """A graph, and stages of any kind: clients left out, visited again, beside a neighbour."""
    graph = draw(graphs())
    stage = st.lists(st.sampled_from(list(graph)), min_size=1, unique=True)
    return graph, draw(st.lists(stage, min_size=1, max_size=6))


# --- the same iterates ----------------------------------------------------------------------------


class Iteration:
    """Numbers on clients and multipliers on edges, with a rule that notices every mix-up."""

    def __init__(self, graph: nx.Graph) -> None:
        self.graph = graph
        self.x = {name: math.sqrt(2 + at) for at, name in enumerate(graph)}
        self.mu = {frozenset(edge): 0.1 * at for at, edge in enumerate(graph.edges)}

    def solve(self, clients: list[Hashable]) -> None:
        """All of them from the values of now."""
        self.x |= {name: self._solved(name) for name in clients}

    def _solved(self, name: Hashable) -> float:
        told = [
            math.cos(self.mu[frozenset((name, other))] + (3 + at) * self.x[other])
            for at, other in enumerate(self.graph.adj[name])
        ]
        return math.sin(1 + 2 * self.x[name]) + math.fsum(told)

    def update(self, edge: frozenset[Hashable]) -> None:
        one, two = sorted(edge, key=str)
        self.mu[edge] = math.tanh(self.mu[edge] + self.x[one] - math.e * self.x[two])


def serial(graph: nx.Graph, stages: Stages, sweeps: int, every: int) -> Iteration:
    run = Iteration(graph)
    for sweep in range(1, sweeps + 1):
        for stage in stages:
            run.solve(stage)
        if sweep % every == 0:
            for edge in run.mu:
                run.update(edge)
    return run


def overlapped(graph: nx.Graph, stages: Stages, sweeps: int, every: int) -> Iteration:
    """An edge's multiplier is updated as soon as both its ends are done with the sweep."""
    run = Iteration(graph)
    visits = {name: sum(name in stage for stage in stages) for name in graph}
    ended = {name: 0 if visits[name] else sweeps for name in graph}
    updated = dict.fromkeys(run.mu, 0)
    for step in wavefront(graph, stages, sweeps):
        run.solve(list(step.clients))
        for task in step.tasks:
            if task.visit == visits[task.client] - 1:
                ended[task.client] = task.sweep + 1
        update_ready(run, ended, updated, every)
    update_ready(run, ended, updated, every)
    return run


def update_ready(
    run: Iteration, ended: dict[Hashable, int], updated: dict[frozenset[Hashable], int], every: int
) -> None:
    for edge in run.mu:
        while updated[edge] < min(ended[end] for end in edge) // every:
            run.update(edge)
            updated[edge] += 1


@pytest.mark.slow
@many
@given(orders(), st.integers(1, 6), st.integers(1, 3))
def test_overlapped_sweeps_give_the_serial_iterates_bit_for_bit(
    order: tuple[nx.Graph, Stages], sweeps: int, every: int
) -> None:
    one, two = serial(*order, sweeps, every), overlapped(*order, sweeps, every)
    assert two.x == one.x
    assert two.mu == one.mu


@pytest.mark.slow
@many
@given(graphs(connected=True), st.integers(1, 6), st.integers(1, 3))
def test_so_do_the_orders_of_the_package(graph: nx.Graph, sweeps: int, every: int) -> None:
    for order in (networks.natural, networks.safest):
        stages = order(graph).levels
        for again in (stages, stages[:1] + stages, [list(graph)]):
            one, two = (run(graph, again, sweeps, every) for run in (serial, overlapped))
            assert (two.x, two.mu) == (one.x, one.mu)


# --- as early as can be ---------------------------------------------------------------------------


def earliest(graph: nx.Graph, stages: Stages, sweeps: int) -> list[set[Task]]:
    """The longest paths of the task graph, made of all pairs of tasks."""
    tasks: list[tuple[int, Task]] = []
    for sweep in range(sweeps):
        visits = dict.fromkeys(graph, 0)
        for at, stage in enumerate(stages):
            for name in stage:
                tasks.append((sweep * len(stages) + at, Task(name, sweep, visits[name])))
                visits[name] += 1
    waits = nx.DiGraph()
    waits.add_nodes_from(task for _, task in tasks)
    for at, one in tasks:
        for later, two in tasks:
            touch = one.client == two.client or graph.has_edge(one.client, two.client)
            if touch and at <= later:  # in one stage both ways: they must start together
                waits.add_edge(one, two)
    waits.remove_edges_from(list(nx.selfloop_edges(waits)))
    together = nx.condensation(waits)
    return [
        set().union(*(together.nodes[part]["members"] for part in parts))
        for parts in nx.topological_generations(together)
    ]


@pytest.mark.slow
@many
@given(orders(), st.integers(1, 4))
def test_every_solve_comes_at_its_earliest_step(
    order: tuple[nx.Graph, Stages], sweeps: int
) -> None:
    steps = [step.tasks for step in wavefront(*order, sweeps)]
    assert [set(tasks) for tasks in steps] == earliest(*order, sweeps)
    assert all(len(set(tasks)) == len(tasks) for tasks in steps)


def test_a_chain_starts_two_steps_later_each_sweep() -> None:
    chain = nx.path_graph(7)
    steps = list(wavefront(chain, one_by_one(chain), 5))
    start = {task: at for at, step in enumerate(steps) for task in step.tasks}
    assert start == {Task(i, v, 0): i + 2 * v for i in range(7) for v in range(5)}


def test_a_client_that_is_visited_twice_says_which_visit_it_is() -> None:
    steps = wavefront(nx.path_graph("ab"), [["a"], ["b"], ["a"]], 2)
    found = [task for step in steps for task in step.tasks]
    sweep = [("a", 0), ("b", 0), ("a", 1)]
    assert found == [Task(name, v, visit) for v in (0, 1) for name, visit in sweep]


def test_no_sweep_has_no_step() -> None:
    assert list(wavefront(nx.path_graph(2), [[0], [1]], 0)) == []


def test_steps_come_lazily_and_the_same_clients_as_the_same_object() -> None:
    chain = nx.path_graph(100)
    steps = islice(wavefront(chain, one_by_one(chain), 10**9), 98, 140)
    even = [step.clients for step in steps][::2]
    assert even[0] == tuple(range(0, 100, 2))
    assert all(one is two for one, two in pairwise(even))


# --- how parallel an order is ---------------------------------------------------------------------

RINGS = {5: Fraction(5, 2), 7: Fraction(7, 3), 8: Fraction(2)}
"""A ring's edges turned in turn, as evenly as its length lets them."""


@pytest.mark.parametrize("count", [2, 3, 10, 11])
def test_a_chain_keeps_half_of_the_clients_at_work(count: int) -> None:
    chain = nx.path_graph(count)
    found = parallelism(chain, one_by_one(chain))
    assert (found.clients, found.solves) == (count, count)
    assert (found.levels, found.level_width, found.speedup_alone) == (count, 1, 1.0)
    assert (found.period, found.width, found.speedup) == (2, math.ceil(count / 2), count / 2)


def test_two_colours_have_nothing_to_gain() -> None:
    for graph in (nx.star_graph(6), nx.cycle_graph(6), nx.grid_2d_graph(3, 4)):
        found = parallelism(graph, networks.safest(graph).levels)
        assert found.levels == found.period == 2
        assert found.speedup == found.speedup_alone == len(graph) / 2


def test_a_ring_in_its_natural_order_does_not_overlap() -> None:
    """The last client waits for the first, and the first of the next sweep for the last."""
    ring = nx.cycle_graph(6)
    found = parallelism(ring, one_by_one(ring))
    assert (found.levels, found.period, found.width, found.speedup) == (6, 6, 1, 1.0)


@pytest.mark.parametrize("count", RINGS)
def test_a_ring_in_colours_may_have_a_fraction(count: int) -> None:
    ring = nx.cycle_graph(count)
    found = parallelism(ring, networks.safest(ring).levels)
    assert found.period == RINGS[count]
    assert found.width == count // 2


def test_a_complete_graph_has_no_parallelism() -> None:
    for count in (3, 5):
        graph = nx.complete_graph(count)
        found = parallelism(graph, one_by_one(graph))
        assert (found.levels, found.period, found.width) == (count, count, 1)


def test_jacobi_solves_all_at_once() -> None:
    ring = nx.cycle_graph(5)
    found = parallelism(ring, [list(ring)])
    assert (found.levels, found.period, found.width, found.speedup) == (1, 1, 5, 5.0)


def test_parts_that_do_not_touch_run_at_their_own_pace() -> None:
    graph = nx.disjoint_union(nx.path_graph(4), nx.complete_graph(3))
    assert parallelism(graph, one_by_one(graph)).period == 3, "the slowest"
    left_out = [[0], [1], [3]]
    found = parallelism(nx.path_graph(4), left_out)
    assert (found.clients, found.levels, found.period) == (3, 2, 2)


def by_edge_reversal(graph: nx.Graph, place: dict[Hashable, int]) -> Fraction:
    """Barbosa and Gafni's formula, over all cycles."""
    found = Fraction(2 if graph.number_of_edges() else 1)
    for cycle in nx.simple_cycles(graph):
        along = sum(place[a] < place[b] for a, b in pairwise([*cycle, cycle[0]]))
        found = max(found, Fraction(len(cycle), min(along, len(cycle) - along)))
    return found


@pytest.mark.slow
@many
@given(graphs(connected=True), st.randoms(use_true_random=False))
def test_the_period_is_that_of_scheduling_by_edge_reversal(graph: nx.Graph, random) -> None:
    names = list(graph)
    random.shuffle(names)
    place = {name: at for at, name in enumerate(names)}
    found = parallelism(graph, [[name] for name in names])
    assert found.period == by_edge_reversal(graph, place)


@pytest.mark.slow
@many
@given(orders())
def test_period_and_width_are_those_of_a_long_run(order: tuple[nx.Graph, Stages]) -> None:
    found = parallelism(*order)
    sizes = [len(step.clients) for step in wavefront(*order, 200)]
    assert 0 <= len(sizes) - 199 * found.period <= 2 * found.solves
    assert found.period <= found.levels
    assert found.level_width <= found.solves
    assert found.width == max(sizes)
    assert found.speedup <= found.width


# --- words and errors -----------------------------------------------------------------------------


def texts() -> Iterator[tuple[nx.Graph, Stages, str]]:
    chain, ring = nx.path_graph(100), nx.cycle_graph(5)
    yield (
        chain,
        one_by_one(chain),
        "order: 100 levels one after the other, 1 client at once; "
        "overlapped sweeps: 2 steps a sweep, 50 clients at once",
    )
    yield (
        ring,
        [[0, 2], [1, 3], [4]],
        "order: 3 levels one after the other, 2 clients at once; "
        "overlapped sweeps: 2.5 steps a sweep, 2 clients at once",
    )
    yield (
        chain,
        networks.safest(chain).levels,
        "order: 2 levels one after the other, 50 clients at once; overlapped sweeps: no gain",
    )
    yield (
        nx.path_graph(2),
        [[0], [1], [0]],
        "order: 3 levels one after the other, 1 client at once; overlapped sweeps: no gain",
    )


@pytest.mark.parametrize(("graph", "stages", "text"), list(texts()))
def test_an_order_in_words(graph: nx.Graph, stages: Stages, text: str) -> None:
    found = parallelism(graph, stages)
    assert f"{found}; {found.overlapped}" == text


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "no stage names a client"),
        ([[]], "no stage names a client"),
        ([["a"], ["z"]], "'z' is no client; expected names among 'a', 'b'"),
        ([["a", "b", "a"]], "'a' stands twice in one stage"),
    ],
)
def test_stages_that_do_not_fit_are_refused_before_the_first_step(
    stages: Stages, message: str
) -> None:
    for asked in (lambda g: wavefront(g, stages, 3), lambda g: parallelism(g, stages)):
        with pytest.raises(SequenceError, match=message):
            asked(nx.path_graph("ab"))
