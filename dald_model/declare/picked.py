"""Some entries of an expression, as the same expression of less."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    ENTRYWISE,
    INDEX,
    STACKED,
    Promote,
    Sum,
)
from dald_model.values import flat


@lru_cache(maxsize=64)
def places(shape: tuple[int, ...]) -> np.ndarray:
    """Each entry's place in the flat column-major array, in an array of this shape."""
    found = np.arange(int(np.prod(shape))).reshape(shape, order="F")
    found.flags.writeable = False
    return found


def selected(node: Any) -> np.ndarray:
    """The places of the entries that a selection takes of its argument, in its own shape."""
    return np.asarray(node.numeric([places(node.args[0].shape)])).reshape(node.shape)


def picked(node: Any, entries: np.ndarray) -> Any:
    """Some entries of an expression, column-major, as a vector.

    ``picked(cp.square(A @ x - b), rows)`` is ``cp.square(A[rows] @ x - b[rows])``.
    """
    if isinstance(node, cp.Variable):
        return _of_variable(node, entries)
    if isinstance(node, cp.Constant):
        return cp.Constant(flat(node.value)[entries])
    if node.size == entries.size and node.ndim == 1 and (entries == np.arange(node.size)).all():
        return node
    args = node.args
    if isinstance(node, INDEX):
        return picked(args[0], selected(node).reshape(-1, order="F")[entries])
    if isinstance(node, Promote | cp.broadcast_to | cp.reshape | cp.transpose):
        if isinstance(node, Promote):
            return _promoted(args[0], entries.size)
        taken = np.asarray(node.numeric([places(args[0].shape)]))
        return picked(args[0], taken.reshape(-1, order="F").astype(int)[entries])
    if isinstance(node, ENTRYWISE):
        return node.copy([_argument(arg, node.shape, entries) for arg in args])
    if isinstance(node, STACKED):
        return _of_stack(node, entries)
    if getattr(node, "axis", None) is not None and node.size != args[0].size and args[0].ndim == 2:
        return _of_axis(node, entries)
    if isinstance(node, cp.MulExpression):
        found = _of_product(node, entries)
        if found is not None:
            return found
    return cp.vec(node, order="F")[_key(entries)]


def _key(entries: np.ndarray) -> Any:
    """Entries of a vector as a slice where they follow each other."""
    is_run = entries[-1] - entries[0] + 1 == entries.size and (np.diff(entries) == 1).all()
    return slice(int(entries[0]), int(entries[-1]) + 1) if is_run else entries


def _of_variable(v: cp.Variable, entries: np.ndarray) -> Any:
    if v.ndim == 0:
        return _promoted(v, entries.size)
    if v.ndim == 1:
        is_whole = entries.size == v.size and (np.diff(entries) == 1).all()
        return v if is_whole else v[_key(entries)]
    each = np.unravel_index(entries, v.shape, order="F")
    longer = [at for at, along in enumerate(each) if np.unique(along).size > 1]
    if len(longer) <= 1:  # along a row or a column
        keys: list[Any] = [int(along[0]) for along in each]
        at = longer[0] if longer else v.ndim - 1
        keys[at] = _key(each[at])
        if isinstance(keys[at], slice):
            return v[tuple(keys)]
    return cp.vec(v[tuple(each)], order="F") if entries.size == 1 else v[tuple(each)]


def _promoted(number: Any, size: int) -> Any:
    return number + np.zeros(size)


def _argument(arg: Any, shape: tuple[int, ...], entries: np.ndarray) -> Any:
    """What the entries of an atom that works entry by entry take of an argument."""
    if arg.is_scalar():
        return arg
    return picked(arg, np.broadcast_to(places(arg.shape), shape).reshape(-1, order="F")[entries])


def _of_stack(node: Any, entries: np.ndarray) -> Any:
    stops = np.cumsum([arg.size for arg in node.args])
    starts = stops - [arg.size for arg in node.args]
    each = [places(arg.shape) + int(at) for arg, at in zip(node.args, starts, strict=True)]
    taken = np.asarray(node.numeric(each)).reshape(-1, order="F").astype(int)[entries]
    which = np.searchsorted(stops, taken, side="right")
    cuts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), which.size]
    runs = []
    for start, stop in pairwise(cuts):
        at = which[start]
        runs.append(picked(node.args[at], taken[start:stop] - starts[at]))
    return runs[0] if len(runs) == 1 else cp.hstack(runs)


def _of_axis(node: Any, entries: np.ndarray) -> Any:
    """Some of the sums, norms or maxima of rows or columns, along the first axis."""
    axis = node.axis % 2 if isinstance(node.axis, int) else None
    if axis is None:
        return cp.vec(node, order="F")[_key(entries)]
    table = places(node.args[0].shape)
    table = table if axis == 0 else table.T
    taken = table[:, entries]
    inner = picked(node.args[0], taken.reshape(-1, order="F"))
    if entries.size == 1:
        inner = cp.reshape(inner, (taken.shape[0], 1), order="F")
    else:
        inner = cp.reshape(inner, taken.shape, order="F")
    if isinstance(node, Sum):
        return cp.sum(inner, axis=0)
    data = list(node.get_data())
    at = len(data) - 1 - data[::-1].index(node.axis)
    data[at] = 0
    data = [False if one is True and k > at else one for k, one in enumerate(data)]
    return type(node)(inner, *data)


def _of_product(node: Any, entries: np.ndarray) -> Any:
    """Rows of a product with data."""
    one, two = node.args
    if two.is_constant() and not one.is_constant() and two.ndim and one.ndim:
        if one.ndim == 2 and two.ndim == 1:  # rows of x @ b
            return _table(one, entries, None) @ two
        if one.ndim == 1 and two.ndim == 2:
            return one @ _rows(two.T, entries).T
        return None
    if not one.is_constant() or two.is_constant() or not (one.ndim and two.ndim):
        return None
    if one.ndim == 2 and two.ndim == 1:
        return _rows(one, entries) @ two
    if two.ndim == 2 and one.ndim == 1:  # columns of a @ X
        return one @ _table(two, None, entries)
    if one.ndim == two.ndim == 2:
        rows, columns = np.unravel_index(entries, node.shape, order="F")
        if np.unique(columns).size == 1:
            return _rows(one, rows) @ picked(two, places(two.shape)[:, columns[0]])
        if np.unique(rows).size == 1:
            row = _rows(one, rows[:1])
            inner = row @ _table(two, None, columns)
            return cp.vec(inner, order="F")
        used, its = np.unique(rows), np.unique(columns)
        if used.size * its.size == entries.size:
            inner = cp.vec(_rows(one, used) @ _table(two, None, its), order="F")
            order = np.searchsorted(used, rows) + used.size * np.searchsorted(its, columns)
            is_same = (order == np.arange(order.size)).all()
            return inner if is_same else inner[order]
    return None


def _rows(data: Any, rows: np.ndarray) -> Any:
    """Rows of data, by value where there is no Parameter in it."""
    if data.parameters():
        return data[rows]
    value = data.value
    return value.tocsr()[rows] if sp.issparse(value) else np.asarray(value)[rows]


def _table(matrix: Any, rows: np.ndarray | None, columns: np.ndarray | None) -> Any:
    """Rows or columns of a matrix expression."""
    table = places(matrix.shape)
    table = table[rows] if rows is not None else table[:, columns]
    return cp.reshape(picked(matrix, table.reshape(-1, order="F")), table.shape, order="F")
