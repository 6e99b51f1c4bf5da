"""Affine maps of clients alike, of all at once: what they differ in has an axis for the clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import DivExpression, NegExpression, Promote
from dald_model.compile.affine_maps import AffineMaps, ColumnBlocks, dense
from dald_model.declare.affine import affine_parts, weighed_of

ENTRYWISE = (NegExpression, cp.AddExpression, cp.multiply, DivExpression, Promote)
"""What may be between constants."""
Stack = np.ndarray
"""(n, ...) of n clients, or (1, ...) where it is that of the client that they are like."""
Value = Callable[[Any], Stack]
StackedParts = tuple[Mapping[int, Stack | None], Stack]
"""See :func:`stacked_parts`."""


class NotStackedError(Exception):
    """Why clients are read one by one."""


class StackedMaps:
    """What :class:`dald_model.compile.affine_maps.AffineMaps` is of one client, of n alike.

    A piece's matrix is (n, h, m) or (1, h, m), or None of the client's variable, and its offset
    (n, h) or (1, h); ``offset`` has all of them, (n, pieces). They are made of what
    :func:`stacked_parts` gives of each piece, or of those of one client where that is None.
    """

    def __init__(
        self,
        parts: Sequence[StackedParts | None],
        variables: Sequence[cp.Variable],
        like: AffineMaps,
        count: int,
    ) -> None:
        self.size, self.stops, self.sizes = like.size, like.stops, like.sizes
        self.is_one = all(part is None for part in parts)  # so that nothing differs
        self.matrices: list[Any] = []
        self.offsets: list[np.ndarray] = []
        for at, part in enumerate(parts):
            if part is None:
                own = like.piece(at)
                if sp.issparse(own):
                    raise NotStackedError
                self.matrices.append(None if own is None else own[None])
                self.offsets.append(like.offsets[at][None])
            else:
                self.matrices.append(_side_by_side(part, variables))
                self.offsets.append(part[1])
        whole = [np.broadcast_to(one, (count, one.shape[1])) for one in self.offsets]
        self.offset = np.concatenate([*whole, np.zeros((count, 0))], axis=1)

    def varies(self, blocks: ColumnBlocks) -> bool:
        """Whether a matrix times all pieces is another one of each client."""
        matrices = [self.matrices[at] for at, _, _ in blocks.parts]
        return any(one is not None and len(one) > 1 for one in matrices)

    def times(self, blocks: ColumnBlocks) -> Stack:
        """A matrix @ F of all pieces together."""
        total = np.zeros((1, blocks.height, self.size))
        for nth, (at, block, factor) in enumerate(blocks.parts):
            own = self.matrices[at]
            if own is None:
                part: Any = (np.diag(factor) if factor is not None else dense(block))[None]
            elif factor is None:
                part = dense(block) @ own
            else:
                part = own if (factor == 1.0).all() else factor[:, None] * own
            total = total + part if nth else part
        return total

    def weighed_square(self, at: int, weights: np.ndarray) -> Stack:
        r""":math:`F^\top W F` of one piece, symmetric."""
        own = self.matrices[at]
        if own is None:
            return np.diag(weights)[None]
        square = own.swapaxes(1, 2) @ (weights[:, None] * own)
        return (square + square.swapaxes(1, 2)) / 2

    def transposed_times(self, vectors: np.ndarray) -> np.ndarray:
        """F.T @ a vector over all pieces of each client, (n, m) from (n, pieces)."""
        total = np.zeros((len(vectors), self.size))
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            part = vectors[:, start:stop]
            total += part if own is None else (part[:, None] @ own)[:, 0]
        return total


def _side_by_side(part: StackedParts, variables: Sequence[cp.Variable]) -> Stack | None:
    """The matrices of several variables as one; None of the one variable itself."""
    coefficients, offset = part
    if len(variables) == 1 and coefficients:
        return coefficients[variables[0].id]
    blocks = [
        _explicit(coefficients[v.id], v.size)
        if v.id in coefficients
        else np.zeros((1, offset.shape[1], v.size))
        for v in variables
    ]
    count = max(map(len, blocks))
    whole = [np.broadcast_to(one, (count, *one.shape[1:])) for one in blocks]
    return np.concatenate(whole, axis=2)


class StackedValue:
    """The values of constant expressions, from those of their leaves by id.

    A function that calls itself holds itself, and would hold all data until Python looks for such.
    """

    def __init__(self, known: Mapping[int, Stack]) -> None:
        self._known = known

    def __call__(self, node: Any) -> Stack:
        """The value of one."""
        if id(node) in self._known:
            return self._known[id(node)]
        if type(node) not in ENTRYWISE:
            raise NotStackedError
        args = [self(arg) for arg in node.args]
        # Axes that numpy adds in front are behind that of the clients
        more = [node.ndim + 1 - one.ndim for one in args]
        pairs = zip(args, more, strict=True)
        given = [one.reshape(len(one), *[1] * k, *one.shape[1:]) for one, k in pairs]
        if type(node) is Promote:
            return np.broadcast_to(given[0], (len(given[0]), *node.shape))
        return node.numeric(given)


def stacked_parts(expression: Any, value: Value) -> StackedParts:
    """What :func:`dald_model.declare.affine.affine_parts` is of one client, of all alike.

    Raises :class:`NotStackedError` where data are in more than sums and products with vectors.
    """
    if isinstance(expression, cp.Variable):
        return {expression.id: None}, np.zeros((1, math.prod(expression.shape)))
    if expression.is_constant():
        found = value(expression)
        if found.ndim > 3:
            raise NotStackedError
        found = found.swapaxes(1, 2) if found.ndim == 3 else found  # column by column
        return {}, found.reshape(len(found), -1)
    kind, args = type(expression), expression.args
    if kind is NegExpression:
        coefficients, offset = stacked_parts(args[0], value)
        return _scaled(coefficients, np.full((1, offset.shape[1]), -1.0)), -offset
    if kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args):
        return reduce(_added, [stacked_parts(arg, value) for arg in args])
    if kind is Promote:
        coefficients, offset = stacked_parts(args[0], value)
        size = math.prod(expression.shape)
        rows = {key: np.repeat(_explicit(m, 1), size, 1) for key, m in coefficients.items()}
        return rows, np.repeat(offset, size, 1)
    fixed = [arg.is_constant() for arg in args]
    weighed = weighed_of(expression, fixed)
    if weighed is not None and expression.ndim < 2:
        coefficients, offset = stacked_parts(weighed[1], value)
        factor = value(weighed[0]).reshape(-1, math.prod(weighed[0].shape))
        factor = factor if kind is cp.multiply else 1 / factor
        if factor.shape[1] not in (1, offset.shape[1]):
            raise NotStackedError
        factor = np.broadcast_to(factor, (len(factor), offset.shape[1]))
        return _scaled(coefficients, factor), factor * offset
    if kind is not cp.MulExpression or not fixed[0] or args[1].ndim != 1 or not args[0].ndim:
        common, offset = affine_parts(expression, lambda node: only(value(node)))
        return {k: None if m is None else dense(m)[None] for k, m in common.items()}, offset[None]
    data, (coefficients, offset) = value(args[0]), stacked_parts(args[1], value)
    data = data if data.ndim == 3 else data[:, None]
    found = {key: data if m is None else data @ m for key, m in coefficients.items()}
    return found, (data @ offset[..., None])[..., 0]


def only(stack: Stack) -> np.ndarray:
    """What is the same of all; raises :class:`NotStackedError` where it is not."""
    if len(stack) > 1:
        raise NotStackedError
    return stack[0]


def _explicit(matrix: Stack | None, size: int) -> Stack:
    return np.eye(size)[None] if matrix is None else matrix


def _scaled(coefficients: Mapping[int, Stack | None], factor: Stack) -> dict[int, Stack | None]:
    size = factor.shape[1]
    return {key: factor[..., None] * _explicit(m, size) for key, m in coefficients.items()}


def _added(one: StackedParts, two: StackedParts) -> StackedParts:
    coefficients, offset = dict(one[0]), one[1] + two[1]
    for key, matrix in two[0].items():
        if key in coefficients:
            size = offset.shape[1]
            matrix = _explicit(coefficients[key], size) + _explicit(matrix, size)
        coefficients[key] = matrix
    return coefficients, offset
