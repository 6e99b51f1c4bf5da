"""Layer of a method that minimises no client: nobody is assigned, and nothing is opened."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from dald_model.engines.assignment import Event
from dald_model.engines.dispatch import SolverLayer
from dald_model.engines.failover import Loss
from dald_model.solvers.base import Multipliers


class IdleLayer:
    """What a run asks of a layer where the rounds are the method's own, as an interior point's."""

    is_elsewhere = goes_on = False
    is_exact = minimises = True
    losses: tuple[Loss, ...] = ()
    events: tuple[Event, ...] = ()
    round = 0

    def __init__(self) -> None:
        self.unanswered: dict[Hashable, int] = {}

    def renew(self) -> None:
        """There are no sessions."""

    def keep(self) -> None:
        """There are no multipliers of a best iterate to ask for."""

    def collect(self, encodings: np.ndarray) -> Iterator[tuple[np.ndarray, Multipliers]]:
        """None; see :meth:`keep`."""
        return iter(())

    def kept(self) -> dict[str, Any]:
        """There is nothing to keep."""
        return {}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See :meth:`kept`."""


Layer: TypeAlias = SolverLayer | IdleLayer
"""What a run is given."""
