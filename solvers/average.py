r"""The server's subproblem in closed form: a weighted average of its clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.solvers.base import Answer, Request
from dald_model.subproblem import Subproblem


class Average:
    r"""Minimise the augmented terms alone, equation (14), in closed form.

    A server has no objective and no constraints, so its point solves the normal equations

    .. math::
        \Big(\sum_j G_j^\top \operatorname{diag}(\rho_j^2) G_j\Big) \hat x
        = \sum_j G_j^\top \big(\rho_j^2 \circ (z_j - g_j) \mp \tfrac12 \mu_j\big).

    With :math:`G_j = I` this is equation (31),
    :math:`\hat x = (\sum \rho_i^2 \circ x_i - \tfrac12 \sum \mu_i) / \sum \rho_i^2`.
    Entries that no edge touches stay zero.
    """

    @staticmethod
    def takes(subproblem: Subproblem) -> bool:
        """Whether the closed form applies: a server whose variables are free."""
        client = subproblem.client
        free = not any(any(v.attributes.values()) for v in client.variables)
        return client.is_server and free

    def minimise(self, requests: Sequence[Request], tolerance: float) -> list[Answer]:
        """See :class:`dald_model.solvers.base.Solver`."""
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Answer:
        matrix, offset = request.subproblem.sides
        weight = request.rho**2
        target = weight * (request.neighbours - offset)
        target -= request.subproblem.signs * request.mu / 2
        right = matrix.T @ target
        normal = matrix.T @ matrix.multiply(weight[:, None]).tocsr()
        diagonal = normal.diagonal()
        if normal.nnz == np.count_nonzero(diagonal):
            point = np.divide(right, diagonal, out=np.zeros_like(right), where=diagonal > 0)
        else:
            point = np.linalg.lstsq(normal.toarray(), right)[0]
        return Answer("optimal", point, 0.0)
