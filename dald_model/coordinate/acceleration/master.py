r"""The consensus of the clients' models, and the prices that go with it.

.. math::
    \min_\xi \sum_i \phi_i^\top (\xi_i - \bar\xi_i)
    + \tfrac12 (\xi_i - \bar\xi_i)^\top B_i (\xi_i - \bar\xi_i)
    \quad \text{s.t. all consensus constraints}

is the coordination step of ALADIN (Houska, Frasch and Diehl 2016), with any :math:`B_i`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import splu

from dald_model.coordinate.acceleration.coordinates import Coordinates
from dald_model.eigen import eigh
from dald_model.sizes import DEPENDENT, SAME

DENSE_DIRECTIONS = 600
"""Up to this many free directions the system is a dense one."""


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
        gap = coordinates.offset[1] - coordinates.offset[0]
        counts, (one, two), (first, second) = coordinates.ends()
        is_tie = (counts == 1).all(axis=0) & (one != two)
        chosen = (each[is_tie] for each in (one, two, first, -second, gap))
        ties, size = _Ties(*chosen), coordinates.size
        links = sp.csr_array((np.ones(ties.one.size), (ties.one, ties.two)), shape=(size, size))
        self.count, self.classes = connected_components(links, directed=False)
        self.factor, self.constant = _along(ties, self.classes)
        left = ~is_tie & (counts.sum(axis=0) > 0)
        left[np.flatnonzero(is_tie)[self._at_odds(ties)]] = True
        self.rows, self.rhs = sp.csc_array((0, self.count)), np.zeros(0)
        if left.any():
            spread = sp.csr_array(
                (self.factor, (np.arange(size), self.classes)), shape=(size, self.count)
            )
            rows = sp.csr_array(coordinates.signed[left])
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


def _along(ties: _Ties, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factor and constant of every coordinate, along a spanning tree of each class."""
    size = classes.size
    # One search for all: from a root above the first coordinate of each class
    firsts = np.unique(classes, return_index=True)[1]
    ends = np.append(ties.one, firsts), np.append(ties.two, np.full(firsts.size, size))
    whole = sp.csr_array((np.ones(ends[0].size), ends), shape=(size + 1, size + 1))
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


class Master:
    """Solver of the consensus of models, in some coordinates, on one consensus graph.

    Attributes
    ----------
    coordinates : Coordinates
    agreed : AgreedPoints
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates
        self.agreed = AgreedPoints(coordinates)

    def solve(
        self,
        points: np.ndarray,
        slopes: np.ndarray,
        stiffness: Sequence[np.ndarray],
        prices: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The agreed points, the models' slopes there and the prices nearest to ``prices``.

        ``stiffness`` is that of each group. None where the models have no minimum together.
        """
        # From the agreed point in their middle on: a stiff client's slope is its stiffness times a
        # difference of points, of which points far from the origin would leave few digits
        agreed = self.agreed
        middle = agreed.nearest(points)
        start = agreed.expand(middle) - points
        right = -agreed.gather(slopes + self._times(stiffness, start))
        rhs = agreed.rhs - agreed.rows @ middle if agreed.rhs.size else agreed.rhs
        try:
            free = _minimiser(self._matrix(stiffness), right, agreed.rows, rhs)
        except (np.linalg.LinAlgError, RuntimeError):  # the second is what SuperLU raises
            return None
        change = start + agreed.spread(free)
        there = slopes + self._times(stiffness, change)
        return agreed.expand(middle + free), there, self.nearest(there, prices)

    def _times(self, stiffness: Sequence[np.ndarray], change: np.ndarray) -> np.ndarray:
        found = np.empty_like(change)
        for group, one in zip(self.coordinates.groups, stiffness, strict=True):
            found[group.columns] = np.einsum("nij,nj->ni", one, change[group.columns])
        return found

    def _matrix(self, stiffness: Sequence[np.ndarray]) -> np.ndarray | sp.csc_array:
        """The sum of all clients' stiffness along z."""
        agreed, pieces = self.agreed, []
        size = agreed.count
        is_dense = size <= DENSE_DIRECTIONS
        total = np.zeros((size, size) if is_dense else 0)
        for group, matrices in zip(self.coordinates.groups, stiffness, strict=True):
            classes, factor = agreed.classes[group.columns], agreed.factor[group.columns]
            if group.is_server:  # curved, if at all, along each coordinate by itself
                own = factor * np.einsum("nii->ni", matrices) * factor
                if is_dense and len(own) == 1:
                    np.add.at(total, (classes, classes), own)
                else:
                    pieces.append(((classes * (size + 1)).reshape(-1), own.reshape(-1)))
                continue
            if is_dense and (classes == classes[0]).all():
                both = (factor[:, :, None] * matrices * factor[:, None, :]).sum(axis=0)
                np.add.at(total, (classes[0][:, None], classes[0][None, :]), both)
                continue
            blocks = factor[:, :, None] * matrices * factor[:, None, :]
            cells = (classes[:, :, None] * size + classes[:, None, :]).reshape(-1)
            pieces.append((cells, blocks.reshape(-1)))
        if not pieces:
            return total
        cells, values = map(np.concatenate, zip(*pieces, strict=True))
        if is_dense:
            return total + np.bincount(cells, values, size * size).reshape(size, size)
        return sp.csc_array((values, np.divmod(cells, size)), shape=(size, size))

    @cached_property
    def _transposed(self) -> np.ndarray | sp.csr_array:
        r""":math:`E^\top`."""
        across = self.coordinates.signed.T
        return across if isinstance(across, np.ndarray) else sp.csr_array(across)

    @cached_property
    def _prices(self) -> Callable[[np.ndarray], np.ndarray]:
        r"""The (pseudo) inverse of :math:`E W E^\top`, E having a row for each coordinate."""
        signed, weight = self.coordinates.signed, self.coordinates.weight
        if isinstance(signed, np.ndarray):  # no ridge: it makes prices of what rounding leaves
            values, vectors = eigh((signed.T * weight) @ signed)
            seen = values > DEPENDENT * values.max(initial=0.0)
            return ((vectors[:, seen] / values[seen]) @ vectors[:, seen].T).dot
        weighted = sp.csr_array(sp.diags_array(weight) @ signed)
        matrix = sp.csc_array(signed.T @ weighted + DEPENDENT * sp.eye_array(self.coordinates.size))
        # Its own order takes the leaves of a large star first, and stays linear in how many
        symmetric: Any = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        return splu(matrix, permc_spec="COLAMD", **symmetric).solve

    def nearest(self, slopes: np.ndarray, prices: np.ndarray) -> np.ndarray:
        r"""The prices with :math:`E \mu = -\phi` of least :math:`\sum (\mu - \mu_0)^2 / w`."""
        signed, found = self.coordinates.signed, prices
        for _ in range(2):  # the second pass mends what the ridge leaves
            missing = -slopes - self._transposed @ found
            found = found + self.coordinates.weight * (signed @ self._prices(missing))
        return found


def _minimiser(
    matrix: np.ndarray | sp.csc_array, right: np.ndarray, rows: sp.csc_array, rhs: np.ndarray
) -> np.ndarray:
    """The z of :math:`R z = h` where the gradient of the quadratic is normal to the rows."""
    if isinstance(matrix, np.ndarray) and not rhs.size:
        return np.linalg.solve(matrix, right)
    scale = float(matrix.diagonal().mean())
    both = np.concatenate([right, scale * rhs])
    if isinstance(matrix, np.ndarray):
        low = scale * rows.toarray()
        whole = np.block([[matrix, low.T], [low, -DEPENDENT * scale * np.eye(rhs.size)]])
        return np.linalg.solve(whole, both)[: right.size]
    low = scale * rows
    corner = -DEPENDENT * scale * sp.eye_array(rhs.size)
    whole = sp.block_array([[matrix, low.T], [low, corner]], format="csc") if rhs.size else matrix
    return splu(whole).solve(both)[: right.size]
