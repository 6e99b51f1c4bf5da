"""How weakly a client is held while it is asked for its own answer, and by what it is measured."""

from __future__ import annotations

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
    """What a client is held with.

    Attributes
    ----------
    penalties : ndarray, shape (q,)
        Of its sides.
    lengths, slopes : ndarray, shape (m,)
        Of its variables, as far as a curvature tells them.
    """

    penalties: np.ndarray
    lengths: np.ndarray
    slopes: np.ndarray


def hold(sub: Subproblem, known: Curvature, base: np.ndarray) -> Hold:
    r"""The hold of a client with some curvature that is held at a point, (m,).

    .. math:: X_k = \sqrt{E / h_k}, \qquad M_k = E / X_k, \qquad E = \max_k h_k L_k^2

    with L the distances of the quadratic model's minimum from where the client is held first. What
    has no curvature is as long as the longest. Where that minimum is there to the digit, L is what
    the rows of the client's cone program tell.
    """
    lengths, slopes = lengths_and_slopes(known, base)
    if not slopes.any() and sub.form is not None:
        lengths, slopes = _of_energies(known.diagonal, rough_lengths(sub, base))
    if not slopes.any():
        lengths, slopes = np.ones((2, base.size))
    share = sub.sight.curvatures(known.diagonal)
    share[share == 0] = share[share > 0].mean() if share.any() else 1.0
    return Hold(WEAK * np.sqrt(share / 2), lengths, slopes)


def lengths_and_slopes(known: Curvature, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of :func:`hold`, each of shape (m,); no slopes where the minimum is at the base."""
    return _of_energies(known.diagonal, np.abs(known.answer - base))


def _of_energies(bend: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    energy = float((bend * far**2).max(initial=0.0))
    if energy == 0.0:
        return np.ones(far.size), np.zeros(far.size)
    bent = bend > 0
    lengths = np.full(far.size, max(far.max(), np.sqrt(energy / bend[bent]).max()))
    lengths[bent] = np.sqrt(energy / bend[bent])
    return lengths, energy / lengths
