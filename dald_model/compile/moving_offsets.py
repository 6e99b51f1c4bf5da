"""Offsets of affine expressions for other values of the user's Parameters, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import NegExpression, Promote
from dald_model.declare.affine import affine_parts, data_of, factor_of, operator_of, weighed_of
from dald_model.values import flat

Offset = Callable[[], np.ndarray]
"""What gives an offset with the present values of the Parameters."""


class _InMatricesError(Exception):
    """A Parameter is in more than an offset."""


def moving_offset(expression: cp.Expression) -> Offset | None:
    """What gives the offset of :func:`affine_parts`, down to the last bit.

    What has no Parameters of the user's is gone through once. None where variables are multiplied
    by Parameters, so that matrices change with them.
    """
    try:
        return _moving(expression)
    except _InMatricesError:
        return None


def _moving(expression: Any) -> Offset:
    if not expression.parameters():
        offset = affine_parts(expression)[1]
        return lambda: offset
    if expression.is_constant():
        return lambda: flat(expression.value)
    kind, args = type(expression), expression.args
    if kind is NegExpression:
        inner = _moving(args[0])
        return lambda: -inner()
    if kind is Promote:
        inner, size = _moving(args[0]), expression.size
        return lambda: np.repeat(inner(), size)
    if kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args):
        parts = [_moving(arg) for arg in args]
        return lambda: reduce(add, [part() for part in parts])
    fixed = [arg.is_constant() for arg in args]
    given = [arg for arg, is_fixed in zip(args, fixed, strict=True) if is_fixed]
    if any(one.parameters() for one in [*given, *_expressions(expression.get_data())]):
        raise _InMatricesError
    weighed, multiplied = weighed_of(expression, fixed), data_of(expression, fixed)
    if weighed is not None:
        factor, inner = factor_of(expression, weighed[0], weighed[1].size), _moving(weighed[1])
        return lambda: factor * inner()
    if multiplied is not None:
        data, inner = multiplied[0], _moving(multiplied[1])
        return lambda: data @ inner()
    blocks, offset = operator_of(expression, fixed)
    free = [_moving(arg) for arg, is_fixed in zip(args, fixed, strict=True) if not is_fixed]
    pairs = [*zip(blocks, free, strict=True)]
    return lambda: reduce(add, [block @ inner() for block, inner in pairs], offset)


def _expressions(data: Sequence[Any] | None) -> list[cp.Expression]:
    return [one for one in data or () if isinstance(one, cp.Expression)]
