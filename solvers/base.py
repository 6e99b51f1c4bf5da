r"""The protocol of the solver layer: minimise augmented Lagrangians, many clients at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dald_model.compile.subproblem import Subproblem

FOUND = ("optimal", "optimal_inaccurate")
"""Statuses of an answer that has a point to go on with."""

NOTHING = np.zeros(0)


class Turn(NamedTuple):
    r"""Some clients of a session are to minimise for these Parameters.

    Attributes
    ----------
    which : ndarray of int, shape (k,)
        Positions in the list of clients that the session was opened with, without repetition.
    mu, rho, neighbours : ndarray, shape (total of q over ``which``,)
        :math:`\mu`, :math:`\rho` and :math:`z` over the edges of these clients, one client after
        the other, each in the order of ``Subproblem.entries``.
    points : ndarray, shape (total of m over ``which``,)
        Where these clients stand now, one after the other: what an inexact solver starts from.
    """

    which: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    neighbours: np.ndarray
    points: np.ndarray = NOTHING


class Answers(NamedTuple):
    r"""What a session found, in the order of ``Turn.which``.

    Attributes
    ----------
    points : ndarray, shape (total of m over ``which``,)
        The minimisers one after the other, see ``Subproblem.point``; NaN where there is none.
    objectives : ndarray, shape (k,)
        The clients' own objectives there (as minimised), without the augmented terms.
    statuses : sequence of str
        cvxpy's words: "optimal", "optimal_inaccurate", "infeasible", "unbounded", "solver_error".
    duals : callable
        ``duals(i)`` gives, for the i-th of these clients, a tuple with the values of the cvxpy
        ``dual_variables`` of each of its constraints. Computed when asked, from what is kept of
        this very turn.
    messages : dict
        i -> what the solver said, where the status is not "optimal".
    slack : ndarray, shape (k,)
        Of an inexact solver: the largest entry of :math:`g_i \in \partial_i \Lambda_\rho` at each
        point, condition (29), in units of the gradient. Empty where clients are minimised.
    """

    points: np.ndarray
    objectives: np.ndarray
    statuses: Sequence[str]
    duals: Callable[[int], tuple[Any, ...]]
    messages: Mapping[int, str]
    slack: np.ndarray = NOTHING


class Session(Protocol):
    """One run of a solver over a list of clients: factorisations and warm starts live here."""

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """Answer for all clients of the turn, which do not depend on each other.

        ``tolerance`` is the accuracy that the outer loop needs of the points: the error of a
        coordinate relative to max(1, its size).
        """
        ...


@runtime_checkable
class Solver(Protocol):
    """A way to solve subproblems: stateless, what changes is in its sessions."""

    @property
    def name(self) -> str:
        """What ``solve(solver=...)`` and ``compiled.explain()`` call it."""
        ...

    @property
    def batches(self) -> bool:
        """Whether the clients of one session must have one ``Form.shape``."""
        ...

    # A solver may also have ``is_exact``: that its answers are the minimisers, or depend on the
    # turn alone, to working accuracy and whatever ``tolerance`` says. Without it, they are not.

    def refuses(self, subproblem: Subproblem) -> str:
        """Why this solver cannot take the client; empty if it can."""
        ...

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """Start a run on these clients, none of which it refuses."""
        ...


def no_duals(i: int) -> tuple[()]:
    """``Answers.duals`` of clients that have no constraints."""
    return ()
