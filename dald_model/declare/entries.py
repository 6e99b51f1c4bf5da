"""Entries of array variables that an expression uses, read from how it selects them.

``Y[3]`` uses a row of Y, ``cp.sum(Y, axis=1)[3]`` as well, and ``A[3] @ flow`` the flows that row
3 of an incidence matrix has. Zeros in other data select nothing: that a pixel is blank in all of a
client's images is nobody's business, and says nothing of what the client is about.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    INDEX,
    PICKS,
    PRODUCTS,
    STACKED,
    AffAtom,
    NegExpression,
    Promote,
    Sum,
    inside,
)
from dald_model.declare.affine import operator_of
from dald_model.declare.picked import places, selected
from dald_model.sizes import DATA

Entries = np.ndarray | None
"""Which entries of a flat column-major array, sorted; None for all."""
REARRANGED = (cp.reshape, cp.transpose, *STACKED)


def used_entries(parts: Iterable[Any], wanted: Container[int]) -> dict[int, Entries]:
    """Id of a variable -> its entries that expressions or constraints use, of those wanted."""
    reach = _Reach(wanted)
    for part in parts:
        reach.through(part, None)
    return {
        key: None if any(one is None for one in found) else np.unique(np.concatenate(found))
        for key, found in reach.found.items()
    }


class _Reach:
    """One pass from what is asked of an expression to its variables."""

    def __init__(self, wanted: Container[int]) -> None:
        self._wanted = wanted
        self.found: dict[int, list[Any]] = {}

    def through(self, node: Any, entries: Entries) -> None:
        """Find what some entries of a node use."""
        if isinstance(node, cp.Variable):
            if node.id in self._wanted:
                self.found.setdefault(node.id, []).append(entries)
            return
        selects = isinstance(node, INDEX + PRODUCTS + PICKS)
        if isinstance(node, AffAtom) and (selects or entries is not None):
            its = _of_arguments(node, entries)
        else:
            its = [None for _ in inside(node)]
        for one, used in zip(inside(node), its, strict=True):
            self.through(one, used)


def _of_arguments(node: Any, entries: Entries) -> list[Entries]:
    """What some entries of an affine atom use of each of its arguments."""
    args = node.args
    if isinstance(node, INDEX):
        return [np.unique(_asked(selected(node), entries))]
    if isinstance(node, PRODUCTS):
        return _of_product(node, entries)
    if isinstance(node, NegExpression | cp.AddExpression | cp.broadcast_to):
        return [_broadcast(arg.shape, node.shape, entries) for arg in args]
    if isinstance(node, REARRANGED):
        stops = np.cumsum([arg.size for arg in args])
        pairs = list(zip([0, *stops[:-1]], stops, strict=True))
        each = [places(arg.shape) + start for arg, (start, _) in zip(args, pairs, strict=True)]
        taken = _asked(np.asarray(node.numeric(each)), entries)
        return [np.unique(taken[(taken >= a) & (taken < b)]) - a for a, b in pairs]
    fixed = [arg.is_constant() for arg in args]
    if isinstance(node, Sum) and node.axis is not None and entries is not None:
        whole = places(node.shape)
        whole = whole if node.keepdims else np.expand_dims(whole, node.axis)
        its = np.broadcast_to(whole, args[0].shape).reshape(-1, order="F")
        return [np.flatnonzero(np.isin(its, entries))]
    if any(fixed) or isinstance(node, Promote | Sum):
        return [None for _ in args]
    blocks = [block if entries is None else block[entries] for block in operator_of(node, fixed)[0]]
    return [np.unique(sp.coo_array(block).col) for block in blocks]


def _asked(labels: np.ndarray, entries: Entries) -> np.ndarray:
    flat = labels.reshape(-1, order="F").astype(int)  # cvxpy may make numbers of them
    return flat if entries is None else flat[entries]


def _broadcast(shape: tuple[int, ...], to: tuple[int, ...], entries: Entries) -> Entries:
    """What some entries of a shape use of an argument of another that is repeated to it."""
    if entries is None or shape == to:
        return entries
    return np.unique(_asked(np.broadcast_to(places(shape), to), entries))


def _of_product(node: Any, entries: Entries) -> list[Entries]:
    """The same of a product, of which one argument may be data."""
    is_entrywise = type(node) is not cp.MulExpression
    found: list[Entries] = [None, None]
    if is_entrywise:
        found = [_broadcast(arg.shape, node.shape, entries) for arg in node.args]
    data = _data(node)
    if data is None:
        return found
    at, value = data
    other = node.args[1 - at]
    if is_entrywise:
        whole = value.toarray() if sp.issparse(value) else value
        used = np.flatnonzero(whole.reshape(-1, order="F"))
        if found[1 - at] is None and other.size == np.size(value) and _selects(used, other.size):
            found[1 - at] = used
    elif np.ndim(value) and 0 < other.ndim <= 2 and 0 not in value.shape:
        its = _of_matrix(value, other.shape, entries, is_left=at == 0)
        found[1 - at] = its
    return found


def _data(node: Any) -> tuple[int, Any] | None:
    """Which argument of a product has known values, and these; None where both are free."""
    for at, arg in enumerate(node.args):
        if arg.is_constant() and not arg.parameters():
            value = arg.value
            return at, value if sp.issparse(value) else np.asarray(value)
    return None


def _selects(used: np.ndarray, size: int) -> bool:
    return used.size <= DATA * size


def _of_matrix(
    data: Any, shape: tuple[int, ...], entries: Entries, *, is_left: bool
) -> np.ndarray | None:
    """What ``data @ x``, or ``x @ data``, uses of an x of this shape."""
    matrix = data if is_left else data.T
    if matrix.ndim == 1:
        matrix = matrix.reshape(1, -1)
    if (
        entries is None
        and not sp.issparse(matrix)
        and np.count_nonzero(matrix[0]) > (DATA * matrix.shape[1])
    ):
        return None
    height, width = matrix.shape
    columns = 1 if len(shape) == 1 else shape[1 if is_left else 0]
    asked = np.zeros(height * columns)
    asked[slice(None) if entries is None else entries] = 1.0
    order = (height, columns) if is_left else (columns, height)
    asked = asked.reshape(order, order="F")
    asked = asked if is_left else asked.T
    rows = asked.any(axis=1)
    pattern: Any = matrix[np.flatnonzero(rows)] != 0
    used = pattern.T.astype(float) @ asked[rows] > 0
    if not _selects(np.flatnonzero(used.any(axis=1)), width):
        used = np.broadcast_to(asked.any(axis=0), used.shape)
    used = used if is_left or len(shape) == 1 else used.T
    return None if used.all() else np.flatnonzero(used.reshape(-1, order="F"))
