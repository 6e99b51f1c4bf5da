"""Sums over rows: expressions that are one function of each entry of affine vectors, added up.

``cp.sum(cp.logistic(A @ x))`` is the same function of every row of data; its template needs one of
them, see :mod:`dald_model.compile.row_replication`, and clients with more or fewer rows share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import DivExpression, Elementwise, NegExpression, Sum, is_affine_throughout

ENTRYWISE = (Elementwise, cp.AddExpression, NegExpression, cp.multiply, DivExpression)
"""Atoms of which an entry depends on the same entry of the arguments only."""


def is_row_sum(expression: Any, is_affine: Callable[[Any], bool] = is_affine_throughout) -> bool:
    """Whether an expression adds up one function of the entries of affine expressions.

    ``is_affine`` is :func:`dald_model._cvxpy.is_affine_throughout`, or the same from memory.
    """
    kind = type(expression)
    if kind is cp.quad_over_lin:
        x, divisor = expression.args
        is_all = _axis(expression) is None and divisor.is_constant() and divisor.size == 1
        return is_all and x.size > 1 and is_affine(x)
    if kind not in (Sum, cp.norm1) or _axis(expression) is not None:
        return False
    (inner,) = expression.args
    if inner.shape == () or (kind is Sum and inner.is_affine()):
        return False
    return _is_entrywise(inner, inner.shape, is_affine)


def _is_entrywise(
    expression: Any, shape: tuple[int, ...], is_affine: Callable[[Any], bool]
) -> bool:
    if expression.is_constant():
        return uniform(expression) is not None
    if expression.shape != shape:
        return False
    if is_affine(expression):
        return True
    if not isinstance(expression, ENTRYWISE):
        return False
    return all(_is_entrywise(arg, shape, is_affine) for arg in expression.args)


def uniform(constant: Any) -> np.ndarray | None:
    """The number that all entries of a constant are, as an array of shape (); None else."""
    value = constant.value
    value = np.asarray(value.toarray() if sp.issparse(value) else value, dtype=float)
    first = value.reshape(-1)[:1]
    return first.reshape(()) if first.size and (value == first[0]).all() else None


def _axis(expression: Any) -> Any:
    """Over what an atom adds up, None for all; where results keep their dimensions, not that."""
    data = expression.get_data() or [None]
    return data[0] if not any(data[1:]) else data
