"""Rows of an interior point's cones: one matrix over all variables, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

DENSE = 700
"""Variables up to which curvature is kept in a dense matrix: its factor takes 10 ms there."""
FULL = 0.15
"""Share of entries from which on BLAS multiplies dense rows faster than scipy sparse ones."""


class Rows:
    """A matrix of shape (p, n) with the products that a round needs."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self._is_sparse = sp.issparse(matrix)

    @classmethod
    def joined(
        cls, parts: Sequence[tuple[Any, np.ndarray]], width: int, *, is_dense: bool = True
    ) -> Rows:
        """Blocks one below the other; each with the columns that its own stand for."""
        heights = [matrix.shape[0] for matrix, _ in parts]
        filled = sum(_count(matrix) for matrix, _ in parts)
        if is_dense and (width <= 40 or filled > FULL * sum(heights) * width):
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

    def times(self, x: np.ndarray) -> np.ndarray:
        """A x."""
        return self.matrix @ x

    def back(self, y: np.ndarray) -> np.ndarray:
        """A' y."""
        return y @ self.matrix if not self._is_sparse else self.matrix.T @ y

    def gram(self, weights: np.ndarray | None = None) -> Any:
        """A' diag(w) A with positive weights."""
        matrix = self.matrix
        if self._is_sparse:
            bent = matrix if weights is None else sp.diags_array(weights) @ matrix
            return matrix.T @ bent
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

    def scaled(self, rows: np.ndarray, columns: np.ndarray) -> Rows:
        """diag(r) A diag(c)."""
        if self._is_sparse:
            return Rows(sp.csr_array(sp.diags_array(rows) @ self.matrix @ sp.diags_array(columns)))
        return Rows(self.matrix * rows[:, None] * columns)

    def squares(self) -> Any:
        """The matrix with each entry squared."""
        return self.matrix.power(2) if self._is_sparse else self.matrix**2


def _count(matrix: Any) -> int:
    return int(matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix))
