"""Elimination: units of variables and rows, and a variable for every equality row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.solvers.arrays.indexing import times

DEPENDENT = 1e-12
"""What elimination leaves of a row of length 1 that depends on the others."""

CONSISTENT = 1e-9
"""How well the right side of a dependent row must agree with those of the others."""


class Elimination(NamedTuple):
    """Rows after Gauss-Jordan elimination: ``rows = transform @ (rows before)``.

    ``columns`` names the variable that each row gives, which has a 1 in it and 0 in the others;
    -1 for a row that depends on the others.
    """

    rows: np.ndarray
    transform: np.ndarray
    rhs: np.ndarray
    columns: np.ndarray
    consistent: np.ndarray


def eliminate(rows: np.ndarray, rhs: np.ndarray) -> Elimination:
    """Eliminate in k systems of rows of length 1, shapes (k, p, m) and (k, p)."""
    # Complete pivoting keeps the null space accurate entry by entry, however the variables are
    # scaled; an orthogonal basis is accurate only relative to the largest entry.
    count, height, size = rows.shape
    transform = np.broadcast_to(np.eye(height), (count, height, height))
    work = np.concatenate([rows, transform, rhs[:, :, None]], axis=2)
    columns = np.full((count, height), -1)
    each = np.arange(count)
    for _ in range(height):
        open_rows = np.where(columns[:, :, None] < 0, np.abs(work[:, :, :size]), -1.0)
        row, column = np.divmod(open_rows.reshape(count, -1).argmax(axis=1), size)
        use = each[open_rows[each, row, column] > DEPENDENT]
        row, column = row[use], column[use]
        columns[use, row] = column
        pivot = work[use, row] / work[use, row, column][:, None]
        work[use] -= work[use, :, column][:, :, None] * pivot[:, None, :]
        work[use, row] = pivot
    transform, reduced = work[:, :, size:-1], work[:, :, -1]
    slack = CONSISTENT * times(np.abs(transform), np.abs(rhs))
    consistent = np.all((columns >= 0) | (np.abs(reduced) <= slack), axis=1)
    return Elimination(work[:, :, :size], transform, reduced, columns, np.asarray(consistent))


def variable_scales(matrices: np.ndarray) -> np.ndarray:
    """Units of the variables in which H has a diagonal of ones, shape (k, m), where it can."""
    diagonals = np.diagonal(matrices, axis1=1, axis2=2)
    if (diagonals > 0).all():  # as mostly: then nothing is asked of the other entries
        return 1 / np.sqrt(diagonals)
    sizes = np.where(diagonals > 0, diagonals, np.abs(matrices).max(axis=2))
    largest = sizes.max(axis=1, keepdims=True)
    sizes = np.where(sizes > 0, sizes, np.where(largest > 0, largest, 1.0))
    return 1 / np.sqrt(sizes)


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length 1 and the lengths they had, shape (k, p); zero rows stay."""
    lengths = np.sqrt((rows**2).sum(axis=2))
    lengths[lengths == 0] = 1.0
    return rows / lengths[:, :, None], lengths
