"""Doubts of what clients answer while they are held: whether the hold is all that kept them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import answer_alone
from dald_model.coordinate.curvature import (
    Curvature,
    curvatures,
    is_bent,
    is_defined_at_zero,
    is_flat_together,
    is_sloping,
)
from dald_model.coordinate.hold import WEAK

GONE = 10.0
"""Who is curved at its answer by less than so many times its hold would go on without one; who is
by so many times less than its hold was held too tightly to know."""
ROUNDED = 1e-9
"""A client that moved by less than this share of where it was held has not moved."""
PULLED = 0.02
"""Whom the hold pulls by this share of the slopes where it is held would go on without it as well,
but for one that keeps flattening: a logarithm is pulled by 0.01."""
DEAR = 200
"""Variables of a client with some curvature from which on it is held rather than solved alone."""
FLAT = 0.5
"""Who is curved at its answer by less than this share of that where it bends begins nearer."""

Points = Mapping[Hashable, np.ndarray]
"""Client -> vector of its local variables."""


class Doubts(NamedTuple):
    """What is doubted of held answers.

    Attributes
    ----------
    alone : dict
        Client -> its answer without a hold, where that was asked for and there is one.
    nearer : dict
        Client -> where its run begins, as it is far flatter at its answer than where it bends.
    dragged, endless : set
        Who would go on for ever: as the hold balances its slopes, or as it is hardly curved where
        it answered.
    flat : tuple
        Who has to be asked again where it answered.
    """

    alone: dict[Hashable, np.ndarray]
    nearer: dict[Hashable, np.ndarray]
    dragged: set[Hashable]
    endless: set[Hashable]
    flat: tuple[Hashable, ...]


def doubts(
    subs: Sequence[Subproblem],
    at_base: Mapping[Hashable, Curvature],
    answers: Points,
    bases: Points,
) -> Doubts:
    """See :class:`Doubts`.

    Parameters
    ----------
    subs : sequence of Subproblem
        Who is held.
    at_base : dict
        Client -> its curvature where it is held.
    answers, bases : dict
        Client -> where it answered, and where it is held.
    """
    found = Doubts({}, {}, set(), set(), ())
    bent = [sub for sub in subs if is_bent(sub)]
    at_answers = curvatures(bent, [answers[sub.name] for sub in bent])
    for sub, there in zip(bent, at_answers, strict=True):
        _doubt_bent(found, sub, at_base[sub.name], there, answers[sub.name], bases[sub.name])
    flat = []
    for sub in subs:
        if is_bent(sub) or sub.size > DEAR:
            continue
        # Curved the same everywhere in each variable it may not be along all of them together
        is_flat = is_flat_together(sub)
        known = at_base[sub.name]
        drags = is_dragged(known, answers[sub.name], bases[sub.name])
        may_go = (drags and not is_firm(sub, known)) or (is_flat and is_sloping(sub))
        if may_go and np.isnan(answer_alone(sub)).any():
            found.dragged.add(sub.name)
        elif is_flat and sub.form is not None and sub.form.terms:
            flat.append(sub.name)
    return found._replace(flat=tuple(flat))


def _doubt_bent(
    found: Doubts,
    sub: Subproblem,
    known: Curvature,
    there: Curvature,
    answer: np.ndarray,
    base: np.ndarray,
) -> None:
    """Doubt a client whose curvature is not the same everywhere, by that at its answer."""
    felt = WEAK**2 * known.diagonal.max()
    bend = there.diagonal.max()
    live = known.diagonal > 0
    ratios = np.maximum(there.diagonal[live] / known.diagonal[live], np.finfo(float).tiny)
    if is_defined_at_zero(sub) and np.log(ratios).mean() < np.log(FLAT):
        found.nearer[sub.name] = known.answer
    drags = is_dragged(known, answer, base)
    if sub.size <= DEAR and (drags or bend < felt / GONE):
        alone = answer_alone(sub)
        if not np.isnan(alone).any():
            found.alone[sub.name] = alone
            return
    if drags:
        found.dragged.add(sub.name)
    elif bend < GONE * felt or _is_gone(known, there, answer - base):
        found.endless.add(sub.name)


def _is_gone(known: Curvature, there: Curvature, move: np.ndarray) -> bool:
    """Whether one of the entries has gone far and is hardly curved where it ended.

    Others may stay where a constraint or a sum holds them.
    """
    live = known.diagonal > 0
    curved, move = known.diagonal[live], np.abs(move[live])
    is_far = curved * move > GONE * np.abs(known.slopes[live])
    return bool((is_far & (there.diagonal[live] < GONE * WEAK**2 * curved)).any())


def is_firm(sub: Subproblem, known: Curvature) -> bool:
    """Whether a quadratic keeps a client along all variables together, and not its hold.

    Such a client has an answer, whatever kinks it has besides: a small ridge under absolute values
    is dragged by them, and a cone program for each took most of the time to begin.
    """
    return bool(known.diagonal.all()) and not is_flat_together(sub, GONE * WEAK**2)


def is_dragged(known: Curvature, answer: np.ndarray, base: np.ndarray) -> bool:
    """Whether an answer is where the hold balances the slopes that the client has at its base.

    Relative to the root of its curvature a slope has the same unit whatever the variable.
    """
    live = known.diagonal > 0
    root = np.sqrt(known.diagonal[live])
    moved, size = np.abs(answer - base), np.abs(base)
    moved[moved <= ROUNDED * size] = 0.0
    drag = WEAK**2 * (root * moved[live]).max()
    return bool(drag > PULLED * (np.abs(known.slopes[live]) / root).max())
