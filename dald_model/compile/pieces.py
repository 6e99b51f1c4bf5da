r"""What each party of a coupling has to share: a small set of affine functions of its variables.

A coupling is made of affine expressions :math:`E_k = \sum_i M_{ki} x_i + e_k`. Party i shares
:math:`s_i = B_i x_i` with few rows, and :math:`M_{ki} x_i = R_{ki} s_i`: rows of the
:math:`M_{ki}` that are multiples of each other are shared once, and where that leaves more rows
than variables the variables themselves are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine import SPARSE

EQUAL = 10
"""Digits to which two rows are the same up to a factor."""


def shared_rows(matrix: Any) -> tuple[Any, Any]:
    """Factors ``(B, R)`` of a matrix ``M = R @ B``, where B has as few rows as is easily seen.

    Where no row of M has two entries, or B would have more rows than M has columns in use, the
    rows of B are unit vectors.
    """
    stacked: Any = sp.csr_array(matrix)
    stacked.eliminate_zeros()
    stacked.sort_indices()
    heights = np.diff(stacked.indptr)
    used = np.unique(stacked.indices)
    at: dict[bytes, int] = {}
    first, which, factors, rows = [], [], [], np.flatnonzero(heights)
    for row in rows:
        entries = slice(stacked.indptr[row], stacked.indptr[row + 1])
        values, columns = stacked.data[entries], stacked.indices[entries]
        key = columns.tobytes() + np.round(values / values[0], EQUAL).tobytes()
        if key not in at:
            at[key] = len(first)
            first.append(row)
        which.append(at[key])
        factors.append(values[0] / stacked.data[stacked.indptr[first[at[key]]]])
    if heights.max(initial=0) <= 1 or len(first) > used.size:
        units = sp.csr_array(sp.eye_array(stacked.shape[1], format="csr"))[used]
        return units, sp.csr_array(stacked[:, used])
    shape = stacked.shape[0], len(first)
    return stacked[first], sp.csr_array((factors, (rows, which)), shape=shape)


def product(matrix: Any, variables: Sequence[cp.Variable]) -> cp.Expression:
    """The flat expression ``matrix @ x``, x the stacked variables, written as a user would."""
    stops = np.cumsum([v.size for v in variables])
    parts = []
    for v, stop in zip(variables, stops, strict=True):
        block: Any = sp.csr_array(matrix[:, int(stop) - v.size : int(stop)])
        if block.nnz:
            parts.append(_times(block, v))
    return sum(parts[1:], parts[0])


def _times(block: Any, v: cp.Variable) -> cp.Expression:
    flat = v if v.ndim == 1 else cp.vec(v, order="F")
    height, width = block.shape
    if height == width and (block != sp.eye_array(width, format="csr")).nnz == 0:
        return flat
    return dense_if_small(block) @ flat


def dense_if_small(matrix: Any) -> Any:
    """The same, as an array unless that is mostly zeros."""
    return matrix if matrix.nnz < SPARSE * np.prod(matrix.shape) else matrix.toarray()


def shaped(expression: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    """A flat expression in a shape, column-major."""
    if expression.shape == shape:
        return expression
    return expression[0] if shape == () else cp.reshape(expression, shape, order="F")
