"""Strided views of the edge entries whose later endpoint is in a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided


class LaterEndView:
    """View of the edge entries that each client of a batch is the later endpoint of.

    Where all clients have as many, next to each other and as far apart from client to client, as
    every second client of a chain has, arrays (k, m) are read and written without indices.

    Parameters
    ----------
    entries, rows : ndarray of int
        The owners' entries one owner after the other, and the rows of their ends.
    lengths : ndarray of int, shape (k,)
        How many entries each owner has.
    """

    def __init__(self, entries: np.ndarray, rows: np.ndarray, lengths: np.ndarray) -> None:
        self._entries, self._rows, self._lengths = entries, rows, lengths
        self._starts = np.cumsum(lengths) - lengths
        firsts = entries[self._starts]
        self._stride = int(firsts[1] - firsts[0]) if firsts.size > 1 else entries.size
        inner = np.diff(entries) == 1
        inner[self._starts[1:] - 1] = True  # from one owner to the next
        self._is_even = (
            entries.size > 0
            and self._stride >= lengths[0]
            and bool((lengths == lengths[0]).all() and (rows == rows[0]).all() and inner.all())
            and bool((np.diff(firsts) == self._stride).all())
        )

    def get(self, vector: np.ndarray) -> np.ndarray:
        """Their entries of a vector (Q,)."""
        return self._view(vector) if self._is_even else vector[self._entries]

    def set(self, vector: np.ndarray, values: np.ndarray) -> None:
        """Write to their entries."""
        if self._is_even:
            self._view(vector)[...] = values
        else:
            vector[self._entries] = values

    def earlier(self, both: np.ndarray) -> np.ndarray:
        """The entries of an array (2, Q) in the rows of the other ends."""
        if self._is_even:
            return self._view(both[1 - self._rows[0]])
        return both[1 - self._rows, self._entries]

    def later(self, tails: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Of values at tails and heads, those at the owners' ends."""
        if self._is_even:
            return heads if self._rows[0] else tails
        return np.where(self._rows == 0, tails, heads)

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The largest value of each owner in each row of a table, shape (rows, k)."""
        return self._reduced(np.maximum, values)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over each owner's values, likewise."""
        return self._reduced(np.add, values)

    def where(self, chosen: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        """The values ``one`` of the owners that are chosen, ``two`` of the others."""
        which: Any = chosen[:, None] if self._is_even else np.repeat(chosen, self._lengths)
        return np.where(which, one, two)

    def _reduced(self, how: np.ufunc, values: np.ndarray) -> np.ndarray:
        if self._is_even:
            return how.reduce(values, axis=-1)
        return how.reduceat(values, self._starts, axis=-1)

    def _view(self, vector: np.ndarray) -> np.ndarray:
        width, step = int(self._lengths[0]), vector.strides[0]
        return as_strided(
            vector[self._entries[0] :], (self._lengths.size, width), (self._stride * step, step)
        )
