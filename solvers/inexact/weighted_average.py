r"""Weighted average: a server that weighs its clients by numbers of its own, not by penalties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Session, Turn
from dald_model.solvers.exact.average import Average


class WeightedAverage(Average):
    r"""Equation (55) with any weights: :math:`\hat x = \sum_i p_i x_i / \sum_i p_i`.

    Over the clients that take part, those with a penalty, and for multipliers of zero.

    Parameters
    ----------
    weights : ndarray
        The :math:`p_i` over the entries of all edges, shape (Q,).
    """

    name = "weighted average"

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        roots = [np.sqrt(self.weights[sub.entries]) for sub in subproblems]
        return _Session(super().open(subproblems), roots)


class _Session:
    """One run over some servers."""

    def __init__(self, average: Session, roots: Sequence[np.ndarray]) -> None:
        self._average, self._roots = average, roots

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        roots = np.concatenate([self._roots[at] for at in turn.which])
        return self._average.minimise(turn._replace(rho=turn.rho * roots), tolerance)
