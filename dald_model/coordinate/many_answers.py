"""Clients that have many answers, and give the one that is nearest to their neighbours'."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import answer_nearer
from dald_model.coordinate.sides import moved_to, place, sides_of

Subs = Mapping[Hashable, Subproblem]
"""Client -> its subproblem."""


def answer_near_others(
    compiled: Decomposition, subs: Subs, found: np.ndarray, names: Collection[Hashable]
) -> None:
    """Let those of these who have many answers give the one that is nearest to their neighbours'.

    ``found`` has the answers of all clients, NaN where there is none. They are told what those say
    who are known to have one answer only, as far as there are any: at first who is not among
    ``names``, and then who has not been moved. A mean of all would have their own answer in it.
    """
    if not names:
        return
    known = found.copy()
    moved = _moved(compiled, subs, found, known, names, names)
    if moved and len(moved) < len(names):
        _moved(compiled, subs, found, known, moved, moved)


def _moved(
    compiled: Decomposition,
    subs: Subs,
    found: np.ndarray,
    known: np.ndarray,
    names: Iterable[Hashable],
    many: Collection[Hashable],
) -> set[Hashable]:
    """Who answers elsewhere than is known when told by who is not one of ``many``."""
    all_placed, single = known.copy(), told_without(compiled, known, many)
    place(compiled, all_placed)
    sides = sides_of(compiled, single)
    sides, moved = np.where(np.isnan(sides), sides_of(compiled, all_placed), sides), set()
    for name in names:
        sub, part = subs[name], compiled.columns[name]
        there = moved_to(sub, all_placed[part], sides[1 - sub.rows, sub.entries])
        if there is not None:
            found[part] = answer_nearer(sub, known[part], there)
            if not np.array_equal(found[part], known[part], equal_nan=True):
                moved.add(name)
    return moved


def told_without(
    compiled: Decomposition, found: np.ndarray, names: Iterable[Hashable]
) -> np.ndarray:
    """The answers of all others, and where those put servers and who has none."""
    single = found.copy()
    for name in (*names, *compiled.averages):
        single[compiled.columns[name]] = np.nan
    place(compiled, single)
    return single
