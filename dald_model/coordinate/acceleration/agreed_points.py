"""The points that fulfil all consensus constraints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import breadth_first_order, connected_components

from dald_model.coordinate.acceleration.coordinates import Coordinates

SAME = 1e-9
"""Values that went round a cycle are the same up to this."""


class _Ties(NamedTuple):
    """Constraints of two coordinates, ``first`` times the one + ``second`` times the other."""

    one: np.ndarray
    two: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rhs: np.ndarray


class AgreedPoints:
    r"""The points that fulfil the consensus constraints: :math:`\xi = \alpha \circ z_c + \beta`.

    Constraints that tie one coordinate to one other put both in the same class c, whatever the
    factor and the constant between them; so a variable that all clients share is one z, on any
    graph. The others are left as rows of length one, :math:`R z = h`.

    Attributes
    ----------
    classes : ndarray of int, shape (N,)
        c.
    factor, constant : ndarray, shape (N,)
    count : int
        Classes.
    weight : ndarray, shape (count,)
        The sum of the squared factors of each class.
    rows, rhs : csc_array, ndarray
    """

    def __init__(self, coordinates: Coordinates) -> None:
        signed = sp.csr_array(coordinates.signed)
        gap = coordinates.offset[1] - coordinates.offset[0]
        ends = np.diff(coordinates.matrix.indptr).reshape(2, -1)
        # Zeros that a side has, and one coordinate at both ends, leave fewer in the difference
        is_tie = (ends == 1).all(axis=0) & (np.diff(signed.indptr) == 2)
        chosen = sp.csr_array(signed[is_tie])
        (one, two), (first, second) = (
            part.reshape(-1, 2).T for part in (chosen.indices, chosen.data)
        )
        ties = _Ties(one, two, first, second, gap[is_tie])
        size = coordinates.size
        links = sp.csr_array((np.ones(one.size), (one, two)), shape=(size, size))
        self.count, self.classes = connected_components(links, directed=False)
        self.factor, self.constant = _along(ties, links, self.classes)
        left = ~is_tie & (ends.sum(axis=0) > 0)
        left[np.flatnonzero(is_tie)[self._at_odds(ties)]] = True
        spread = sp.csr_array(
            (self.factor, (np.arange(size), self.classes)), shape=(size, self.count)
        )
        rows = sp.csr_array(signed[left])
        found = sp.csr_array(rows @ spread)
        # Sides have the user's units, which a ridge beside the rows must not see
        lengths = spla.norm(found, axis=1)
        each = 1 / np.where(lengths > 0, lengths, 1.0)
        self.rows = sp.csc_array(found * each[:, None])
        self.rhs = each * (gap[left] - rows @ self.constant)
        self.weight = self.gather(self.factor)

    def _at_odds(self, ties: _Ties) -> np.ndarray:
        """Ties that close a cycle of which only one value comes back as itself."""
        one, two = ties.first * self.factor[ties.one], ties.second * self.factor[ties.two]
        a, b = ties.first * self.constant[ties.one], ties.second * self.constant[ties.two]
        size = np.abs(a) + np.abs(b) + np.abs(ties.rhs)
        return (np.abs(one + two) > SAME * np.abs(one)) | (np.abs(a + b - ties.rhs) > SAME * size)

    def expand(self, free: np.ndarray) -> np.ndarray:
        """The coordinates at some z."""
        return self.spread(free) + self.constant

    def spread(self, change: np.ndarray) -> np.ndarray:
        """The change of the coordinates with one of z."""
        return self.factor * change[self.classes]

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The z nearest to some coordinates, but for the rows."""
        return self.gather(points - self.constant) / self.weight

    def gather(self, slopes: np.ndarray) -> np.ndarray:
        """Slopes along z of slopes along the coordinates."""
        return np.bincount(self.classes, self.factor * slopes, minlength=self.count)


def _along(ties: _Ties, links: sp.csr_array, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factor and constant of every coordinate, along a spanning tree of each class."""
    size = classes.size
    # One search for all: from a root above the first coordinate of each class
    firsts = np.unique(classes, return_index=True)[1]
    top = sp.csr_array((np.ones(firsts.size), firsts, [0, firsts.size]), shape=(1, size))
    whole = sp.block_array([[links, top.T], [top, None]], format="csr")
    before = breadth_first_order(whole, size, directed=False)[1][:size]
    mine = np.arange(size)
    parent = np.where(before == size, mine, before)
    factor, constant = np.ones(size), np.zeros(size)
    child = np.flatnonzero(parent != mine)
    tie = _between(ties, child, parent[child], size)
    is_one = ties.one[tie] == child
    own = np.where(is_one, ties.first[tie], ties.second[tie])
    factor[child] = -np.where(is_one, ties.second[tie], ties.first[tie]) / own
    constant[child] = ties.rhs[tie] / own
    while (parent != parent[parent]).any():  # every pass doubles how far up it reaches
        constant = constant + factor * constant[parent]
        factor = factor * factor[parent]
        parent = parent[parent]
    return factor, constant


def _between(ties: _Ties, child: np.ndarray, parent: np.ndarray, size: int) -> np.ndarray:
    """A tie between each child and its parent."""
    keys = np.minimum(ties.one, ties.two) * size + np.maximum(ties.one, ties.two)
    order = np.argsort(keys, kind="stable")
    wanted = np.minimum(child, parent) * size + np.maximum(child, parent)
    return order[np.searchsorted(keys[order], wanted)]
