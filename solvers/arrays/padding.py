"""Padding: which clients of unequal sizes share arrays, where what one has less is zeros."""

from __future__ import annotations

import numpy as np

ARGUMENT = 20
"""What a function of an argument costs, in entries of its row."""

SPARE_SHARE, SPARE = 0.25, 2**18
"""Zeros that arrays may hold: as a share of what they are for, and the entries that cost as much as
the calls for other arrays would."""


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
        if spare > max(SPARE_SHARE * needed, SPARE):
            found.append([])
            wider, needed = shapes[at], own[at]
        found[-1].append(at)
        top, total = wider, needed
    return [np.sort(part) for part in found]
