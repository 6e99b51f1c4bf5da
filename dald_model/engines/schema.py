"""Schema of what crosses a boundary, and the one reader that checks against it.

A message of a site, a packed client, a saved answer and a checkpoint are bytes from elsewhere. Each
is declared as a schema: a :class:`Record` of words and numbers, and an :class:`Array` for each
array. What does not fit is refused by a :class:`DamagedError` that names the field, what it holds
and what was expected; nothing larger than what was declared is made on the way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from dald_model.sizes import INFINITE
from dald_model.text import printable
from dald_model.validate import is_number, is_whole

HEADER_BYTES = 2**22
"""The most bytes of a header, 4 MiB: in memory its JSON may be twenty times as large. That is room
for a hundred thousand cones."""
MOST_HELD = 2**40
"""The most entries that an array may be said to have, before it is compared with what came."""
AXES = 32
"""The most dimensions of an array, as in numpy."""
WORDS = 200
"""The most letters of a name or a message, and of what is printed of one that is refused."""


class DamagedError(ValueError):
    """The bytes are not what they should be: names the field."""


class Schema(Protocol):
    """The schema of a value."""

    def check(self, given: Any, where: str) -> None:
        """Refuse another value."""
        ...


def refuse(where: str, given: Any, expected: str) -> NoReturn:
    """Say what is wrong with a field."""
    raise DamagedError(f"{where} is {printable(repr(given), WORDS)}, expected {expected}")


@dataclass(frozen=True)
class Is:
    """A value of one of these types; true and false are no numbers."""

    kinds: tuple[type, ...]
    name: str

    def check(self, given: Any, where: str) -> None:
        if type(given) not in self.kinds:
            refuse(where, given, self.name)


FLAG, FREE_TEXT, OBJECT = Is((bool,), "true or false"), Is((str,), "text"), Is((dict,), "an object")
FLOAT = Is((float, int), "a number")


@dataclass(frozen=True)
class Text:
    """Text of at most so many letters, all of which can be printed."""

    most: int = WORDS

    def check(self, given: Any, where: str) -> None:
        is_text = isinstance(given, str) and 0 < len(given) <= self.most and given.isprintable()
        if not is_text:
            refuse(where, given, f"1 to {self.most} printable letters")


@dataclass(frozen=True)
class OneOf:
    """One of these words."""

    words: Sequence[str]

    def check(self, given: Any, where: str) -> None:
        if not isinstance(given, str) or given not in self.words:
            refuse(where, given, f"one of {', '.join(self.words)}")


@dataclass(frozen=True)
class Whole:
    """A whole number between two."""

    least: int = 0
    most: float = 2**62

    def check(self, given: Any, where: str) -> None:
        if not is_whole(given, self.least, self.most):
            refuse(where, given, f"a whole number from {self.least} to {self.most:g}")


@dataclass(frozen=True)
class Number:
    """A finite number."""

    least: float = -INFINITE

    def check(self, given: Any, where: str) -> None:
        if not (is_number(given) and self.least <= given <= INFINITE):
            refuse(where, given, f"a number from {self.least:g} to {INFINITE:g}")


@dataclass(frozen=True)
class Many:
    """A list of values, of one kind or of one kind each."""

    each: Schema | tuple[Schema, ...]
    most: int = HEADER_BYTES

    def check(self, given: Any, where: str) -> None:
        if not isinstance(given, list) or len(given) > self.most:
            refuse(where, given, f"a list of at most {self.most}")
        kinds = self.each if isinstance(self.each, tuple) else (self.each,) * len(given)
        if len(kinds) != len(given):
            refuse(where, given, f"a list of {len(kinds)}")
        for at, (kind, one) in enumerate(zip(kinds, given, strict=True)):
            kind.check(one, f"{where}[{at}]")


@dataclass(frozen=True)
class Record:
    """An object with these fields, some of which may be missing, and no others."""

    fields: Mapping[str, Schema]
    optional: Mapping[str, Schema] | None = None

    def check(self, given: Any, where: str) -> None:
        known = {**self.fields, **(self.optional or {})}
        if not isinstance(given, dict):
            refuse(where, given, "an object")
        for name in self.fields.keys() - given.keys():
            raise DamagedError(f"{_field(where, name)} is missing")
        for name, value in given.items():
            if name not in known:
                raise DamagedError(f"{_field(where, name)} is no field of it")
            known[name].check(value, _field(where, name))


def _field(where: str, name: str) -> str:
    return printable(f"{where}.{name}" if where else name, WORDS)


@dataclass(frozen=True)
class Array:
    """An array of a type and a shape, in which None is any length, and finite numbers in it.

    Attributes
    ----------
    kind : str
        As numpy calls it: "f8", "i8" or "u1".
    shape : tuple of int or None
    least, most : float
    is_optional : bool
        Whether it may be missing.
    may_lack : bool
        Whether entries may be NaN.
    """

    kind: str
    shape: tuple[int | None, ...]
    least: float = -INFINITE
    most: float = INFINITE
    is_optional: bool = False
    may_lack: bool = False

    def check_head(self, kind: str, shape: tuple[int, ...], where: str) -> None:
        """Refuse another type or shape, before anything of that size is made."""
        is_same = len(shape) == len(self.shape) and all(
            wanted in (None, found) for wanted, found in zip(self.shape, shape, strict=True)
        )
        if kind != self.kind or not is_same:
            wanted = tuple("any" if one is None else one for one in self.shape)
            raise DamagedError(
                f"{where} is of type {printable(kind, 8)} and shape {shape}, expected {self.kind} "
                f"and {wanted}"
            )

    def check(self, given: np.ndarray, where: str) -> None:
        """Refuse entries out of range."""
        if not given.size or self.kind == "u1":
            return
        with np.errstate(invalid="ignore"):
            is_sound = (given >= self.least) & (given <= self.most)
        if self.may_lack:
            is_sound |= np.isnan(given)
        if not is_sound.all():
            at = int(np.argmin(is_sound.reshape(-1)))
            refuse(
                f"{where}[{at}]",
                given.reshape(-1)[at].item(),
                f"a number from {self.least:g} to {self.most:g}",
            )


def parsed(text: bytes) -> Any:
    """JSON from anywhere: no numbers that it has no word for, nothing nested without end."""
    if len(text) > HEADER_BYTES:
        raise DamagedError(f"the header has {len(text)} bytes, expected at most {HEADER_BYTES}")
    try:
        return json.loads(text.decode(), parse_constant=_no_number)
    except DamagedError:
        raise
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"the header is no JSON ({error})") from error


def _no_number(word: str) -> NoReturn:
    raise DamagedError(f"the header holds {word}")


def check_arrays(
    heads: Mapping[str, tuple[str, tuple[int, ...]]], wanted: Mapping[str, Array]
) -> None:
    """Refuse arrays that are missing, not asked for, or of another type or shape."""
    for name, array in wanted.items():
        if name in heads:
            array.check_head(*heads[name], name)
        elif not array.is_optional:
            raise DamagedError(f"the array {name} is missing")
    for name in heads:
        if name not in wanted:
            raise DamagedError(f"the array {printable(name, WORDS)} was not asked for")


@dataclass(frozen=True)
class Size:
    """The shape of an array that can be: sizes, none of them negative."""

    def check(self, given: Any, where: str) -> None:
        is_shape = (
            isinstance(given, list) and len(given) <= 32 and all(is_whole(n, 0) for n in given)
        )
        if not is_shape or math.prod(given) > MOST_HELD:
            refuse(where, given, f"at most {AXES} sizes of an array of at most {MOST_HELD} entries")
