"""Sequences and strategies that leave clients out are found, told and refused."""

from collections.abc import Hashable
from typing import Any

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.schedule.numbers import on
from tests.schedule.turns import THREE, two_by_lot

S = dm.Sequence


def favourite(moment: dm.Moment, generator: np.random.Generator) -> list[Hashable]:
    """The first always and one of the others: of three, 100 %, 50 % and 50 %."""
    first, *others = moment.live
    return [first, others[generator.integers(len(others))]]


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
    for choose in (stalest, two_by_lot):
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
