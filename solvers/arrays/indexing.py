"""Indexing: positions of clients as slices, and products over stacks of their matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

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
