r"""Sequences of every kind: who is solved when, by hand, and that each of them solves the zoo.

The models of the first part are one number a client, so that a run costs nothing; what is looked
at is the history's column ``who``. Stopping conditions are fixed numbers of inner loops, so that
it is known which loop closes an outer one.

In the zoo a run that ends after R rounds has gained a factor c a round with :math:`c^R` about
1e-6, and is then up to :math:`1 / (1 - c) = R / \ln 10^6` steps of 1e-6 from the answer: see
``test_zoo.py``, which puts R = 1,000 for the limit.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.schedule.moment import Residuals
from tests.zoo import GRAPHS, PROBLEMS

S = dm.Sequence
Who = list[tuple[Hashable, ...]]
UNKNOWN = Residuals(*4 * [np.inf])


@dataclass(frozen=True)
class Every:
    """An outer loop is ``v`` inner loops, whatever the residuals are."""

    v: int

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return inner >= self.v


def on(graph: nx.Graph) -> tuple[dm.Model, dict[Hashable, cp.Variable]]:
    """One number a node, pulled to 1, 2, 3, ..."""
    x = {node: cp.Variable(name=f"x{node}") for node in graph}
    model = dm.Model("numbers")
    for t, (node, v) in enumerate(x.items(), start=1):
        model.client(node, cp.square(v - t))
    model.consensus(*[x[a] == x[b] for a, b in graph.edges])
    return model, x


CHAIN = nx.path_graph("abcd")
"""By colour, which is the default order: a and c, then b and d."""
FULL = ("a", "c", "b", "d")
NATURAL = ("a", "b", "c", "d")


def who(sequence: dm.Sequence, v: int, rounds: int, graph: nx.Graph = CHAIN, **options: Any) -> Who:
    """Who is solved in each of the first rounds, where ``v`` of them are an outer loop."""
    model, _ = on(graph)
    given: dict[str, Any] = {"rho": 1.0, "stopping": Every(v), "eps_pri": 0.0, "eps_dual": 0.0}
    result = model.solve(sequence=sequence, max_rounds=rounds, **given | options)
    assert result.rounds == rounds
    assert result.history.solved.tolist() == [len(names) for names in result.history.who]
    return result.history.who.tolist()


def at(round_: int, names: Iterable[Hashable], **changes: Any) -> dm.Moment:
    """Before an inner loop that closes nothing, the whole run being one outer loop."""
    stale: dict[Hashable, float] = changes.pop("stale", {})
    given = tuple(names)
    here = dm.Moment(round_, 1, round_, given, (), True, False, UNKNOWN, lambda: stale)
    return dm.Moment(**{**here.__dict__, **changes}) if changes else here


def drawn(sequence: dm.Sequence, graph: nx.Graph, rounds: Iterable[int]) -> list[set[Hashable]]:
    """Whom a sequence solves in some rounds, none of which closes an outer loop."""
    bound = sequence.bind(graph)
    loops = (bound.stages(at(r, graph)) for r in rounds)
    return [{name for stage in stages for name in stage} for stages in loops]


# --- who is solved when: single kinds ------------------------------------------------------------


def test_partial_takes_its_lists_in_turn_from_the_first_in_each_outer_loop() -> None:
    sequence = S.partial(["a"], ["b", "c"])
    assert who(sequence, 3, 6) == 2 * [("a",), ("c", "b"), FULL]
    assert who(sequence, 4, 8) == 2 * [("a",), ("c", "b"), ("a",), FULL]
    assert who(sequence, 1, 2) == 2 * [FULL]
    assert who(S.partial(["d", "a", "a"]), 2, 4) == 2 * [("a", "d"), FULL]


def test_partial_takes_any_iterable_once() -> None:
    assert who(S.partial(iter("ab"), {"d"}), 3, 6) == 2 * [("a", "b"), ("d",), FULL]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_random_takes_k_different_clients_in_the_order_of_the_network(k: int) -> None:
    loops = who(S.random(k, seed=5), 6, 30)
    for round_, names in enumerate(loops, start=1):
        assert names == tuple(name for name in FULL if name in names), "nobody twice, in order"
        assert len(names) == (4 if round_ % 6 == 0 else min(k, 4))


def test_random_takes_everybody_equally_often() -> None:
    """Of D draws a client has k/n of them, up to six standard deviations."""
    graph, draws = nx.cycle_graph(5), 4000
    counts = Counter(name for names in drawn(S.random(2), graph, range(draws)) for name in names)
    share = 2 / 5
    for name in graph:
        assert abs(counts[name] - share * draws) <= 6 * np.sqrt(share * (1 - share) * draws)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: S.random(2, seed=seed),
        lambda seed: S.essentially_cyclic(2, seed=seed),
        lambda seed: S.custom(_two, seed=seed),
        lambda seed: S.random(1, seed=seed) + S.random(1, seed=seed + 1),
        lambda seed: S.random(2, seed=seed).along(S.natural()),
    ],
    ids=["random", "essentially cyclic", "custom", "sum", "along"],
)
def test_draws_depend_on_the_seed_and_the_round_alone(make: Any) -> None:
    """Not on the outer loops, the penalty, nor what was drawn before."""
    graph = nx.path_graph(7)
    one = who(make(3), 4, 24, graph)
    two = who(make(3), 7, 24, graph, rho=0.3)
    both = [r for r in range(1, 25) if r % 4 and r % 7]
    assert [one[r - 1] for r in both] == [two[r - 1] for r in both]
    alone = drawn(make(3), graph, reversed(both))[::-1]
    assert alone == [set(one[r - 1]) for r in both]
    other = who(make(8), 4, 24, graph)
    assert [one[r - 1] for r in both] != [other[r - 1] for r in both]


def _two(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
    places = generator.choice(len(moment.live), size=2, replace=False)
    return [moment.live[i] for i in places]


SIZES = [(n, k) for n in range(2, 9) for k in range(1, n + 2)]


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_an_essentially_cyclic_pack_is_everybody_once(n: int, k: int) -> None:
    """T = ceil(n / k) loops are a pack; all but its last are k clients."""
    graph, T = nx.path_graph(n), ceil(n / k)
    loops = drawn(S.essentially_cyclic(k, seed=n), graph, range(1, 20 * T + 1))
    for start in range(0, 20 * T, T):
        pack = loops[start : start + T]
        assert Counter(name for names in pack for name in names) == Counter(graph)
        assert [len(names) for names in pack[:-1]] == (T - 1) * [k]


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_essentially_cyclic_leaves_nobody_out_of_2t_minus_1_loops(n: int, k: int) -> None:
    """Its ``explain``: first of one pack and last of the next are 2T - 2 loops apart, no more."""
    graph, T = nx.path_graph(n), ceil(n / k)
    rounds = 300 * T
    loops = drawn(S.essentially_cyclic(k), graph, range(1, rounds + 1))
    waits = Counter()
    for name in graph:
        turns = [r for r, names in enumerate(loops) if name in names]
        waits.update(two - one - 1 for one, two in pairwise([-1, *turns, rounds]))
    assert max(waits) < 2 * T - 1
    if n <= 4:
        assert max(waits) == 2 * T - 2, "and so long it does happen"


@pytest.mark.parametrize("v", [2, 3, 5])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 2), (7, 3), (6, 1)])
def test_essentially_cyclic_keeps_that_where_full_cycles_come_between(
    n: int, k: int, v: int
) -> None:
    """The full cycle takes the place of a deal: who would have been dealt is solved in it."""
    graph, span = nx.cycle_graph(n), 2 * ceil(n / k) - 1
    loops = who(S.essentially_cyclic(k, seed=2), v, 60, graph)
    for start in range(60 - span + 1):
        window = loops[start : start + span]
        assert {name for names in window for name in names} == set(graph)


def test_essentially_cyclic_keeps_that_for_those_who_stay() -> None:
    graph, span = nx.complete_graph(7), 2 * ceil(7 / 2) - 1
    loops = who(S.essentially_cyclic(2), 100, 90, graph, online={10: dm.Change(leave=[2, 5])})
    for start in range(9, 90 - span + 1):
        seen = {name for names in loops[start : start + span] for name in names}
        assert seen == set(graph) - {2, 5}


def test_essentially_cyclic_in_turn_with_another_deals_whole_packs() -> None:
    """Of the loops that it has any 2T - 1 must hold everybody, as its ``explain`` says."""
    graph, other = nx.cycle_graph(4), S.partial([0])
    mine = drawn(S.alternate(S.essentially_cyclic(2), other), graph, range(1, 400, 2))
    for start in range(len(mine) - 2):
        assert set.union(*mine[start : start + 3]) == set(graph)


def test_partial_in_turn_with_another_goes_through_its_lists() -> None:
    sequence = S.alternate(S.partial(["a"], ["b"]), S.partial(["d"]))
    assert who(sequence, 5, 5) == [("a",), ("d",), ("b",), ("d",), FULL]


def test_greedy_takes_those_whose_neighbours_moved_most() -> None:
    """The movement worked out here, from the values of each round alone."""
    graph = nx.cycle_graph(6)
    model, x = on(graph)
    result = model.solve(
        sequence=S.greedy(2),
        rho=1.0,
        stopping=Every(5),
        max_rounds=40,
        eps_pri=0.0,
        eps_dual=0.0,
        metrics={f"{node}": lambda i, v=v: i[v].item() for node, v in x.items()},
    )
    now = dict.fromkeys(graph, 0.0)
    knew = {(one, two): 0.0 for one in graph for two in graph[one]}
    for round_, row in enumerate(result.history.to_dict("records"), start=1):
        stale = {n: max(abs(now[m] - knew[n, m]) for m in graph[n]) for n in graph}
        chosen = row["who"]
        if round_ % 5 == 0:
            assert set(chosen) == set(graph)
        else:
            assert len(chosen) == 2
            others = max(stale[name] for name in graph if name not in chosen)
            assert min(stale[name] for name in chosen) >= others - 1e-12
        for name in chosen:
            knew |= {(name, other): now[other] for other in graph[name]}
            now[name] = row[f"{name}"]


def test_greedy_among_equals_takes_the_first_declared() -> None:
    assert who(S.greedy(2), 3, 1) == [("a", "b")]
    stages = S.greedy(2).bind(CHAIN).stages
    assert stages(at(1, "abcd", stale={"a": 0, "b": 1, "c": 2, "d": 1})) == [["c"], ["b"]]


def test_custom_is_asked_before_each_loop_but_the_full_ones() -> None:
    asked: list[dm.Moment] = []

    def choose(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
        asked.append(moment)
        return [moment.live[(moment.round - 1) % 4]]

    loops = who(S.custom(choose), 3, 9)
    assert loops == [("a",), ("b",), FULL, ("d",), ("a",), FULL, ("c",), ("d",), FULL]
    run = asked[2000:]  # before it come the trials for fairness
    assert [(m.round, m.outer, m.inner) for m in run] == [
        (1, 1, 1),
        (2, 1, 2),
        (4, 2, 1),
        (5, 2, 2),
        (7, 3, 1),
        (8, 3, 2),
    ]
    assert run[0].residuals.primal == np.inf
    assert run[1].residuals.primal < np.inf
    assert all(m.live == NATURAL and m.servers == () and m.everybody for m in run)
    assert not any(m.closing for m in run)


def test_custom_names_may_come_in_any_order_and_more_than_once() -> None:
    def choose(moment: dm.Moment, generator: np.random.Generator) -> Iterable[Hashable]:
        return (name for name in "dcbadd")

    assert who(S.custom(choose), 3, 1) == [FULL]


def test_repeat_goes_through_some_again_and_then_through_everybody() -> None:
    for v in (1, 3):
        assert who(S.repeat(["c", "b"], times=3), v, 2) == 2 * [("c", "b", "c", "b", *FULL)]
    assert who(S.repeat(["d"], times=1), 2, 2) == 2 * [FULL]
    assert who(S.repeat([]), 2, 2) == 2 * [FULL]


# --- who is solved when: compositions ------------------------------------------------------------


def test_a_sum_goes_through_one_and_then_through_the_other() -> None:
    both = S.partial(["a"]) + S.partial(["d"], ["b"])
    assert who(both, 3, 6) == 2 * [("a", "d"), ("a", "b"), FULL]
    assert who(S.natural() + S.partial(["b", "c"]), 2, 3) == 3 * [(*NATURAL, "c", "b")]
    thrice = S.partial(["a"]) + S.partial(["b"]) + S.partial(["a"])
    assert who(thrice, 2, 4) == 2 * [("a", "b", "a"), FULL]


def test_a_sum_with_a_full_cycle_has_no_loop_to_be_closed() -> None:
    both = S.greedy(1) + S.natural()
    assert not both.is_partial
    assert who(both, 3, 1) == [("a", *NATURAL)]
    assert all(names[1:] == NATURAL for names in who(both, 3, 6))


def test_alternate_takes_one_a_loop_and_begins_anew_in_each_outer_loop() -> None:
    sequence = S.alternate(S.natural(), S.partial(["a"]))
    assert who(sequence, 4, 8) == 2 * [NATURAL, ("a",), NATURAL, NATURAL]
    assert who(sequence, 3, 6) == 2 * [NATURAL, ("a",), NATURAL]
    three = S.alternate(S.partial(["b", "c"]), S.repeat(["d"]), S.natural())
    loops = [("c", "b"), ("d", *FULL), NATURAL, ("c", "b"), FULL]
    assert who(three, 5, 10) == 2 * loops


def test_alternate_of_full_cycles_closes_with_whoever_has_the_turn() -> None:
    both = S.alternate(S.natural(), S.levels([["d"], ["c"], ["b"], ["a"]]))
    assert not both.is_partial
    assert who(both, 2, 4) == 2 * [NATURAL, NATURAL[::-1]]
    assert who(both, 1, 2) == 2 * [NATURAL]


def test_along_takes_the_order_of_another() -> None:
    listed = S.partial(["d", "b", "c", "a"])
    assert who(listed.along(S.natural()), 2, 2) == 2 * [NATURAL]
    assert who(listed.along(S.from_root("a")), 2, 2) == 2 * [NATURAL[::-1]]
    some = S.partial(["a", "d"]).along(S.levels([["d"], ["c"], ["b"], ["a"]]))
    assert who(some, 3, 3) == [("d", "a"), ("d", "a"), NATURAL[::-1]]


def test_along_reaches_the_parts_of_a_composition() -> None:
    natural = S.natural()
    assert who(S.repeat(["c", "b"]).along(natural), 1, 1) == [("b", "c", *NATURAL)]
    both = S.alternate(S.partial(["c", "b"]), S.repeat(["d", "a"])).along(natural)
    assert who(both, 3, 3) == [("b", "c"), ("a", "d", *NATURAL), NATURAL]


def test_nested_compositions() -> None:
    inner = S.partial(["b"]) + S.partial(["d"])
    sequence = S.alternate(S.repeat(["a"]), inner)
    loops = [("a", *FULL), ("b", "d"), ("a", *FULL), FULL]
    assert who(sequence, 4, 8) == 2 * loops
    twice = sequence + S.partial(["c"])
    assert who(twice, 3, 3) == [("a", *FULL, "c"), ("b", "d", "c"), FULL]
    turned = S.alternate(S.alternate(S.partial(["a"]), S.partial(["b"])), S.natural() + inner)
    assert who(turned, 2, 2) == [("a",), FULL]
    assert who(turned.along(S.natural()), 5, 2) == [("a",), (*NATURAL, "b", "d")]


def test_what_is_partial_and_what_is_constant() -> None:
    full = [S.natural(), S.repeat(["a"]), S.natural() + S.random(1), S.alternate(S.natural())]
    some = [
        S.random(1),
        S.partial(["a"]),
        S.random(1) + S.greedy(1),
        S.alternate(S.natural(), S.greedy(1)),
        S.random(1).along(S.natural()),
    ]
    assert [one.is_partial for one in full + some] == 4 * [False] + 5 * [True]
    constant = [S.natural(), S.natural() + S.natural(), S.alternate(S.natural())]
    assert all(one.is_constant for one in constant)
    varying = [S.random(2), S.natural() + S.greedy(1), S.alternate(S.natural(), S.random(9))]
    assert not any(one.is_constant for one in varying)


# --- closing loops -------------------------------------------------------------------------------


def kinds(names: Iterable[Hashable]) -> dict[str, dm.Sequence]:
    """One of every kind on some clients."""
    n = list(names)
    return {
        "partial": S.partial(n[::2], n[1::2]),
        "random": S.random(2, seed=1),
        "essentially cyclic": S.essentially_cyclic(2, seed=1),
        "greedy": S.greedy(2),
        "custom": S.custom(_two, seed=3),
        "repeat": S.repeat(n[:2], times=3),
        "sum": S.natural() + S.greedy(1),
        "alternate": S.alternate(S.natural(), S.random(2), S.partial(n[:1])),
        "along": S.essentially_cyclic(2).along(S.from_root(n[0])),
        "nested": S.alternate(S.repeat(n[:1]), S.random(1) + S.greedy(1)).along(S.natural()),
    }


KINDS = list(kinds("ab"))
STOPPING = {
    "default": None,
    "B1": dm.FixedTolerance(),
    "B2": dm.ShrinkingTolerance(start=0.5, factor=0.6),
    "B3": dm.GrowingBudget(start=2, growth=1.3),
    "B4": dm.FixedBudget(4),
}


@pytest.mark.parametrize("condition", STOPPING)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_ends_an_outer_loop_its_last_loop_is_full(kind: str, condition: str) -> None:
    """Section V-A; also where it is the residual that ends it, and where the run is over."""
    graph = nx.cycle_graph(5)
    model, _ = on(graph)
    options: dict[str, Any] = {"stopping": STOPPING[condition], "max_rounds": 4000}
    result = model.solve(sequence=kinds(graph)[kind], **options)
    assert result.status == "optimal", str(result)
    assert result.value == pytest.approx(10.0, rel=1e-5)
    last = result.history.groupby("outer").who.last()
    assert all(set(names) == set(graph) for names in last)
    if not kind.startswith(("repeat", "sum")):
        assert all(len(names) >= 5 for names in last)


# --- what is said of them ------------------------------------------------------------------------

SOURCE = re.compile(r"Theorem \d|Remark \d|Section V-A|\([A-Z][^()]* (19|20)\d\d\)")


@pytest.mark.parametrize("kind", ["full cycle", *KINDS])
def test_explain_says_what_is_known_and_where_from(kind: str) -> None:
    sequence = S.natural() if kind == "full cycle" else kinds("abcd")[kind]
    text = sequence.explain()
    assert text.startswith(f"{sequence.label}: ")
    said = [line for line in text.splitlines() if "in turn" not in line.split(": ", 1)[1]]
    said = [line for line in said if "in each inner loop" not in line.split(": ", 1)[1]]
    assert said
    for line in said:
        assert SOURCE.search(line), line


@pytest.mark.parametrize(
    ("sequence", "source"),
    [
        (S.natural(), "Theorem 1"),
        (S.partial(["a"]), "Remark 1"),
        (S.random(2), "Razaviyayn, Hong and Luo 2013"),
        (S.essentially_cyclic(2), "Tseng 2001"),
        (S.greedy(2), "Nutini et al. 2015"),
        (S.custom(_two), "Remark 1"),
    ],
)
def test_explain_names_its_source(sequence: dm.Sequence, source: str) -> None:
    assert source in sequence.explain()


def test_explain_of_a_composition_has_its_parts_once() -> None:
    text = S.alternate(S.natural(), S.random(2), S.natural()).explain().splitlines()
    assert text[0] == "natural / random 2 / natural: in turn"
    assert [line.split(":")[0] for line in text[1:]] == ["  natural", "  random 2"]
    both = (S.natural() + S.greedy(1)).explain().splitlines()
    assert both[0] == "natural + greedy 1: in each inner loop"
    assert [line.split(":")[0] for line in both[1:]] == ["  natural", "  greedy 1"]


# --- every kind solves the zoo and verifies ------------------------------------------------------

ZOO = list(PROBLEMS)
CASES = [
    (name, list(GRAPHS)[(i + j) % len(GRAPHS)], kind)
    for i, name in enumerate(ZOO)
    for j, kind in enumerate(KINDS)
]
MAX_ROUNDS = 5000
"""Absolute losses and linear objectives take up to 2,000 rounds where few are solved in each."""


def test_every_problem_and_every_kind_meets_every_graph() -> None:
    for name in ZOO:
        assert {graph for n, graph, _ in CASES if n == name} == set(GRAPHS)
    for kind in KINDS:
        assert {graph for _, graph, k in CASES if k == kind} == set(GRAPHS)


@pytest.mark.parametrize(("name", "graph", "kind"), CASES)
def test_every_sequence_kind_solves_the_zoo_and_verifies(name: str, graph: str, kind: str) -> None:
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    sequence = kinds(built.model.compile())[kind]
    result = built.model.solve(sequence=sequence, max_rounds=MAX_ROUNDS)
    assert result.status == "optimal", str(result)
    check = result.verify(tol_objective=1e-5)
    assert check.ok, str(check)
    assert result.value == pytest.approx(built.value, rel=1e-5, abs=1e-5)
    steps = max(100.0, result.rounds / log(1e6))
    for client, variable in built.variables.items():
        known = built.points[client]
        off = np.abs(result[client][variable] - known).max()
        assert off <= 1e-6 * steps * max(1.0, float(np.abs(known).max())), client
    forces = {client: built.force(client, result.multipliers) for client in built.variables}
    scale = max(1.0, *(np.abs(force).max() for force in forces.values()))
    for client, force in forces.items():
        assert built.distance[client](force) <= 1e-6 * steps * scale, client


@pytest.mark.parametrize("root", range(5))
def test_a_chain_from_any_root(root: int) -> None:
    """Absolute losses; one sweep a multiplier update, with a penalty that moves, can stall here."""
    built = PROBLEMS["quantile"]().on(GRAPHS["chain"]())
    result = built.model.solve(sequence=S.from_root(root), max_rounds=MAX_ROUNDS)
    assert result.status == "optimal", str(result)
    assert result.verify(tol_objective=1e-5).ok


# --- fairness ------------------------------------------------------------------------------------


def favourite(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
    """The first always and one of the others: of three, 100 %, 50 % and 50 %."""
    first, *others = moment.live
    return [first, others[generator.integers(len(others))]]


THREE = nx.path_graph("abc")


def test_a_biased_strategy_warns_and_names_the_client_and_the_shares() -> None:
    model, _ = on(THREE)
    with pytest.warns(dm.SequenceWarning) as caught:
        result = model.solve(sequence=S.custom(favourite, label="favourite"))
    assert [str(w.message) for w in caught] == [
        "favourite: client 'a' takes part in 100.0% of the inner loops, the mean over the clients "
        "is 66.7%; expected equal probabilities (Section V-A of the paper); draw from all clients "
        "alike, or go on knowingly: the full cycle that closes an outer loop keeps everybody in"
    ]
    assert result.verify().ok, "who goes on knowingly gets there"


def test_a_strategy_that_seldom_takes_one_warns_and_names_that_one() -> None:
    """Of three the last comes in every tenth loop: 10 % where the mean is a third."""

    def choose(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
        return ["c"] if moment.round % 10 == 0 else ["ab"[moment.round % 2]]

    with pytest.warns(dm.SequenceWarning) as caught:
        S.custom(choose).bind(THREE)
    assert str(caught[0].message).startswith(
        "custom: client 'c' takes part in 10.0% of the inner loops, the mean over the clients is "
        "33.3%; "
    )


def test_a_part_of_a_composition_is_tried_too() -> None:
    unfair = S.custom(favourite)
    natural = S.natural()
    for sequence in (unfair + natural, S.alternate(natural, unfair), unfair.along(natural)):
        with pytest.warns(dm.SequenceWarning, match="client 'a' takes part in 100.0%"):
            sequence.bind(THREE)


def test_a_strategy_that_never_takes_some_is_refused_before_anything_is_computed() -> None:
    calls = []

    def choose(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
        calls.append(moment)
        return ["a"]

    model, _ = on(THREE)
    with pytest.raises(dm.SequenceError) as caught:
        model.solve(sequence=S.custom(choose, label="mine"))
    assert str(caught.value) == (
        "mine: 'b', 'c' never takes part in 2000 inner loops, so consensus cannot be reached "
        "(Remark 1 of the paper); choose everybody with equal probability"
    )
    assert len(calls) == 2000


def test_naming_nobody_is_never_taking_part() -> None:
    with pytest.raises(dm.SequenceError, match="'a', 'b', 'c' never takes part in 2000"):
        S.custom(lambda moment, generator: []).bind(THREE)


def stalest(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
    return [max(moment.live, key=lambda name: moment.staleness[name])]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nodes", [2, 3, 10, 40])
def test_fair_strategies_pass_silently(nodes: int, seed: int) -> None:
    """Warnings are errors here."""
    graph = nx.cycle_graph(nodes) if nodes > 2 else nx.path_graph(2)
    S.custom(stalest, seed=seed).bind(graph)
    S.custom(lambda moment, rng: [moment.live[rng.integers(nodes)]], seed=seed).bind(graph)
    S.custom(lambda moment, rng: moment.live, seed=seed).bind(graph)
    S.custom(lambda moment, rng: [moment.live[moment.round % nodes]]).bind(graph)


def test_fair_strategies_reach_the_answer() -> None:
    model, _ = on(nx.cycle_graph(5))
    for choose in (stalest, _two):
        result = model.solve(sequence=S.custom(choose))
        assert result.status == "optimal"
        assert result.verify().ok


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("found", ["a", 3, None])
def test_custom_must_return_clients(found: Any) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        on(THREE)[0].solve(sequence=S.custom(lambda moment, generator: found))
    assert (
        str(caught.value) == f"custom: the function returned {found!r}, expected a list of clients"
    )


@pytest.mark.parametrize("name", ["z", 0, None, ["a"]])
def test_custom_must_return_clients_that_exist(name: Any) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        on(THREE)[0].solve(sequence=S.custom(lambda moment, generator: ["a", name], label="mine"))
    assert str(caught.value) == (
        f"sequence: {name!r} in mine is no client; expected names among 'a', 'b', 'c'"
    )


@pytest.mark.parametrize(
    ("sequence", "where"),
    [(S.partial(["a"], ["z"]), "partial"), (S.repeat(["z"]), "repeat")],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_names_that_are_no_clients(sequence: dm.Sequence, where: str, wrapped: bool) -> None:
    given = S.alternate(S.natural(), sequence + S.random(1)) if wrapped else sequence
    with pytest.raises(dm.SequenceError) as caught:
        on(THREE)[0].solve(sequence=given)
    assert str(caught.value) == (
        f"sequence: 'z' in {where} is no client; expected names among 'a', 'b', 'c'"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: S.partial("ab"),
            "Sequence.partial: given 'ab', expected lists of clients such as ['a'], ['b', 'c']",
        ),
        (
            lambda: S.partial(["a"], 3),  # pyright: ignore[reportArgumentType] - what is tested
            "Sequence.partial: given 3, expected lists of clients such as ['a'], ['b', 'c']",
        ),
        (
            lambda: S.partial(),
            "Sequence.partial: given (), expected at least one list and a client in each, such as "
            "['a'], ['b', 'c']",
        ),
        (
            lambda: S.partial(["a"], []),
            "Sequence.partial: given (('a',), ()), expected at least one list and a client in "
            "each, such as ['a'], ['b', 'c']",
        ),
        (
            lambda: S.repeat("ab"),
            "Sequence.repeat: given 'ab', expected a list of clients such as ['a']",
        ),
        (
            lambda: S.essentially_cyclic(0),
            "Sequence.essentially_cyclic: given 0, expected a whole number from 1",
        ),
        (
            lambda: S.essentially_cyclic(1, seed=-1),
            "Sequence.essentially_cyclic: given seed=-1, expected an int from 0",
        ),
        (
            lambda: S.random(1, seed=0.5),  # pyright: ignore[reportArgumentType] - what is tested
            "Sequence.random: given seed=0.5, expected an int from 0",
        ),
        (
            lambda: S.custom(["a"]),  # pyright: ignore[reportArgumentType] - what is tested
            "Sequence.custom: given ['a'], expected a function of a moment and a random generator "
            "that returns clients",
        ),
        (
            lambda: S.custom(_two, seed=-3),
            "Sequence.custom: given seed=-3, expected an int from 0",
        ),
        (
            lambda: S.alternate(),
            "Sequence.alternate: given (), expected sequences such as Sequence.natural(), "
            "Sequence.random(2)",
        ),
        (
            lambda: S.alternate(S.natural(), "natural"),  # pyright: ignore[reportArgumentType] - what is tested
            "Sequence.alternate: given (Sequence('natural'), 'natural'), expected sequences such "
            "as Sequence.natural(), Sequence.random(2)",
        ),
    ],
)
def test_a_constructor_says_what_it_expected(make: Any, message: str) -> None:
    with pytest.raises(dm.SequenceError) as caught:
        make()
    assert str(caught.value) == message


def test_a_sum_with_something_else() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = S.natural() + "natural"  # pyright: ignore[reportOperatorIssue] - what is tested
