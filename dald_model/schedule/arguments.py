"""Arguments of the constructors of :class:`dald_model.schedule.sequence.Sequence`, checked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from dald_model.errors import SequenceError
from dald_model.validate import check_flag, check_whole


def levels(given: Iterable[Iterable[Hashable]]) -> list[list[Hashable]]:
    """Levels of clients."""
    try:
        return [list(level) for level in given]
    except TypeError as error:
        raise SequenceError(
            f"Sequence.levels: given {given!r}, expected a list of levels, each a list of "
            "clients, such as [['a', 'c'], ['b']]"
        ) from error


def matrix(given: Any) -> np.ndarray:
    """An array of numbers, which need not be a hierarchical matrix."""
    try:
        return np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise SequenceError(
            f"Sequence.from_matrix: given {given!r}, expected a square array of numbers with "
            "a row and a column for each client (a sparse one by its toarray())"
        ) from error


def check_depth_first(given: bool) -> None:
    """Refuse a second root in the place of a flag."""
    said, note = "Sequence.from_root: given depth_first=", "; a sequence has one root"
    check_flag(said, given, note, SequenceError)


def subsets(given: tuple[Iterable[Hashable], ...]) -> tuple[tuple[Hashable, ...], ...]:
    """Lists of clients, none of them empty."""
    for subset in given:
        if isinstance(subset, str) or not isinstance(subset, Iterable):
            raise SequenceError(
                f"Sequence.partial: given {subset!r}, expected lists of clients such as "
                "['a'], ['b', 'c']"
            )
    found = tuple(tuple(subset) for subset in given)
    if not found or not all(found):
        raise SequenceError(
            f"Sequence.partial: given {found!r}, expected at least one list and a client in "
            "each, such as ['a'], ['b', 'c']"
        )
    return found


def clients(given: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Clients that are gone through several times."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SequenceError(
            f"Sequence.repeat: given {given!r}, expected a list of clients such as ['a']"
        )
    return tuple(given)


def check_chooser(given: Callable[..., Any]) -> None:
    """Refuse what cannot be called."""
    if not callable(given):
        raise SequenceError(
            f"Sequence.custom: given {given!r}, expected a function of a moment and a random "
            "generator that returns clients"
        )


def count(given: int, name: str) -> int:
    """A whole number from 1, of the constructor of this name."""
    check_whole(f"Sequence.{name}: given ", given, error=SequenceError)
    return int(given)


def seed(given: int, name: str) -> int:
    """A seed, of the constructor of this name."""
    check_whole(f"Sequence.{name}: given seed=", given, 0, "an int from 0", SequenceError)
    return int(given)
