"""Indexing: selections of clients as slices, what is kept of them, and products over stacks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from dald_model.sizes import CACHED

Index = slice | np.ndarray
"""Positions of clients."""


def selection(which: np.ndarray) -> np.ndarray | slice:
    """``which`` as a slice if it is one: a view of large arrays in place of a copy."""
    if which.size == 0:
        return which
    step = int(which[1] - which[0]) if which.size > 1 else 1
    if step < 1 or (which.size > 2 and (which[1:] - which[:-1] != step).any()):
        return which
    return slice(int(which[0]), int(which[-1]) + 1, step)


def is_run(which: np.ndarray) -> bool:
    """Whether the positions follow each other without a gap."""
    at = selection(which)
    return isinstance(at, slice) and (which.size == 1 or at.step == 1)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The integers of several ranges, one after the other."""
    shifts = starts - (np.cumsum(lengths) - lengths)
    return np.arange(int(lengths.sum())) + np.repeat(shifts, lengths)


def block_diagonal(matrices: Sequence[Any]) -> sp.csr_array:
    """``scipy.sparse.block_diag`` of CSR matrices, without its loop over every one's entries."""
    columns = np.cumsum([0, *(int(m.shape[1]) for m in matrices)])
    counts = np.concatenate([np.diff(m.indptr) for m in matrices])
    indices = [m.indices + at for m, at in zip(matrices, columns[:-1], strict=True)]
    return sp.csr_array(
        (
            np.concatenate([m.data for m in matrices]),
            np.concatenate(indices),
            np.concatenate([[0], np.cumsum(counts)]),
        ),
        shape=(counts.size, int(columns[-1])),
    )


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The products of k matrices and k vectors."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def double(roots: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    r""":math:`W (W^\top v)` of k matrices and k vectors."""
    return times(roots, (vectors[:, None, :] @ roots)[:, 0, :])


def outer(scales: np.ndarray) -> np.ndarray:
    """The products of every two scales, shape (k, m, m)."""
    return scales[:, :, None] * scales[:, None, :]


COPIED = 2
"""How many times over they may hold the clients, so that memory stays within this factor."""

Which = TypeVar("Which", np.ndarray, tuple[Hashable, ...])
Made = TypeVar("Made")


class SelectionCache(Generic[Which, Made]):
    """LRU cache keyed by a selection of clients.

    A new one is kept where there is room, one that is seen again in the place of others.

    Parameters
    ----------
    make : callable
        From an array of positions, or a tuple of names.
    size : int
        How many clients there are.
    copied : int
        How many times over the clients may be held.
    """

    def __init__(self, make: Callable[[Which], Made], size: int, copied: int = COPIED) -> None:
        self._make, self._room, self._held = make, copied * size, 0
        self._last: tuple[Which, Made] | None = None  # mostly asked for again at once
        self._found: OrderedDict[Hashable, tuple[Made, int]] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, which: Which) -> bool:
        """Whether this is the first time that the selection is seen, which it is from now on."""
        return self._is_new(hash(_key(which)))

    def _is_new(self, key: int) -> bool:
        if key in self._seen:
            self._seen.move_to_end(key)
            return False
        self._seen[key] = None
        if len(self._seen) > 2 * CACHED:
            self._seen.popitem(last=False)
        return True

    def __call__(self, which: Which) -> Made:
        """Make it, or find it."""
        if self._last is not None and self._last[0] is which:
            return self._last[1]
        key = _key(which)
        known = self._found.get(key)
        if known is not None:
            self._found.move_to_end(key)
            self._last = which, known[0]
            return known[0]
        made = self._make(which)
        self._last = which, made
        if not self._is_new(hash(key)) or self._held + len(which) <= self._room:
            self._found[key] = made, len(which)
            self._held += len(which)
            while len(self._found) > CACHED or self._held > self._room:
                _, (_, dropped) = self._found.popitem(last=False)
                self._held -= dropped
        return made


def _key(which: np.ndarray | tuple[Hashable, ...]) -> Hashable:
    return which.tobytes() if isinstance(which, np.ndarray) else which
