r"""Copying: a client takes the value that its server tells it, as gradient methods do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import block_diagonal
from dald_model.solvers.arrays.smooth import Smooth, is_bounded, no_gradient
from dald_model.solvers.base import Answers, Multipliers, Session, Turn
from dald_model.solvers.inexact.subgradients import gradients_of, no_subgradient


def not_free(subproblem: Subproblem) -> str:
    """Why a client cannot follow its gradient wherever that leads; empty if it can."""
    return no_gradient(subproblem) or ("it has constraints" if is_bounded(subproblem) else "")


class Copying:
    r"""The stationary point :math:`x_i = \hat x` of the surrogates (36) and (47): (38), (49).

    The client must share all its variables, entry by entry, with one neighbour.
    """

    name = "copying"
    batches = False
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        return not_free(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(subproblems)


class KinkedCopying(Copying):
    """The same for clients that follow subgradients."""

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        return no_subgradient(subproblem)


class _Session:
    """One run over clients of any sizes."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._smooth = Smooth(subproblems)
        self._sides = [sp.csr_array(sub.sides[0].T) for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        points = block_diagonal([self._sides[at] for at in turn.which]) @ turn.neighbours
        values = self._smooth.objectives(turn.which, points)
        return Answers(
            points, values, ["optimal"] * turn.which.size, Multipliers.none(turn.which.size), {}
        )


class Mixing:
    r"""The step of decentralised gradient descent, equation (57).

    .. math:: x_i \leftarrow p_{ii} x_i + \sum_j p_{ij} z_j - \alpha \nabla f_i(x_i),
        \qquad p_{ii} = 1 - \sum_j p_{ij}

    Parameters
    ----------
    step : float or None
        :math:`\alpha`; None where it falls from round to round: it is :math:`1 / (2 \rho^2)` then,
        and the gradient may be a subgradient.
    weights : dict
        Client -> the :math:`p_{ij}` of its edges' entries, shape (q,).
    """

    name = "mixing"
    batches = False
    is_exact = True

    def __init__(self, step: float | None, weights: dict[object, np.ndarray]) -> None:
        self.step, self.weights = step, weights

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        return no_subgradient(subproblem) if self.step is None else not_free(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _MixingSession(self, subproblems)


class _MixingSession:
    """One run over clients of any sizes."""

    def __init__(self, solver: Mixing, subproblems: Sequence[Subproblem]) -> None:
        self._step = solver.step
        self._smooth = gradients_of(subproblems)
        self._sides = [sub.sides[0] for sub in subproblems]
        self._weights = [solver.weights[sub.name] for sub in subproblems]

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        sides = block_diagonal([self._sides[at] for at in turn.which])
        weights = np.concatenate([self._weights[at] for at in turn.which])
        pull = sides.T @ (weights * (turn.neighbours - sides @ turn.points))
        slopes = self._smooth.gradients(turn.which, turn.points)
        step = 1 / (2 * turn.rho[0] ** 2) if self._step is None else self._step
        points = turn.points + pull - step * slopes
        values = self._smooth.objectives(turn.which, points)
        finite = np.isfinite(values)
        statuses = np.where(finite, "optimal", "solver_error").tolist()
        said = "the gradient steps left the range of floating point; take a smaller step"
        messages = dict.fromkeys(np.flatnonzero(~finite).tolist(), said)
        return Answers(points, values, statuses, Multipliers.none(turn.which.size), messages)
