"""Affine maps of a client's pieces, and products with all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.declare.affine import (
    Coefficients,
    scaled,
    side_by_side,
)

NOTHING = np.zeros(0)
SMALL = 4096
"""Entries up to which a product with a dense matrix takes less time than with a sparse one."""


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
        self.offsets = [offset for _, offset in parts]
        if before is not None and all(
            part[0] is then[0] for part, then in zip(parts, before._made[0], strict=True)
        ):
            self.size, self.matrices = before.size, before.matrices
            self.sizes, self.stops = before.sizes, before.stops
        else:
            self.size = sum(v.size for v in variables)
            self.matrices = self._multiplied(parts, variables, before)
            self.sizes = tuple(offset.size for offset in self.offsets)
            self.stops = _stops(self.sizes)
        self._made = parts, self.matrices
        one = len(self.offsets) == 1
        self.offset = self.offsets[0] if one else np.concatenate([*self.offsets, NOTHING])

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
        bent = weights * offset
        if own is None:
            total.flat[:: self.size + 1] += weights
            linear += bent
        else:
            square = dense(own.T @ scaled(weights, own))
            total += (square + square.T) / 2
            linear += transposed(own, bent)
        return float(offset @ bent) / 2

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """F.T @ vector for all pieces together, shape (m,)."""
        total = np.zeros(self.size)
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            part = vector[start:stop]
            if part.any():  # most pieces of constraints have no part in what is bent or tilted
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

    parts: list[tuple[int, Any, np.ndarray | None]]

    def __init__(self, matrix: Any, stops: np.ndarray) -> None:
        self.height, self._stops = matrix.shape[0], stops
        self.parts = []
        for at, (start, stop) in enumerate(pairwise(stops)):
            block = sp.csr_array(matrix[:, start:stop])
            block.sort_indices()
            if block.nnz:
                each = np.arange(block.nnz)
                picks = block.shape == (block.nnz, block.nnz)
                picks = picks and np.array_equal(block.indices, each)
                picks = picks and np.array_equal(block.indptr[:-1], each)
                self.parts.append((at, block, block.data if picks else None))

    @classmethod
    def of_each(
        cls, row: sp.csr_array, piece: np.ndarray, count: int, stops: np.ndarray
    ) -> ColumnBlocks:
        """One and the same row, (1, pieces), for each of so many entries that every piece has."""
        found = cls(sp.csr_array((count, 0)), stops[:1])
        found._stops = stops
        order = np.argsort(row.indices)
        found.parts = [
            (int(piece[column]), None, np.full(count, value))
            for column, value in zip(row.indices[order], row.data[order], strict=True)
            if value
        ]
        return found

    def at(self, y: np.ndarray) -> np.ndarray:
        """The matrix @ y, of all pieces one after the other, (n,) or (n, k)."""
        found = np.zeros((self.height, *y.shape[1:]))
        for at, block, factor in self.parts:
            own = y[self._stops[at] : self._stops[at + 1]]
            found += block @ own if factor is None else (factor * own.T).T
        return found


def transposed(matrix: Any, vector: np.ndarray) -> np.ndarray:
    """matrix.T @ vector: of a small one by rows, scipy takes most of its time to transpose it."""
    if not sp.issparse(matrix) or matrix.format != "csr":
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
