"""The matrices of many clients, for products with all of their points in a few calls.

Those with few nonzeros stand in one block-diagonal matrix, whatever their shapes. Dense ones of one
shape are stacked while they are small, and taken where they are, one by one, where a product
outweighs a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.solvers.arrays.indexing import is_run, ranges, selection

LARGE = 2**15
"""Bytes of a dense matrix from which a Python call costs less than a copy of it would."""


class Block:
    """Matrices of clients of any shapes on the diagonal of one, in CSR.

    ``heights`` are the rows of each client.
    """

    def __init__(self, matrix: Any, heights: np.ndarray) -> None:
        self._matrix, self._transposed = matrix, matrix.T
        self.heights = heights
        indices, count = matrix.indices, matrix.shape[0]
        is_pick = matrix.nnz == count and bool((np.diff(matrix.indptr) == 1).all())
        self._first = None
        if is_pick and count and (indices == np.arange(indices[0], indices[0] + count)).all():
            self._first = int(indices[0])

    @classmethod
    def of(cls, matrices: list[sp.csr_array], starts: np.ndarray, total: int) -> Block:
        """Of clients whose variables start at these columns, of ``total``."""
        counts = np.concatenate([np.diff(one.indptr) for one in matrices])
        indices = [one.indices + at for one, at in zip(matrices, starts, strict=True)]
        arrays = (
            np.concatenate([one.data for one in matrices]).astype(float),
            np.concatenate(indices).astype(np.int32),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        )
        heights = np.array([one.indptr.size - 1 for one in matrices])
        return cls(sp.csr_array(arrays, shape=(counts.size, total)), heights)

    def take(self, members: np.ndarray, before: np.ndarray, after: np.ndarray, total: int) -> Block:
        """Of some clients, whose variables start ``after`` where they started ``before``."""
        heights, matrix = self.heights[members], self._matrix
        tops = np.cumsum(self.heights) - self.heights
        shifts = before - after
        shift = int(shifts[0])
        if is_run(members) and (shifts == shift).all():
            if shift == 0 and members.size == self.heights.size and total == matrix.shape[1]:
                return self
            top = int(tops[members[0]])
            pointers = matrix.indptr[top : top + int(heights.sum()) + 1]
            span = slice(pointers[0], pointers[-1])
            indices = matrix.indices[span] - np.int32(shift) if shift else matrix.indices[span]
            arrays = matrix.data[span], indices, pointers - pointers[0]
            return Block(sp.csr_array(arrays, shape=(pointers.size - 1, total)), heights)
        rows = ranges(tops[members], heights)
        counts = matrix.indptr[rows + 1] - matrix.indptr[rows]
        entries = ranges(matrix.indptr[rows].astype(int), counts)
        moved = np.repeat(np.repeat(shifts, heights).astype(np.int32), counts)
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        arrays = matrix.data[entries], matrix.indices[entries] - moved, pointers
        return Block(sp.csr_array(arrays, shape=(rows.size, total)), heights)

    def times(self, points: np.ndarray) -> np.ndarray:
        """Products with flat points, flat."""
        if self._first is not None:
            return self._matrix.data * points[self._first : self._first + self._matrix.nnz]
        return self._matrix @ points

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with flat rows, flat."""
        return self._transposed @ rows


class Stacked:
    """Dense matrices of one shape, (k, R, m)."""

    def __init__(self, stack: np.ndarray) -> None:
        self._stack = stack

    def take(self, members: np.ndarray) -> Stacked:
        """Of some clients; a view where they are a range."""
        return Stacked(self._stack[selection(members)])

    def times(self, points: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        return np.matmul(self._stack, points[:, :, None])[:, :, 0]

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        return np.matmul(rows[:, None, :], self._stack)[:, 0, :]


class Listed:
    """Dense matrices of one shape where they are: the data of the clients is not copied."""

    def __init__(self, matrices: list[np.ndarray]) -> None:
        self._matrices = matrices

    def take(self, members: np.ndarray) -> Listed:
        """Of some clients."""
        return Listed([self._matrices[i] for i in members.tolist()])

    def times(self, points: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        found = np.empty((len(points), self._matrices[0].shape[0]))
        for matrix, point, out in zip(self._matrices, points, found, strict=True):
            np.dot(matrix, point, out=out)
        return found

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        found = np.empty((len(rows), self._matrices[0].shape[1]))
        for matrix, row, out in zip(self._matrices, rows, found, strict=True):
            np.dot(row, matrix, out=out)
        return found


def dense(matrices: Sequence[Any]) -> Stacked | Listed:
    """Dense matrices of one shape, in the way that is faster for their size."""
    full = [one.toarray() if sp.issparse(one) else one for one in matrices]
    if full[0].nbytes >= LARGE:
        return Listed([np.asarray(one, dtype=float) for one in full])
    return Stacked(np.stack(full))
