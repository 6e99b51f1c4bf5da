"""Checks of the numbers and names that a user gives.

Each takes the beginning of the message, up to the value, such as ``"max_rounds: given "``, and
raises ``error`` with what was expected. True and False are no numbers, and NaN is within no range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import numpy as np

from dald_model.errors import DaldError, OptionError
from dald_model.text import listed

Error = type[DaldError]


def is_number(given: Any) -> bool:
    """Whether it is a real number, NaN and infinity included."""
    kinds = float | int | np.floating | np.integer
    return isinstance(given, kinds) and not isinstance(given, bool)


def is_whole(given: Any, least: int, most: float = math.inf) -> bool:
    """Whether it is a whole number within a range."""
    is_int = isinstance(given, int | np.integer) and not isinstance(given, bool)
    return is_int and bool(least <= given <= most)


def argument(owner: Any, what: str) -> str:
    """The beginning of a message on an argument of an object: ``"FedAvg: given step="``."""
    return f"{type(owner).__name__}: given {what}="


def check_positive(said: str, given: Any, expected: str = "a positive number") -> None:
    """Refuse what is no positive finite number."""
    if not (is_number(given) and 0 < given < math.inf):
        raise OptionError(f"{said}{given!r}, expected {expected}")


def check_from_zero(said: str, given: Any) -> None:
    """Refuse what is no finite number from 0."""
    if not (is_number(given) and 0 <= given < math.inf):
        raise OptionError(f"{said}{given!r}, expected a finite number from 0")


def check_share(said: str, given: Any, expected: str) -> None:
    """Refuse what is no number from 0, below 1."""
    if not (is_number(given) and 0 <= given < 1):
        raise OptionError(f"{said}{given!r}, expected {expected}")


def check_whole(
    said: str,
    given: Any,
    least: int = 1,
    expected: str = "a whole number from {least}",
    error: Error = OptionError,
) -> None:
    """Refuse what is no whole number from ``least`` on."""
    if not is_whole(given, least):
        raise error(f"{said}{given!r}, expected {expected.format(least=least)}")


def check_draws(owner: Any, k: Any, seed: Any) -> None:
    """Refuse what says nothing of how many clients are drawn, and how."""
    check_whole(argument(owner, "k"), k)
    check_whole(argument(owner, "seed"), seed, 0)


def check_flag(said: str, given: Any, note: str = "", error: Error = OptionError) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(given, bool | np.bool_):
        raise error(f"{said}{given!r}, expected True or False{note}")


def check_clients(
    said: str,
    names: Iterable[Any],
    known: Collection[Hashable],
    error: Error = OptionError,
    where: str = "",
    expected: str = "names among",
) -> None:
    """Refuse names that are no client's; ``where`` they stand follows the name."""
    for name in names:
        if not isinstance(name, Hashable) or name not in known:
            raise error(f"{said}{name!r}{where} is no client; expected {expected} {listed(known)}")
