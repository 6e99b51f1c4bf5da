"""The matrices of many clients, for products with all of their points in a few calls.

All have k clients and products as if every client's were of one height R and width m: what a client
has less is zeros. Of diagonal ones products are elementwise. Those with few nonzeros stand in one
block-diagonal matrix; the others are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.sizes import SPARSE
from dald_model.solvers.arrays.indexing import Index, block_diagonal

FEW_ROWS = 0.5
"""Share of the rows with a weight up to which these are copied for a product."""

EVERY = slice(None)

SIZEABLE = 2**15
"""Bytes of a dense matrix from which a Python call costs less than a copy of it would."""

ARGUMENT = 20
"""What a function of an argument costs, in entries of its row."""

SPARE_SHARE, SPARE_ENTRIES = 0.25, 2**18
"""Zeros that arrays may hold: as a share of what they are for, and the entries that cost as much as
the calls for other arrays would."""


def gram(rows: np.ndarray) -> np.ndarray:
    r""":math:`W^\top W` of each of k matrices; a matrix times its own transpose costs half."""
    return np.matmul(rows.transpose(0, 2, 1), rows)


class Dense:
    """Matrices as one array (k, R, m)."""

    def __init__(self, full: np.ndarray) -> None:
        self.full = full

    @property
    def bytes(self) -> int:
        """Of one client's, if dense."""
        return self.full.itemsize * self.full.shape[1] * self.full.shape[2]

    def take(self, index: Index) -> Dense:
        """Those of some clients; a view for a slice."""
        return Dense(self.full[index])

    def times(self, x: np.ndarray) -> np.ndarray:
        """Products with (k, m)."""
        return np.matmul(self.full, x[:, :, None])[:, :, 0]

    def squared_times(self, x: np.ndarray) -> np.ndarray:
        """Products of the entries' squares with (k, m)."""
        return np.einsum("krm,krm,km->kr", self.full, self.full, x)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Products of the transposes with (k, R)."""
        return np.matmul(rows[:, None, :], self.full)[:, 0, :]

    def gram(self, diagonal: np.ndarray, index: Index = EVERY) -> np.ndarray:
        r""":math:`A^\top \operatorname{diag} A` of some clients, (k, m, m).

        For a diagonal, (k, R), that is not negative; where most of it is zero only its rows are
        gone through.
        """
        if np.count_nonzero(diagonal) > FEW_ROWS * diagonal.size:
            return gram(self.full[index] * np.sqrt(diagonal)[:, :, None])
        clients, rows = np.nonzero(diagonal)
        counts = np.bincount(clients, minlength=len(diagonal))
        width = int(counts.max(initial=0))
        at = clients, np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen, roots = (
            np.zeros((len(diagonal), width), dtype=int),
            np.zeros((len(diagonal), width)),
        )
        chosen[at], roots[at] = rows, np.sqrt(diagonal[clients, rows])
        own = np.arange(len(self.full))[index]
        return gram(self.full[own[:, None], chosen] * roots[:, :, None])


class Diagonal:
    """Matrices whose rows have the variable at their own place only, by these entries, (k, m)."""

    def __init__(self, entries: np.ndarray) -> None:
        self._entries = entries

    bytes = 0
    """See :class:`Dense`."""

    @classmethod
    def of(cls, matrices: Sequence[Any]) -> Diagonal | None:
        """Those of square matrices, None if one has an entry beside its diagonal."""
        found = np.array([one.diagonal() for one in matrices])
        counts = [one.nnz if sp.issparse(one) else np.count_nonzero(one) for one in matrices]
        return cls(found) if (np.count_nonzero(found, axis=1) == counts).all() else None

    @property
    def full(self) -> np.ndarray:
        """All of them with their zeros, (k, m, m)."""
        return self._on_diagonals(self._entries)

    def take(self, index: Index) -> Diagonal:
        """See :class:`Dense`."""
        return Diagonal(self._entries[index])

    def times(self, x: np.ndarray) -> np.ndarray:
        return self._entries * x

    def squared_times(self, x: np.ndarray) -> np.ndarray:
        return self._entries**2 * x

    back = times

    def gram(self, diagonal: np.ndarray, index: Index = EVERY) -> np.ndarray:
        return self._on_diagonals(diagonal * self._entries[index] ** 2)

    @staticmethod
    def _on_diagonals(entries: np.ndarray) -> np.ndarray:
        found = np.zeros((*entries.shape, entries.shape[1]))
        found[:, range(entries.shape[1]), range(entries.shape[1])] = entries
        return found


class Sparse:
    """Matrices of few nonzeros on the diagonal of one in CSR, (k R, k m)."""

    def __init__(self, block: Any, shape: tuple[int, int]) -> None:
        self._block, self._transposed, self._shape = block, block.T, shape
        self._pairs: Pairs | None = None

    bytes = 0
    """See :class:`Dense`."""

    @property
    def full(self) -> np.ndarray:
        """All of them with their zeros, (k, R, m)."""
        height, width = self._shape
        found = np.zeros((self._block.shape[0], width))
        rows = np.repeat(np.arange(self._block.shape[0]), np.diff(self._block.indptr))
        found[rows, self._block.indices % width] = self._block.data
        return found.reshape(-1, height, width)

    def take(self, index: Index) -> Sparse:
        """See :class:`Dense`; itself for all of them."""
        height, width = self._shape
        count = self._block.shape[1] // width
        if isinstance(index, slice) and range(count)[index] == range(count):
            return self
        members = np.arange(count)[index]
        rows = (members[:, None] * height + np.arange(height)).ravel()
        picked = self._block[rows]
        moved = np.repeat((members - np.arange(members.size)) * width, height)
        indices = picked.indices - np.repeat(moved, np.diff(picked.indptr)).astype(np.int32)
        arrays = picked.data, indices, picked.indptr
        return Sparse(sp.csr_array(arrays, (rows.size, members.size * width)), self._shape)

    def times(self, x: np.ndarray) -> np.ndarray:
        return (self._block @ x.reshape(-1)).reshape(len(x), -1)

    def squared_times(self, x: np.ndarray) -> np.ndarray:
        return (self._block.power(2) @ x.reshape(-1)).reshape(len(x), -1)

    def back(self, rows: np.ndarray) -> np.ndarray:
        return (self._transposed @ rows.reshape(-1)).reshape(len(rows), -1)

    def gram(self, diagonal: np.ndarray, index: Index = EVERY) -> np.ndarray:
        """See :class:`Dense`; from the pairs of entries of each row, where these are few."""
        width = self._shape[1]
        count, counts = self._block.shape[1] // width, np.diff(self._block.indptr)
        if (counts.astype(float) ** 2).sum() > count * width**2:
            return Dense(self.take(index).full).gram(diagonal)
        if self._pairs is None:
            self._pairs = Pairs.of(self._block, self._shape)
        return self._pairs.gram(diagonal, np.arange(count)[index], self._shape)


class Pairs(NamedTuple):
    """The pairs of entries of each row: its row, their place in m x m, their product; by client."""

    rows: np.ndarray
    places: np.ndarray
    products: np.ndarray
    stops: np.ndarray

    @classmethod
    def of(cls, block: Any, shape: tuple[int, int]) -> Pairs:
        """Those of matrices of a shape on the diagonal of one in CSR."""
        (height, width), counts = shape, np.diff(block.indptr)
        first = np.repeat(np.arange(block.nnz), np.repeat(counts, counts))
        begins = np.repeat(np.repeat(block.indptr[:-1], counts), np.repeat(counts, counts))
        sizes = np.repeat(counts, counts)
        second = begins + np.arange(first.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(np.arange(counts.size), counts**2)
        columns = block.indices % width
        places = columns[first] * width + columns[second]
        stops = np.concatenate([[0], np.cumsum((counts**2).reshape(-1, height).sum(axis=1))])
        return cls(rows % height, places, block.data[first] * block.data[second], stops)

    def gram(self, diagonal: np.ndarray, which: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """See :class:`Dense`, of the clients ``which``."""
        (height, width), sizes = shape, np.diff(self.stops)[which]
        nth, own = np.repeat(np.arange(which.size), sizes), slice(None)
        if which.size < self.stops.size - 1:
            own = np.arange(nth.size) + np.repeat(
                self.stops[which] - np.cumsum(sizes) + sizes, sizes
            )
        weights = diagonal.reshape(-1)[nth * height + self.rows[own]] * self.products[own]
        places = nth * width**2 + self.places[own]
        found = np.bincount(places, weights, which.size * width**2)
        return found.reshape(-1, width, width)


Matrices = Dense | Diagonal | Sparse


def is_sparse(matrices: Sequence[Any]) -> bool:
    """Whether products with the sparse form of these are faster."""
    entries = sum(int(np.prod(a.shape)) for a in matrices)
    if 8 * entries < SIZEABLE:
        return False
    counts = [a.nnz if sp.issparse(a) else np.count_nonzero(a) for a in matrices]
    return bool(sum(counts) < SPARSE * entries)


def together(matrices: Sequence[Any], shape: tuple[int, int]) -> Matrices:
    """Dense or sparse matrices of at most one shape, in the way that is faster for them."""
    if shape[0] == shape[1] and all(one.shape == shape for one in matrices):
        diagonal = Diagonal.of(matrices)
        if diagonal is not None:
            return diagonal
    if is_sparse(matrices):
        # Of couplings that are alike it is the very same matrix
        sparse = {id(one): sp.csr_array(one) for one in {id(one): one for one in matrices}.values()}
        for one in sparse.values():
            one.resize(shape)
        return Sparse(block_diagonal([sparse[id(one)] for one in matrices]), shape)
    dense = [np.asarray(a.toarray() if sp.issparse(a) else a, dtype=float) for a in matrices]
    if all(one.shape == shape for one in dense):
        return Dense(np.array(dense))
    full = np.zeros((len(dense), *shape))
    for own, out in zip(dense, full, strict=True):
        out[: own.shape[0], : own.shape[1]] = own
    return Dense(full)


def alike(
    sizes: np.ndarray, counts: np.ndarray, widths: np.ndarray, is_dense: np.ndarray
) -> list[np.ndarray]:
    """Parts of n clients that are to share arrays, as positions in order.

    Parameters
    ----------
    sizes : ndarray of int, shape (n,)
        Variables.
    counts, widths : ndarray of int, shape (n, p)
        Functions of each client's p terms, and the arguments of one.
    is_dense : ndarray of bool, shape (p,)
        Whose matrices are not sparse: in these zeros cost as much as other entries.
    """
    places = is_dense.size
    shapes = np.column_stack([sizes, counts, widths])

    def cost(shape: np.ndarray) -> np.ndarray:
        heights = shape[..., 1 : places + 1] * shape[..., places + 1 :]
        return ARGUMENT * heights.sum(axis=-1) + shape[..., 0] * (heights @ is_dense)

    own = cost(shapes)
    found: list[list[int]] = []
    top, total = shapes[0], 0
    for at in np.argsort(-own, kind="stable").tolist():
        wider = np.maximum(top, shapes[at])
        needed = total + own[at]
        spare = cost(wider) * (len(found[-1]) + 1) - needed if found else np.inf
        if spare > max(SPARE_SHARE * needed, SPARE_ENTRIES):
            found.append([])
            wider, needed = shapes[at], own[at]
        found[-1].append(at)
        top, total = wider, needed
    return [np.sort(part) for part in found]
