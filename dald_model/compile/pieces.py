"""Pieces: the costs and rows of a template over all entries of a client's affine maps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine_maps import (
    SMALL,
    AffineMaps,
    ColumnBlocks,
    dense,
    is_same,
    transposed,
)
from dald_model.compile.cone_program import wide_program
from dald_model.compile.kinds.kind import Kind
from dald_model.compile.recognition import Block, Canonical, Structure, with_levels
from dald_model.compile.row_replication import (
    APART,
    NotRowByRowError,
    Repeats,
    RowReplication,
    repeated,
)
from dald_model.compile.stacked_maps import StackedMaps
from dald_model.declare.affine import MadeOnce
from dald_model.sizes import SHARED

NOTHING, NO_ROWS = np.zeros(0), sp.csr_array((0, 0))
Sizes = tuple[np.ndarray, np.ndarray]
"""Weights and parameters."""
_DIAGONALS = MadeOnce()
_OF_ROWS = (
    "program",
    "levels_within",
    "_picked",
    "_squares",
    "_weights",
    "_costly",
    "_valued",
    "_stating",
    "_sloping",
)
"""What is made of all rows."""


class Arguments(NamedTuple):
    """What the functions of a block are of, over all entries, and what is added."""

    blocks: ColumnBlocks
    start: np.ndarray


class Levels(NamedTuple):
    """What bounds the sets of a block, of pieces without variables."""

    block: Block
    blocks: ColumnBlocks
    start: np.ndarray

    def radii(self, maps: AffineMaps) -> np.ndarray:
        """The parameters of the sets.

        Raises
        ------
        NotRowByRowError
            If one holds nothing, or a point: it is no ball.
        """
        levels = self.blocks.at(maps.offset) + self.start
        if not (levels > 0).all():
            raise NotRowByRowError
        return self.block.kind.radii(self.block.found, levels)


class Same(NamedTuple):
    """Whether curvature, the whole quadratic, and rows are the same."""

    curvature: bool
    quadratic: bool
    rows: bool


class Pieces:
    """What the costs and rows of a template are of, one piece of a client's maps after the other.

    It knows no client's numbers: the same for all of a template.
    """

    def __init__(
        self, problem: Canonical, structure: Structure, replication: RowReplication
    ) -> None:
        self._blocks = [
            (one, replication.groups((one.linear, 1), (one.matrix, one.width)))
            for one in structure.blocks
        ]
        self._structure = structure
        self._take_curvatures(problem)
        self._take_costs(problem)
        self._replicate(problem, replication)

    def resized(self, replication: RowReplication) -> Self | None:
        """The same for other numbers of rows; None where groups are others."""
        problem, before = self._given
        if not np.array_equal(replication.group, before.group):
            return None
        found = copy(self)
        found._compared = None
        found._replicate(problem, replication)
        return found

    def _take_curvatures(self, problem: Canonical) -> None:
        """Whether P over a row of each group is more than a diagonal, and what is on that."""
        P = problem.P
        places = P.indices, P.indptr  # the same along a path
        known = _DIAGONALS.of(tuple(map(id, places)), places, lambda: _is_diagonal(P))
        self._is_narrow_diagonal = known
        self._narrow_diagonal = np.bincount(P.indices, P.data, problem.own) if known else NOTHING
        self._narrow_diagonal = self._narrow_diagonal[: problem.own]

    def _take_costs(self, problem: Canonical) -> None:
        """Take weights and slopes, over a row of each group."""
        self._compared: tuple[Pieces, Same] | None = None
        self._narrow_linear = problem.q[: problem.own].copy()
        self._sizes: list[Sizes] = []
        for block, _ in self._blocks:
            weight, parameter = block.weights(problem.P, problem.q)
            self._narrow_linear += transposed(block.linear, weight)
            self._sizes.append((weight, parameter))

    def _replicate(self, problem: Canonical, replication: RowReplication) -> None:
        """Take everything over all rows."""
        self._given = problem, replication
        for made in _OF_ROWS:
            self.__dict__.pop(made, None)
        self._stops = replication.stops
        self._arguments = [_arguments(*one, replication) for one in self._blocks]
        self._levels = [_levels(*one, replication) for one in self._blocks]
        one = self._structure
        self._rows = [
            self._stated(problem, at, one.extra, replication) for at in (one.zero, one.nonneg)
        ]
        self._bend()
        self._cost()

    def _bend(self) -> None:
        """Take P over all entries; as a matrix only where it is more than a diagonal."""
        problem, replication = self._given
        self._P, self._is_diagonal = None, self._is_narrow_diagonal
        if self._is_diagonal:
            self._diagonal = replication.vector(self._narrow_diagonal)
        else:
            self._P = replication.square(problem.P[: problem.own, : problem.own])
            self._diagonal = self._P.diagonal()
            self._is_diagonal = self._P.nnz == np.count_nonzero(self._diagonal)
        self._live = np.flatnonzero(self._diagonal)
        self._is_bent = bool(self._live.size or not self._is_diagonal)

    def _cost(self) -> None:
        """Take the other costs of the problem."""
        problem, replication = self._given
        self._constant = problem.d
        self._terms: list[tuple[Kind, int, Arguments, Sizes, Levels | None]] = []
        for (block, groups), (weight, parameter), arguments, levels in zip(
            self._blocks, self._sizes, self._arguments, self._levels, strict=True
        ):
            counts = replication.counts(groups)
            self._constant += float((counts * weight) @ block.shift)
            if arguments is not None:
                sizes = np.repeat(weight, counts), np.repeat(parameter, counts)
                self._terms.append((block.kind, block.width, arguments, sizes, levels))
        self._linear = replication.vector(self._narrow_linear)
        self._is_tilted = bool(self._linear.any())
        self._is_sloped = self._is_bent or self._is_tilted

    def again(self, problem: Canonical, replication: RowReplication) -> Self | None:
        """The instantiator of a problem that differs in its costs; None if it does in more."""
        before, known = self._given
        if replication is not known or problem.A is not before.A or problem.b is not before.b:
            return None
        found = copy(self)
        found._given = problem, replication
        for made in ("program", "levels_within", "_sloping"):
            found.__dict__.pop(made, None)
        if problem.P is not before.P:
            for made in ("_picked", "_squares", "_weights"):
                found.__dict__.pop(made, None)
            found._take_curvatures(problem)
            found._bend()
        found._take_costs(problem)
        found._cost()
        if np.array_equal(found._linear, self._linear):
            found._linear = self._linear  # of which maps know what it makes
        return found

    @cached_property
    def program(self) -> Canonical:
        """The cone program of all rows of the data."""
        problem, replication = self._given
        return wide_program(problem, replication) if replication.is_wide else problem

    @cached_property
    def levels_within(self) -> Any:
        """See :func:`dald_model.compile.recognition.with_levels`."""
        return with_levels(self.program)

    @cached_property
    def _picked(self) -> ColumnBlocks:
        """The root of P where it is diagonal."""
        live = self._live
        root = np.sqrt(self._diagonal[live]), (np.arange(live.size), live)
        return ColumnBlocks.of(sp.csr_array(root, shape=(live.size, self._stops[-1])), self._stops)

    @cached_property
    def _weights(self) -> list[tuple[int, np.ndarray]]:
        """The diagonal of P by pieces, where it is one."""
        spans = enumerate(pairwise(self._stops))
        parts = [(at, self._diagonal[start:stop]) for at, (start, stop) in spans]
        return [(at, weights) for at, weights in parts if weights.any()]

    @cached_property
    def _squares(self) -> list[tuple[int, ColumnBlocks]]:
        """P by pieces in rows and columns."""
        spans = enumerate(pairwise(self._stops))
        assert self._P is not None
        return [
            (at, ColumnBlocks.of(self._P[start:stop], self._stops)) for at, (start, stop) in spans
        ]

    def _stated(
        self, problem: Canonical, at: np.ndarray, extra: np.ndarray, replication: RowReplication
    ) -> tuple[Any, ColumnBlocks, np.ndarray, np.ndarray]:
        """Rows of constraints: over the pieces, the same by piece, over extra columns, and b."""
        if at.size == 0:  # as of most clients; scipy takes its time for nothing too
            return (
                NO_ROWS,
                ColumnBlocks(0, replication.stops, []),
                np.zeros((0, extra.size)),
                NOTHING,
            )
        rows = problem.A[at]
        matrix = replication.apart(rows[:, : problem.own])
        blocks = ColumnBlocks.of(matrix, replication.stops)
        stated: Any = matrix
        if at.size * replication.stops[-1] <= SMALL:
            stated = dense(matrix)
        return stated, blocks, rows[:, extra].toarray(), problem.b[at]

    @cached_property
    def _stating(self) -> list[frozenset[int]]:
        """The pieces that equalities, and that inequalities are of."""
        return [frozenset(at for at, _, _ in blocks.parts) for _, blocks, _, _ in self._rows]

    @cached_property
    def pieces_of_rows(self) -> list[int]:
        """Those that the rows of constraints are of."""
        return [at for _, blocks, _, _ in self._rows for at, _, _ in blocks.parts]

    def same(self, other: Pieces) -> Same:
        """What another makes the same of the same maps."""
        if self is other:
            return Same(True, True, True)
        if self._compared is None or self._compared[0] is not other:
            bent = is_same(self._P, other._P) and np.array_equal(self._diagonal, other._diagonal)
            costs = self._constant == other._constant and is_same(self._linear, other._linear)
            stated = self._rows is other._rows or all(
                is_same(one[at], two[at])
                for one, two in zip(self._rows, other._rows, strict=True)
                for at in (0, 2, 3)  # all but the first once more, by piece
            )
            self._compared = other, Same(bent, bent and costs, stated)
        return self._compared[1]

    @cached_property
    def _costly(self) -> frozenset[int]:
        """The pieces that the quadratic may be of, whatever numbers the structure has."""
        problem, replication = self._given
        bent = np.flatnonzero(np.diff(problem.P.indptr)[: problem.own])
        entries = [bent, np.flatnonzero(problem.q[: problem.own])]
        entries += [sp.csr_array(block.linear).indices for block, _ in self._blocks]
        return frozenset(replication.piece[np.concatenate(entries)].tolist())

    @cached_property
    def _sloping(self) -> list[int]:
        """The pieces that have entries in P or among the slopes."""
        is_sloping = self._linear != 0
        is_sloping |= (self._diagonal if self._P is None else np.diff(self._P.indptr)) != 0
        spans = enumerate(pairwise(self._stops))
        return [at for at, (start, stop) in spans if is_sloping[start:stop].any()]

    def _bent(self, y: np.ndarray) -> np.ndarray:
        """P @ y of all pieces, one after the other."""
        return self._diagonal * y if self._P is None else self._P @ y

    @property
    def form_of_values(self) -> Hashable:
        """The same of those whose values :func:`values` computes together: costs may be others."""
        return id(self._structure), id(self._given[1]), self._P is None or id(self)

    @cached_property
    def _valued(self) -> frozenset[int]:
        """The pieces that the objective is of."""
        of_terms = {at for _, _, one, *_ in self._terms for at, _, _ in one.blocks.parts}
        return self._costly | of_terms

    def is_of(self, other: Pieces) -> bool:
        """Whether the two differ in costs alone."""
        return self._blocks is other._blocks


def values(
    each: Sequence[Pieces],
    maps: Callable[[slice], Sequence[AffineMaps] | StackedMaps],
    points: np.ndarray,
) -> np.ndarray:
    """The objectives of k clients at points of shape (k, p, m), (k, p).

    From the values of their pieces, as far as they are in it: not multiplied out. The clients have
    one :attr:`Pieces.form_of_values`; ``maps`` gives those of some of them.
    """
    first, found = each[0], np.empty(points.shape[:2])
    stops, valued = first._stops, sorted({at for one in set(each) for at in one._valued})
    if not valued:  # as of couplings that are constraints
        found[:] = np.array([one._constant for one in each])[:, None]
        return found
    at_once = max(1, SHARED // (8 * max(1, points.shape[1] * int(stops[-1]))))
    for start in range(0, len(points), at_once):
        part = slice(start, start + at_once)
        some = maps(part)
        y = np.zeros((*points[part].shape[:2], int(stops[-1])))
        for at in valued:
            _enter(y[:, :, stops[at] : stops[at + 1]], some, at, points[part])
        found[part] = _values(each[part], y)
    return found


def _values(each: Sequence[Pieces], y: np.ndarray) -> np.ndarray:
    """The same where the pieces are y, (k, p, pieces)."""
    first = each[0]
    if len(set(each)) == 1:
        each = [first]
    if first._P is None:
        bent = np.array([one._diagonal for one in each])[:, None] * y
    else:
        bent = (first._P @ y.reshape(-1, y.shape[2]).T).T.reshape(y.shape)
    found = np.vecdot(bent / 2 + np.array([one._linear for one in each])[:, None], y)
    found += np.array([one._constant for one in each])[:, None]
    for nth, (kind, width, arguments, *_) in enumerate(first._terms):
        u = arguments.blocks.at(y.reshape(-1, y.shape[2]).T).T + arguments.start
        sizes = [one._terms[nth][3] for one in each]
        weights, parameters = (np.array(of)[:, None] for of in zip(*sizes, strict=True))
        parameters = np.broadcast_to(parameters, (*y.shape[:2], parameters.shape[2])).reshape(-1)
        of_each = kind.value(kind.grouped(u.reshape(-1), width), parameters)
        found += np.vecdot(of_each.reshape(*y.shape[:2], -1), weights)
    return found


def _enter(
    piece: np.ndarray, maps: Sequence[AffineMaps] | StackedMaps, at: int, points: np.ndarray
) -> None:
    """Enter the values of one piece of k clients at points, (k, p, m), into (k, p, entries)."""
    if isinstance(maps, StackedMaps):
        own = maps.matrices[at]
        piece[:] = points if own is None else points @ own.swapaxes(1, 2)
        piece += maps.offsets[at][:, None]
        return
    matrices = [own.piece(at) for own in maps]
    if all(type(matrix) is np.ndarray for matrix in matrices):
        np.matmul(points, np.array(matrices).swapaxes(1, 2), out=piece)
    else:
        for row, matrix, own in zip(piece, matrices, points, strict=True):
            row[:] = own if matrix is None else (matrix @ own.T).T
    piece += np.array([own.offsets[at] for own in maps])[:, None]


def _is_diagonal(P: Any) -> bool:
    """Whether nothing is beside the diagonal."""
    return np.array_equal(P.indices, np.repeat(np.arange(P.shape[1]), np.diff(P.indptr)))


def _levels(block: Block, groups: np.ndarray, replication: RowReplication) -> Levels | None:
    """What bounds the functions of a block; None where it is no data."""
    if block.levels is None:
        return None
    matrix, start = block.levels
    return Levels(block, ColumnBlocks.of(replication.apart(matrix), replication.stops), start)


def _arguments(block: Block, groups: np.ndarray, replication: RowReplication) -> Arguments | None:
    """What the functions of a block are of; None of linear ones, which have no arguments."""
    if not block.offset.size:
        return None
    counts = replication.counts(groups)
    if block.width == 1 and groups.size == 1 and groups[0] != APART:
        # One function of each row of data, as most are: so are the pieces multiplied
        blocks = ColumnBlocks.of_each(
            block.matrix, replication.piece, int(counts[0]), replication.stops
        )
        return Arguments(blocks, np.repeat(block.offset, counts))
    rows = Repeats.of_functions(counts, block.width)
    matrix = repeated(block.matrix, rows, replication.entries)
    return Arguments(ColumnBlocks.of(matrix, replication.stops), rows.vector(block.offset))
