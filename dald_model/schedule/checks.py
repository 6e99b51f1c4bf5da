"""Checks of sequences: the arguments of their constructors, and whether a strategy is fair."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from dald_model.errors import SequenceError, SequenceWarning
from dald_model.schedule.round_state import Moment, Residuals
from dald_model.text import listed
from dald_model.validate import check_flag, check_whole

LOOPS = 2000
"""Inner loops that are tried."""
DEVIATIONS = 6.0
"""Standard deviations that a count may be off: with equal probabilities once in 10^9 clients."""


def check_fairness(
    label: str,
    names: Sequence[Hashable],
    choose: Callable[[Moment], Iterable[Hashable]],
) -> None:
    r"""Monte-Carlo test of a strategy with residuals that favour nobody.

    "Each subproblem should be considered with equal probability, although the actual selection
    may vary depending on the strategy" (Section V-A): in the trials the residuals are drawn
    independently with one distribution, so that a greedy strategy, too, takes everybody equally
    often. With :math:`c_i` the loops of D in which client i takes part and
    :math:`p = \sum_i c_i / (n D)`, all must have
    :math:`|c_i - p D| \le 6 \sqrt{p (1 - p) D}`.

    Warns
    -----
    SequenceWarning
        If some client takes part more or less often than that.

    Raises
    ------
    SequenceError
        If a client is never chosen.
    """
    generator = np.random.default_rng(0)
    counts = dict.fromkeys(names, 0)
    unknown = Residuals(*4 * [np.inf])
    for draw in range(1, LOOPS + 1):
        stale = dict(zip(names, generator.random(len(names)).tolist(), strict=True))
        moment = Moment(draw, 1, draw, tuple(names), (), True, False, unknown, lambda s=stale: s)
        for name in set(choose(moment)):
            counts[name] += 1
    never = [name for name, count in counts.items() if count == 0]
    if never:
        raise SequenceError(
            f"{label}: {listed(never)} never takes part in {LOOPS} inner loops, so "
            "consensus cannot be reached (Remark 1 of the paper); choose everybody with equal "
            "probability"
        )
    share = sum(counts.values()) / (len(names) * LOOPS)
    allowed = DEVIATIONS * np.sqrt(share * (1 - share) * LOOPS) + 1e-9
    worst = max(names, key=lambda name: abs(counts[name] - share * LOOPS))
    if abs(counts[worst] - share * LOOPS) > allowed:
        warnings.warn(
            f"{label}: client {worst!r} takes part in {counts[worst] / LOOPS:.1%} of the inner "
            f"loops, the mean over the clients is {share:.1%}; expected equal probabilities "
            "(Section V-A of the paper); draw from all clients alike, or go on knowingly: the "
            "full cycle that closes an outer loop keeps everybody in",
            SequenceWarning,
            stacklevel=2,
        )


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
