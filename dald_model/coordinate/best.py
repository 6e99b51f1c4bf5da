"""Best iterate of a run, its answer if the run does not converge."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dald_model.coordinate.state import State


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

    def offer(self, state: State, round_: int, merit: float) -> bool:
        """Keep the iterate if it is better than the one before; gives whether it is.

        ``merit`` is the larger of both residuals relative to their tolerances.
        """
        if not merit <= self._merit:
            return False
        self.take(state.snapshot(), round_)
        self._merit = merit
        return True

    def take(self, state: State, round_: int) -> None:
        """Keep the iterate, whatever its residuals."""
        self.state, self.round = state, round_
