r"""The server's subproblem in closed form: a weighted average of its clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
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
        """See :class:`dald_model.solvers.base.Solver`."""
        if not subproblem.client.is_server:
            return "it is no server"
        bound = [v.name() for v in subproblem.variables if any(v.attributes.values())]
        return f"its variable {bound[0]!r} is not free" if bound else ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(subproblems)


class _Session:
    """One run over some servers."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._subproblems = subproblems

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        own = [self._subproblems[at] for at in turn.which]
        points = [_one(sub, one) for sub, one in zip(own, turn.each(own), strict=True)]
        count = len(points)
        held = Multipliers.none(count)
        return Answers(np.concatenate(points), np.zeros(count), ["optimal"] * count, held, {})


def _one(sub: Subproblem, turn: Turn) -> np.ndarray:
    matrix, offset = sub.sides
    before = turn.points if turn.points.size else np.zeros(sub.size)
    weight = turn.rho**2
    target = weight * (turn.neighbours - offset)
    target -= sub.signs * turn.mu / 2
    right = matrix.T @ target
    if (np.diff(matrix.indptr) == 1).all():
        # Each side is a multiple of one entry: no product of matrices is needed.
        diagonal = np.bincount(matrix.indices, weight * matrix.data**2, minlength=sub.size)
        return np.divide(right, diagonal, out=before.copy(), where=diagonal > 0)
    normal = matrix.T @ matrix.multiply(weight[:, None]).tocsr()
    diagonal = normal.diagonal()
    if np.count_nonzero(normal.data) == np.count_nonzero(diagonal):
        return np.divide(right, diagonal, out=before.copy(), where=diagonal > 0)
    # Of all minimisers the nearest to where it was: some entries may have no penalty.
    return before + np.linalg.lstsq(normal.toarray(), right - normal @ before)[0]
