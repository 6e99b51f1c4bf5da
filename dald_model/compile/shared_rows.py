r"""What each party of a coupling has to share: a small set of affine functions of its variables.

A coupling is made of affine expressions :math:`E_k = \sum_i M_{ki} x_i + e_k`. Party i shares
:math:`s_i = B_i x_i` with few rows, and :math:`M_{ki} x_i = R_{ki} s_i`: rows of the
:math:`M_{ki}` that are multiples of each other are shared once, and where that leaves more rows
than variables the variables themselves are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.declare.affine import MadeOnce
from dald_model.sizes import SPARSE

EQUAL_DIGITS = 10
"""Digits to which two rows are the same up to a factor."""
_FACTOR, _BESIDE = MadeOnce(), MadeOnce()


def shared_rows(matrix: Any) -> tuple[Any, Any]:
    """Factors ``(B, R)`` of a matrix ``M = R @ B``, where B has as few rows as is easily seen.

    Where no row of M has two entries, or B would have more rows than M has columns in use, the
    rows of B are unit vectors.
    """
    stacked: Any = sp.csr_array(matrix)
    if not stacked.has_sorted_indices or not stacked.data.all():
        stacked = stacked.copy()
        stacked.eliminate_zeros()
        stacked.sort_indices()
    arrays = (stacked.indptr, stacked.indices, stacked.data)
    # Couplings of one kind, such as the edges of a graph, mostly have the very same matrices
    return _factors(stacked.shape, *((part.dtype.str, part.tobytes()) for part in arrays))


@lru_cache
def _factors(shape: tuple[int, int], *parts: tuple[str, bytes]) -> tuple[Any, Any]:
    indptr, indices, data = (np.frombuffer(held, kind).copy() for kind, held in parts)
    stacked: Any = sp.csr_array((data, indices, indptr), shape=shape)
    heights = np.diff(stacked.indptr)
    used = np.unique(stacked.indices)
    at: dict[bytes, int] = {}
    first, which, factors, rows = [], [], [], np.flatnonzero(heights)
    for row in rows:
        entries = slice(stacked.indptr[row], stacked.indptr[row + 1])
        values, columns = stacked.data[entries], stacked.indices[entries]
        key = columns.tobytes() + np.round(values / values[0], EQUAL_DIGITS).tobytes()
        if key not in at:
            at[key] = len(first)
            first.append(row)
        which.append(at[key])
        factors.append(values[0] / stacked.data[stacked.indptr[first[at[key]]]])
    if heights.max(initial=0) <= 1 or len(first) > used.size:
        units = sp.csr_array(sp.eye_array(stacked.shape[1], format="csr"))[used]
        return units, sp.csr_array(stacked[:, used])
    return stacked[first], sp.csr_array((factors, (rows, which)), shape=(shape[0], len(first)))


def product(matrix: Any, variables: Sequence[cp.Variable]) -> cp.Expression:
    """The flat expression ``matrix @ x``, x the stacked variables, written as a user would."""
    if len(variables) == 1:
        return _times(matrix, variables[0])
    stops = np.cumsum([v.size for v in variables])
    parts = []
    for v, stop in zip(variables, stops, strict=True):
        block: Any = sp.csr_array(matrix[:, int(stop) - v.size : int(stop)])
        if block.nnz:
            parts.append(_times(block, v))
    return sum(parts[1:], parts[0])


def _times(block: Any, v: cp.Variable) -> cp.Expression:
    flat = v if v.ndim == 1 else cp.vec(v, order="F")
    factor = _FACTOR.of((id(block),), [block], lambda: _factor(block))
    return flat if factor is None else factor @ flat


def _factor(block: Any) -> Any:
    """What is written before a variable; None for the identity."""
    return None if _is_identity(block) else dense_if_small(block)


def _is_identity(block: Any) -> bool:
    height, width = block.shape
    if height != width or block.nnz != width:
        return False
    each = np.arange(width + 1)
    places = np.array_equal(block.indptr, each) and np.array_equal(block.indices, each[:-1])
    return bool(places and (block.data == 1).all())


def beside(blocks: Sequence[tuple[int, Any]], shape: tuple[int, int]) -> Any:
    """The sparse matrix of blocks that each begin in a column, zero elsewhere."""
    key = shape, *((start, id(block)) for start, block in blocks)
    return _BESIDE.of(key, [block for _, block in blocks], lambda: _beside(blocks, shape))


def _beside(blocks: Sequence[tuple[int, Any]], shape: tuple[int, int]) -> Any:
    found = [(start, sp.coo_array(block)) for start, block in blocks]
    data = np.concatenate([np.zeros(0), *(block.data for _, block in found)])
    rows = np.concatenate([np.zeros(0, int), *(block.row for _, block in found)])
    columns = np.concatenate([np.zeros(0, int), *(start + block.col for start, block in found)])
    return sp.csr_array((data, (rows, columns)), shape=shape)


def dense_if_small(matrix: Any) -> Any:
    """The same, as an array unless that is mostly zeros."""
    return matrix if matrix.nnz < SPARSE * np.prod(matrix.shape) else matrix.toarray()


def shaped(expression: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    """A flat expression in a shape, column-major."""
    if expression.shape == shape:
        return expression
    return expression[0] if shape == () else cp.reshape(expression, shape, order="F")
