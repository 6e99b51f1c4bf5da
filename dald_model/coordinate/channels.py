r"""Links: what each end of each edge was told, where not everybody takes part all the time.

Row 0 of an array of shape (2, Q) belongs to the tails of the edges, row 1 to their heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dald_model.engines.edge_ends import Ends


@dataclass
class Links:
    """The edges of a run with clients that leave, drop out or lag behind.

    Attributes
    ----------
    inbox : ndarray, shape (2, Q)
        The last value that each end was told of the other end's side.
    pulls : ndarray, shape (2, Q)
        The price that each end was solved with: multiplier and penalty at its own point then.
    fresh : ndarray of bool, shape (2, Q)
        Whether each end was solved in this inner loop.
    off : ndarray of bool, shape (Q,)
        Edges that are not in the problem now.
    away : ndarray of bool, shape (2, Q)
        Ends of clients that left.
    deaf : ndarray of bool, shape (2, Q), or None
        Ends that are told nothing new in this inner loop.
    unheard : ndarray of bool, shape (Q,), or None
        Edges on which a message is lost in this inner loop.
    """

    inbox: np.ndarray
    pulls: np.ndarray
    fresh: np.ndarray
    off: np.ndarray
    away: np.ndarray
    deaf: np.ndarray | None = None
    unheard: np.ndarray | None = None

    @classmethod
    def start(cls, sides: np.ndarray) -> Links:
        """Everybody is there and knows everybody's start."""
        fresh, away = np.zeros((2, *sides.shape), dtype=bool)
        off = np.zeros(sides.shape[1], dtype=bool)
        return cls(sides[::-1].copy(), np.zeros_like(sides), fresh, off, away)

    def snapshot(self) -> Links:
        """A copy that later rounds leave alone."""
        return replace(
            self,
            inbox=self.inbox.copy(),
            pulls=self.pulls.copy(),
            fresh=self.fresh.copy(),
            off=self.off.copy(),
            away=self.away.copy(),
        )

    def open(self, sides: np.ndarray, deaf: np.ndarray | None, unheard: np.ndarray | None) -> None:
        """Begin an inner loop: whoever is not deaf is told where the others are."""
        self.deaf, self.unheard = deaf, unheard
        self.fresh[:] = False
        self.inbox = sides[::-1].copy() if deaf is None else np.where(deaf, self.inbox, sides[::-1])

    def told(self, ends: Ends, now: np.ndarray) -> np.ndarray:
        """Tell some ends where the other ends are, ``now``; gives what they know then."""
        known = now
        if self.deaf is not None:
            known = np.where(ends.own(self.deaf), ends.own(self.inbox), now)
        ends.set(self.inbox, known)
        return known

    def put(self, ends: Ends, pull: np.ndarray) -> None:
        """Some ends were solved."""
        ends.set(self.pulls, pull)
        ends.set(self.fresh, np.ones(pull.size, dtype=bool))

    @property
    def lagging(self) -> bool:
        """Whether a client answers to what it was told in an earlier inner loop."""
        if self.deaf is None:
            return False
        lags = self.deaf & self.fresh
        return bool((lags if self.unheard is None else lags & ~self.unheard).any())

    @property
    def agreed(self) -> np.ndarray:
        """Edges whose multiplier both ends can update: both took part and heard each other."""
        found = self.fresh.all(axis=0) & ~self.off
        return found if self.unheard is None else found & ~self.unheard
