"""Doubts of what clients answer while they are held: whether the hold is all that kept them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import answer_alone
from dald_model.coordinate.curvature import (
    Curvature,
    are_flat_together,
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
    many : tuple
        Who is flat along several variables together, so that its hold chooses among answers.
    """

    alone: dict[Hashable, np.ndarray]
    nearer: dict[Hashable, np.ndarray]
    dragged: set[Hashable]
    endless: set[Hashable]
    flat: tuple[Hashable, ...]
    many: tuple[Hashable, ...]


def doubts(
    subs: Sequence[Subproblem],
    known: Sequence[Curvature],
    answers: Sequence[np.ndarray],
    bases: Sequence[np.ndarray],
) -> Doubts:
    """See :class:`Doubts`.

    Parameters
    ----------
    subs : sequence of Subproblem
        Who is held.
    known : sequence of Curvature
        Of each its curvature where it is held.
    answers, bases : sequence of ndarray, shape (m,)
        Where each answered, and where it is held.
    """
    found, flat, many = Doubts({}, {}, set(), set(), (), ()), [], []
    bent = [i for i, sub in enumerate(subs) if is_bent(sub)]
    there: list[Curvature | None] = [None] * len(subs)
    of_bent = curvatures([subs[i] for i in bent], [answers[i] for i in bent])
    for i, one in zip(bent, of_bent, strict=True):
        there[i] = one
    alike: dict[tuple[int, bool], list[int]] = {}
    for i, sub in enumerate(subs):
        alike.setdefault((sub.size, there[i] is not None), []).append(i)
    for (size, is_curved), places in alike.items():
        own = [known[i] for i in places]
        drags = is_dragged(
            own, np.stack([answers[i] for i in places]), np.stack([bases[i] for i in places])
        )
        mine = [subs[i] for i in places]
        if is_curved:
            steps = np.stack(
                [(answers[i] - bases[i], own[k].answer - bases[i]) for k, i in enumerate(places)]
            )
            _doubt_bent(found, mine, own, [there[i] for i in places], drags, steps)
        elif size <= DEAR:
            are_flat = are_flat_together(mine)
            many += [places[i] for i in np.flatnonzero(are_flat).tolist()]
            flat += [places[i] for i in _doubt_flat(found, mine, own, drags, are_flat)]
    return found._replace(
        flat=tuple(subs[i].name for i in sorted(flat)),
        many=tuple(subs[i].name for i in sorted(many) if subs[i].name not in found.dragged),
    )


def _doubt_flat(
    found: Doubts,
    subs: Sequence[Subproblem],
    known: Sequence[Curvature],
    drags: np.ndarray,
    are_flat: np.ndarray,
) -> list[int]:
    """Doubt clients of one size that are curved the same everywhere; gives who is asked again.

    Curved so in each variable they may not be along all of them together.
    """
    again = []
    for i in np.flatnonzero(drags | are_flat).tolist():
        sub, is_flat = subs[i], are_flat[i]
        may_go = (drags[i] and not is_firm(sub, known[i])) or (is_flat and is_sloping(sub))
        if may_go and np.isnan(answer_alone(sub)).any():
            found.dragged.add(sub.name)
        elif is_flat and sub.form is not None and sub.form.terms:
            again.append(i)
    return again


def _doubt_bent(
    found: Doubts,
    subs: Sequence[Subproblem],
    known: Sequence[Curvature],
    there: Sequence[Curvature | None],
    drags: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Doubt clients of one size whose curvature is not the same everywhere, by that at answers.

    ``steps``, (k, 2, m), are those from their bases to the answers, and to the minima of their
    quadratic models. These may be farther off: a Huber loss bends in few rows where it is steep in
    most, and what these slope along is flat.
    """
    moves, guessed = np.moveaxis(steps, 1, 0)
    curved, ended = (np.stack([o.diagonal for o in one if o]) for one in (known, there))
    felt, bend = WEAK**2 * curved.max(axis=1), ended.max(axis=1)
    live = curved > 0
    ratios = np.maximum(ended / np.where(live, curved, 1.0), np.finfo(float).tiny)
    means = np.where(live, np.log(ratios), 0.0).sum(axis=1) / live.sum(axis=1)
    slopes = np.abs(np.stack([one.slopes for one in known]))
    # Others may stay where a constraint or a sum holds them
    is_far = live & (curved * np.abs(moves) > GONE * slopes)
    is_gone = (is_far & (ended < GONE * WEAK**2 * curved)).any(axis=1)
    is_gone |= bend < GONE * felt
    is_nearer = (curved * guessed**2).sum(axis=1) < (curved * moves**2).sum(axis=1)
    is_flatter, asks = means < np.log(FLAT), drags | (bend < felt / GONE)
    for i in np.flatnonzero(drags | is_flatter | is_gone).tolist():
        sub = subs[i]
        if is_flatter[i] and is_nearer[i] and is_defined_at_zero(sub):
            found.nearer[sub.name] = known[i].answer
        if sub.size <= DEAR and asks[i]:
            alone = answer_alone(sub)
            if not np.isnan(alone).any():
                found.alone[sub.name] = alone
                continue
        if drags[i]:
            found.dragged.add(sub.name)
        elif is_gone[i]:
            found.endless.add(sub.name)


def is_firm(sub: Subproblem, known: Curvature) -> bool:
    """Whether a quadratic keeps a client along all variables together, and not its hold.

    Such a client has an answer, whatever kinks it has besides: a small ridge under absolute values
    is dragged by them, and a cone program for each took most of the time to begin.
    """
    return bool(known.diagonal.all()) and not is_flat_together(sub, GONE * WEAK**2)


def is_dragged(known: Sequence[Curvature], answers: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Whether answers, (k, m), are where holds balance the slopes that clients have at their bases.

    Relative to the root of its curvature a slope has the same unit whatever the variable.
    """
    root = np.sqrt(np.stack([one.diagonal for one in known]))
    slopes = np.abs(np.stack([one.slopes for one in known]))
    moved, size = np.abs(answers - bases), np.abs(bases)
    moved[moved <= ROUNDED * size] = 0.0
    drag = WEAK**2 * np.where(root > 0, root * moved, 0.0).max(axis=1)
    steep = np.divide(slopes, root, out=np.zeros_like(root), where=root > 0)
    return drag > PULLED * steep.max(axis=1)
