"""Proof that a run whose residuals met their tolerances has found an optimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dald_model.coordinate.state import State
from dald_model.coordinate.units import Units


class EndProof(NamedTuple):
    """What is proved of an iterate.

    Attributes
    ----------
    is_proved : bool
        Whether the gap is within its tolerance.
    falls_beyond : bool
        Whether the objective is better farther out, so that there may be no minimiser.
    is_near : bool
        Whether it is within a hundred times that.
    is_blurred : bool
        Whether doubles do not hold the digits for a proof, so that going on is of no use.
    gap : float
        In the units of the objective.
    said : str
        The gap, and what it is measured by.
    units : Units
        The scales that were found on the way, for a run that goes on.
    """

    is_proved: bool
    falls_beyond: bool
    is_near: bool
    is_blurred: bool
    gap: float
    said: str
    units: Units


EndTest = Callable[[State], EndProof]
