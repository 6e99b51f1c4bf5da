"""Classes of scalar variables that consensus makes one, up to a factor and an offset."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from dald_model.compile.decomposition import Decomposition


class Agreeing(NamedTuple):
    r"""Entries that an equality :math:`a x_e + g = b y_f + h` ties together, and so on from these.

    Attributes
    ----------
    columns : dict
        Client -> where its entries lie in the arrays.
    classes : ndarray of int
        Entry -> its class.
    factors : ndarray
        Entry -> how far it moves, without sign, where its class moves by one.
    """

    columns: dict[Hashable, slice]
    classes: np.ndarray
    factors: np.ndarray

    @property
    def many(self) -> int:
        """The number of classes."""
        return int(self.classes.max()) + 1


def agreeing(compiled: Decomposition, live: Sequence[Hashable], off: np.ndarray) -> Agreeing:
    """The classes among clients; ``off`` says which entries of edges do not count, (size,) bool."""
    stops = np.cumsum([compiled[name].size for name in live])
    columns = {
        name: slice(int(stop) - compiled[name].size, int(stop))
        for name, stop in zip(live, stops, strict=True)
    }
    total = int(stops[-1])
    ends = _ends(compiled, columns)
    tied = np.flatnonzero((ends.column >= 0).all(axis=0) & ~off)
    tail, head = ends.column[:, tied]
    ratio = np.log(ends.gain[0, tied] / ends.gain[1, tied])  # of the head's move to the tail's
    rows, cols = np.concatenate([tail, head]), np.concatenate([head, tail])
    graph = sp.coo_array((np.ones(rows.size), (rows, cols)), shape=(total, total)).tocsr()
    count, classes = connected_components(graph, directed=False)
    pairs = zip(rows.tolist(), cols.tolist(), strict=True)
    step = dict(zip(pairs, np.concatenate([ratio, -ratio]).tolist(), strict=True))
    logs = np.zeros(total)
    for first in np.unique(classes, return_index=True)[1][:count]:
        order, before = breadth_first_order(graph, int(first), directed=False)
        for entry in order[1:]:
            logs[entry] = logs[before[entry]] + step[int(before[entry]), int(entry)]
    return Agreeing(columns, classes, np.exp(logs))


class _Ends(NamedTuple):
    """For each end of each entry of an edge the one column it reads (-1: none or several)."""

    column: np.ndarray
    gain: np.ndarray


def _ends(compiled: Decomposition, columns: dict[Hashable, slice]) -> _Ends:
    column, gain = np.full((2, compiled.size), -1), np.ones((2, compiled.size))
    for name, place in columns.items():
        sub = compiled[name]
        matrix = sp.csr_array(sub.sides[0], copy=True)
        matrix.eliminate_zeros()
        single = np.flatnonzero(np.diff(matrix.indptr) == 1)
        at = matrix.indptr[single]
        column[sub.rows[single], sub.entries[single]] = place.start + matrix.indices[at]
        gain[sub.rows[single], sub.entries[single]] = np.abs(matrix.data[at])
    return _Ends(column, gain)
