"""Who an expression depends on, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import INDEX, STACKED, AffAtom, Elementwise, Promote, Sum
from dald_model.declare.affine import operator_of
from dald_model.declare.entries import places, selected


def dependence(node: Any, labels: Mapping[int, np.ndarray], count: int) -> sp.csr_array:
    """Which of so many labels each entry of an expression depends on, column-major.

    Parameters
    ----------
    node : cp.Expression
    labels : dict
        Variable id -> the label of each of its entries, flat.
    count : int
        How many labels there are.

    Returns
    -------
    csr_array, shape (node.size, count)
        Not zero where an entry depends on a label.
    """
    if isinstance(node, cp.Variable):
        own = labels[node.id]
        data = np.ones(own.size), own, np.arange(own.size + 1)
        return sp.csr_array(data, shape=(own.size, count))
    if not node.variables():
        return sp.csr_array((node.size, count))
    parts = [dependence(arg, labels, count) for arg in node.args]
    if isinstance(node, INDEX):
        return sp.csr_array(parts[0][selected(node).reshape(-1, order="F")])
    if isinstance(node, Elementwise | cp.AddExpression | cp.multiply | Promote | cp.broadcast_to):
        return _sum(
            [p[_repeated(a.shape, node.shape)] for p, a in zip(parts, node.args, strict=True)]
        )
    if isinstance(node, (*STACKED, cp.reshape, cp.transpose)):
        stops = np.cumsum([arg.size for arg in node.args])
        starts = [int(stop) - arg.size for arg, stop in zip(node.args, stops, strict=True)]
        each = [places(arg.shape) + at for arg, at in zip(node.args, starts, strict=True)]
        taken = np.asarray(node.numeric(each)).reshape(-1, order="F").astype(int)
        return sp.csr_array(sp.csr_array(sp.vstack(parts))[taken])
    axis = getattr(node, "axis", None)
    if axis is not None and len(node.args) == 1 and node.shape != node.args[0].shape:
        whole = places(node.shape)
        whole = whole if node.keepdims else np.expand_dims(whole, axis)
        its = np.broadcast_to(whole, node.args[0].shape).reshape(-1, order="F")
        each = np.arange(its.size)
        return sp.csr_array((np.ones(its.size), (its, each)), (node.size, its.size)) @ parts[0]
    fixed = [arg.is_constant() for arg in node.args]
    is_known = not any(arg.parameters() for arg, held in zip(node.args, fixed, strict=True) if held)
    if isinstance(node, AffAtom) and not isinstance(node, Sum) and is_known and not all(fixed):
        free = [part for part, held in zip(parts, fixed, strict=True) if not held]
        if free and (any(fixed) or not isinstance(node, cp.MulExpression)):
            blocks = operator_of(node, fixed)[0]
            return _sum([abs(b) @ part for b, part in zip(blocks, free, strict=True)])
    any_of = sp.csr_array(_sum([sp.csr_array(part.sum(axis=0).reshape(1, -1)) for part in parts]))
    return sp.csr_array(np.ones((node.size, 1))) @ any_of


def _repeated(shape: tuple[int, ...], to: tuple[int, ...]) -> np.ndarray:
    """Of each entry of a shape, the place in one that is repeated to it."""
    return np.broadcast_to(places(shape), to).reshape(-1, order="F")


def _sum(parts: list[Any]) -> sp.csr_array:
    return sp.csr_array(sum(parts[1:], parts[0]))
