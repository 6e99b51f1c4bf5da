"""The rows of all clients' constraints, as one matrix over all of their variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.sizes import ROUNDING

BY_ROWS = 1e-4
"""Share of a client's longest length below which an entry is compared with the others by rows."""


class ClientRows:
    """How far entries move rows: the stored numbers of all rows one after the other."""

    def __init__(self, compiled: Decomposition) -> None:
        self._owners = compiled.owners
        cells: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        right, count, known = [np.zeros(0)], 0, dict[int, tuple[np.ndarray, ...]]()
        for name, sub in compiled.items():
            form = None if sub.client.is_remote or not sub.is_constrained else sub.form
            for matrix, rhs in _rows_of(form) if form is not None else ():
                if not rhs.size:
                    continue
                if id(matrix) not in known:  # as most have the same
                    known[id(matrix)] = _cells(matrix[:, : sub.size])
                row, col, data = known[id(matrix)]
                cells.append((row + count, col + compiled.columns[name].start, data))
                right.append(rhs)
                count += rhs.size
        nothing = np.zeros(0, int), np.zeros(0, int), np.zeros(0)
        self._row, self._col, data = map(np.concatenate, zip(nothing, *cells, strict=True))
        self._data, self._count = np.abs(data), count
        with np.errstate(all="ignore"):
            moves = np.abs(np.concatenate(right))[self._row] / self._data
        self._right = np.where(moves > 0, moves, np.inf)
        largest = np.zeros(count)
        np.maximum.at(largest, self._row, self._data)
        self._is_held = self._data > ROUNDING * largest[self._row]

    @property
    def allowed(self) -> np.ndarray:
        """How far an entry alone moves a row as far as its right-hand side; infinite without."""
        return self._least(self._right)

    def moves(self, lengths: np.ndarray, *, asks_all: bool) -> tuple[np.ndarray, np.ndarray]:
        """How far an entry alone moves a row of constraints as far as its others do.

        And how far it moves it as far as its right-hand side is. The least over the rows; infinite
        where no row with others of a length, or with a right-hand side, has the entry. Rows are
        asked of all clients, or of those with an entry that is far shorter than another.
        """
        reach = self._data * lengths[self._col]
        others = np.bincount(self._row, reach, self._count)[self._row] - reach
        with np.errstate(all="ignore"):
            moves = np.where((others > 0) & self._is_held, others / self._data, np.inf)
        right = self._right
        if not asks_all:
            owners = self._owners
            longest, is_uneven = np.zeros((2, int(owners.max(initial=-1)) + 1))
            np.maximum.at(longest, owners, lengths)
            is_uneven[owners[lengths <= BY_ROWS * longest[owners]]] = True
            is_asked = is_uneven[owners[self._col]] > 0
            moves, right = (np.where(is_asked, one, np.inf) for one in (moves, right))
        return self._least(moves), self._least(right)

    def _least(self, moves: np.ndarray) -> np.ndarray:
        """The least of each entry over its cells."""
        found = np.full(self._owners.size, np.inf)
        np.minimum.at(found, self._col, moves)
        return found


def _rows_of(form: Form) -> list[tuple[Any, np.ndarray]]:
    """The rows in which a client's variables stand, and their right-hand sides, up to signs."""
    if not form.complete:
        return [(form.cone.rows, form.cone.rhs)]
    return [form.equalities, form.inequalities, *((t.matrix, t.offset) for t in form.terms)]


def _cells(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the numbers that a matrix holds."""
    if sp.issparse(matrix):
        stored = sp.coo_array(matrix)
        return stored.row, stored.col, stored.data
    row, col = np.nonzero(matrix)
    return row, col, matrix[row, col]
