"""Affine maps of a client's pieces, products with all together, and what they see of variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.declare.affine import Coefficients, MadeOnce, scaled, side_by_side
from dald_model.sizes import ROUNDING, SMALL

NOTHING = np.zeros(0)


class AffineMaps:
    """The affine maps :math:`y_j = F_j x + f_j` of a client's pieces, m variables in all.

    ``parts`` are the pieces as :func:`dald_model.declare.affine.affine_parts` gives them; matrices
    of coefficients that are in ``before``, too, are taken from there.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Coefficients, np.ndarray]],
        variables: Sequence[cp.Variable],
        before: AffineMaps | None = None,
    ) -> None:
        self.size = sum(v.size for v in variables)
        self.matrices = self._multiplied(parts, variables, before)
        self.sizes = tuple([offset.size for _, offset in parts])
        self.stops = _stops(self.sizes)
        # From the second time on
        self._squares: dict[int, np.ndarray | None] = {}
        self._arrays: dict[int, Any] = {}
        self._turned: list[np.ndarray] = []
        self._take(parts)

    @classmethod
    def after(
        cls,
        before: AffineMaps | None,
        parts: Sequence[tuple[Coefficients, np.ndarray]],
        variables: Sequence[cp.Variable],
    ) -> AffineMaps:
        """Those of pieces; what others before have as well is taken from there."""
        return (before and before.moved(parts)) or cls(parts, variables, before)

    def _take(self, parts: Sequence[tuple[Coefficients, np.ndarray]]) -> None:
        self._made = parts, self.matrices
        self.offsets = [offset for _, offset in parts]
        one = len(self.offsets) == 1
        self.offset = self.offsets[0] if one else np.concatenate([*self.offsets, NOTHING])

    def moved(self, parts: Sequence[tuple[Coefficients, np.ndarray]]) -> AffineMaps | None:
        """Those of pieces that differ in their offsets alone; None if more is other."""
        if not all(one[0] is two[0] for one, two in zip(parts, self._made[0], strict=True)):
            return None
        found = object.__new__(type(self))  # a copy, as it is made of each client for each value
        found.__dict__.update(self.__dict__)
        found._take(parts)
        return found

    @staticmethod
    def _multiplied(
        parts: Sequence[tuple[Coefficients, np.ndarray]],
        variables: Sequence[cp.Variable],
        before: AffineMaps | None,
    ) -> list[Any]:
        """The matrices, those of before where coefficients are the same."""
        known = {}
        if before is not None:
            pairs = zip(*before._made, strict=True)
            known = {id(part[0]): matrix for part, matrix in pairs}
        return [
            known[id(part[0])]
            if id(part[0]) in known
            else side_by_side(part[0], variables, part[1].size)
            for part in parts
        ]

    def moves(self, other: AffineMaps) -> bool:
        """Whether only offsets differ."""
        if self.matrices is other.matrices:
            return True
        pairs = zip(self.matrices, other.matrices, strict=True)
        is_same = all(one is two for one, two in pairs)
        return is_same and (self.stops is other.stops or np.array_equal(self.stops, other.stops))

    def has(self, other: AffineMaps, pieces: Iterable[int]) -> bool:
        """Whether some of its pieces are those of another."""
        return all(self._made[0][at] is other._made[0][at] for at in pieces)

    def has_matrices(self, other: AffineMaps, pieces: Iterable[int]) -> bool:
        """The same but for their offsets."""
        return all(self.matrices[at] is other.matrices[at] for at in pieces)

    def piece(self, at: int) -> Any:
        """The matrix of a piece, a small one as an array; None of the client's variable."""
        if at not in self._arrays:
            known = self.matrices[at]
            if sp.issparse(known) and known.shape[0] * known.shape[1] <= SMALL:
                known = known.toarray()
            self._arrays[at] = known
        return self._arrays[at]

    def times(self, blocks: ColumnBlocks) -> Any:
        """The matrix @ F for all pieces together; the data themselves where it picks them."""
        total: Any = None
        for at, block, factor in blocks.parts:
            own = self.matrices[at]
            if factor is None:
                part: Any = block if own is None else block @ own
            elif own is None:
                part = scaled(factor, None)
            elif (factor == 1.0).all():
                part = own
            else:
                part = scaled(factor, own)
            total = part if total is None else dense(total) + dense(part)
        return sp.csr_array((blocks.height, self.size)) if total is None else total

    def add_weighed(
        self, total: np.ndarray, linear: np.ndarray, at: int, weights: np.ndarray
    ) -> float:
        r"""Add weighed squares of one piece, :math:`\tfrac12 y^\top W y`; gives the constant.

        :math:`F^\top W F`, symmetric, to a matrix, (m, m), :math:`F^\top W f` to a vector, (m,).
        """
        own, offset = self.matrices[at], self.offsets[at]
        if own is None:
            total.flat[:: self.size + 1] += weights
        else:
            total += self._weighed_square(at, weights)
        if not offset.any():
            return 0.0
        bent = weights * offset
        linear += bent if own is None else transposed(own, bent)
        return float(offset @ bent) / 2

    def _weighed_square(self, at: int, weights: np.ndarray) -> np.ndarray:
        r""":math:`F^\top W F` of one piece; of one weight, which may be another soon, kept."""
        own = self.matrices[at]
        if at in self._squares and (weights == weights[0]).all():
            known = self._squares[at]
            if known is None:
                square = dense(own.T @ own)
                known = self._squares[at] = (square + square.T) / 2
            return weights[0] * known
        self._squares.setdefault(at)
        square = dense(own.T @ scaled(weights, own))
        return (square + square.T) / 2

    def turned(self, vector: np.ndarray, pieces: Iterable[int]) -> np.ndarray:
        """:meth:`transposed_times` of a vector that is often the one before."""
        if not self._turned or self._turned[0] is not vector:
            self._turned[:] = vector, self.transposed_times(vector, pieces)
        return self._turned[1]

    def transposed_times(self, vector: np.ndarray, pieces: Iterable[int]) -> np.ndarray:
        """F.T @ vector for all pieces together, shape (m,), which has entries in some pieces."""
        total = np.zeros(self.size)
        for at in pieces:
            own, part = self.matrices[at], vector[self.stops[at] : self.stops[at + 1]]
            total += part if own is None else transposed(own, part)
        return total


@lru_cache
def _stops(sizes: tuple[int, ...]) -> np.ndarray:
    """Where pieces of these sizes begin and end: the same array for clients of one shape."""
    return np.cumsum([0, *sizes])


class ColumnBlocks:
    """A matrix over all pieces, taken apart by piece, once for all clients of a template.

    ``parts`` lists (piece, block, factor): the block is diag(factor), or factor is None.
    """

    def __init__(
        self, height: int, stops: np.ndarray, parts: list[tuple[int, Any, np.ndarray | None]]
    ) -> None:
        self.height, self._stops, self.parts = height, stops, parts

    @classmethod
    def of(cls, matrix: Any, stops: np.ndarray) -> ColumnBlocks:
        """Those of a matrix."""
        whole: Any = sp.csr_array(matrix)
        rows = np.repeat(np.arange(whole.shape[0]), np.diff(whole.indptr))
        order = np.lexsort((whole.indices, rows))
        rows, columns, data = rows[order], whole.indices[order], whole.data[order]
        piece, each = np.searchsorted(stops, columns, side="right") - 1, np.arange(rows.size)
        parts: list[tuple[int, Any, np.ndarray | None]] = []
        for at in sorted(set(piece.tolist())):
            mine = piece == at
            row, column, own = rows[mine], columns[mine] - stops[at], data[mine]
            shape = whole.shape[0], int(stops[at + 1] - stops[at])
            picks = shape == (own.size, own.size)
            picks = picks and np.array_equal(row, each[: own.size]) and np.array_equal(row, column)
            pointers = np.searchsorted(row, np.arange(shape[0] + 1))
            block = None if picks else sp.csr_array((own, column, pointers), shape)
            parts.append((at, block, own if picks else None))
        return cls(whole.shape[0], stops, parts)

    @classmethod
    def of_each(
        cls, row: sp.csr_array, piece: np.ndarray, count: int, stops: np.ndarray
    ) -> ColumnBlocks:
        """One and the same row, (1, pieces), for each of so many entries that every piece has."""
        order = np.argsort(row.indices)
        parts: list[tuple[int, Any, np.ndarray | None]] = [
            (int(piece[column]), None, np.full(count, value))
            for column, value in zip(row.indices[order], row.data[order], strict=True)
            if value
        ]
        return cls(count, stops, parts)

    def at(self, y: np.ndarray) -> np.ndarray:
        """The matrix @ y, of all pieces one after the other, (n,) or (n, k)."""
        found = np.zeros((self.height, *y.shape[1:]))
        for at, block, factor in self.parts:
            own = y[self._stops[at] : self._stops[at + 1]]
            found += block @ own if factor is None else (factor * own.T).T
        return found


def transposed(matrix: Any, vector: np.ndarray) -> np.ndarray:
    """matrix.T @ vector: of a small one by rows, scipy takes most of its time to transpose it."""
    if isinstance(matrix, np.ndarray) or matrix.format != "csr":
        return matrix.T @ vector
    each = matrix.data * np.repeat(vector, np.diff(matrix.indptr))
    return np.bincount(matrix.indices, each, matrix.shape[1])


def is_same(one: Any, two: Any) -> bool:
    """Whether two matrices or vectors, dense, sparse or None, are the same."""
    if one is two:
        return True
    if one is None or two is None:
        return False
    if one.shape != two.shape or sp.issparse(one) != sp.issparse(two):
        return False
    if not sp.issparse(one):
        return np.array_equal(one, two)
    if one.format == two.format == "csr" and np.array_equal(one.indices, two.indices):
        return np.array_equal(one.indptr, two.indptr) and np.array_equal(one.data, two.data)
    return (one != two).nnz == 0


def dense(matrix: Any) -> np.ndarray:
    """A matrix that may be sparse, as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


_KNOWN = MadeOnce()
"""Most clients share the same matrix."""


class Sight:
    r"""Absolute values and squares of a matrix G of sides, (q, m), and the sums of the squares.

    Entries that are rounding errors of some that cancel count as zero: a difference of two means
    holds an intercept by 1e-17. What is given along sides or variables may be that of several
    clients, one a row.

    Attributes
    ----------
    absolute, squares : csr_array or ndarray, shape (q, m)
        Arrays where they are small, as most are: a sparse product costs 20 times as much.
    of_sides, of_variables : ndarray, shapes (q,) and (m,)
        :math:`\sum_k G_{rk}^2` and :math:`\sum_r G_{rk}^2`.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix
        shape: Any = matrix.shape
        height, width = shape
        if height * width <= SMALL:
            self.absolute: Any = abs(matrix.toarray())
            largest = self.absolute.max(axis=1, keepdims=True, initial=0.0)
            self.absolute[self.absolute < ROUNDING * largest] = 0.0
        else:
            self.absolute = abs(matrix)
            rows = np.repeat(np.arange(height), np.diff(matrix.indptr))
            largest = np.zeros(height)
            np.maximum.at(largest, rows, self.absolute.data)
            self.absolute.data[self.absolute.data < ROUNDING * largest[rows]] = 0.0
        self.squares = self.absolute * self.absolute
        self.of_sides = np.asarray(self.squares.sum(axis=1)).reshape(-1)
        self.of_variables = np.asarray(self.squares.sum(axis=0)).reshape(-1)

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Sight:
        """The one of a matrix; the same for clients whose matrix is the same object."""
        return _KNOWN.of((id(matrix),), [matrix], lambda: cls(matrix))

    def lengths(self, along_sides: np.ndarray) -> np.ndarray:
        """Lengths along the sides as lengths of the variables, (..., m) from (..., q).

        The mean of what each side makes of a variable's, with weights :math:`G_{rk}^2`: sides that
        hardly see it have little to say.
        """
        weight = self.of_variables
        return (along_sides @ self.absolute) / np.where(weight > 0, weight, np.inf)

    def along(self, of_variables: np.ndarray) -> np.ndarray:
        """What lengths of the variables make of the sides' at most, (..., q) from (..., m)."""
        return of_variables @ self.absolute.T

    def curvatures(self, diagonal: np.ndarray) -> np.ndarray:
        """A curvature of the variables as one along the sides, (..., q) from (..., m).

        For a side that picks entries of x this is their curvature; a row g of a general matrix
        moves x along g / |g|^2, the least change that moves the side by one. Of variables with
        curvature, as the others say nothing of the size: beside angles without a cost the power
        that is made would move by one part in a hundred, and seem to cost one in ten thousand.
        """
        weight = self.of_sides if diagonal.all() else (diagonal > 0) @ self.squares.T
        return (diagonal @ self.squares.T) / np.where(weight > 0, weight, np.inf) ** 2
