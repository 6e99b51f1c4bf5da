r"""The terms of one kind of many clients, with their matrices and functions in one array each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.form import Term
from dald_model.compile.kinds.kind import Kind
from dald_model.solvers.arrays.indexing import Index
from dald_model.solvers.arrays.matrices import Dense, Matrices, gram, together

NO_DIGITS = 1e-13
"""An argument below this share of its offset has no digits that a step from there would have."""


class TermValues(NamedTuple):
    r"""What k clients' smooth terms are at a point.

    Attributes
    ----------
    values : ndarray, shape (k,)
    gradients : ndarray, shape (k, m)
    curvatures : ndarray, shape (k, total of T * width)
        :math:`w \varphi''(u)` in each argument.
    """

    values: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray


class Stack(NamedTuple):
    """The terms of k clients that stand at one place: fields as in ``Term``, a row for each client.

    A client with fewer functions or arguments than others has some more that change nothing: of
    weight zero, or beside others in a joint function. ``offset`` is None where it is zero.
    """

    kind: Kind
    weight: np.ndarray
    matrix: Matrices
    offset: np.ndarray | None
    parameter: np.ndarray
    width: int

    @classmethod
    def of(cls, terms: Sequence[Term], size: int) -> Stack:
        """The terms of several clients, of which the largest has ``size`` variables."""
        kind = terms[0].kind
        count, width = max(t.weight.size for t in terms), max(t.width for t in terms)
        matrices = [_spread(term, width) if term.width < width else term.matrix for term in terms]
        matrix = together(matrices, (count * width, size))
        weight, offset, parameter = _numbers(terms, count, width)
        return cls(kind, weight, matrix, offset, parameter, width)

    @classmethod
    def of_stacked(cls, own: Term, matrices: np.ndarray, offsets: np.ndarray, count: int) -> Stack:
        """Those of clients that have the functions of one term, of their own arguments."""
        weight, parameter = (
            np.broadcast_to(n, (count, n.size)) for n in (own.weight, own.parameter)
        )
        offset = offsets if offsets.any() else None
        return cls(own.kind, weight, Dense(matrices), offset, parameter, own.width)

    def again(self, terms: Sequence[Term]) -> Stack:
        """The same functions with the weights, offsets and parameters of these."""
        weight, offset, parameter = _numbers(terms, self.weight.shape[1], self.width)
        return self._replace(weight=weight, offset=offset, parameter=parameter)

    def take(self, index: Index) -> Stack:
        """The terms of some of the clients."""
        return Stack(
            self.kind,
            self.weight[index],
            self.matrix.take(index),
            None if self.offset is None else self.offset[index],
            self.parameter[index],
            self.width,
        )

    def arguments(self, x: np.ndarray) -> np.ndarray:
        r""":math:`u = A x + b` as the kind takes it: (k, T), or (k, T, width)."""
        u = self.matrix.times(x)
        if self.offset is not None:
            u += self.offset
        return self.kind.grouped(u, self.width)

    def values(self, x: np.ndarray) -> np.ndarray:
        r""":math:`\sum_t w_t \varphi(u_t)`, shape (k,)."""
        return np.vecdot(self.weight, self.kind.value(self.arguments(x), self.parameter))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        r""":math:`A^\top (w \circ \varphi'(u))`, shape (k, m)."""
        slopes = self.kind.gradient(self.arguments(x), self.parameter)
        return self.matrix.back(self._weighted(slopes))

    def evaluate(self, x: np.ndarray) -> TermValues:
        """Values, gradients and weighted second derivatives in one pass."""
        u = self.arguments(x)
        values, slopes, bends = self._evaluated(u)
        return TermValues(
            np.vecdot(self.weight, values),
            self.matrix.back(self._weighted(slopes)),
            self._weighted(bends),
        )

    def hessians(self, x: np.ndarray) -> np.ndarray:
        r""":math:`\sum_t w_t A_t^\top \varphi''(u_t) A_t`, shape (k, m, m)."""
        u = self.arguments(x)
        if not self.kind.is_joint:
            return self.matrix.gram(self.weight * self.kind.evaluate(u, self.parameter)[2])
        rows = self.matrix.full
        grouped = rows.reshape(*u.shape, rows.shape[-1])
        return gram(self.kind.root(grouped, u, self.weight, self.parameter).reshape(rows.shape))

    def along(self, x: np.ndarray, direction: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        r""":math:`\sum_t w_t \varphi'(u_t) \dot u_t` at x + t d, (k,), as a function of t, (k,).

        Infinite off the domain.
        """
        u, change = self.arguments(x), self.kind.grouped(self.matrix.times(direction), self.width)
        known, axes = self.kind.line(u, change), (-1, *[1] * (u.ndim - 1))
        if known is None:
            return lambda t: self._rises(u + t.reshape(axes) * change, change)
        return lambda t: np.vecdot(self.weight, known(t.reshape(axes)))

    def _rises(self, u: np.ndarray, change: np.ndarray) -> np.ndarray:
        """The same at arguments u."""
        if not self.kind.is_smooth:
            return self._rise(self.kind.gradient(u, self.parameter), change)
        values, slopes, _ = self._evaluated(u)
        is_outside = np.isinf(values).any(axis=1)
        return np.where(is_outside, np.inf, self._rise(slopes, change))

    def _evaluated(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The functions and their derivatives.

        Who is inside of a domain by rounding is outside: a row at its edge would keep points there.
        """
        values, slopes, bends = self.kind.evaluate(u, self.parameter)
        if self.kind.is_positive and not self.kind.is_joint and self.offset is not None:
            values = np.where(u > NO_DIGITS * np.abs(self.offset), values, np.inf)
        return values, slopes, bends

    def _rise(self, slopes: np.ndarray, change: np.ndarray) -> np.ndarray:
        inner = np.vecdot(slopes, change) if self.kind.is_joint else slopes * change
        return np.vecdot(self.weight, inner)

    def _weighted(self, derivatives: np.ndarray) -> np.ndarray:
        """Derivatives in every argument times the weights, (k, T * width)."""
        if not self.kind.is_joint:
            return self.weight * derivatives
        return (self.weight[:, :, None] * derivatives).reshape(len(derivatives), -1)


def _numbers(
    terms: Sequence[Term], count: int, width: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Weights, offsets and parameters of so many functions a client, of so many arguments."""
    kind = terms[0].kind
    # Functions of no client are in the domain; arguments of no function are inert
    offset = np.tile(kind.idle(width), (len(terms), count, 1))
    weight, parameter = np.zeros((2, len(terms), count))
    for i, term in enumerate(terms):
        own = term.weight.size
        weight[i, :own], parameter[i, :own] = term.weight, term.parameter
        offset[i, :own, term.width :] = kind.inert(term.width, width)
        offset[i, :own, : term.width] = term.offset.reshape(own, term.width)
    return weight, offset.reshape(len(terms), -1) if offset.any() else None, parameter


def _spread(term: Term, width: int) -> np.ndarray:
    """The matrix with rows of zeros after those of every function."""
    rows = np.asarray(term.matrix if isinstance(term.matrix, np.ndarray) else term.matrix.toarray())
    grouped = rows.reshape(-1, term.width, rows.shape[1])
    return np.pad(grouped, ((0, 0), (0, width - term.width), (0, 0))).reshape(-1, rows.shape[1])
