"""Entries of all clients' variables that are one and the same to the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.decomposition import Decomposition


class Alike:
    """Entries by groups.

    Parameters
    ----------
    group : ndarray of int, shape (n,)
        The number of the group of each entry, from zero.
    units : ndarray, shape (n,), or float
        How long each entry is where the first of its group is one: copies in other units.
    """

    def __init__(self, group: np.ndarray, units: np.ndarray | float = 1.0) -> None:
        self.group, self.count = group, int(group.max(initial=-1)) + 1
        self.units = np.broadcast_to(units, group.shape)

    @classmethod
    def by_edges(cls, compiled: Decomposition) -> Alike:
        """Entries that edges without any other entry make equal, but for a factor."""
        return compiled.stacked.known("equal entries", lambda: cls._by_edges(compiled))

    @classmethod
    def _by_edges(cls, compiled: Decomposition) -> Alike:
        sides, count = compiled.stacked.matrix, compiled.size
        is_single = (np.diff(sides.indptr) == 1).reshape(2, -1).all(axis=0)
        tails, heads = np.flatnonzero(is_single), np.flatnonzero(is_single) + count
        tails, heads = sides.indptr[tails], sides.indptr[heads]
        is_tie = (sides.data[tails] != 0) & (sides.data[heads] != 0)  # a Parameter may be zero
        tails, heads = tails[is_tie], heads[is_tie]
        ratios: np.ndarray = np.abs(np.divide(sides.data[tails], sides.data[heads]))
        pairs = np.array([sides.indices[tails], sides.indices[heads]])
        size = sum(sub.size for sub in compiled.values())
        edges = sp.coo_array((np.ones(ratios.size), tuple(pairs)), shape=(size, size))
        found: Any = connected_components(edges, directed=False)
        return cls(found[1], _units(found[1], pairs, ratios) if (ratios != 1).any() else 1.0)

    @classmethod
    def by_variable(cls, compiled: Decomposition) -> Alike:
        """Entries of one variable of the user's, at all clients that have a copy of it."""
        return compiled.stacked.known("variables", lambda: cls(np.repeat(*_variables(compiled))))

    @classmethod
    def by_entry(cls, compiled: Decomposition) -> Alike:
        """The copies of one entry of a variable of the user's."""
        return compiled.stacked.known("entries", lambda: cls._by_entry(compiled))

    @classmethod
    def _by_entry(cls, compiled: Decomposition) -> Alike:
        variables, sizes = _variables(compiled)
        firsts = np.zeros(int(variables.max(initial=-1)) + 2, dtype=int)
        firsts[variables + 1] = sizes
        starts = np.repeat(np.cumsum(firsts)[variables] - np.cumsum(sizes) + sizes, sizes)
        return cls(starts + np.arange(sizes.sum()))

    def most(self, values: np.ndarray) -> np.ndarray:
        """The largest of its group for each entry, of numbers that are not negative."""
        found = np.zeros(self.count)
        np.maximum.at(found, self.group, values / self.units)
        return self.units * found[self.group]

    def least(self, values: np.ndarray) -> np.ndarray:
        """The least of its group for each entry."""
        found = np.full(self.count, np.inf)
        np.minimum.at(found, self.group, values / self.units)
        return self.units * found[self.group]


def _variables(compiled: Decomposition) -> tuple[np.ndarray, np.ndarray]:
    """Of each client's variables in the layout, the number of the user's, and the size."""
    local = [v for name in compiled.layout for v in compiled[name].variables]
    keys = np.unique([compiled.origins[v.id] for v in local], return_inverse=True)[1]
    return keys, np.array([v.size for v in local], dtype=int)


def _units(group: np.ndarray, pairs: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """The units of entries, told from one to the next of a group, of which the first has one."""
    units = np.full(group.size, np.nan)
    units[np.unique(group, return_index=True)[1]] = 1.0
    while np.isnan(units).any():
        one, two = units[pairs]
        is_new = np.isnan(two) & np.isfinite(one)
        units[pairs[1, is_new]] = (one * ratios)[is_new]
        one, two = units[pairs]
        is_new = np.isnan(one) & np.isfinite(two)
        units[pairs[0, is_new]] = (two / ratios)[is_new]
    return units
