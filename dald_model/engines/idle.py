"""Solver layer of a method that minimises no client: nobody is assigned, and nothing is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dald_model.compile.decomposition import Decomposition
from dald_model.engines.assignment import Event
from dald_model.engines.dispatch import SolverLayer


class IdleLayer(SolverLayer):
    """What a run asks of a layer where the rounds are the method's own, as an interior point's."""

    def __init__(self, compiled: Decomposition) -> None:
        self.compiled, self.round = compiled, 0
        self._placement = None
        self._unanswered = {}

    @property
    def is_exact(self) -> bool:
        """True: no accuracy is asked for."""
        return True

    @property
    def minimises(self) -> bool:
        """True: no client is brought nearer to a minimiser by some steps."""
        return True

    @property
    def events(self) -> list[Event]:
        """None, as no solver can fail."""
        return []

    def renew(self) -> None:
        """There are no sessions."""

    def kept(self) -> dict[str, Any]:
        """There is nothing to keep."""
        return {}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See :meth:`kept`."""
