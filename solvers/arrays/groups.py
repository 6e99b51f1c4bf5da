"""Which summands of the clients' objectives are worked on together, and the arrays of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.indexing import is_run, ranges, selection
from dald_model.solvers.arrays.matrices import Block, dense
from dald_model.solvers.arrays.pieces import Foreign, Functions, Piece, Place, Quadratics, Summands

SPARSE = 0.25
"""Share of nonzeros below which products with sparse matrices are faster.

Measured: both are as fast at 0.28 for (100, 100) in cache, at 0.4 for 20 matrices of (8, 785), and
beyond 0.7 for 500 of these, which come from memory.
"""

SMALL = 4096
"""Entries of dense matrices of one shape that are too few for products of their own."""


class Group:
    """One summand of all the clients that have it, and where each of them stands in it."""

    def __init__(
        self,
        key: tuple[Any, ...],
        members: list[tuple[int, Any]],
        starts: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        at = np.array([one for one, _ in members])
        self._parts: list[Any] = [part for _, part in members]
        self.positions = np.full(sizes.size, -1)
        self.positions[at] = np.arange(at.size)
        self._starts, self._sizes, self._kind = starts[at], sizes[at], key[0]
        self._matrix: Any = None
        if self._kind == "cvxpy":
            return
        self._is_block = key[3] is None
        matrices = [part if self._kind == "quadratic" else part.matrix for part in self._parts]
        if self._is_block and self._kind == "abs":
            # The weights go into the rows, where they cost nothing
            scales = [part.weight[:, None] for part in self._parts]
            pairs = zip(matrices, scales, strict=True)
            matrices = [sp.csr_array(sp.csr_array(one).multiply(scale)) for one, scale in pairs]
            self._parts = [part._replace(offset=part.weight * part.offset) for part in self._parts]
        if self._is_block:
            sparse = [sp.csr_array(one) for one in matrices]
            self._matrix = Block.of(sparse, self._starts, int(sizes.sum()))
        else:
            self._matrix = dense(matrices)
        if self._kind != "quadratic":
            join = np.concatenate if self._is_block else np.stack
            self._arrays = [
                join([getattr(part, name) for part in self._parts])
                for name in ("weight", "offset", "bound")
            ]
            self._width = self._parts[0].width
            self._counts = np.array([part.weight.size for part in self._parts])
            self._has_offset = bool(self._arrays[1].any())

    def take(
        self, members: np.ndarray, clients: np.ndarray, starts: np.ndarray, total: int
    ) -> Piece:
        """Of the ``members``, which are the ``clients`` of a selection with these columns."""
        everything = Place(selection(clients), slice(None), 0)
        if self._kind == "cvxpy":
            chosen = [self._parts[i] for i in members.tolist()]
            begins = starts[clients].tolist()
            ends = [at + sub.size for at, sub in zip(begins, chosen, strict=True)]
            parts = [slice(*pair) for pair in zip(begins, ends, strict=True)]
            return Foreign(everything, chosen, parts)
        sizes = self._sizes[members]
        if self._is_block:
            place = everything
            matrix = self._matrix.take(members, self._starts[members], starts[clients], total)
        else:
            place = Place.among(clients, starts, int(sizes[0]))
            matrix = self._matrix.take(members)
        if self._kind == "quadratic":
            columns = ranges(starts[clients], sizes) if self._is_block else None
            return Quadratics(place, matrix, columns, np.cumsum(sizes) - sizes)
        return Summands(place, matrix, self._functions(members))

    def _functions(self, members: np.ndarray) -> Functions:
        weight, offset, bound = self._arrays
        starts = None
        if self._is_block:
            counts = self._counts[members]
            tops = (np.cumsum(self._counts) - self._counts)[members]
            starts = np.cumsum(counts) - counts
            at: Any = slice(int(tops[0]), int(tops[0]) + int(counts.sum()))
            at = at if is_run(members) else ranges(tops, counts)
            wide = slice(at.start * self._width, at.stop * self._width) if is_run(members) else None
            wide = ranges(tops * self._width, counts * self._width) if wide is None else wide
        else:
            at = wide = selection(members)
        chosen = offset[wide] if self._has_offset else None
        weight = None if self._is_block and self._kind == "abs" else weight[at]
        return Functions(self._kind, self._width, weight, chosen, bound[at], starts)


def parts_of(form: Form) -> list[tuple[tuple[Any, ...], Any]]:
    """The summands of a form with what those have in common that can be worked on together.

    The root R of a quadratic is a huber function without a bound.
    """
    quadratic, terms = form.quadratic, [t for t in form.terms if not t.is_set and t.weight.size]
    found: list[tuple[tuple[Any, ...], Any]] = []
    if quadratic.root is not None and quadratic.root.size:
        height = len(quadratic.root)
        zeros, ones = np.zeros(height), np.ones(height)
        terms.append(Term("huber", ones, quadratic.root, zeros, np.full(height, np.inf)))
    if quadratic.matrix is not None and quadratic.matrix.any():
        found.append((_key(quadratic.matrix, "quadratic", 1, 0), quadratic.matrix))
    # Two terms of one kind would be one client's at two places of a group
    turns: dict[str, int] = {}
    for term in terms:
        turns[term.kind] = turns.get(term.kind, -1) + 1
        found.append((_key(term.matrix, term.kind, term.width, turns[term.kind]), term))
    return found


def _key(matrix: Any, kind: str, width: int, turn: int) -> tuple[Any, ...]:
    filled = matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix)
    shape = matrix.shape if filled >= SPARSE * np.prod(matrix.shape) else None
    return kind, width, turn, shape


def merged(
    parts: dict[tuple[Any, ...], list[tuple[int, Any]]],
) -> dict[tuple[Any, ...], list[tuple[int, Any]]]:
    """Many shapes of few entries each go into one matrix, as if they were sparse."""
    found: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
    shapes: dict[tuple[Any, ...], int] = {}
    for key in parts:
        shapes[key[:3]] = shapes.get(key[:3], 0) + 1
    for key, members in parts.items():
        is_one_of_many = len(key) == 4 and key[3] and shapes[key[:3]] > 1
        is_small = is_one_of_many and len(members) * np.prod(key[3]) < SMALL
        found.setdefault((*key[:3], None) if is_small else key, []).extend(members)
    return {key: sorted(members, key=lambda one: one[0]) for key, members in found.items()}
