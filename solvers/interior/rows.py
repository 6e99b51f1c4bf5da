"""Rows of an interior point's cones: one matrix over all variables, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.sizes import SMALL, SPARSE

DENSE_CURVATURE = 700
"""Variables up to which curvature is kept in a dense matrix: its factor takes 10 ms there."""
PAIRS_KEPT = 100_000
"""Pairs of entries of one row up to which their products are kept: a round then takes a tenth of
scipy's product of two sparse matrices, and making them takes as long as seven of those."""
MANY_BLOCKS = 8
"""Blocks from which on they are taken as one array: 8 of 20 x 10 are joined in 80 microseconds
instead of 120, 4 in 55 either way."""


class Rows:
    """A matrix of shape (p, n) with the products that a round needs."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self._is_sparse = sp.issparse(matrix)

    @classmethod
    def joined(cls, parts: Sequence[Part], width: int, *, is_dense: bool = True) -> Rows:
        """Blocks one below the other; each with the columns that its own stand for."""
        parts = singles(parts)
        alike = stacked(parts)
        if alike is not None:
            return cls._of_alike(*alike, width, is_dense=is_dense)
        heights = [matrix.shape[0] for matrix, _ in parts]
        filled = sum(_count(matrix) for matrix, _ in parts)
        entries = sum(heights) * width
        if is_dense and (entries <= SMALL or filled > SPARSE * entries):
            found = np.zeros((sum(heights), width))
            at = 0
            for (matrix, columns), height in zip(parts, heights, strict=True):
                dense = matrix.toarray() if sp.issparse(matrix) else matrix
                found[at : at + height, columns] += dense
                at += height
            return cls(found)
        data, row, column, at = [], [], [], 0
        for (matrix, columns), height in zip(parts, heights, strict=True):
            cells = sp.coo_array(matrix)
            data.append(cells.data)
            row.append(cells.row + at)
            column.append(columns[cells.col])
            at += height
        if not parts:
            return cls(sp.csr_array((0, width)))
        cells = np.concatenate(data), (np.concatenate(row), np.concatenate(column))
        return cls(sp.csr_array(cells, shape=(at, width)))

    @classmethod
    def _of_alike(
        cls, matrices: np.ndarray, columns: np.ndarray, width: int, *, is_dense: bool
    ) -> Rows:
        """The same of dense blocks of one shape, (n, h, k), and their columns, (n, k)."""
        height = matrices.shape[0] * matrices.shape[1]
        filled, entries = np.count_nonzero(matrices), height * width
        if is_dense and (entries <= SMALL or filled > SPARSE * entries):
            found = np.zeros((*matrices.shape[:2], width))
            np.put_along_axis(found, np.broadcast_to(columns[:, None], matrices.shape), matrices, 2)
            return cls(found.reshape(height, width))
        kept = matrices != 0
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=2))])
        indices = np.broadcast_to(columns[:, None], matrices.shape)[kept]
        found = sp.csr_array((matrices[kept], indices, starts), shape=(height, width))
        found.sum_duplicates()
        return cls(found)

    def times(self, x: np.ndarray) -> np.ndarray:
        """A x."""
        return self.matrix @ x

    def back(self, y: np.ndarray) -> np.ndarray:
        """A' y."""
        return y @ self.matrix if not self._is_sparse else self._across @ y

    def gram(self, weights: np.ndarray | None = None) -> Any:
        """A' diag(w) A with positive weights."""
        matrix = self.matrix
        if self._is_sparse:
            if weights is not None and self._products is not None:
                products, indices, indptr = self._products
                cells = products @ weights, indices, indptr
                return sp.csr_array(cells, shape=(matrix.shape[1], matrix.shape[1]))
            bent = matrix if weights is None else sp.diags_array(weights) @ matrix
            return self._across @ bent
        if weights is not None:
            matrix = matrix * np.sqrt(weights)[:, None]
        return matrix.T @ matrix

    def blocked(self, blocks: np.ndarray) -> Rows:
        """Each k rows, in order, multiplied by one of the matrices, (count, h, k)."""
        count, height, width = blocks.shape
        if not self._is_sparse:
            table = self.matrix.reshape(count, width, -1)
            return Rows((blocks @ table).reshape(count * height, -1))
        starts = np.arange(count * height + 1) * width
        columns = np.broadcast_to(
            (np.arange(count) * width)[:, None, None] + np.arange(width), blocks.shape
        )
        cells = blocks.ravel(), columns.ravel(), starts
        return Rows(sp.csr_array(cells, shape=(count * height, count * width)) @ self.matrix)

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray) -> Rows:
        """diag(r) A diag(c), or A diag(c)."""
        matrix = self.matrix
        rows = np.ones(matrix.shape[0]) if rows is None else rows
        if self._is_sparse:
            data = matrix.data * np.repeat(rows, np.diff(matrix.indptr)) * columns[matrix.indices]
            cells = data, matrix.indices, matrix.indptr
            return Rows(sp.csr_array(cells, shape=matrix.shape))
        return Rows(matrix * rows[:, None] * columns)

    def weighed(self, y: np.ndarray) -> np.ndarray:
        """The sums of each column's squares, weighed by y."""
        return y @ self.squares

    @cached_property
    def squares(self) -> Any:
        """The matrix with each entry squared."""
        return self.matrix.power(2) if self._is_sparse else self.matrix**2

    def beyond(self, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and values of the entries in this column and later ones."""
        row, at, values = self._cells
        is_later = at >= column
        return row[is_later], at[is_later], values[is_later]

    @cached_property
    def _cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cells = sp.coo_array(self.matrix)
        return cells.row, cells.col, cells.data

    @cached_property
    def dense(self) -> np.ndarray:
        """The matrix as an array."""
        return self.matrix.toarray() if self._is_sparse else self.matrix

    @cached_property
    def _products(self) -> tuple[Any, np.ndarray, np.ndarray] | None:
        """What weights become the entries of A' diag(w) A by, and where these are.

        None of many, where scipy's product is as fast.
        """
        matrix = self.matrix
        counts, width = np.diff(matrix.indptr), matrix.shape[1]
        pairs = counts.astype(int) ** 2
        if pairs.sum() > PAIRS_KEPT:
            return None
        row = np.repeat(np.arange(counts.size), pairs)
        at = np.arange(row.size) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        one, two = (matrix.indptr[row] + part for part in np.divmod(at, counts[row]))
        cells = matrix.indices[one].astype(int) * width + matrix.indices[two]
        found, where = np.unique(cells, return_inverse=True)
        values = matrix.data[one] * matrix.data[two]
        products = sp.csr_array((values, (where, row)), shape=(found.size, counts.size))
        starts = np.searchsorted(found, np.arange(width + 1) * width)
        return products, found % width, starts

    @cached_property
    def _across(self) -> Any:
        return self.matrix.T


Part = tuple[Any, np.ndarray]
"""A matrix (h, k) and what its columns stand for, (k,), or matrices (n, h, k) and these, (n, k)."""


def stacked(parts: Sequence[tuple[Any, np.ndarray]]) -> tuple[np.ndarray, np.ndarray] | None:
    """Matrices of one shape as one array, (n, h, k), and their columns; None of others."""
    if len(parts) < MANY_BLOCKS:
        return None
    shapes = {one.shape if type(one) is np.ndarray else None for one, _ in parts}
    if len(shapes) != 1 or None in shapes:
        return None
    return np.array([one for one, _ in parts]), np.array([columns for _, columns in parts])


def singles(parts: Sequence[Part]) -> list[tuple[Any, np.ndarray]]:
    """Each matrix by itself."""
    found = []
    for matrix, columns in parts:
        found += zip(matrix, columns, strict=True) if matrix.ndim == 3 else [(matrix, columns)]
    return found


def batched(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Those of many at once, and those of one each."""
    batches = [part for part in parts if part[0].ndim == 3]
    rest = [part for part in parts if part[0].ndim != 3]
    alike = stacked(rest)
    return (batches, rest) if alike is None else ([*batches, alike], [])


def summed(size: int, quadratics: Sequence[Part], *, is_dense: bool) -> Any:
    """The sum of matrices over variables of some numbers, (size, size)."""
    batches, rest = batched(quadratics)
    whole: Any = np.zeros((size, size)) if is_dense else sp.csc_array((size, size))
    for matrices, columns in batches:
        whole = whole + _summed(size, matrices, columns, is_dense=is_dense)
    if is_dense:
        for matrix, columns in rest:
            dense = matrix.toarray() if sp.issparse(matrix) else matrix
            whole[columns[:, None], columns] += dense
        return whole
    if not rest:
        return whole
    cells = [(sp.coo_array(matrix), columns) for matrix, columns in rest]
    data = np.concatenate([one.data for one, _ in cells])
    row = np.concatenate([columns[one.row] for one, columns in cells])
    column = np.concatenate([columns[one.col] for one, columns in cells])
    return whole + sp.csc_array((data, (row, column)), shape=(size, size))


def _summed(size: int, matrices: np.ndarray, columns: np.ndarray, *, is_dense: bool) -> Any:
    """The same of dense ones of one shape."""
    if (columns == columns[:1]).all():
        matrices, columns = matrices.sum(axis=0)[None], columns[:1]
    cells = (columns[:, :, None] * size + columns[:, None]).ravel()
    if is_dense:
        return np.bincount(cells, matrices.ravel(), size * size).reshape(size, size)
    kept = np.flatnonzero(matrices)
    places = np.divmod(cells[kept], size)
    return sp.csc_array((matrices.ravel()[kept], places), shape=(size, size))


def _count(matrix: Any) -> int:
    return int(matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix))
