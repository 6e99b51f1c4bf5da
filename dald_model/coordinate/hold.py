"""How weakly clients are held while they are asked for their own answers, and by what measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import rough_lengths
from dald_model.coordinate.curvature import Curvature

WEAK = 1e-2
"""Share of its natural penalty with which a client is held while it is asked for its own answer.

Squared it is a ridge of 1e-4 beside curvatures of one: what the client hardly knows stays near
where it is held, and does not pass for a length of the problem.
"""


class Hold(NamedTuple):
    """What clients are held with whose edges see their variables alike, one a row.

    Attributes
    ----------
    penalties : ndarray, shape (k, q)
        Of their sides.
    lengths, slopes : ndarray, shape (k, m)
        Of their variables, as far as a curvature tells them.
    """

    penalties: np.ndarray
    lengths: np.ndarray
    slopes: np.ndarray


def hold(subs: Sequence[Subproblem], known: Sequence[Curvature], bases: np.ndarray) -> Hold:
    r"""The holds of clients with some curvature that are held at points, (k, m).

    .. math:: X_k = \sqrt{E / h_k}, \qquad M_k = E / X_k, \qquad E = \max_k h_k L_k^2

    with L the distances of the quadratic model's minimum from where the client is held first. What
    has no curvature is as long as the longest. Where that minimum is there to the digit, L is what
    the rows of the client's cone program tell.
    """
    bend = np.stack([one.diagonal for one in known])
    lengths, slopes = lengths_and_slopes(known, bases)
    for i in np.flatnonzero(~slopes.any(axis=1)).tolist():
        if subs[i].form is not None:
            rough = rough_lengths(subs[i], bases[i])[None]
            lengths[i : i + 1], slopes[i : i + 1] = _of_energies(bend[i : i + 1], rough)
    lengths[~slopes.any(axis=1)] = 1.0
    slopes[~slopes.any(axis=1)] = 1.0
    sight, share = subs[0].sight, np.empty((len(subs), subs[0].entries.size))
    is_whole = bend.all(axis=1)
    for some in (is_whole, ~is_whole):
        if some.any():
            share[some] = sight.curvatures(bend[some])
    sums, counts = share.sum(axis=1), np.count_nonzero(share, axis=1)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), 1.0)
    share = np.where(share == 0, mean[:, None], share)
    return Hold(WEAK * np.sqrt(share / 2), lengths, slopes)


def lengths_and_slopes(
    known: Sequence[Curvature], bases: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of :func:`hold`, each of shape (k, m); no slopes where the minimum is at the base."""
    bend, answers = (np.stack([getattr(o, of) for o in known]) for of in ("diagonal", "answer"))
    return _of_energies(bend, np.abs(answers - bases))


def _of_energies(bend: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    energy = (bend * far**2).max(axis=1, keepdims=True, initial=0.0)
    own = np.sqrt(energy / np.where(bend > 0, bend, np.inf))
    widest = np.maximum(far.max(axis=1, initial=0.0), own.max(axis=1, initial=0.0))[:, None]
    lengths = np.where(energy > 0, np.where(bend > 0, own, widest), 1.0)
    return lengths, energy / lengths
