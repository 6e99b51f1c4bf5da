"""Sequences of every kind and their compositions: who is solved when, by hand; what they say.

The models are one number a client, so that a run costs nothing; what is looked at is the history's
column ``who``. Stopping conditions are fixed numbers of inner loops, so that it is known which loop
closes an outer one.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import pairwise
from math import ceil
from typing import Any

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.schedule.numbers import Every, on
from tests.schedule.turns import (
    CHAIN,
    FULL,
    KINDS,
    NATURAL,
    THREE,
    at,
    drawn,
    kinds,
    two_by_lot,
    who,
)

S = dm.Sequence

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
        lambda seed: S.custom(two_by_lot, seed=seed),
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


SIZES = [(2, 1), (3, 2), (4, 1), (4, 3), (5, 2), (7, 3), (8, 9)]


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


def test_explain_of_a_composition_has_its_parts_once() -> None:
    text = S.alternate(S.natural(), S.random(2), S.natural()).explain().splitlines()
    assert text[0] == "natural / random 2 / natural: in turn"
    assert [line.split(":")[0] for line in text[1:]] == ["  natural", "  random 2"]
    both = (S.natural() + S.greedy(1)).explain().splitlines()
    assert both[0] == "natural + greedy 1: in each inner loop"
    assert [line.split(":")[0] for line in both[1:]] == ["  natural", "  greedy 1"]


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
            lambda: S.custom(two_by_lot, seed=-3),
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
