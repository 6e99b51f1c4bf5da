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
    """

    clients: list[Subproblem]
    sources: list[tuple[Any, Any, np.ndarray]]

    @classmethod
    def around(
        cls, clients: Sequence[Subproblem], centres: Sequence[np.ndarray], before: Given | None
    ) -> Given:
        """The clients around these points, (m,) each; those that are as ``before`` are the same."""
        found: list[Subproblem] = []
        pairs = zip(clients, centres, strict=True)
        sources = [(sub.lowered, sub.sides, centre) for sub, centre in pairs]
        for at, (sub, (lowered, sides, centre)) in enumerate(zip(clients, sources, strict=True)):
            there = None
            if before is not None and before.is_centred:
                then, its_sides, its_centre = before.sources[at]
                if its_sides is sides and np.array_equal(its_centre, centre):
                    there = then, before.clients[at]
            is_same = there is not None and there[0] is lowered
            found.append(there[1] if there and is_same else sub.around(centre, there))
        return cls(found, sources)

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
