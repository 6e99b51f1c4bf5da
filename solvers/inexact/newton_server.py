r"""Curved average: the server's step with the clients' Hessians for a penalty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import SAME
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.smooth import Smooth
from dald_model.solvers.base import Answers, Multipliers, Session, Turn


class CurvedAverage:
    r"""Minimise the surrogate (47) over :math:`\hat x`: :math:`1/\alpha_i = \nabla^2 f_i`, (41).

    .. math::
        \hat x \leftarrow \hat x + \beta d, \qquad
        \Big(\sum_i \nabla^2 f_i(x_i)\Big) d = \sum_i \nabla^2 f_i(x_i)(x_i - \hat x) - \mu_i

    over the clients that take part, those with a penalty. With :math:`x_i = \hat x` and
    :math:`\mu_i = \nabla f_i(\hat x)` this is Newton's step (42).

    Parameters
    ----------
    clients : list of Subproblem
        Who has an edge with the server.
    damping : float
        :math:`\beta`.
    """

    name = "curved average"
    batches = False
    is_exact = True

    def __init__(self, clients: Sequence[Subproblem], damping: float = 1.0) -> None:
        self.clients, self.damping = clients, damping

    def refuses(self, subproblem: Subproblem) -> str:
        return "" if subproblem.client.is_server else "it is no server"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(self, subproblems)


class _Session:
    """One run of one server."""

    def __init__(self, solver: CurvedAverage, subproblems: Sequence[Subproblem]) -> None:
        (self._server,) = subproblems
        self._damping = solver.damping
        self._clients = list(solver.clients)
        self._smooth = Smooth(self._clients)
        self._augmented = Augmented([self._server])
        entry = {int(at): i for i, at in enumerate(self._server.entries)}
        # Where in the server's vectors over its edges each client's entries stand.
        self._places = [np.array([entry[int(at)] for at in c.entries]) for c in self._clients]

    @np.errstate(all="ignore")  # outside of a domain, which is told from what is not finite
    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        matrix = self._server.sides[0]
        present = [i for i, at in enumerate(self._places) if (turn.rho[at] > 0).all()]
        own = [self._clients[i].sides[0] for i in present]
        places = [self._places[i] for i in present]
        told = [side.T @ turn.neighbours[at] for side, at in zip(own, places, strict=True)]
        hessians = self._smooth.hessians(np.array(present), np.concatenate(told))
        told_mu = turn._replace(
            mu=np.where(turn.rho > 0, turn.mu, 0.0), rho=np.zeros(turn.rho.size)
        )
        right = -self._augmented.linear(told_mu)
        total = np.zeros((self._server.size, self._server.size))
        for side, at, point, hessian in zip(own, places, told, hessians, strict=True):
            # The client's variables in the server's order
            order = (side.T @ matrix[at]).toarray()
            total += order.T @ hessian @ order
            right += order.T @ (hessian @ (point - order @ turn.points))
        if not (np.isfinite(total).all() and np.isfinite(right).all()):
            return _failed(
                turn,
                "the sum of the clients' Hessians or gradients is not finite: the iterate left the "
                "domain of an objective; give a start in it, or take a smaller damping",
            )
        step = np.linalg.lstsq(total, right)[0]
        size = abs(matrix.T) @ np.abs(told_mu.mu) + np.abs(total) @ np.abs(turn.points)
        if (np.abs(total @ step - right) > SAME * size).any():
            return _failed(
                turn,
                "the sum of the clients' Hessians is singular and the gradient not in its range: "
                "Newton's step does not exist, as along some direction there is a slope but no "
                "curvature; add a regulariser, or take dm.DALD()",
            )
        found = turn.points + self._damping * step
        return Answers(found, np.zeros(1), ["optimal"], Multipliers.none(1), {})


def _failed(turn: Turn, said: str) -> Answers:
    nowhere = np.full(turn.points.size, np.nan)
    return Answers(nowhere, np.full(1, np.nan), ["solver_error"], Multipliers.none(1), {0: said})
