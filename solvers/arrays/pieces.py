r"""The summands of the selected clients' objectives: their values and gradients.

A piece is one of :math:`\tfrac12 x^\top P x`, :math:`\sum_t w_t \varphi(A_t x + b_t)` of one kind,
or an objective that cvxpy alone knows, of those of the selected clients that have it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import is_run, selection
from dald_model.solvers.arrays.oracles import SCALAR, SMOOTH, logsumexp
from dald_model.values import flat, number, preserved


class Place(NamedTuple):
    """Where the clients of a piece stand among those selected, and their variables."""

    clients: np.ndarray | slice
    columns: np.ndarray | slice
    size: int

    @classmethod
    def among(cls, clients: np.ndarray, starts: np.ndarray, size: int) -> Place:
        """Of clients of one size."""
        if is_run(clients):
            first = int(starts[clients[0]])
            columns: Any = slice(first, first + clients.size * size)
        else:
            columns = starts[clients][:, None] + np.arange(size)
        return cls(selection(clients), columns, size)

    def of(self, points: np.ndarray) -> np.ndarray:
        """Their points: (k, m), or flat where the piece has a column for every variable."""
        return points[self.columns].reshape(-1, self.size) if self.size else points

    def add(self, total: np.ndarray, slopes: np.ndarray) -> None:
        """Add what the piece has at its columns."""
        total[self.columns] += slopes if isinstance(self.columns, np.ndarray) else slopes.ravel()


class Piece(Protocol):
    """One summand of some of the selected clients."""

    @property
    def place(self) -> Place:
        """Where its clients are."""
        ...

    @property
    def is_smooth(self) -> bool:
        """Whether it has slopes."""
        ...

    def values(self, points: np.ndarray) -> np.ndarray:
        """Every client's, (k,), at what ``place.of`` gives."""
        ...

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """The gradients there, for ``place.add``."""
        ...


class Functions(NamedTuple):
    """The functions of a term without their matrix: fields as in ``Term``, of any clients.

    Their arrays are flat in a block, with the first function of every client in ``starts``; else
    they have a row for every client. Without a ``weight`` the rows hold it.
    """

    kind: str
    width: int
    weight: Any
    offset: np.ndarray | None
    bound: np.ndarray
    starts: np.ndarray | None

    def values(self, u: np.ndarray) -> np.ndarray:
        """The sums of every client's, for the products of its matrix and its point."""
        u = u if self.offset is None else u + self.offset
        if self.kind == "abs":
            values = np.abs(u)
        elif self.kind == "norm":
            values = np.linalg.norm(self._grouped(u), axis=-1)
        elif self.kind == "logsumexp":
            values = logsumexp(self._grouped(u))[0]
        else:
            values = SCALAR[self.kind].first(u, self.bound)[0]
        if self.weight is not None:
            values = self.weight * values
        return values.sum(axis=1) if self.starts is None else np.add.reduceat(values, self.starts)

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """The weighted derivatives in every argument, of a smooth kind."""
        u = u if self.offset is None else u + self.offset
        if self.kind != "logsumexp":
            return self.weight * SCALAR[self.kind].first(u, self.bound)[1]
        shares = logsumexp(self._grouped(u))[1]
        return (np.expand_dims(self.weight, -1) * shares).reshape(u.shape)

    def _grouped(self, u: np.ndarray) -> np.ndarray:
        return u.reshape(*self.bound.shape, self.width)


class Summands(NamedTuple):
    r"""The terms of one kind: :math:`\sum_t w_t \varphi(A_t x + b_t)`."""

    place: Place
    matrix: Any
    functions: Functions

    @property
    def is_smooth(self) -> bool:
        """Whether there is a gradient."""
        return self.functions.kind in SMOOTH

    def values(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        return self.functions.values(self.matrix.times(points))

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        return self.matrix.back(self.functions.slopes(self.matrix.times(points)))


class Quadratics(NamedTuple):
    r"""The quadratics :math:`\tfrac12 x^\top P x`; in a block with the columns of their rows."""

    place: Place
    matrix: Any
    columns: np.ndarray | None
    tops: np.ndarray

    is_smooth = True

    def values(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        bent = self.matrix.times(points)
        if self.columns is None:
            return np.vecdot(bent, points) / 2
        return np.add.reduceat(bent * points[self.columns], self.tops) / 2

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        bent = self.matrix.times(points)
        if self.columns is None:
            return bent
        found = np.zeros(points.size)
        found[self.columns] = bent
        return found


class Foreign(NamedTuple):
    """Clients that cvxpy alone knows, one after the other."""

    place: Place
    subproblems: list[Subproblem]
    parts: list[slice]

    is_smooth = True

    def values(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        found = []
        for sub, part in zip(self.subproblems, self.parts, strict=True):
            with _at(sub, points[part]):
                found.append(number(sub.client.cost.value))
        return np.array(found)

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """See :class:`Piece`."""
        found = np.zeros(points.size)
        for sub, part in zip(self.subproblems, self.parts, strict=True):
            with _at(sub, points[part]):
                grads = sub.client.cost.grad
            # None says that the point is outside of the domain
            parts = [grads.get(v, np.zeros(v.size)) for v in sub.variables]
            nothing = [np.full(v.size, np.nan) for v in sub.variables]
            pairs = zip(parts, nothing, strict=True)
            found[part] = np.concatenate([flat(no if g is None else g) for g, no in pairs])
        return found


@contextmanager
def _at(sub: Subproblem, point: np.ndarray) -> Iterator[None]:
    """Give the variables a point for their value, which is not checked against attributes."""
    with preserved(sub.variables), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sparse variables and of domains
        values = sub.spread(point)
        for v in sub.variables:
            v.save_value(values[v.id])
        yield
