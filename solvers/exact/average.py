r"""The server's subproblem in closed form: a weighted average of its clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import Answers, Multipliers, Session, Turn


class Average:
    r"""Minimise the augmented terms alone, equation (14), in closed form.

    A server has no objective and no constraints, so its point solves the normal equations

    .. math::
        \Big(\sum_j G_j^\top \operatorname{diag}(\rho_j^2) G_j\Big) \hat x
        = \sum_j G_j^\top \big(\rho_j^2 \circ (z_j - g_j) \mp \tfrac12 \mu_j\big).

    With :math:`G_j = I` this is equation (31),
    :math:`\hat x = (\sum \rho_i^2 \circ x_i - \tfrac12 \sum \mu_i) / \sum \rho_i^2`.
    Entries that no edge touches, or none with a penalty, stay where they are.
    """

    name = "average"
    batches = False
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        if not subproblem.client.is_server:
            return "it is no server"
        bound = [v.name() for v in subproblem.variables if any(v.attributes.values())]
        return f"its variable {bound[0]!r} is not free" if bound else ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(subproblems)


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
        roots = [np.sqrt(self.weights[sub.entries]) for sub in subproblems]
        return _WeightedSession(super().open(subproblems), roots)


class _Session:
    """One run over some servers."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._sizes = np.array([sub.size for sub in subproblems])
        self._augmented = Augmented(subproblems)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        self._augmented = self._augmented.again(subproblems)
        return True

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        sizes = self._sizes[turn.which]
        before = turn.points if turn.points.size else np.zeros(int(sizes.sum()))
        linear, diagonal = self._augmented.linear(turn), self._augmented.diagonals(turn)
        if diagonal is not None:
            points = np.divide(-linear, diagonal, out=before.copy(), where=diagonal > 0)
        else:
            stops = np.cumsum(sizes)
            points = before.copy()
            for i, part in enumerate(map(slice, stops - sizes, stops)):
                matrix = self._augmented.part_hessians(turn, np.array([i]))[0]
                points[part] = _nearest(matrix, linear[part], before[part])
        zeros, held = np.zeros(turn.which.size), Multipliers.none(turn.which.size)
        return Answers(points, zeros, ["optimal"] * turn.which.size, held, {})


class _WeightedSession:
    """One run over some servers."""

    def __init__(self, average: Session, roots: Sequence[np.ndarray]) -> None:
        self._average, self._roots = average, roots

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        roots = np.concatenate([self._roots[at] for at in turn.which])
        return self._average.minimise(turn._replace(rho=turn.rho * roots), tolerance)


def _nearest(matrix: np.ndarray, linear: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Of all minimisers the nearest to where it was: some entries may have no penalty."""
    diagonal = np.diagonal(matrix)
    if np.count_nonzero(matrix) == np.count_nonzero(diagonal):
        return np.divide(-linear, diagonal, out=before.copy(), where=diagonal > 0)
    return before - np.linalg.lstsq(matrix, linear + matrix @ before)[0]
