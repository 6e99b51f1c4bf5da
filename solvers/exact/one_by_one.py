r"""Alone: sessions that solve one cone program after the other, of clients that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.indexing import ranges
from dald_model.solvers.base import Answers, Encoding, Multipliers, Turn


class Found(NamedTuple):
    """What was found for one client.

    ``multipliers`` is the dual vector of the cone program as the solver gave it; ``said`` is empty
    where the status is "optimal".
    """

    status: str
    point: np.ndarray
    objective: float
    multipliers: Any
    said: str


class Program(Protocol):
    """One client's cone program plus a quadratic in its own m variables."""

    @property
    def is_set(self) -> bool:
        """Whether K is known."""
        ...

    def set(self, curvature: np.ndarray) -> None:
        """Take another K, shape (m, m)."""
        ...

    def minimise(self, slope: np.ndarray, tolerance: float) -> Found:
        """Minimise for another c, shape (m,)."""
        ...


class Alone:
    """A session of any clients, each with a program of its own.

    Parameters
    ----------
    subproblems : sequence of Subproblem
    make : callable
        A :class:`Program` from a cone program and the number of the client's own variables.
    """

    def __init__(
        self, subproblems: Sequence[Subproblem], make: Callable[[ConeProgram, int], Program]
    ) -> None:
        self._subproblems = subproblems
        self._sizes = np.array([sub.size for sub in subproblems])
        self._edges = np.array([sub.signs.size for sub in subproblems])
        forms = [sub.form for sub in subproblems]
        self._programs = [make(form.cone, form.size) for form in forms if form]
        # One `Augmented` takes the clients of one size; `_at` is where a client is in its own.
        self._at = np.empty(len(subproblems), dtype=int)
        self._augmented: dict[int, Augmented] = {}
        for size in np.unique(self._sizes):
            alike = np.flatnonzero(self._sizes == size)
            self._at[alike] = np.arange(alike.size)
            self._augmented[int(size)] = Augmented([subproblems[int(i)] for i in alike])

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        found: dict[int, Found] = {}
        sizes, edges = self._sizes[turn.which], self._edges[turn.which]
        starts = np.cumsum(edges) - edges
        for size in np.unique(sizes):
            augmented, alike = self._augmented[int(size)], np.flatnonzero(sizes == size)
            entries = ranges(starts[alike], edges[alike])
            own = self._at[turn.which[alike]]
            part = Turn(own, *(vector[entries] for vector in turn[1:4]))
            changed, slopes = augmented.changed(part), augmented.slopes(part)
            for i, at, differs, slope in zip(alike, own, changed, slopes, strict=True):
                program = self._programs[turn.which[i]]
                if differs or not program.is_set:
                    program.set(augmented.curvatures(np.array([at]))[0])
                found[int(i)] = program.minimise(slope, tolerance)
        answers = [found[i] for i in range(len(found))]

        held = [(Encoding.CONES, np.array(one.multipliers, dtype=float)) for one in answers]
        return Answers(
            np.concatenate([answer.point for answer in answers]),
            np.array([answer.objective for answer in answers]),
            [answer.status for answer in answers],
            Multipliers.joined(held),
            {i: answer.said for i, answer in enumerate(answers) if answer.said},
        )
