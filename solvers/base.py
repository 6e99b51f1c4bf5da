r"""Protocol of the solver layer: many augmented Lagrangians minimised at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dald_model.compile.subproblem import Subproblem

FOUND = ("optimal", "optimal_inaccurate")
"""Statuses of an answer that has a point to go on with."""
PROVEN = ("infeasible", "unbounded")
"""Statuses that have to be proved: a client's most general solver is believed then."""

NOTHING = np.zeros(0)


class Turn(NamedTuple):
    r"""Multipliers, penalties and neighbour values for some clients of a session.

    Attributes
    ----------
    which : ndarray of int, shape (k,)
        Positions in the list of clients that the session was opened with, without repetition.
    mu, rho, neighbours : ndarray, shape (total of q over ``which``,)
        :math:`\mu`, :math:`\rho` and :math:`z` over the edges of these clients, one client after
        the other, each in the order of ``Subproblem.entries``.
    points : ndarray, shape (total of m over ``which``,)
        Where these clients stand now, one after the other: what an inexact solver starts from.
    lengths, slopes : ndarray, shape (total of m over ``which``,)
        The natural units of these variables and of the gradient, which accuracies are relative
        to; empty stands for ones.
    """

    which: np.ndarray
    mu: np.ndarray
    rho: np.ndarray
    neighbours: np.ndarray
    points: np.ndarray = NOTHING
    lengths: np.ndarray = NOTHING
    slopes: np.ndarray = NOTHING

    def tables(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and slopes of clients of one size, each of shape (k, m)."""
        if self.lengths.size == 0:
            ones = np.ones((self.which.size, size))
            return ones, ones
        return self.lengths.reshape(-1, size), self.slopes.reshape(-1, size)

    def each(self, subproblems: Sequence[Subproblem]) -> Iterator[Turn]:
        """The turns of these clients one by one; ``subproblems`` are theirs, in their order."""
        edge = own = 0
        for at, sub in zip(self.which, subproblems, strict=True):
            edges, mine = slice(edge, edge + sub.signs.size), slice(own, own + sub.size)
            told = self.mu[edges], self.rho[edges], self.neighbours[edges]
            own_units = self.lengths[mine], self.slopes[mine]
            yield Turn(np.array([at]), *told, self.points[mine], *own_units)
            edge, own = edges.stop, mine.stop


class Encoding(IntEnum):
    r"""Representation of the multipliers of a client's own constraints.

    ``UNSOLVED``: the client was not solved yet. ``ROWS``: those of the form's equalities,
    inequalities and balls, one after the other, with the signs of
    :math:`\nabla f + E^\top \nu + A^\top \lambda + \dots = 0`, and after them, if known, those of
    all arguments of norms, balls and kinks, by ``Form.kinked``: each one's slope where it has one.
    ``CONES``: the dual vector of the form's cone program. ``VALUES``: cvxpy's dual values of the
    constraints, flat. ``ELSEWHERE``: they stayed where the client is, and are asked for at the end
    of the run.
    """

    UNSOLVED = 0
    ROWS = 1
    CONES = 2
    VALUES = 3
    ELSEWHERE = 4


ENCODINGS = tuple(Encoding)
"""By number, as to ask the class takes longer."""


class Tangents(NamedTuple):
    """Of each client an affine function that is nowhere above it, at the points of a run.

    Attributes
    ----------
    points : ndarray, shape (n,)
        All clients' variables in the layout.
    slopes : ndarray, shape (n,)
        Of the client's Lagrangian there, prices of others left out.
    losses, spare : ndarray, shape (clients,)
        How far the Lagrangian is below the objective, in the order of the layout, NaN where nothing
        is known; and what rounding leaves of slopes of variables that only rows have, as far as
        these take them from zero.
    objectives : ndarray, shape (clients,)
        By the user's expressions, in the order of the layout, once they were computed.
    """

    points: np.ndarray
    slopes: np.ndarray
    losses: np.ndarray
    spare: np.ndarray
    objectives: np.ndarray = NOTHING


class Multipliers(NamedTuple):
    """Multipliers of the own constraints of k clients.

    Attributes
    ----------
    values : ndarray, shape (total of lengths,)
        One client after the other.
    lengths : ndarray of int, shape (k,)
    encodings : ndarray of uint8, shape (k,)
        See :class:`Encoding`.
    """

    values: np.ndarray
    lengths: np.ndarray
    encodings: np.ndarray

    @classmethod
    def table(cls, rows: np.ndarray, encoding: Encoding = Encoding.ROWS) -> Multipliers:
        """Of clients that have as many each, (k, w)."""
        return cls(rows.reshape(-1), *_alike(*rows.shape, encoding))

    @classmethod
    def none(cls, count: int) -> Multipliers:
        """Of clients without constraints."""
        return cls.table(np.zeros((count, 0)))

    @classmethod
    def joined(cls, parts: Sequence[tuple[Encoding, np.ndarray]]) -> Multipliers:
        """Of clients one by one."""
        values = [one for _, one in parts]
        encodings = np.array([encoding for encoding, _ in parts], dtype=np.uint8)
        lengths = np.array([one.size for one in values], dtype=int)
        return cls(np.concatenate([NOTHING, *values]), lengths, encodings)

    def of(self, i: int) -> Multipliers:
        """Those of the i-th client alone."""
        stop = int(self.lengths[: i + 1].sum())
        one = slice(i, i + 1)
        values = self.values[stop - int(self.lengths[i]) : stop]
        return Multipliers(values, self.lengths[one], self.encodings[one])


@lru_cache
def _alike(count: int, width: int, encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and encodings of so many clients; the same arrays each round, never written to."""
    return np.full(count, width), np.full(count, encoding, dtype=np.uint8)


class ClientAnswer(NamedTuple):
    r"""What was found for one client.

    Attributes
    ----------
    status : str
    point : ndarray, shape (m,)
    objective : float
    multipliers : ndarray
        Of its own constraints.
    left : ndarray, shape (m,)
        What is left of the gradient in each of its variables; empty where that is not known.
    said : str
        Empty where the status is "optimal".
    """

    status: str
    point: np.ndarray
    objective: float
    multipliers: np.ndarray = NOTHING
    left: np.ndarray = NOTHING
    said: str = ""

    @classmethod
    def none(
        cls, status: str, size: int, said: str, multipliers: np.ndarray = NOTHING
    ) -> ClientAnswer:
        """No point, and why."""
        nothing = np.full(size, np.nan)
        return cls(status, nothing, np.nan, multipliers, nothing, said)


class Answers(NamedTuple):
    r"""Minimisers, objectives and multipliers, in the order of ``Turn.which``.

    Attributes
    ----------
    points : ndarray, shape (total of m over ``which``,)
        The minimisers one after the other, see ``Subproblem.point``; NaN where there is none.
    objectives : ndarray, shape (k,)
        The clients' own objectives there (as minimised), without the augmented terms.
    statuses : sequence of str
        cvxpy's words: "optimal", "optimal_inaccurate", "infeasible", "unbounded", "solver_error".
    multipliers : Multipliers
        Of the clients' own constraints.
    messages : dict
        i -> what the solver said, where the status is not "optimal".
    slack : ndarray, shape (k,)
        Of a solver that is not exact: the largest entry of
        :math:`g_i \in \partial_i \Lambda_\rho` at each point, condition (29), in units of the
        gradient. Empty where clients are minimised.
    slack_scaled : ndarray, shape (k,)
        The same with each entry relative to its natural slope, ``Turn.slopes``.
    """

    points: np.ndarray
    objectives: np.ndarray
    statuses: Sequence[str]
    multipliers: Multipliers
    messages: Mapping[int, str]
    slack: np.ndarray = NOTHING
    slack_scaled: np.ndarray = NOTHING

    @classmethod
    def joined(cls, found: Sequence[ClientAnswer], encoding: Encoding) -> Answers:
        """Of clients one by one."""
        return cls(
            np.concatenate([one.point for one in found]),
            np.array([one.objective for one in found]),
            [one.status for one in found],
            Multipliers.joined([(encoding, one.multipliers) for one in found]),
            {i: one.said for i, one in enumerate(found) if one.said},
        )

    def each(self, subproblems: Sequence[Subproblem]) -> Iterator[Answers]:
        """The answers of these clients one by one; ``subproblems`` are theirs, in their order."""
        own = 0
        for i, (status, sub) in enumerate(zip(self.statuses, subproblems, strict=True)):
            begin, own = own, own + sub.size
            yield Answers(
                self.points[begin:own],
                self.objectives[i : i + 1],
                [status],
                self.multipliers.of(i),
                {0: self.messages[i]} if i in self.messages else {},
                self.slack[i : i + 1],
                self.slack_scaled[i : i + 1],
            )


class Session(Protocol):
    """One run of a solver over a list of clients: factorisations and warm starts live here."""

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """Answer for all clients of the turn, which do not depend on each other.

        ``tolerance`` is the accuracy that the outer loop needs of the points: the error of a
        coordinate relative to its natural length, ``turn.lengths``.
        """
        ...


@runtime_checkable
class Lasting(Protocol):
    """A session that serves another run of the same clients, whose numbers may be others.

    What it has made of numbers that stayed is kept; warm starts are not, so that answers are those
    of a session opened anew.
    """

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        """Be as if opened with these, in the same order; False where it must be opened anew."""
        ...


@runtime_checkable
class Solver(Protocol):
    """A way to solve subproblems: stateless, what changes is in its sessions."""

    @property
    def name(self) -> str:
        """Its name in ``solve(solver=...)`` and ``compiled.explain()``."""
        ...

    @property
    def batches(self) -> bool:
        """Whether the clients of one session must have one ``Form.shape``."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether answers depend on the turn alone, to working accuracy, not on ``tolerance``."""
        ...

    def refuses(self, subproblem: Subproblem) -> str:
        """Why this solver cannot take the client; empty if it can."""
        ...

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """Start a run on these clients, none of which it refuses."""
        ...
