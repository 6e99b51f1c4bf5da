"""Positions of edge ends in the arrays of a state."""

from __future__ import annotations

import numpy as np


class Ends:
    """Edge ends of some clients: entries in vectors (Q,) and rows in arrays (2, Q).

    Ends that follow each other are a slice, and vectors are read without a copy.

    Parameters
    ----------
    entries : ndarray of int
    rows : ndarray of int
        0 for tails, 1 for heads.
    is_run : bool
        Whether the entries follow each other.
    """

    def __init__(self, entries: np.ndarray, rows: np.ndarray, is_run: bool) -> None:
        self.entries, self.rows = entries, rows
        self.at: slice | np.ndarray = entries
        self._heads = self._tails = np.zeros(0, dtype=bool)
        self._is_run = is_run and entries.size > 0
        if self._is_run:
            self.at = slice(int(entries[0]), int(entries[0]) + entries.size)
            self._heads = rows.astype(bool)
            self._tails = ~self._heads

    def own(self, both: np.ndarray) -> np.ndarray:
        """The rows of these ends of an array (2, Q)."""
        if self._is_run:
            return np.where(self._heads, both[1, self.at], both[0, self.at])
        return both[self.rows, self.entries]

    def other(self, both: np.ndarray) -> np.ndarray:
        """The rows of the other ends."""
        if self._is_run:
            return np.where(self._heads, both[0, self.at], both[1, self.at])
        return both[1 - self.rows, self.entries]

    def set(self, both: np.ndarray, values: np.ndarray) -> None:
        """Write to the rows of these ends."""
        if self._is_run:
            np.copyto(both[1, self.at], values, where=self._heads)
            np.copyto(both[0, self.at], values, where=self._tails)
        else:
            both[self.rows, self.entries] = values
