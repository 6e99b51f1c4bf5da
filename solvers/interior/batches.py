"""Rows of clients alike, as the matrices that their forms have: none of them is copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.solvers.interior.rows import DENSE_CURVATURE, Rows, summed

Blocks = Sequence[tuple[np.ndarray, np.ndarray]]
"""Matrices (n, h, k) and the numbers of their columns (n, k)."""


class Batches(Rows):
    """The blocks one below the other, over variables in units of their own.

    Parameters
    ----------
    blocks : sequence of pairs
    units : ndarray, (n,)
        What each column is multiplied by.
    """

    def __init__(self, blocks: Blocks, units: np.ndarray) -> None:
        self._blocks, self._units = blocks, units
        self._alike = [bool((columns == columns[:1]).all()) for _, columns in blocks]
        heights = [matrices.shape[0] * matrices.shape[1] for matrices, _ in blocks]
        self._height, self._stops = sum(heights), np.cumsum(heights)[:-1]

    @cached_property
    def matrix(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        """As one matrix."""
        parts = [pair for block in self._blocks for pair in zip(*block, strict=True)]
        is_dense = self._units.size <= DENSE_CURVATURE
        whole = Rows.joined(parts, self._units.size, is_dense=is_dense)
        return whole.scaled(None, self._units).matrix

    @cached_property
    def _is_sparse(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return sp.issparse(self.matrix)

    def times(self, x: np.ndarray) -> np.ndarray:
        found, x = [], self._units * x
        for (matrices, columns), is_one in zip(self._blocks, self._alike, strict=True):
            if is_one:
                found.append(_flat(matrices) @ x[columns[0]])
            else:
                found.append((matrices @ x[columns][..., None]).ravel())
        return np.concatenate(found)

    def back(self, y: np.ndarray) -> np.ndarray:
        return self._units * self._back(y, self._blocks)

    def weighed(self, y: np.ndarray) -> np.ndarray:
        squares = [(matrices**2, columns) for matrices, columns in self._blocks]
        return self._units**2 * self._back(y, squares)

    def _back(self, y: np.ndarray, blocks: Blocks) -> np.ndarray:
        found, size = np.zeros(self._units.size), self._units.size
        parts = zip(blocks, self._alike, np.split(y, self._stops), strict=True)
        for (matrices, columns), is_one, own in parts:
            if is_one:
                found += np.bincount(columns[0], own @ _flat(matrices), size)
            else:
                each = own.reshape(len(matrices), 1, -1) @ matrices
                found += np.bincount(columns.ravel(), each.ravel(), size)
        return found

    def gram(self, weights: np.ndarray | None = None) -> Any:
        size, found = self._units.size, []
        weights = np.ones(self._height) if weights is None else weights
        parts = zip(self._blocks, self._alike, np.split(weights, self._stops), strict=True)
        for (matrices, columns), is_one, own in parts:
            if is_one:
                matrix = _flat(matrices) * np.sqrt(own)[:, None]
                found.append((matrix.T @ matrix, columns[0]))
            else:
                whole = matrices * np.sqrt(own).reshape(len(matrices), -1, 1)
                found.append((whole.swapaxes(1, 2) @ whole, columns))
        bent = summed(size, found, is_dense=size <= DENSE_CURVATURE)
        if sp.issparse(bent):
            units = sp.diags_array(self._units)
            return sp.csc_array(units @ bent @ units)
        return bent * (self._units[:, None] * self._units)

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray) -> Rows:
        if rows is not None:
            return super().scaled(rows, columns)
        return Batches(self._blocks, self._units * columns)


def _flat(matrices: np.ndarray) -> np.ndarray:
    """The rows of all."""
    return matrices.reshape(-1, matrices.shape[2])
