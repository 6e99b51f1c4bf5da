"""Sites of which one misbehaves, and what it may reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.engines.messages import decode, encode

SIZE, ROWS, FIRST = 3, 30, 3
"""Entries of w, rows at each site, and the round from which one misbehaves."""
RNG = np.random.default_rng(0)
A = [RNG.normal(size=(ROWS, SIZE)) for _ in range(4)]
B = [RNG.normal(size=ROWS) for _ in range(4)]
OTHERS = np.linalg.lstsq(np.vstack(A[:3]), np.hstack(B[:3]))[0]
"""What the three others agree on."""
ALL = np.linalg.lstsq(np.vstack(A), np.hstack(B))[0]
"""What all agree on, from where they are."""

Reply = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


def site(at: int, away: float = 0.0) -> dm.Site:
    """The site of a number, with everything so far away from zero."""
    w = cp.Variable(SIZE, name="w")
    loss = cp.sum_squares(A[at] @ (w - away) - B[at])
    return dm.Site(f"s{at}", loss, [w >= away - 5], shared=[w])


class Misbehaving:
    """A site whose replies to one kind of message are others, from one of them on."""

    def __init__(self, kind: str, reply: Reply, first: int, away: float) -> None:
        self._site, self.name = site(3, away), "s3"
        self._kind, self._reply, self._left = kind, reply, first

    def handle(self, message: bytes) -> Any:
        said, _ = decode(message)
        kind = said.get("question") or ("collect" if "collect" in said else "asks")
        honest = self._site.handle(message)
        if kind != self._kind:
            return honest
        self._left -= 1
        return honest if self._left > 0 else self._reply(*decode(honest))


def federation(
    kind: str, reply: Reply, first: int | None = None, away: float = 0.0
) -> dm.Federation:
    first = first or (FIRST if kind == "asks" else 1)
    sites: list[Any] = [site(at, away) for at in range(3)]
    return dm.Federation(dm.engines.Sites([*sites, Misbehaving(kind, reply, first, away)]))


def with_array(name: str, value: Any) -> Reply:
    def reply(said: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
        found = np.asarray(value(arrays[name]) if callable(value) else value)
        return encode(said, arrays | {name: found})

    return reply


def filled(name: str, number: float) -> Reply:
    return with_array(name, lambda array: np.full(array.shape, number))


def without(name: str) -> Reply:
    return lambda said, arrays: encode(said, {n: a for n, a in arrays.items() if n != name})


def says(**words: Any) -> Reply:
    return lambda said, arrays: encode(said | words, arrays)


def only(**words: Any) -> Reply:
    return lambda said, _: encode({"number": said["number"]} | words, {})


def silent_on(field: str) -> Reply:
    return lambda said, arrays: encode({n: v for n, v in said.items() if n != field}, arrays)


def raw(data: Any) -> Reply:
    return lambda *_: data


def headed(header: bytes) -> Reply:
    return raw(len(header).to_bytes(8, "little") + header)


def said_to_be(shape: Any, kind: str = "f8", name: str = "0.points") -> Reply:
    """The arrays of a header that nothing follows."""

    def reply(said: dict[str, Any], _: Any) -> bytes:
        header = json.dumps({"said": said, "arrays": [[name, kind, shape]]}).encode()
        return len(header).to_bytes(8, "little") + header

    return reply


def answered(*statuses: Any, messages: Any = ()) -> Reply:
    return says(answers=[{"statuses": list(statuses), "messages": list(messages)}])


def twice(name: str) -> Reply:
    """Two arrays of one name."""

    def reply(said: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
        sent = [(n, a.dtype.str[1:], a.shape) for n, a in arrays.items()]
        sent.append((name, "f8", arrays[name].shape))
        header = json.dumps({"said": said, "arrays": sent}).encode()
        parts = [a.tobytes() for a in [*arrays.values(), arrays[name]]]
        return b"".join([len(header).to_bytes(8, "little"), header, *parts])

    return reply


def raised(*_: Any) -> Any:
    raise KeyError("boom")


def exited(*_: Any) -> Any:
    raise MemoryError


IN_ROUNDS: dict[str, Reply] = {
    **{f"points {x}": filled("0.points", x) for x in (np.nan, np.inf, -np.inf, 1e300, -1e21)},
    "one point NaN": with_array("0.points", [0.0, np.nan, 0.0]),
    **{
        f"points of shape {np.shape(x)}": with_array("0.points", x)
        for x in (np.zeros(2), np.zeros(30), np.zeros((1, 3)), np.zeros(0), np.zeros(()))
    },
    "points ints": with_array("0.points", np.array([1, 2, 3])),
    "points bytes": with_array("0.points", np.zeros(3, dtype=np.uint8)),
    "no points": without("0.points"),
    "points twice": twice("0.points"),
    **{f"objective {x}": filled("0.objectives", x) for x in (np.nan, np.inf, -1e30, 1e25)},
    "two objectives": with_array("0.objectives", np.zeros(2)),
    "no objective": without("0.objectives"),
    "slack of three": with_array("0.slack", np.zeros(3)),
    "negative slack": with_array("0.slack", -np.ones(1)),
    "slack NaN": with_array("0.slack", np.full(1, np.nan)),
    "another array": with_array("0.gradient", np.zeros(3)),
    "an array of another batch": with_array("1.points", np.zeros(3)),
    "status nonsense": answered([0, "<script>"]),
    "status number": answered([0, 5]),
    "status null": answered([0, None]),
    "status of client 99": answered([99, "optimal"]),
    "status of client -1": answered([-1, "infeasible"]),
    "status of client true": answered([True, "infeasible"]),
    "status not a pair": answered([0]),
    "statuses text": answered(*"ab"),
    "two statuses": answered([0, "infeasible"], [0, "optimal"]),
    "message of client 7": answered(messages=[[7, "?"]]),
    "message number": answered(messages=[[0, 7]]),
    "no answers": says(answers=[]),
    "answers null": says(answers=None),
    "answers an object": says(answers={}),
    "two answers": says(answers=[{"statuses": [], "messages": []}] * 2),
    "answers without statuses": says(answers=[{"messages": []}]),
    "answers with more": says(answers=[{"statuses": [], "messages": [], "data": 1}]),
    "answers missing": silent_on("answers"),
    "no number": silent_on("number"),
    "another number": says(number=1),
    "number text": says(number="1"),
    "number NaN": says(number=float("nan")),
    "one word more": says(more=1),
    "garbage": raw(b"\x00\x01garbage"),
    "empty": raw(b""),
    "short": raw(b"\x01"),
    "text": raw("text"),
    "None": raw(None),
    "error": only(error="x" * 100),
    "error of megabytes": only(error="x" * 3_000_000),
    "error number": only(error=5),
    "error with an escape": only(error="\x1b[2J\x07 gone"),
    "forgotten": only(forgotten="me"),
    "forgotten list": only(forgotten=["me"]),
    "raised": raised,
    "out of memory": exited,
    "deep": headed(b"[" * 100_000),
    "deep object": headed(b'{"said":' * 50_000),
    "header a list": headed(b"[]"),
    "header a number": headed(b"7"),
    "header not UTF-8": headed(b"\xff\xfe"),
    "header without arrays": headed(b'{"said": {}}'),
    "said a list": headed(b'{"said": [1], "arrays": []}'),
    "header beyond the end": raw(b"\xff" * 7 + b"\x7f" + b"{}"),
    "header longer than any": raw((2**23).to_bytes(8, "little") + b" " * 2**23),
    **{f"array of shape {x}": said_to_be(x) for x in ([-1], [10**15], [1.5], "3", [3] * 99)},
    "array of another type": said_to_be([3], "O"),
    "array without a name": said_to_be([3], name=""),
    "entries that did not come": said_to_be([3]),
}
"""What a site replies in a round; in each case the others can go on without it."""

BEFORE: dict[str, tuple[str, Reply]] = {
    **{
        f"name {x!r}": ("introduce", says(name=x))
        for x in (5, ["a"], None, "", "a\n\x1b[2J<b>", "x" * 10_000)
    },
    **{
        f"shared {x}": ("introduce", says(shared=x))
        for x in (
            *([], 5, None, [5], [["w"]], [["w", 3]], [["w", [-3]]], [["w", [0]]], [["w", [1.5]]]),
            *([["w", [3]], ["w", [3]]], [["w", [3]], ["q", [10**8]]]),
            *([["w", [3, 1, 1]]], [[7, [3]]], [["w\x00", [3]]]),
        )
    },
    "no name": ("introduce", silent_on("name")),
    "a flag that is none": ("introduce", says(is_exact=[1])),
    "a flag missing": ("introduce", silent_on("is_exact")),
    "an array that nobody asked for": ("introduce", with_array("data", np.zeros(3))),
    "error at first": ("introduce", only(error="no")),
    "a shared size without end": ("introduce", says(shared=[["w", [2**21]]])),
    "alone infinite": ("alone", filled("point", np.inf)),
    "alone 1e200": ("alone", filled("point", 1e200)),
    "alone short": ("alone", with_array("point", np.zeros(1))),
    "alone long": ("alone", with_array("point", np.zeros(50))),
    "alone with a price": ("alone", with_array("price", np.zeros(SIZE))),
    "alone nothing": ("alone", without("point")),
    "alone empty": ("alone", raw(b"")),
    "alone raised": ("alone", raised),
    "hold infinite": ("hold", filled("point", np.inf)),
    "hold short": ("hold", with_array("point", np.zeros(1))),
    "hold empty": ("hold", with_array("point", np.zeros(0))),
    "hold nothing": ("hold", without("point")),
    "hold error": ("hold", only(error="no")),
    "answer infinite": ("answer", filled("factor", np.inf)),
    "answer of one row": ("answer", with_array("point", np.zeros(SIZE))),
    "answer with two factors": ("answer", with_array("factor", np.zeros(2))),
    "answer with a price": ("answer", with_array("price", np.zeros((3, SIZE)))),
    "answer without a factor": ("answer", without("factor")),
    "answer with a factor below zero": ("answer", filled("factor", -1.0)),
    "answer with a factor of 1e30": ("answer", filled("factor", 1e30)),
    "answer empty": ("answer", with_array("point", np.zeros(0))),
    "answer forgotten": ("answer", only(forgotten="me")),
}
"""What a site replies before the first round, by the question."""


def _some(x: np.ndarray) -> np.ndarray:
    """Without the first of its numbers."""
    return np.where(np.arange(x.size).reshape(x.shape) == 0, np.nan, x)


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NaN": lambda x: np.nan * x,
    "NaN in part": _some,
    "zero": lambda x: 0 * x,
    "1e6": lambda x: 0 * x + 1e6,
    "1e19": lambda x: 0 * x + 1e19,
    "a billion times": lambda x: 1e9 * x,
    "a billionth": lambda x: 1e-9 * x,
    "negative": lambda x: -x,
    "noise": lambda x: x + 10 * np.abs(np.random.default_rng(0).normal(size=x.shape)),
}
LIES: dict[str, tuple[str, Reply]] = {
    f"{kind}: {name} {what}": (kind, with_array(name, change))
    for kind, name in (
        ("alone", "point"),
        ("hold", "point"),
        ("answer", "point"),
        ("answer", "factor"),
    )
    for what, change in CHANGES.items()
}
"""What a site can say before the first round that is well formed and not so, by the question."""
