"""Calls of an interior point as arrays: which numbers each takes and gives, to be sent.

With k unknowns that a client shows, p entries of its variables and r multipliers of its own, each
call is a row of sizes; a symmetric matrix goes as its upper triangle. What comes in is held against
these sizes before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.solvers.interior.member import Answer, Sizes
from dald_model.solvers.interior.participant import Sums
from dald_model.solvers.interior.scaled import Units

K, POINTS, ROWS, TRIANGLE = "k", "points", "rows", "triangle"

SHAPES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "norms": ((), (K,)),
    "balance": ((K,), ()),
    "scale": ((), (K, K, 1, 1, 1, 1, 1)),
    "begin": ((1, 1), (1, 1)),
    "centre": ((1,), ()),
    "measure": ((1,), (K, *11 * (1,))),
    "falls": ((), (1,)),
    "curvature": ((), (TRIANGLE,)),
    "constant": ((), (K,)),
    "predicted": ((), (K,)),
    "corrected": ((1, 1), (K,)),
    "hear_constant": ((K,), (1, 1)),
    "hear_step": ((K,), (1, 1)),
    "combine": ((1,), ()),
    "longest": ((), (1,)),
    "defined": ((1,), (1,)),
    "go": ((1,), ()),
    "answer": ((1,), (POINTS, POINTS, ROWS)),
    "weights": ((), (1,)),
}
"""Call -> what it takes, and what it gives."""
RECORDS: dict[str, Any] = {"scale": Units, "measure": Sums}


def sizes_of(name: str, way: int, sizes: Sizes) -> list[int]:
    """The sizes of what a call takes (0) or gives (1)."""
    known = {K: sizes.k, POINTS: sizes.points, ROWS: sizes.rows}
    known[TRIANGLE] = sizes.k * (sizes.k + 1) // 2
    return [known[one] if isinstance(one, str) else one for one in SHAPES[name][way]]


def flat(values: Any) -> np.ndarray:
    """What a call takes or gives, as numbers one after the other."""
    if values is None:
        return np.zeros(0)
    if sp.issparse(values):
        values = values.toarray()
    if isinstance(values, np.ndarray):
        return values[np.triu_indices(len(values))] if values.ndim == 2 else values
    if isinstance(values, float):
        return np.array([values])
    return np.concatenate([np.zeros(0), *(np.atleast_1d(one) for one in values)])


def taken(names: Sequence[str], numbers: np.ndarray, sizes: Sizes) -> list[tuple[Any, ...]]:
    """The calls of these names, from what came with them.

    Raises
    ------
    ValueError
        If there is no such call, or it takes other numbers.
    """
    unknown = [name for name in names if name not in SHAPES]
    if unknown:
        raise ValueError(f"interior point: {unknown[0]!r} is no call")
    split = _split(numbers, [sizes_of(name, 0, sizes) for name in names])
    return [
        (name, *(_bare(one, size) for one, size in zip(each, SHAPES[name][0], strict=True)))
        for name, each in zip(names, split, strict=True)
    ]


def given(names: Sequence[str], numbers: np.ndarray, sizes: Sizes) -> list[Any]:
    """What the calls of these names gave, from what came back.

    Raises
    ------
    ValueError
        If these are other numbers.
    """
    split = _split(numbers, [sizes_of(name, 1, sizes) for name in names])
    return [_result(name, each, sizes) for name, each in zip(names, split, strict=True)]


def _split(numbers: np.ndarray, sizes: Sequence[Sequence[int]]) -> list[list[np.ndarray]]:
    flat_sizes = [size for each in sizes for size in each]
    if numbers.shape != (sum(flat_sizes),):
        raise ValueError(f"interior point: {numbers.shape} numbers came for {sum(flat_sizes)}")
    parts = iter(np.split(numbers, np.cumsum(flat_sizes)[:-1]) if flat_sizes else [])
    return [[next(parts) for _ in each] for each in sizes]


def _bare(part: np.ndarray, size: Any) -> Any:
    return float(part[0]) if size == 1 else part


def _result(name: str, parts: Sequence[np.ndarray], sizes: Sizes) -> Any:
    if name == "curvature":
        found = np.zeros((sizes.k, sizes.k))
        found[np.triu_indices(sizes.k)] = parts[0]
        return found + np.triu(found, 1).T
    if name == "answer":
        points, prices, multipliers = parts
        return Answer(points, prices, multipliers, np.zeros(0))
    if name == "weights":
        return parts[0]
    values = [_bare(*pair) for pair in zip(parts, SHAPES[name][1], strict=True)]
    if name in RECORDS:
        return RECORDS[name](*values)
    return values[0] if len(values) == 1 else tuple(values)
