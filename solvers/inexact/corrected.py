r"""Corrected steps: gradient steps of a client on :math:`f_i + \mu_i^\top x_i`, as in SCAFFOLD."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Session, Turn
from dald_model.solvers.inexact.local import GradientSteps
from dald_model.solvers.inexact.local_sessions import GradientSession, Plan


class CorrectedSteps(GradientSteps):
    r"""Steps from the server's value along the gradient and the price, without the penalty.

    .. math:: x_i \leftarrow \hat x, \quad \text{then } W \text{ times }
        x_i \leftarrow x_i - \alpha \big(\nabla f_i(x_i) + \mu_i\big)

    Parameters
    ----------
    step : float
        :math:`\alpha`.
    count : int
        W, steps a turn.
    """

    def __init__(self, step: float, count: int = 1) -> None:
        super().__init__(step, count, from_neighbour=True)

    @property
    def name(self) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        return f"corrected {super().name}"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(subproblems, Plan(self.step, self.count, True, True))


class _Session(GradientSession):
    """One run over clients of any sizes."""

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        return super().minimise(turn._replace(rho=np.zeros(turn.rho.size)), tolerance)
