"""Affine expressions that are told for any number of rows of their data.

``A @ x - b`` is one for each number of rows of A and b; ``cp.diff(A @ x)`` is not, since cvxpy is
asked for its operator of that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import cvxpy as cp

from dald_model._cvxpy import DivExpression, NegExpression, Promote

ENTRYWISE = (NegExpression, cp.AddExpression, cp.multiply, DivExpression)
"""What may be between constants: numpy gives values of whatever shape these have."""


def is_any_rows(expression: Any) -> bool:
    """Whether :func:`dald_model.declare.affine.affine_parts` takes it with other rows of data."""
    if isinstance(expression, cp.Variable):
        return True
    if expression.is_constant():
        return is_plain(expression)
    kind, args = type(expression), expression.args
    fixed = [arg.is_constant() for arg in args]
    if kind is NegExpression or kind is Promote:
        return is_any_rows(args[0])
    if kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args):
        return all(map(is_any_rows, args))
    if kind in (cp.multiply, DivExpression) and sum(fixed) == 1:
        data, inner = args if fixed[0] else args[::-1]
        is_alike = inner.shape == expression.shape and data.shape in ((), inner.shape)
        is_alike = is_alike and (fixed[1] or kind is cp.multiply)
        return is_alike and is_plain(data) and is_any_rows(inner)
    if kind is cp.MulExpression and fixed[0] and len(args[1].shape) == 1 and args[0].ndim > 0:
        return is_plain(args[0]) and is_any_rows(args[1])
    return not any(type(node) in (cp.Constant, Promote) for node in nodes([expression]))


def is_plain(constant: Any) -> bool:
    """Whether a constant expression has its value from its leaves, of whatever shape these are."""
    kinds = (cp.Constant, Promote, *ENTRYWISE)
    return all(type(node) in kinds for node in nodes([constant]))


def nodes(parts: Iterable[Any]) -> Iterator[Any]:
    """All nodes of some expressions or constraints, in the order of an outline."""
    left = [*parts][::-1]
    while left:
        node = left.pop()
        yield node
        left += node.args[::-1]
