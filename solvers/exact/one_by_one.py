r"""Sessions that solve one cone program after the other, of clients that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import Answers, Encoding, Multipliers, Turn


class ClientAnswer(NamedTuple):
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

    def minimise(self, linear: np.ndarray, tolerance: float) -> ClientAnswer:
        """Minimise for another c, shape (m,)."""
        ...


class SequentialSession:
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
        forms = [sub.form for sub in subproblems]
        self._programs = [make(form.cone, form.size) for form in forms if form]
        self._augmented = Augmented(subproblems)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        changed, linear = self._augmented.changed(turn), self._augmented.linear(turn)
        parts = np.split(linear, np.cumsum(self._sizes[turn.which])[:-1])
        answers = []
        for at, differs, own in zip(turn.which, changed, parts, strict=True):
            program = self._programs[at]
            if differs or not program.is_set:
                program.set(self._augmented.last_hessians(np.array([at]))[0])
            answers.append(program.minimise(own, tolerance))

        held = [(Encoding.CONES, np.array(one.multipliers, dtype=float)) for one in answers]
        return Answers(
            np.concatenate([answer.point for answer in answers]),
            np.array([answer.objective for answer in answers]),
            [answer.status for answer in answers],
            Multipliers.joined(held),
            {i: answer.said for i, answer in enumerate(answers) if answer.said},
        )
