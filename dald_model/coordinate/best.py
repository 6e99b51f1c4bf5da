"""Best iterate of a run, its answer if the run does not converge."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dald_model.coordinate.state import State
from dald_model.schedule.moment import Residuals


@dataclass
class Best:
    """Best iterate so far, and the round it is from; None and 0 if there is none.

    Attributes
    ----------
    state : State or None
    round : int
    """

    state: State | None = None
    round: int = 0
    _merit: float = math.inf
    _worst: float = math.inf

    def offer(self, state: State, round_: int, found: Residuals, merit: float) -> None:
        """Keep the iterate if it is better than the one before.

        ``merit`` is the larger of both residuals relative to their tolerances.
        """
        # Relative residuals flatter an iterate that runs away; absolute ones do not.
        worst = max(found.primal, found.dual)
        if merit <= self._merit and worst <= 10 * self._worst:
            self.take(state.snapshot(), round_)
            self._merit, self._worst = merit, worst

    def take(self, state: State, round_: int) -> None:
        """Keep the iterate, whatever its residuals."""
        self.state, self.round = state, round_
