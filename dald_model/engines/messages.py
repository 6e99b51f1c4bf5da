"""Schema of each message between a coordinator and a host, and of each reply.

A reply that is refused makes its host a lost one, with the field in the message: what is done of a
host that is lost (retries, :class:`dald_model.Unanswered`, ``result.losses``) is done of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dald_model.declare.remote import DISCLOSURES
from dald_model.engines.engine import HostLostError
from dald_model.engines.schema import (
    FLAG,
    FREE_TEXT,
    WORDS,
    Array,
    DamagedError,
    Many,
    Number,
    OneOf,
    Record,
    Size,
    Text,
    Whole,
)
from dald_model.engines.wire import Expected, Message, decode
from dald_model.sizes import INFINITE
from dald_model.solvers.base import Encoding
from dald_model.solvers.interior.calls import SHAPES
from dald_model.text import printable

STATUSES = ("optimal", "optimal_inaccurate", "infeasible", "unbounded", "solver_error")
"""The words of :class:`dald_model.solvers.base.Answers`."""
VARIABLES_SHARED = 1000
"""The most variables that a site shares."""

ENTRIES_SHARED = 2**20
"""The most entries that a site shares, which it says before it has sent any: 8 MiB a vector."""

NUMBERED = {"number": Whole()}
FLAGS = ("is_exact", "is_angular")
QUESTIONS = ("alone", "hold", "answer")
"""The questions to a site before the first round."""
ANSWERS_HELD = 3
"""Answers that a question asks for, see :mod:`dald_model.coordinate.scaling.site_curvature`."""

PLACED = Record({"session": Whole(), "solver": Text(), "clients": Many(Whole())})
ASKED = Record(
    {
        "session": Whole(),
        "news": Many(OneOf(("which", "mu", "rho", "neighbours", "lengths", "slopes"))),
    }
)
NUMBERS = Many(Whole())
RUN = {"round": Whole(), "release": NUMBERS, "forget": NUMBERS, "keep": NUMBERS, "renew": NUMBERS}
REQUESTS: Mapping[str, Record] = {
    "asks": Record(
        NUMBERED | {"asks": Many(ASKED), "tolerance": Number(0.0)},
        RUN | {"place": Many(PLACED)},
    ),
    "collect": Record(NUMBERED | {"collect": NUMBERS, "kept": FLAG}, RUN),
    "members": Record(
        NUMBERED | {"members": Whole()},
        {"open": Whole(), "close": FLAG, "calls": Many(OneOf(tuple(SHAPES))), "silent": Whole()},
    ),
    "question": Record(NUMBERED | {"question": OneOf(("introduce", *QUESTIONS))}),
}
"""Schemas of the requests to a host, by the field that identifies each."""


def check_request(said: Mapping[str, Any]) -> None:
    """Refuse what no coordinator asks."""
    kind = next((one for one in REQUESTS if one in said), "asks")
    REQUESTS[kind].check(said, "")


def admitted(reply: bytes, number: int, expected: Expected) -> Message:
    """The reply to the message of a number, as it was declared.

    Raises
    ------
    HostLostError
        If it is another, or says that the host failed.
    """

    def checked(said: dict[str, Any]) -> Mapping[str, Array]:
        if said.get("number") != number:
            raise DamagedError(
                f"it answers message {printable(repr(said.get('number')), WORDS)}, expected "
                f"{number}"
            )
        for what in ("error", "forgotten"):
            if what in said:
                Record(NUMBERED | {what: FREE_TEXT}).check(said, "")
                return {}
        return expected(said)

    try:
        found = decode(reply, checked)
    except DamagedError as error:
        raise HostLostError(f"its reply was refused: {error}") from error
    if "error" in found.said:
        raise HostLostError(f"it failed: {printable(found.said['error'], WORDS)}")
    if "forgotten" in found.said:
        raise HostLostError(printable(found.said["forgotten"], WORDS))
    return found


def answers(sizes: Sequence[tuple[int, int]], is_strict: bool) -> Expected:
    """Answers of sessions, each of so many clients with so many variables in all.

    ``is_strict`` refuses numbers that are not finite, but of clients that were not solved.
    """
    told = tuple(
        Record(
            {
                "statuses": Many(Many((Whole(0, count - 1), OneOf(STATUSES))), count),
                "messages": Many(Many((Whole(0, count - 1), FREE_TEXT)), count),
            }
        )
        for count, _ in sizes
    )
    said = Record(NUMBERED | {"answers": Many(told)})

    def expected(given: dict[str, Any]) -> Mapping[str, Array]:
        said.check(given, "")
        arrays: dict[str, Array] = {}
        for at, ((count, total), one) in enumerate(zip(sizes, given["answers"], strict=True)):
            is_free = not is_strict or bool(one["statuses"])
            most = INFINITE if is_strict else math.inf
            for name, size in (("points", total), ("objectives", count)):
                arrays[f"{at}.{name}"] = Array("f8", (size,), -most, most, may_lack=is_free)
            for name in ("slack", "slack_scaled"):
                arrays[f"{at}.{name}"] = Array("f8", (count,), 0.0, most, True, is_free)
        return arrays

    return expected


def multipliers(count: int) -> Expected:
    """Multipliers of so many clients."""
    said = Record(NUMBERED)

    def expected(given: dict[str, Any]) -> Mapping[str, Array]:
        said.check(given, "")
        return {
            "values": Array("f8", (None,), -math.inf, math.inf, may_lack=True),
            "lengths": Array("i8", (count,), 0),
            "encodings": Array("u1", (count,), 0, max(Encoding)),
        }

    return expected


def opened(count: int) -> Expected:
    """Replies of ``count`` clients of an interior point before their first call."""
    heights = Many(Whole())
    one = (Whole(), FLAG, heights, heights, Whole(), Whole(), Whole())
    said = Record(NUMBERED | {"seen": Many(tuple(Many(one) for _ in range(count)))})

    def expected(given: dict[str, Any]) -> Mapping[str, Array]:
        said.check(given, "")
        return {}

    return expected


def called(sizes: Sequence[int]) -> Expected:
    """Answers of clients of an interior point to calls, with these numbers of entries.

    They lack some where the arithmetic broke down.
    """
    said = Record(NUMBERED, {"broken": FREE_TEXT})

    def expected(given: dict[str, Any]) -> Mapping[str, Array]:
        said.check(given, "")
        if "broken" in given:
            return {}
        return {
            f"{at}": Array("f8", (size,), -math.inf, math.inf, may_lack=True)
            for at, size in enumerate(sizes)
        }

    return expected


def introduction(given: dict[str, Any]) -> Mapping[str, Array]:
    """How a site introduces itself: in words, by its name and what it shares."""
    variable = Many((Text(), Size()))
    flags = dict.fromkeys(FLAGS, FLAG)
    named = {
        "name": Text(),
        "shared": Many(variable, VARIABLES_SHARED),
        "disclose": OneOf(DISCLOSURES),
    }
    Record(NUMBERED | named | flags).check(given, "")
    names = [name for name, _ in given["shared"]]
    if not names or len(set(names)) < len(names):
        raise DamagedError("shared names no variable, or one twice")
    if any(len(shape) > 2 or math.prod(shape) == 0 for _, shape in given["shared"]):
        raise DamagedError("shared has a variable without entries, or of more than two dimensions")
    if sum(math.prod(shape) for _, shape in given["shared"]) > ENTRIES_SHARED:
        raise DamagedError(f"shared has more than {ENTRIES_SHARED} entries")
    return {}


def asked(kind: str, size: int) -> Mapping[str, Array]:
    """The arrays of a question to a site that shares so many entries."""
    if kind == "answer":
        return {"told": Array("f8", (ANSWERS_HELD, size)), "weights": Array("f8", (size,), 0.0)}
    return {"told": Array("f8", (size,))} if kind == "hold" else {}


def question(kind: str, size: int) -> Callable[[dict[str, Any]], Mapping[str, Array]]:
    """The answer of such a site; NaN where it has none."""
    said, is_held = Record(NUMBERED), kind == "answer"
    arrays = {"point": Array("f8", (ANSWERS_HELD, size) if is_held else (size,), may_lack=True)}
    if is_held:
        arrays["factor"] = Array("f8", (ANSWERS_HELD,), 0.0, may_lack=True)

    def expected(given: dict[str, Any]) -> Mapping[str, Array]:
        said.check(given, "")
        return arrays

    return expected
