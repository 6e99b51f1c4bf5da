"""The solver of clients that are not minimised one by one."""

from __future__ import annotations

from collections.abc import Sequence

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Session, Turn


class Unasked:
    """Takes every client and is never asked for a minimiser: rounds are of another kind."""

    name = "interior point"
    batches = False
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return self

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        raise NotImplementedError("clients of an interior point are not minimised one by one")
