"""Clients that one session was opened with, and the numbers that it was given of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Session, Solver


class Given(NamedTuple):
    """Clients as a session takes them.

    Attributes
    ----------
    clients : list of Subproblem
        In the differences of their variables from some points, or as they are.
    sources : list
        What each was made of: its numbers, its sides and its point; empty where they are as they
        are.
    centre : ndarray, optional
        The points of all clients of the model that these are among.
    """

    clients: list[Subproblem]
    sources: list[tuple[Any, Any, np.ndarray]]
    centre: np.ndarray | None = None

    @classmethod
    def around(
        cls,
        clients: Sequence[Subproblem],
        centre: np.ndarray,
        columns: Sequence[slice],
        before: Given | None,
    ) -> Given:
        """The clients around points of all clients, of which each has some columns.

        Those that are as ``before`` are the same.
        """
        found: list[Subproblem] = []
        centres = [centre[part] for part in columns]
        if before is not None and before.centre is centre:
            centres = [its_centre for _, _, its_centre in before.sources]
        pairs = zip(clients, centres, strict=True)
        sources = [(sub.lowered, sub.sides, point) for sub, point in pairs]
        for at, (sub, (lowered, sides, point)) in enumerate(zip(clients, sources, strict=True)):
            there = None
            if before is not None and before.is_centred:
                then, its_sides, its_centre = before.sources[at]
                is_there = its_centre is point or np.array_equal(its_centre, point)
                if its_sides is sides and is_there:
                    there = then, before.clients[at]
            is_same = there is not None and there[0] is lowered
            found.append(there[1] if there and is_same else sub.around(point, there))
        return cls(found, sources, centre)

    @property
    def is_centred(self) -> bool:
        """Whether they are around points."""
        return bool(self.sources)


class Bench(NamedTuple):
    """A session, its solver, and the clients it was opened with: where each is, and as what."""

    session: Session
    solver: Solver
    places: dict[Hashable, int]
    given: Given
