"""The clients as the coordinator of an interior point has them: reached here, and only added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from dald_model.solvers.interior.participant import Participant


class Aggregator(Protocol):
    """What adds the arrays of all clients, and takes a minimum: all that a server is told."""

    def total(self, arrays: Sequence[Any]) -> Any:
        """The sum of one array per client, dense or sparse."""
        ...

    def least(self, numbers: Sequence[float]) -> float:
        """The minimum of one number per client."""
        ...


class Plain:
    """The reference of an aggregator, which adds in one process."""

    def total(self, arrays: Sequence[Any]) -> Any:
        first, *others = arrays
        return sum(others, first)

    def least(self, numbers: Sequence[float]) -> float:
        return min(numbers)


Call = tuple[Any, ...]
"""The name of a method of :class:`.participant.Participant`, and its arguments."""


class Clients(Protocol):
    """How a coordinator reaches the clients, here or by messages."""

    @property
    def is_linear(self) -> bool:
        """Whether the residuals of all are linear."""
        ...

    def ask(self, calls: Sequence[Sequence[Call]]) -> list[list[Any]]:
        """What each client answers to its calls, one after the other, in one exchange."""
        ...

    def kept(self) -> Any:
        """What all were told: of which, and of their data, all that they have follows."""
        ...

    def restore(self, kept: Any) -> None:
        """Tell all what they were told."""
        ...


class Here:
    """Participants of this process."""

    def __init__(self, those: Sequence[Participant]) -> None:
        self._those = those
        self.is_linear = all(one.is_linear for one in those)
        self._log: list[Sequence[Sequence[Call]]] = []

    def ask(self, calls: Sequence[Sequence[Call]]) -> list[list[Any]]:
        found = [
            [getattr(one, name)(*given) for name, *given in mine]
            for one, mine in zip(self._those, calls, strict=True)
        ]
        self._log.append(calls)
        return found

    def points(self, tau: float) -> tuple[np.ndarray, ...]:
        """Where all are, of which an active set says enough; else nothing."""
        if not all(one.has_sets for one in self._those):
            return ()
        return tuple(one.point(tau) for one in self._those)

    @property
    def sizes(self) -> list[int]:
        """Entries of each of :meth:`points`."""
        if not all(one.has_sets for one in self._those):
            return []
        return [one.points_size for one in self._those]

    def renewed(self, *, keeps_units: bool) -> None:
        """Forget what was told, but for the units where these are kept."""
        balanced = [calls for calls in self._log if calls[0][0][0] in ("norms", "balance")]
        self._log = balanced if keeps_units else []

    def kept(self) -> Any:
        return self._log

    def restore(self, kept: Any) -> None:
        with np.errstate(all="ignore"):
            for calls in kept:
                self.ask(calls)
