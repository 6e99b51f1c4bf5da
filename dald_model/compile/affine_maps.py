"""Affine maps of a client's pieces: products with all of them, and offsets by Parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import NegExpression, Promote
from dald_model.declare.affine import (
    Coefficients,
    affine_parts,
    data_of,
    factor_of,
    operator_of,
    scaled,
    side_by_side,
    weighed_of,
)
from dald_model.values import flat

NOTHING = np.zeros(0)
KEPT = 64
"""How many numbers of rows are known."""


class AffineMaps:
    """The affine maps :math:`y_j = F_j x + f_j` of a client's pieces, m variables in all.

    ``parts`` are the pieces as :func:`dald_model.declare.affine.affine_parts` gives them; matrices
    of coefficients that are in ``before``, too, are taken from there.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Coefficients, np.ndarray]],
        variables: Sequence[cp.Variable],
        before: AffineMaps | None = None,
    ) -> None:
        self._weighed: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, float]] = {}
        self.offsets = [offset for _, offset in parts]
        if before is not None and all(
            part[0] is then[0] for part, then in zip(parts, before._made[0], strict=True)
        ):
            self.size, self.matrices = before.size, before.matrices
            self.sizes, self.stops = before.sizes, before.stops
        else:
            self.size = sum(v.size for v in variables)
            self.matrices = self._multiplied(parts, variables, before)
            self.sizes = tuple(offset.size for offset in self.offsets)
            self.stops = _stops(self.sizes)
        self._made = parts, self.matrices
        one = len(self.offsets) == 1
        self.offset = self.offsets[0] if one else np.concatenate([*self.offsets, NOTHING])

    @staticmethod
    def _multiplied(
        parts: Sequence[tuple[Coefficients, np.ndarray]],
        variables: Sequence[cp.Variable],
        before: AffineMaps | None,
    ) -> list[Any]:
        """The matrices, those of before where coefficients are the same."""
        known = {}
        if before is not None:
            pairs = zip(*before._made, strict=True)
            known = {id(part[0]): matrix for part, matrix in pairs}
        return [
            known[id(part[0])]
            if id(part[0]) in known
            else side_by_side(part[0], variables, part[1].size)
            for part in parts
        ]

    def moves(self, other: AffineMaps) -> bool:
        """Whether only offsets differ."""
        if self.matrices is other.matrices:
            return True
        pairs = zip(self.matrices, other.matrices, strict=True)
        is_same = all(one is two for one, two in pairs)
        return is_same and (self.stops is other.stops or np.array_equal(self.stops, other.stops))

    def has(self, other: AffineMaps, pieces: Iterable[int]) -> bool:
        """Whether some of its pieces are those of another."""
        return all(self._made[0][at] is other._made[0][at] for at in pieces)

    def times(self, blocks: ColumnBlocks) -> Any:
        """The matrix @ F for all pieces together; the data themselves where it picks them."""
        total: Any = None
        for at, block, factor in blocks.parts:
            own = self.matrices[at]
            if factor is None:
                part: Any = block if own is None else block @ own
            elif own is None:
                part = scaled(factor, None)
            elif (factor == 1.0).all():
                part = own
            else:
                part = scaled(factor, own)
            total = part if total is None else dense(total) + dense(part)
        return sp.csr_array((blocks.height, self.size)) if total is None else total

    def add_weighed(
        self, total: np.ndarray, linear: np.ndarray, at: int, weights: np.ndarray, *, keeps: bool
    ) -> float:
        r"""Add what weighed squares of one piece, :math:`\tfrac12 y^\top W y`, come to.

        :math:`F^\top W F`, symmetric, to a matrix, (m, m), :math:`F^\top W f` to a vector, (m,);
        gives the constant. ``keeps`` them for the very same weights.
        """
        own, offset = self.matrices[at], self.offsets[at]
        known = self._weighed.get(at)
        if own is None:
            total.flat[:: self.size + 1] += weights
        if known is None or known[0] is not weights:
            square = np.zeros((0, 0))
            if own is not None:
                square = dense(own.T @ scaled(weights, own))
                square = (square + square.T) / 2
            bent = weights * offset
            slope = bent if own is None else transposed(own, bent)
            known = weights, square, slope, float(offset @ bent) / 2
            if keeps:
                self._weighed[at] = known
        if own is not None:
            total += known[1]
        linear += known[2]
        return known[3]

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """F.T @ vector for all pieces together, shape (m,)."""
        total = np.zeros(self.size)
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            part = vector[start:stop]
            if part.any():  # most pieces of constraints have no part in what is bent or tilted
                total += part if own is None else transposed(own, part)
        return total


@lru_cache(maxsize=KEPT)
def _stops(sizes: tuple[int, ...]) -> np.ndarray:
    """Where pieces of these sizes begin and end: the same array for clients of one shape."""
    return np.cumsum([0, *sizes])


class ColumnBlocks:
    """A matrix over all pieces, taken apart by piece, once for all clients of a template.

    ``parts`` lists (piece, block, factor): the block is diag(factor), or factor is None.
    """

    parts: list[tuple[int, Any, np.ndarray | None]]

    def __init__(self, matrix: Any, stops: np.ndarray) -> None:
        self.height, self._stops = matrix.shape[0], stops
        self.parts = []
        for at, (start, stop) in enumerate(pairwise(stops)):
            block = sp.csr_array(matrix[:, start:stop])
            block.sort_indices()
            if block.nnz:
                each = np.arange(block.nnz)
                picks = block.shape == (block.nnz, block.nnz)
                picks = picks and np.array_equal(block.indices, each)
                picks = picks and np.array_equal(block.indptr[:-1], each)
                self.parts.append((at, block, block.data if picks else None))

    @classmethod
    def of_each(
        cls, row: sp.csr_array, piece: np.ndarray, count: int, stops: np.ndarray
    ) -> ColumnBlocks:
        """One and the same row, (1, pieces), for each of so many entries that every piece has."""
        found = cls(sp.csr_array((count, 0)), stops[:1])
        found._stops = stops
        order = np.argsort(row.indices)
        found.parts = [
            (int(piece[column]), None, np.full(count, value))
            for column, value in zip(row.indices[order], row.data[order], strict=True)
            if value
        ]
        return found

    def at(self, y: np.ndarray) -> np.ndarray:
        """The matrix @ y, of all pieces one after the other, (n,) or (n, k)."""
        found = np.zeros((self.height, *y.shape[1:]))
        for at, block, factor in self.parts:
            own = y[self._stops[at] : self._stops[at + 1]]
            found += block @ own if factor is None else (factor * own.T).T
        return found


def transposed(matrix: Any, vector: np.ndarray) -> np.ndarray:
    """matrix.T @ vector: of a small one by rows, scipy takes most of its time to transpose it."""
    if not sp.issparse(matrix) or matrix.format != "csr":
        return matrix.T @ vector
    each = matrix.data * np.repeat(vector, np.diff(matrix.indptr))
    return np.bincount(matrix.indices, each, matrix.shape[1])


def is_same(one: Any, two: Any) -> bool:
    """Whether two matrices or vectors, dense, sparse or None, are the same."""
    if one is two:
        return True
    if one is None or two is None:
        return False
    if one.shape != two.shape or sp.issparse(one) != sp.issparse(two):
        return False
    return (one != two).nnz == 0 if sp.issparse(one) else np.array_equal(one, two)


def dense(matrix: Any) -> np.ndarray:
    """A matrix that may be sparse, as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


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
