"""Moment: where a run stands before an inner loop, for strategies, schedules and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dald_model.stopping import Residuals

Staleness = Mapping[Hashable, float]
"""Client -> how far its neighbours have moved since it was last solved (max norm)."""


@dataclass(frozen=True)
class Moment:
    """The inner loop that is about to begin.

    Attributes
    ----------
    round, outer, inner : int
        Its number in the run, that of its outer loop, and its own within that; all from 1.
    live : tuple
        The clients and servers that are there, in the order of declaration, servers last.
    servers : tuple
        Those among all clients that are servers.
    everybody : bool
        Whether nobody left.
    closing : bool
        Whether it may be the last of its outer loop, as far as is known before it.
    residuals : Residuals
        After the inner loop before; infinite before the first.
    """

    round: int
    outer: int
    inner: int
    live: tuple[Hashable, ...]
    servers: tuple[Hashable, ...]
    everybody: bool
    closing: bool
    residuals: Residuals
    stale: Callable[[], Staleness] = field(repr=False)

    @cached_property
    def staleness(self) -> Staleness:
        """See :data:`Staleness`; worked out when first asked for."""
        return self.stale()
