"""The few sums that all rows over some variables are multiples of, if no variable is in two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.declare.affine import MadeOnce

_KNOWN = MadeOnce()
KEPT = 256
"""How many sets of rows are known by their sums."""
DIGITS = 12
"""Digits to which two rows are the same sum up to a factor."""


class Sums(NamedTuple):
    """Sums of m variables.

    Attributes
    ----------
    which : ndarray of int, shape (m,)
        The sum that each variable enters, -1 for none.
    factors : ndarray, shape (m,)
        With what factor.
    matrix : csr_array
        The rows in the sums.
    """

    which: np.ndarray
    factors: np.ndarray
    matrix: Any


def common_sums(parts: Sequence[Any]) -> Sums | str:
    """The sums of the rows of some matrices over the same variables, or why there are none."""
    key = tuple(map(id, parts))
    return _KNOWN.of(key, parts, lambda: _common_sums(parts))


def _common_sums(parts: Sequence[Any]) -> Sums | str:
    stacked: Any
    # Of most couplings all rows are in one of them, and scipy takes its time for nothing too
    parts = [part for part in parts if part.shape[0]] or parts[:1]
    if len(parts) == 1:
        stacked = sp.csr_array(parts[0], copy=True)
    elif any(sp.issparse(part) for part in parts):
        stacked = sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts], "csr"))
    else:
        stacked = sp.csr_array(np.concatenate(parts))
    stacked.sum_duplicates()
    stacked.eliminate_zeros()
    arrays = (stacked.indptr, stacked.indices, stacked.data)
    # Couplings of one kind, such as the edges of a graph, mostly have the very same rows
    return _found(stacked.shape, *((part.dtype.str, part.tobytes()) for part in arrays))


@lru_cache(maxsize=KEPT)
def _found(shape: tuple[int, int], *parts: tuple[str, bytes]) -> Sums | str:
    indptr, indices, data = (np.frombuffer(held, kind) for kind, held in parts)
    height, size = shape
    which, factors = np.full(size, -1), np.zeros(size)
    sums, gains = np.zeros(height, dtype=int), np.zeros(height)
    count = 0
    for row, (start, stop) in enumerate(pairwise(indptr)):
        columns, values = indices[start:stop], data[start:stop]
        if not columns.size:
            return "one of its rows is empty"
        at = int(which[columns[0]])
        if at < 0:
            at, gain = count, 1.0
            count += 1
            if (which[columns] >= 0).any():
                return "a variable is in two of its sums"
            which[columns], factors[columns] = at, values
        else:
            gain = float(values[0] / factors[columns[0]])
            is_same = np.count_nonzero(which == at) == columns.size and (which[columns] == at).all()
            if not is_same or np.any(np.abs(gain * factors[columns] / values - 1) > 10.0**-DIGITS):
                return "a variable is in two of its sums"
        sums[row], gains[row] = at, gain
    if count == 0 or count == size:
        return "it has no fewer sums than variables"
    matrix: Any = sp.csr_array((gains, (np.arange(height), sums)), shape=(height, count))
    return Sums(which, factors, matrix)
