"""The checked options of a run, and what the test at its end proves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.checkpoint import Checkpoint
from dald_model.coordinate.iterate import Iterate
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import Accuracy, Stopping
from dald_model.engines.placement import Placement


class EndProof(NamedTuple):
    """A proof about an iterate.

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
    wrong : float
        The gap or violation that is largest beside its scale, as that share.
    said : str
        The gap, and what it is measured by.
    units : Units
        The scales that were found on the way, for a run that goes on.
    """

    is_proved: bool
    falls_beyond: bool
    is_near: bool
    is_blurred: bool
    wrong: float
    said: str
    units: Units


class EndTest(Protocol):
    """Says what is proved of an iterate."""

    def __call__(self, state: State, *, is_met: bool = True) -> EndProof:
        """The proof; all that a certificate asks where residuals did not meet their tolerances."""
        ...


@dataclass(frozen=True)
class Settings:
    """Checked options of a run.

    Attributes
    ----------
    stopping : Stopping or None
        Which ends inner loops; None is the default of the order that is followed.
    accuracy : Accuracy
    eps_pri, eps_dual : float
    max_rounds : int
    metrics : dict
        Name of a column of the history -> function of an :class:`Iterate`.
    callback : callable or None
        Called after each round with the :class:`Iterate`; True ends the run.
    acceleration : Acceleration or None
    insists : bool
        Whether it is refused where it does not apply; else the run goes without.
    learnt : ModelState or None
        The models of the clients from the run that this one continues.
    is_extrapolated : bool
        Whether the run begins where its answer is expected, so that the first round may be the
        last, and clients are minimised as exactly.
    gap_test : callable or None
        State -> a certificate that may end the run; "" where it is too weak.
    end_test : callable or None
        State -> a proof of its gap, once the residuals met their tolerances; None asks for none.
    unproved : str
        Why nothing is proved about an optimum, where it is claimed by the residuals alone.
    begun : float or None
        The ``time.perf_counter()`` from which the history counts; None is when the run is made.
    checkpoint : Checkpoint or None
        Where the run is written, and how often.
    interior : tuple of ndarray
        Where the interior point ended that this run goes on from.
    placement : Placement or None
        Where clients are that are not minimised one by one.
    """

    stopping: Stopping | None
    accuracy: Accuracy
    eps_pri: float
    eps_dual: float
    max_rounds: int
    metrics: Mapping[str, Callable[[Iterate], Any]]
    callback: Callable[[Iterate], Any] | None = None
    acceleration: Acceleration | None = None
    insists: bool = False
    learnt: ModelState | None = None
    is_extrapolated: bool = False
    gap_test: Callable[[State], str] | None = None
    end_test: EndTest | None = None
    unproved: str = ""
    begun: float | None = None
    checkpoint: Checkpoint | None = None
    interior: tuple[np.ndarray, ...] = ()
    placement: Placement | None = None

    @property
    def is_watched(self) -> bool:
        """Whether each round's iterate is seen, by the user or in a file."""
        return bool(self.metrics or self.callback or self.gap_test or self.checkpoint)

    def tests(self, method: Method) -> bool:
        """Whether a run of this method may end by its residuals."""
        return min(self.eps_pri, self.eps_dual) > 0 and method.goal is not Goal.NONE
