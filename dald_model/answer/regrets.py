"""Regrets: what clients pay at a solution beyond what they would pay for their own wishes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.answer.rescaling import costs_of
from dald_model.answer.scales import Points, Scales
from dald_model.answer.wishes import NOISE
from dald_model.compile.subproblem import Subproblem

RAW = 1e-9
"""What a solver does not resolve of an objective that was given to it as it stands, of its size."""
FLOOR = 1e-10
"""Of the sizes of the objectives: what they vary by at least, as doubles do not resolve less."""


class Regrets(NamedTuple):
    """See the module.

    Attributes
    ----------
    here, own : dict
        What each client pays at the solution, and how much more than for its wish, if it has one.
    missing : list
        Who would go on for ever, so that its regret is not known.
    paid, size, noise : float
        The sum of the regrets, of what clients pay, and what a regret has to be above.
    """

    here: dict[Hashable, float]
    own: dict[Hashable, float]
    missing: list[Hashable]
    paid: float
    size: float
    noise: float


def regretted(
    subs: Mapping[Hashable, Subproblem],
    points: Points,
    wishes: Points,
    before: Scales | None,
    is_agreed: bool,
) -> Regrets:
    """The regrets at a solution.

    Parameters
    ----------
    subs : dict
        Client -> subproblem.
    points, wishes : dict
        Client -> its part of the solution, and what it alone would choose.
    before : Scales or None
        Units in which the wishes were found.
    is_agreed : bool
        Whether no client wishes for anything but the solution.
    """
    here = costs(subs, points)
    alone = costs({name: subs[name] for name in wishes}, wishes)
    own = {name: abs(here[name] - cost) for name, cost in alone.items()}
    missing = [n for n in subs if not (is_agreed or np.isfinite(own.get(n, np.nan)))]
    paid, size = size_of(own), size_of(here)
    noise = NOISE * paid + (RAW if before is None else FLOOR) * size
    if missing:  # what those pay who would go on for ever is part of the regret
        noise += NOISE * size
    return Regrets(here, own, missing, paid, size, noise)


def costs(subs: Mapping[Hashable, Subproblem], points: Points) -> dict[Hashable, float]:
    """What each client pays at its point; NaN outside of its domain."""
    values = {key: x for n, sub in subs.items() for key, x in sub.spread(points[n]).items()}
    found = costs_of([sub.client for sub in subs.values()], values)
    return dict(zip(subs, found.tolist(), strict=True))


def size_of(paid: Mapping[Hashable, float]) -> float:
    """The sum of the sizes of what is known."""
    return sum(abs(cost) for cost in paid.values() if np.isfinite(cost))
