"""Rows of choices, one per axis, in which every allowed pair of choices of two axes occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

import numpy as np

Row = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]
Allowed = Callable[[Pair], bool]


def pairs_of(row: Row) -> set[Pair]:
    """The pairs of choices in a row, axes in alphabetical order."""
    return set(combinations(sorted(row.items()), 2))


def all_pairs(axes: Mapping[str, Sequence[str]], allowed: Allowed) -> set[Pair]:
    """The pairs that have to occur."""
    choices = [[(axis, choice) for choice in axes[axis]] for axis in sorted(axes)]
    return {
        (a, b) for one, two in combinations(choices, 2) for a in one for b in two if allowed((a, b))
    }


def covering(
    axes: Mapping[str, Sequence[str]],
    allowed: Allowed,
    rng: np.random.Generator,
    rare: AbstractSet[tuple[str, str]] = frozenset(),
) -> list[Row]:
    """Rows that cover all allowed pairs, found greedily.

    Each row starts from an uncovered pair; then each other axis, in random order, takes the choice
    that covers the most pairs that are left. ``rare`` choices give way to others; what they alone
    would cover is left to the rows that start from it.

    Raises
    ------
    ValueError
        If a pair is allowed, but in no row: rules of three axes cannot be stated by pairs.
    """
    left, rows, missed = all_pairs(axes, allowed), [], 0
    while left:
        row = _row(axes, allowed, sorted(left), rng, rare)
        new = pairs_of(row) & left if row else set()
        missed = 0 if new else missed + 1
        if missed > PATIENCE:
            raise ValueError(f"no row has the pairs {sorted(left)[:3]}")
        if new:
            rows.append(row)
            left -= new
    return rows


PATIENCE = 200
"""Rows without a new pair in a row: some starts leave no choice for another axis."""


def _row(
    axes: Mapping[str, Sequence[str]],
    allowed: Allowed,
    left: Sequence[Pair],
    rng: np.random.Generator,
    rare: AbstractSet[tuple[str, str]],
) -> Row:
    """One row; empty where the start leaves no choice for an axis."""
    row = dict(left[int(rng.integers(len(left)))]) if left else {}
    wanted = set(left)
    for axis in rng.permutation([axis for axis in axes if axis not in row]):
        gains: dict[str, int] = {}
        for choice in axes[axis]:
            new = {_pair((axis, choice), other) for other in row.items()}
            if all(map(allowed, new)):
                gains[choice] = len(new & wanted)
        if not gains:
            return {}
        gains = {c: n for c, n in gains.items() if (axis, c) not in rare} or gains
        best = [choice for choice, gain in gains.items() if gain == max(gains.values())]
        row[str(axis)] = str(rng.choice(best))
    return row


def random_row(
    axes: Mapping[str, Sequence[str]],
    allowed: Allowed,
    rng: np.random.Generator,
    rare: AbstractSet[tuple[str, str]] = frozenset(),
) -> Row:
    """A row of allowed pairs, whatever it covers."""
    while True:
        if row := _row(axes, allowed, (), rng, rare):
            return row


def _pair(one: tuple[str, str], two: tuple[str, str]) -> Pair:
    return (one, two) if one < two else (two, one)
