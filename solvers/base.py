r"""The protocol of the solver layer: minimise augmented Lagrangians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from dald_model.subproblem import Subproblem


class Request(NamedTuple):
    """One client's turn: minimise its augmented Lagrangian for these Parameters.

    ``mu``, ``rho`` and ``neighbours`` run over the client's edges, shape (q,).
    """

    subproblem: Subproblem
    mu: np.ndarray
    rho: np.ndarray
    neighbours: np.ndarray


class Answer(NamedTuple):
    """What a solver found for one client.

    Attributes
    ----------
    status : str
        cvxpy's word: "optimal", "optimal_inaccurate", "infeasible", "unbounded", "solver_error".
    point : ndarray, shape (m,)
        The minimiser over the client's variables, see ``Subproblem.point``; empty if there is
        none.
    objective : float
        The client's own objective there (as minimised), without the augmented terms.
    duals : tuple
        For each of the client's constraints the values of its cvxpy ``dual_variables``.
    message : str
        What the solver said where the status is not "optimal".
    """

    status: str
    point: np.ndarray = np.empty(0)
    objective: float = np.nan
    duals: tuple[Any, ...] = ()
    message: str = ""

    @property
    def found(self) -> bool:
        """Whether there is a point to go on with."""
        return self.status in ("optimal", "optimal_inaccurate")


@runtime_checkable
class Solver(Protocol):
    """A way to solve subproblems. Stateless but for warm starts kept in the subproblems."""

    def minimise(self, requests: Sequence[Request], tolerance: float) -> list[Answer]:
        """Answer all requests, which do not depend on each other, in their order.

        ``tolerance`` is the accuracy that the outer loop needs of the point.
        """
        ...
