"""What failures and changes refuse, and with which words."""

from typing import Any

import pytest

import dald_model as dm
from tests.schedule.numbers import ONE, RING, on

Change = dm.Change
S = dm.Sequence

NAMES = "'a', 'b', 'c', 'd'"


@pytest.mark.parametrize("where", ["leave", "join", "absent", "stale"])
def test_clients_that_are_none(where: str) -> None:
    change: dict[str, Any] = {where: ["a", "z"]}
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online={2: Change(**change)})
    assert str(caught.value) == f"online: 'z' is no client; expected names among {NAMES}"


PAIRS: list[Any] = [
    (where, given)
    for where in ("lost", "disconnect", "connect")
    for given in (("a", "c"), ("a", "z"))
]
NO_PAIRS: list[Any] = [
    pytest.param(where, given, id=f"{where} {given}")
    for where in ("disconnect", "connect", "lost")
    for given in ("ab", 3, ("a", "b", "c"), ("a",))
]


@pytest.mark.parametrize(("where", "given"), [*PAIRS, *NO_PAIRS])
def test_edges_that_are_none(where: str, given: Any) -> None:
    change: dict[str, Any] = {where: [given]}
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(stopping=ONE, online={2: Change(**change)})
    assert str(caught.value) == (
        f"online: {given!r} is no consensus edge; expected pairs of neighbours such as "
        "('a', 'b'); declare every edge that may ever be there, and disconnect it before round 1 "
        "if it is to come later"
    )


@pytest.mark.parametrize("given", [{"leave": [["a"]]}, {"lost": [(["a"], "b")]}], ids=str)
def test_names_that_cannot_be_names(given: dict[str, Any]) -> None:
    with pytest.raises(dm.OptionError):
        on(RING)[0].solve(stopping=ONE, online={2: Change(**given)})


def test_nobody_is_left() -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online={2: Change(leave=["a", "b"]), 3: Change(leave=["d", "c"])})
    assert str(caught.value) == (
        "online: after dm.Change(leave=('d', 'c')) before round 3 nobody is left; keep one client"
    )


@pytest.mark.parametrize(("make", "name"), [(dm.Dropout, "Dropout"), (dm.LossyLinks, "LossyLinks")])
@pytest.mark.parametrize("p", [1, 1.0, -0.1, 2, float("nan"), "0.3", None])
def test_what_is_no_probability(make: Any, name: str, p: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make(p)
    assert str(caught.value) == (
        f"{name}: given p={p!r}, expected a probability from 0, below 1; who never answers left: "
        "dm.Change(leave=[...])"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dm.Dropout(0.3, seed=-1), "Dropout: given seed=-1, expected an int from 0"),
        (
            lambda: dm.LossyLinks(0.3, seed=0.5),  # pyright: ignore[reportArgumentType] - what is tested
            "LossyLinks: given seed=0.5, expected an int from 0",
        ),
        (
            lambda: dm.Dropout(0.3, clients="ab"),
            "Dropout: given clients='ab', expected a list of clients",
        ),
        (
            lambda: dm.Dropout(0.3, clients=3),  # pyright: ignore[reportArgumentType] - what is tested
            "Dropout: given clients=3, expected a list of clients",
        ),
        (
            lambda: dm.Stragglers(["a"]),  # pyright: ignore[reportArgumentType] - what is tested
            "Stragglers: given ['a'], expected a dict client -> k such as {'a': 3}: the client "
            "responds every k-th round",
        ),
        (
            lambda: dm.Stragglers({"a": 0}),
            "Stragglers: given 0 for client 'a', expected a whole number from 1",
        ),
        (
            lambda: dm.Stragglers({"a": 1.5}),  # pyright: ignore[reportArgumentType] - what is tested
            "Stragglers: given 1.5 for client 'a', expected a whole number from 1",
        ),
        (
            lambda: Change(sequence="natural"),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given sequence='natural', expected a dm.Sequence",
        ),
        (
            lambda: Change(leave="ab"),
            "Change: given leave='ab', expected a list of clients",
        ),
        (
            lambda: Change(absent=3),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given absent=3, expected a list of clients",
        ),
        (
            lambda: Change(lost="ab"),  # pyright: ignore[reportArgumentType] - what is tested
            "Change: given lost='ab', expected a list of pairs of clients",
        ),
    ],
)
def test_a_constructor_says_what_it_expected(make: Any, message: str) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("online", "message"),
    [
        (
            dm.Dropout(0.3, clients=["z"]),
            f"Dropout: 'z' is no client; expected names among {NAMES}",
        ),
        (
            dm.Stragglers({"a": 2, "z": 2}),
            f"Stragglers: 'z' is no client; expected names among {NAMES}",
        ),
        ({0: Change()}, "online: given the round 0, expected a whole number from 1"),
        ({"1": Change()}, "online: given the round '1', expected a whole number from 1"),
        (
            {1: ["a"]},
            "online: given ['a'], expected a dm.Change such as dm.Change(leave=['a'])",
        ),
        (
            {1: None},
            "online: given None, expected a dm.Change such as dm.Change(leave=['a'])",
        ),
        (
            lambda moment: ["a"],
            "online: given ['a'], expected a dm.Change such as dm.Change(leave=['a']) or None",
        ),
        (
            lambda moment: False,
            "online: given False, expected a dm.Change such as dm.Change(leave=['a']) or None",
        ),
        (
            lambda moment: Change(leave=["z"]),
            f"online: 'z' is no client; expected names among {NAMES}",
        ),
    ],
)
def test_what_online_refuses(online: Any, message: str) -> None:
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online=online)
    assert str(caught.value) == message


@pytest.mark.parametrize("online", [3, "dropout", dm.Dropout, 0.3, [dm.Dropout(0.3), 3]])
def test_what_is_not_online(online: Any) -> None:
    wrong = online[-1] if isinstance(online, list) else online
    with pytest.raises(dm.OptionError) as caught:
        on(RING)[0].solve(online=online)
    assert str(caught.value) == (
        f"online: given {wrong!r}, expected dm.Dropout(p), dm.Stragglers(...), dm.LossyLinks(p), "
        "a dict {round: dm.Change(...)}, a function of a moment that returns a dm.Change or None, "
        "or a list of these"
    )


def test_a_sequence_that_comes_later_and_does_not_fit() -> None:
    with pytest.raises(dm.SequenceError, match="'z' in partial is no client"):
        on(RING)[0].solve(online={3: Change(sequence=S.partial(["z"]))})


def test_a_change_shows_what_it_changes() -> None:
    assert repr(Change()) == "Change()"
    shown = repr(Change(leave=iter("ab"), lost=[("a", "b")]))
    assert shown == "Change(leave=('a', 'b'), lost=(('a', 'b'),))"
