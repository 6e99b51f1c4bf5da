r"""State of the messages on each edge, for runs in which clients leave, drop out or lag.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dald_model.engines.batches import Ends


@dataclass
class Channels:
    """Messages and multiplier estimates of both ends of each edge.

    Attributes
    ----------
    inbox : ndarray, shape (2, Q)
        The last value that each end was told of the other end's side.
    multiplier_estimates : ndarray, shape (2, Q)
        The price that each end balanced when it was solved: multiplier and penalty at its own
        point then.
    fresh : ndarray of bool, shape (2, Q)
        Whether each end was solved in this inner loop.
    heard : ndarray of bool, shape (2, Q)
        Whether each end was ever solved in this run.
    off : ndarray of bool, shape (Q,)
        Edges that are not in the problem now.
    away : ndarray of bool, shape (2, Q)
        Ends of clients that left.
    stale_inputs : ndarray of bool, shape (2, Q), or None
        Ends that are told nothing new in this inner loop.
    lost_messages : ndarray of bool, shape (Q,), or None
        Edges on which a message is lost in this inner loop.
    predicted : ndarray, shape (2, Q), or None
        Sides that others are told in place of the last ones of who has not answered yet.
    """

    inbox: np.ndarray
    multiplier_estimates: np.ndarray
    fresh: np.ndarray
    heard: np.ndarray
    off: np.ndarray
    away: np.ndarray
    stale_inputs: np.ndarray | None = None
    lost_messages: np.ndarray | None = None
    predicted: np.ndarray | None = None

    @classmethod
    def start(cls, sides: np.ndarray) -> Channels:
        """Everybody is there and knows everybody's start."""
        fresh, heard, away = np.zeros((3, *sides.shape), dtype=bool)
        off = np.zeros(sides.shape[1], dtype=bool)
        return cls(sides[::-1].copy(), np.zeros_like(sides), fresh, heard, off, away)

    def snapshot(self) -> Channels:
        """A copy that later rounds leave alone."""
        return replace(self, **{name: array.copy() for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that outlast an inner loop."""
        lasting = ("inbox", "multiplier_estimates", "fresh", "heard", "off", "away")
        return {name: getattr(self, name) for name in lasting}

    def go_back(self, earlier: Channels) -> None:
        """Take the prices that were balanced, and the values that were told, of an earlier loop."""
        self.multiplier_estimates = earlier.multiplier_estimates.copy()
        self.inbox = earlier.inbox.copy()

    def open(
        self,
        sides: np.ndarray,
        stale_inputs: np.ndarray | None,
        lost_messages: np.ndarray | None,
    ) -> None:
        """Begin an inner loop: all but the stale inputs are told where the others are."""
        self.stale_inputs, self.lost_messages = stale_inputs, lost_messages
        self.fresh[:] = False
        now = (sides if self.predicted is None else self.predicted)[::-1]
        self.inbox = now.copy() if stale_inputs is None else np.where(stale_inputs, self.inbox, now)

    def told(self, ends: Ends, now: np.ndarray) -> np.ndarray:
        """Tell some ends where the other ends are, ``now``; gives what they know then."""
        known = now
        if self.predicted is not None:
            known = np.where(ends.other(self.fresh), now, ends.other(self.predicted))
        if self.stale_inputs is not None:
            known = np.where(ends.own(self.stale_inputs), ends.own(self.inbox), known)
        ends.set(self.inbox, known)
        return known

    def put(self, ends: Ends, estimate: np.ndarray) -> None:
        """Some ends were solved, and balanced these prices."""
        ends.set(self.multiplier_estimates, estimate)
        for each in (self.fresh, self.heard):
            ends.set(each, np.ones(estimate.size, dtype=bool))

    @property
    def lagging(self) -> bool:
        """Whether a client answers to what it was told in an earlier inner loop."""
        if self.stale_inputs is None:
            return False
        lags = self.stale_inputs & self.fresh
        return bool((lags if self.lost_messages is None else lags & ~self.lost_messages).any())

    @property
    def agreed(self) -> np.ndarray:
        """Edges whose multiplier both ends can update: both took part and heard each other."""
        found = self.fresh.all(axis=0) & ~self.off
        return found if self.lost_messages is None else found & ~self.lost_messages
