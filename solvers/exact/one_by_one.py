r"""Sessions that solve one cone program after the other, of clients that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import Answers, ClientAnswer, Encoding, Turn

SERVING = 10.0
"""Factor up to which lengths and slopes may change before a program is made anew: its accuracy is
relative to its own, and what they are at first is a guess from before the clients' own answers."""


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
        """Minimise for another c, shape (m,), to this error relative to the lengths."""
        ...


class Scaling(NamedTuple):
    """Natural lengths and slopes of a client's variables, both of shape (m,)."""

    lengths: np.ndarray
    slopes: np.ndarray

    def serves(self, other: Scaling) -> bool:
        """Whether what is solved in these units is as accurate in others, to a factor."""
        pairs = zip(self, other, strict=True)
        return all(bool((np.abs(np.log(one / two)) <= np.log(SERVING)).all()) for one, two in pairs)


class SequentialSession:
    """A session of any clients, each with a program of its own.

    Parameters
    ----------
    subproblems : sequence of Subproblem
    make : callable
        A :class:`Program` from a cone program and the client's scaling.
    """

    def __init__(
        self, subproblems: Sequence[Subproblem], make: Callable[[ConeProgram, Scaling], Program]
    ) -> None:
        self._forms = [sub.form for sub in subproblems if sub.form]
        self._sizes = np.array([sub.size for sub in subproblems])
        self._make = make
        self._programs: list[tuple[Program, Scaling] | None] = [None] * len(subproblems)
        self._augmented = Augmented(subproblems)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        """See :class:`dald_model.solvers.base.Lasting`."""
        self._forms = [sub.form for sub in subproblems if sub.form]
        self._augmented = self._augmented.again(subproblems)
        self._programs = [None] * len(subproblems)  # their units are of one run
        return True

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        changed, linear = self._augmented.changed(turn), self._augmented.linear(turn)
        stops = np.cumsum(self._sizes[turn.which])
        answers, scaled = [], np.empty(turn.which.size)
        for i, (at, stop) in enumerate(zip(turn.which.tolist(), stops.tolist(), strict=True)):
            mine = slice(stop - int(self._sizes[at]), stop)
            ones = np.ones(self._sizes[at])
            units = Scaling(
                turn.lengths[mine] if turn.lengths.size else ones,
                turn.slopes[mine] if turn.slopes.size else ones,
            )
            answer = self._answer(at, linear[mine], tolerance, units, bool(changed[i]))
            scaled[i] = np.max(answer.left / units.slopes)
            answers.append(answer)

        left = np.array([answer.left.max() for answer in answers])
        return Answers.joined(answers, Encoding.CONES)._replace(slack=left, slack_scaled=scaled)

    def _answer(
        self,
        at: int,
        linear: np.ndarray,
        tolerance: float,
        units: Scaling,
        differs: bool,
    ) -> ClientAnswer:
        """One client's, whose program has the units of an earlier turn while these serve."""
        kept = self._programs[at]
        if kept is None or not kept[1].serves(units):
            copied = Scaling(*(part.copy() for part in units))
            kept = self._programs[at] = self._make(self._forms[at].cone, copied), copied
        program = kept[0]
        if differs or not program.is_set:
            program.set(self._augmented.last_hessians(np.array([at]))[0])
        return program.minimise(linear, tolerance)
