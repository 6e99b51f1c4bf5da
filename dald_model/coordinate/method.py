"""Choices of mu, rho, order and solver layer that an algorithm makes for the loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import Stopping
from dald_model.schedule.sequence import Sequence


class Goal(Enum):
    """Meaning of a run that ends before the round limit.

    ``OPTIMUM``: both residuals met their tolerances. ``FIXED_POINT``: the iterates stopped moving,
    at a point that need not be the optimum of the consensus problem. ``NONE``: nothing; every
    round is run and the answer is that of the last, since an iterate that moves little proves
    nothing where the steps are random.
    """

    OPTIMUM = "optimum"
    FIXED_POINT = "rest"
    NONE = "none"


AfterStage = Callable[[State, Iterable[Hashable]], None]
"""Called with the state and the clients of a stage after they were solved."""

Update = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(mu, rho, primal residual), entry by entry over any edges -> the next multipliers."""


def kept(mu: np.ndarray, rho: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Multipliers that are never updated."""
    return mu


@dataclass(frozen=True)
class Method:
    """Choices of an algorithm for one compiled model, which the loop follows.

    Attributes
    ----------
    update : callable
        (mu, rho, gap), entry by entry over any of the edges -> the multipliers of the next outer
        loop, with the primal residual as ``gap``.
    sequence, stopping : Sequence, Stopping or None
        Where the user names none; None is the default.
    rho, solver : Any
        As the options of ``solve``, which then must not be given; None leaves them to the user.
    goal : Goal
    after_stage : callable or None
        Called with the state and the clients of a stage after they were solved: an algorithm that
        sets multipliers within an inner loop.
    ignore_absent : bool
        Whether clients that do not take part in an inner loop do not count in it; else their last
        values do.
    dual_step : float
        How far the multipliers move; 1 is the paper's.
    accelerates : bool
        Whether outer loops may begin elsewhere than where the one before ended.
    sweeper : callable or None
        (compiled model, placement or None, where an earlier run ended, residuals from which on
        iterates are to be seen) -> the rounds of an algorithm that does not minimise clients one by
        one, and proves its own gap; it takes no option that says how they are solved.
    remedy : str
        The advice where the residuals grow without bound.
    """

    update: Update = kept
    sequence: Sequence | None = None
    stopping: Stopping | None = None
    rho: Any = None
    solver: Any = None
    goal: Goal = Goal.OPTIMUM
    after_stage: AfterStage | None = None
    ignore_absent: bool = False
    dual_step: float = 1.0
    accelerates: bool = False
    sweeper: Callable[[Decomposition, Any, Any, float], Any] | None = None
    remedy: str = "the default algorithm, dm.DALD()"


class Algorithm(Protocol):
    """Protocol of an algorithm."""

    def open(self, compiled: Decomposition) -> Method:
        """Make the algorithm ready for a model.

        Raises
        ------
        OptionError
            If the model is not of its class, naming the client and what is in the way.
        """
        ...

    def explain(self) -> str:
        """Which choices of mu, rho, order and solver layer give it, with equation numbers."""
        ...
