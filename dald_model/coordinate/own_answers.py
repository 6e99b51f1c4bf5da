"""What every client would answer if it were alone: where the scales of a problem come from."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from dald_model.coordinate.curvature import Curvature


class OwnAnswers(NamedTuple):
    """What clients answer alone.

    Attributes
    ----------
    points : ndarray
        One after the other; NaN where nobody has an answer.
    having : frozenset
        Who has one of its own.
    curvatures : dict
        Of each client but servers; where its objective bends, or at zero, where that is near the
        answers, which are often where an objective is flat or at the edge of its domain, else
        halfway to the neighbours'.
    starts : ndarray
        Where a run begins: at the answers. But a client that is far flatter there than where it
        bends, as one that its own data would send to infinity, begins at the minimum of its
        quadratic model there: from farther out no price moves it back, and what it teaches of its
        curvature is wrong by orders of magnitude nearer by. (Logistic clients that are each
        separable, 20 and 50 of them, took 45 rounds from their answers and 15 from there.)
    """

    points: np.ndarray
    having: frozenset[Hashable]
    curvatures: dict[Hashable, Curvature]
    starts: np.ndarray


class OwnAnswer(NamedTuple):
    """What one client answers alone: see :class:`OwnAnswers`.

    ``base`` is where it was held first; ``start`` is NaN where that is at the answer;
    ``is_endless`` says that others' answers say more than this one.
    """

    base: np.ndarray
    point: np.ndarray
    start: np.ndarray
    curvature: Curvature
    is_endless: bool
