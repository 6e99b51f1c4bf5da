"""Families of drawn models whose optimum is known from outside of the package.

::

    for model in drawn(count=200, seed=1):
        result = model.build().solve()
        model.label(result)  # "right", "wrong" or "borderline"

The labels are defined in :mod:`tests.answer.families.drawn`. ``python -m tests.answer.families``
solves many and prints what was accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tests.answer.families.drawn import Drawn, Truth
from tests.answer.families.epigraphs import epigraphs, unbounded_alone
from tests.answer.families.illdetermined import (
    collinear,
    conditioned,
    not_unique,
    polynomials,
    unequal_spreads,
    valleys,
)
from tests.answer.families.maros import maros
from tests.answer.families.ordinary import degenerate, ordinary

__all__ = ["FAMILIES", "ORDINARY", "Drawn", "Truth", "drawn", "redrawn"]

FAMILIES: dict[str, Callable[[np.random.Generator, int], Drawn | None]] = {
    "unequal spreads": unequal_spreads,
    "polynomials": polynomials,
    "collinear": collinear,
    "valleys": valleys,
    "epigraphs": epigraphs,
    "unbounded alone": unbounded_alone,
    "Maros": maros,
    "conditioned": conditioned,
    "not unique": not_unique,
    "degenerate": degenerate,
    "ordinary": ordinary,
}
ORDINARY = ("ordinary", "degenerate")
"""The families of well-determined owners; of all others owners alone are ill-determined."""


def drawn(count: int, seed: int, families: tuple[str, ...] = ()) -> Iterator[Drawn]:
    """So many models of each family in turn; a draw whose truth is not certain is skipped."""
    names = list(families or FAMILIES)
    done, at, missed = 0, 0, 0
    while done < count and missed < TRIES * len(names):
        found = redrawn(names[at % len(names)], seed * STRIDE + at)
        at += 1
        missed = 0 if found else missed + 1
        if found:
            done += 1
            yield found


def redrawn(family: str, seed: int) -> Drawn | None:
    """The model of a family and a seed, as the tables print them."""
    return FAMILIES[family](np.random.default_rng(seed), seed)


STRIDE = 1_000_000
"""More than anybody draws of one seed, so that seeds do not overlap."""
TRIES = 30
"""Skips in a row after which there is nothing to draw, as where the data of Maros are absent."""
