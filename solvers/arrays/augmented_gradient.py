"""The pull of the neighbours: gradients and Hessians of the augmented terms, of any clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.indexing import block_diagonal, ranges, selection
from dald_model.solvers.arrays.selection_cache import Kept
from dald_model.solvers.base import Turn

SHARED = 2**20
"""Bytes of numbers over edges that are worked on together: more would not be faster."""


class Pull:
    r"""The gradients of the augmented terms of clients of any sizes.

    .. math::
        \nabla = G^\top \big(\pm \mu + 2 \rho^2 \circ (G x + g - z)\big), \qquad
        \nabla^2 = 2\, G^\top \operatorname{diag}(\rho^2)\, G

    Where every side is all of the client's variables, G stacks identities and the gradient is a
    sum over edges; clients next to each other with as many variables and edges are one array.

    Parameters
    ----------
    subproblems : sequence of Subproblem
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._sides = [sub.sides for sub in subproblems]
        self._sizes = np.array([sub.size for sub in subproblems])
        self._heights = np.array([sub.signs.size for sub in subproblems])
        self._signs = [sub.signs for sub in subproblems]
        self._edges = np.array([copies(sub) for sub in subproblems])
        self._kept = Kept(self._choose, len(subproblems))

    def add(self, turn: Turn, points: np.ndarray, slopes: np.ndarray) -> None:
        """Add those of the clients ``turn.which`` to their slopes, in place."""
        for part in self._kept(turn.which):
            part.add(turn, points, slopes)

    def bend(self, turn: Turn, part: np.ndarray, hessians: np.ndarray) -> None:
        """Add the matrices of the clients ``turn.which[part]``, in place, (k, m, m)."""
        heights = self._heights[turn.which]
        starts = np.cumsum(heights) - heights
        each = np.arange(hessians.shape[1])
        for hessian, i in zip(hessians, part.tolist(), strict=True):
            at = turn.which[i]
            weight = 2 * turn.rho[starts[i] : starts[i] + heights[i]] ** 2
            if self._edges[at]:
                hessian[each, each] += weight.reshape(-1, each.size).sum(axis=0)
            else:
                matrix = self._sides[at][0]
                hessian += (matrix.T @ matrix.multiply(weight[:, None])).toarray()

    def _choose(self, which: np.ndarray) -> list[_Run | _Rest]:
        sizes, heights, edges = self._sizes[which], self._heights[which], self._edges[which]
        columns, entries = np.cumsum(sizes) - sizes, np.cumsum(heights) - heights
        signs = [self._signs[at] for at in which.tolist()]
        found: list[_Run | _Rest] = []
        begin = 0
        borders = (np.diff(sizes) != 0) | (np.diff(edges) != 0)
        for end in [*(np.flatnonzero(borders) + 1).tolist(), which.size]:
            size, count = int(sizes[begin]), int(edges[begin])
            if count:
                # One sign an edge: the client is its tail or its head
                sign = np.stack([own[::size] for own in signs[begin:end]])[:, :, None]
                found.append(_Run(int(columns[begin]), int(entries[begin]), size, sign))
            begin = end
        others = np.flatnonzero(edges == 0)
        if others.size == 0:
            return found
        sides = [self._sides[at] for at in which[others].tolist()]
        matrix: Any = block_diagonal([one for one, _ in sides])
        rest = _Rest(
            ranges(columns[others], sizes[others]),
            ranges(entries[others], heights[others]),
            matrix,
            matrix.T.tocsr(),
            np.concatenate([offset for _, offset in sides]),
            np.concatenate([signs[i] for i in others.tolist()]),
        )
        return [*found, rest]


class _Run(NamedTuple):
    """Clients of one size whose sides are their variables, from a column and an entry on.

    ``signs`` has one number an edge, shape (k, edges, 1).
    """

    column: int
    entry: int
    size: int
    signs: np.ndarray

    def add(self, turn: Turn, points: np.ndarray, slopes: np.ndarray) -> None:
        """See :meth:`Pull.add`."""
        count, edges, _ = self.signs.shape
        wide = edges * self.size
        span = slice(self.entry, self.entry + count * wide)
        mu, rho, told = (one[span].reshape(count, edges, self.size) for one in turn[1:4])
        span = slice(self.column, self.column + count * self.size)
        own = points[span].reshape(count, 1, self.size)
        total = slopes[span].reshape(count, self.size)
        at_once = max(1, SHARED // (8 * wide))
        for at in range(0, count, at_once):
            part = slice(at, at + at_once)
            pull = own[part] - told[part]
            weight = rho[part] * rho[part]
            weight *= 2
            pull *= weight
            pull += np.multiply(self.signs[part], mu[part], out=weight)
            total[part] += pull.sum(axis=1) if edges > 1 else pull[:, 0]


class _Rest(NamedTuple):
    """Clients with other sides, one block-diagonal matrix of them."""

    columns: np.ndarray
    entries: np.ndarray
    sides: Any
    transposed: Any
    offset: np.ndarray
    signs: np.ndarray

    def add(self, turn: Turn, points: np.ndarray, slopes: np.ndarray) -> None:
        """See :meth:`Pull.add`."""
        at = selection(self.entries)
        pull = self.sides @ points[self.columns] + self.offset - turn.neighbours[at]
        pull *= 2 * turn.rho[at] ** 2
        pull += self.signs * turn.mu[at]
        slopes[self.columns] += self.transposed @ pull


def copies(sub: Subproblem) -> int:
    """How many edges a client has if each of its sides is all of its variables; else 0."""
    matrix: Any
    matrix, offset = sub.sides
    count, left = divmod(matrix.shape[0], sub.size)
    if left or matrix.nnz != matrix.shape[0] or offset.any() or (matrix.data != 1).any():
        return 0
    is_each = (np.diff(matrix.indptr) == 1).all()
    is_each = is_each and (matrix.indices == np.tile(np.arange(sub.size), count)).all()
    signs = sub.signs.reshape(count, sub.size)
    return count if is_each and (signs == signs[:, :1]).all() else 0
