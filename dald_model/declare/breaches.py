"""Breaches of cvxpy's DCP rules: the innermost part of an expression that breaks one, and how."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import cvxpy as cp

from dald_model._cvxpy import NegExpression
from dald_model.declare.wording import STRETCHED, short

PRODUCTS = (cp.MulExpression, cp.multiply)
OTHER = {"convex": "concave", "concave": "convex", "affine": "affine"}


def why_not(expression: cp.Expression, wanted: str) -> str:
    """Which parts keep an expression from being convex, concave or affine; "" where none is told.

    Examples
    --------
    >>> x = cp.Variable(3, name="x")
    >>> print(why_not(cp.sum_squares(x) + cp.sum(cp.sqrt(x)), "convex"))
    in it, sum(power(x, 0.5)) is concave
    >>> print(why_not(cp.sum(cp.log(1 + cp.exp(x))), "convex"))
    in it, log(1.0 + exp(x)) breaks the rules, since log is concave and its argument ...
    """
    found = [_said(part, part is expression) for part in _breaches(expression, wanted)]
    return "; ".join(dict.fromkeys(said for said in found if said))


def warn_of_outer(part: Any, where: str) -> None:
    """Warn of a column and a vector of one length in a sum, which numpy's rules make a matrix."""
    stack = [part]
    while stack:
        node = stack.pop()
        stack.extend(node.args)
        if not isinstance(node, cp.AddExpression) or node.ndim != 2:
            continue
        inner = [arg.args[0] for arg in node.args if type(arg).__name__ == "broadcast_to"]
        count = node.shape[0]
        if count > 1 and {one.shape for one in inner} == {(count,), (count, 1)}:
            said = " and ".join(f"{short(one, 30)} of shape {one.shape}" for one in inner)
            warnings.warn(
                f"{where}: {said} add up to a matrix of shape {node.shape} by numpy's rules; if "
                "entry by entry is meant, have both of one shape, as by cp.vec(..., order='F')",
                UserWarning,
                stacklevel=2,
            )


def _is(expression: Any, wanted: str) -> bool:
    return bool(getattr(expression, f"is_{wanted}")())


def _breaches(part: Any, wanted: str) -> Iterator[Any]:
    if _is(part, wanted):
        return
    inner = [arg for arg in part.args if not arg.is_dcp()]
    if inner:
        for arg in inner:
            yield from _breaches(arg, "convex")
    elif isinstance(part, cp.AddExpression):
        for arg in part.args:
            yield from _breaches(arg, wanted)
    elif isinstance(part, NegExpression):
        yield from _breaches(part.args[0], OTHER[wanted])
    elif type(part).__name__ in STRETCHED:
        yield from _breaches(part.args[0], wanted)
    else:
        yield part


def _said(part: Any, is_whole: bool) -> str:
    """What one part does wrong."""
    if part.is_dcp():
        return "" if is_whole else f"in it, {short(part)} is {part.curvature.lower()}"
    where = f"in it, {short(part)} breaks the rules, since"
    if isinstance(part, PRODUCTS):
        if not any(arg.is_constant() for arg in part.args):
            return f"{where} it multiplies two expressions of variables"
        unsigned = [p.name() for p in part.parameters() if not (p.is_nonneg() or p.is_nonpos())]
        if unsigned:
            return (
                f"{where} the sign of the Parameter {unsigned[0]!r} is unknown: declare it as "
                "cp.Parameter(nonneg=True)"
            )
    shapes = [kind for kind in ("convex", "concave") if getattr(part, f"is_atom_{kind}")()]
    args = [arg for arg in part.args if not arg.is_affine()]
    if len(shapes) == 1 and len(args) == 1:
        name = short(part).partition("(")[0]
        return (
            f"{where} {name} is {shapes[0]} and its argument {short(args[0])} is "
            f"{args[0].curvature.lower()}"
        )
    return f"{where.removesuffix(', since')}"
