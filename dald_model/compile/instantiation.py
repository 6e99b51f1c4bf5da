"""Instantiation: the numbers of a form from a client's affine maps and its template."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, NamedTuple

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
from dald_model.compile.cone_program import cone_program, wide_program
from dald_model.compile.form import WIDE, ConeProgram, Form, Quadratic, Rows, Term
from dald_model.compile.kinds.kind import Kind
from dald_model.compile.recognition import Block, Canonical, Structure
from dald_model.compile.row_replication import (
    APART,
    NotRowByRowError,
    Repeats,
    RowReplication,
    repeated,
)
from dald_model.compile.stacked_maps import NotStackedError, StackedMaps
from dald_model.declare.affine import SPARSE, MadeOnce, scaled

NOTHING, NO_ROWS = np.zeros(0), sp.csr_array((0, 0))
ROOM = 500_000
"""Numbers of pieces that are kept at once where objectives of many clients are computed: 4 MB."""
Sizes = tuple[np.ndarray, np.ndarray]
"""Weights and parameters."""
Parts = tuple[Quadratic, Rows, Rows, tuple[Term, ...]]
"""What a form is made of."""


class _Arguments(NamedTuple):
    """What the functions of a block are of, over all entries, and what is added."""

    blocks: ColumnBlocks
    start: np.ndarray


class _Levels(NamedTuple):
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


class Instantiator:
    """How the numbers of a form follow from a client's maps: the same for a whole template."""

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

    def resized(self, replication: RowReplication) -> Instantiator | None:
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
        known = _DIAGONALS.of(id(problem.P), [problem.P], lambda: _diagonal(problem.P))
        self._is_narrow_diagonal = known is not None
        self._narrow_diagonal = NOTHING if known is None else known[: problem.own]

    def _take_costs(self, problem: Canonical) -> None:
        """Take weights and slopes, over a row of each group."""
        self._compared: tuple[Instantiator, tuple[bool, bool]] | None = None
        self._narrow_linear = problem.q[: problem.own].copy()
        self._sizes: list[Sizes] = []
        for block, _ in self._blocks:
            weight, parameter = block.weights(problem.P, problem.q)
            self._narrow_linear += transposed(block.linear, weight)
            self._sizes.append((weight, parameter))

    def _replicate(self, problem: Canonical, replication: RowReplication) -> None:
        """Take everything over all rows."""
        self._given = problem, replication
        for made in ("program", "_picked", "_squares", "_weights", "_costly", "_valued"):
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
        self._terms: list[tuple[Kind, int, _Arguments, Sizes, _Levels | None]] = []
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

    def again(self, problem: Canonical, replication: RowReplication) -> Instantiator | None:
        """The instantiator of a problem that differs in its costs; None if it does in more."""
        before, known = self._given
        if replication is not known or problem.A is not before.A or problem.b is not before.b:
            return None
        found = copy(self)
        found._given = problem, replication
        found.__dict__.pop("program", None)
        if problem.P is not before.P:
            for made in ("_picked", "_squares", "_weights"):
                found.__dict__.pop(made, None)
            found._take_curvatures(problem)
            found._bend()
        found._take_costs(problem)
        found._cost()
        return found

    @cached_property
    def program(self) -> Canonical:
        """The cone program of all rows of the data."""
        problem, replication = self._given
        return wide_program(problem, replication) if replication.is_wide else problem

    def cone(
        self, maps: AffineMaps, before: ConeProgram | None = None, *, is_bent_anew: bool = False
    ) -> ConeProgram:
        """The whole cone program of a client.

        With that of maps that differ in their offsets alone, its matrices; but the objective's is
        made anew where it ``is_bent_anew``.
        """
        return cone_program(self.program, maps, before, is_bent_anew=is_bent_anew)

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
    def pieces_of_rows(self) -> list[int]:
        """Those that the rows of constraints are of."""
        return [at for _, blocks, _, _ in self._rows for at, _, _ in blocks.parts]

    def same(self, other: Instantiator) -> tuple[bool, bool]:
        """Whether another makes the same quadratic, and the same rows, of the same maps."""
        if self is other:
            return True, True
        if self._compared is None or self._compared[0] is not other:
            bent = self._constant == other._constant
            bent = bent and is_same(self._P, other._P) and is_same(self._linear, other._linear)
            bent = bent and np.array_equal(self._diagonal, other._diagonal)
            stated = self._rows is other._rows or all(
                is_same(one[at], two[at])
                for one, two in zip(self._rows, other._rows, strict=True)
                for at in (0, 2, 3)  # all but the first once more, by piece
            )
            self._compared = other, (bent, stated)
        return self._compared[1]

    def quadratic(self, maps: AffineMaps) -> Quadratic:
        r"""With P, q over y: :math:`F^\top P F`, :math:`F^\top (P f + q)`, and the constant."""
        if self._is_diagonal and maps.size >= WIDE and self._entries(maps) <= maps.size**2:
            return Quadratic(None, *self._slope(maps), self._sparse_root(maps))
        if self._is_bent and self._is_diagonal and 2 * self._live.size >= maps.size:
            matrix, constant = np.zeros((maps.size, maps.size)), self._constant
            linear = np.zeros(maps.size)
            if self._is_tilted:
                linear = maps.transposed_times(self._linear)
                constant += float(self._linear @ maps.offset)
            for at, weights in self._weights:
                constant += maps.add_weighed(matrix, linear, at, weights)
            return Quadratic(matrix, linear, constant)
        linear, constant = self._slope(maps)
        if not self._is_bent:
            return Quadratic(None, linear, constant, np.zeros((0, maps.size)))
        if self._is_diagonal:
            return Quadratic(None, linear, constant, dense(maps.times(self._picked)))
        matrix = np.zeros((maps.size, maps.size))
        for at, blocks in self._squares:
            if blocks.parts:
                own, product = maps.matrices[at], maps.times(blocks)
                matrix += dense(product if own is None else own.T @ product)
        return Quadratic((matrix + matrix.T) / 2, linear, constant)

    def each(self, maps: StackedMaps, like: Form) -> Iterator[Parts]:
        """Quadratic, equalities, inequalities and terms of each of many clients that are like one.

        Raises :class:`NotStackedError` where they are kept by sparse matrices, or data bound norms.
        """
        known = enumerate((like.equalities, like.inequalities))
        rows = [self._each_rows(which, maps, own) for which, own in known]
        terms = [
            self._each_term(maps, term, arguments, levels)
            for term, (_, _, arguments, _, levels) in zip(like.terms, self._terms, strict=True)
        ]
        each = zip(*terms, strict=True) if terms else repeat(())
        return zip(self._each_quadratic(maps), *rows, each, strict=False)

    def _each_quadratic(self, maps: StackedMaps) -> Iterator[Quadratic]:
        """See :meth:`quadratic`."""
        if maps.size >= WIDE:
            raise NotStackedError
        f = maps.offset
        bent = self._diagonal * f if self._P is None else (self._P @ f.T).T
        constants = (self._constant + np.vecdot(bent / 2 + self._linear, f)).tolist()
        linear = maps.transposed_times(bent + self._linear)
        squares: Any = np.zeros((1, maps.size, maps.size))
        if self._is_bent and self._is_diagonal and 2 * self._live.size >= maps.size:
            for at, weights in self._weights:
                squares = squares + maps.weighed_square(at, weights)
        elif self._is_diagonal:
            roots = maps.times(self._picked) if self._is_bent else squares[:, :0]
            return map(Quadratic, repeat(None), linear, constants, _of_each(roots))
        else:
            for at, blocks in self._squares:
                if blocks.parts:
                    own, product = maps.matrices[at], maps.times(blocks)
                    squares = squares + (product if own is None else own.swapaxes(1, 2) @ product)
            squares = (squares + squares.swapaxes(1, 2)) / 2
        return map(Quadratic, _of_each(squares), linear, constants)

    def _each_rows(self, which: int, maps: StackedMaps, own: Rows) -> Iterable[Rows]:
        """See :meth:`zero` and :meth:`nonneg`; of one client they are these."""
        rows, blocks, extra, rhs = self._rows[which]
        if all(len(maps.offsets[at]) == 1 for at, _, _ in blocks.parts):
            sides: Iterable[np.ndarray] = repeat(own.rhs)
        else:
            sides = rhs - (rows @ maps.offset.T).T
        if not maps.varies(blocks):
            return (
                repeat(own) if isinstance(sides, repeat) else map(Rows, repeat(own.matrix), sides)
            )
        matrices = maps.times(blocks)
        whole = np.broadcast_to(extra, (len(matrices), *extra.shape))
        return map(Rows, np.concatenate([matrices, whole], axis=2), sides)

    def _each_term(
        self, maps: StackedMaps, own: Term, arguments: _Arguments, levels: _Levels | None
    ) -> Iterator[Term]:
        """See :meth:`terms`; of one client it is this one."""
        is_other = maps.varies(arguments.blocks)
        if levels is not None or (is_other and sp.issparse(own.matrix)):
            raise NotStackedError
        matrices = maps.times(arguments.blocks) if is_other else repeat(own.matrix)
        offsets = arguments.blocks.at(maps.offset.T).T + arguments.start
        return (own._replace(matrix=a, offset=b) for a, b in zip(matrices, offsets, strict=False))

    def _entries(self, maps: AffineMaps) -> int:
        """How many numbers the root of P has, by pieces."""
        matrices = [(maps.matrices[at], weights) for at, weights in self._weights]
        return sum(
            weights.size if own is None else own.nnz if sp.issparse(own) else own.size
            for own, weights in matrices
        )

    def _sparse_root(self, maps: AffineMaps) -> sp.csr_array:
        """The root of P over the pieces, their rows one after the other."""
        if not self._weights:
            return sp.csr_array((0, maps.size))
        roots = [sp.csr_array(scaled(np.sqrt(w), maps.matrices[at])) for at, w in self._weights]
        return roots[0] if len(roots) == 1 else sp.csr_array(sp.vstack(roots, "csr"))

    def moved(
        self, form: Form, before: AffineMaps, maps: AffineMaps, program: Callable[[], ConeProgram]
    ) -> Form:
        """A form with the offsets of other maps, of the same matrices."""
        pairs = enumerate(zip(before.offsets, maps.offsets, strict=True))
        moved = {at for at, (one, two) in pairs if one is not two}
        quadratic, rows = form.quadratic, [form.equalities, form.inequalities]
        if not moved.isdisjoint(self._costly):
            linear, constant = self._slope(maps)
            quadratic = quadratic._replace(linear=linear, constant=constant)
        for which, (_, blocks, *_) in enumerate(self._rows):
            if not moved.isdisjoint(at for at, _, _ in blocks.parts):
                rows[which] = rows[which]._replace(rhs=self._right_side(which, maps))
        pairs = zip(form.terms, self._terms, self.offsets(maps), strict=True)
        return form.with_others(
            quadratic=quadratic,
            equalities=rows[0],
            inequalities=rows[1],
            terms=tuple(
                term._replace(
                    offset=offset,
                    parameter=term.parameter if levels is None else levels.radii(maps),
                )
                for term, (*_, levels), offset in pairs
            ),
            program=program,
        )

    @cached_property
    def _costly(self) -> frozenset[int]:
        """The pieces that the quadratic may be of, whatever numbers the structure has."""
        problem, replication = self._given
        bent = np.flatnonzero(np.diff(problem.P.indptr)[: problem.own])
        entries = [bent, np.flatnonzero(problem.q[: problem.own])]
        entries += [sp.csr_array(block.linear).indices for block, _ in self._blocks]
        return frozenset(replication.piece[np.concatenate(entries)].tolist())

    def _slope(self, maps: AffineMaps) -> tuple[np.ndarray, float]:
        f = maps.offset
        if not self._is_sloped:
            return np.zeros(maps.size), self._constant
        bent = self._bent(f)
        constant = self._constant + float(f @ bent / 2 + self._linear @ f)
        return maps.transposed_times(bent + self._linear), constant

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

    def terms(self, maps: AffineMaps) -> tuple[Term, ...]:
        """The recognised functions of the client's own variables."""
        found = []
        pairs = zip(self._terms, self.offsets(maps), strict=True)
        for (kind, width, arguments, (weight, parameter), levels), offset in pairs:
            if levels is not None:
                parameter = levels.radii(maps)
            matrix = maps.times(arguments.blocks)
            if sp.issparse(matrix) and matrix.nnz > SPARSE * np.prod(matrix.shape):
                matrix = matrix.toarray()
            found.append(Term(kind, weight, matrix, offset, parameter, width))
        return tuple(found)

    def is_of(self, other: Instantiator) -> bool:
        """Whether the two differ in costs alone."""
        return self._blocks is other._blocks

    def weighed(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """Terms that another of the same functions made, with the weights of this one."""
        return tuple(
            term._replace(weight=weight, parameter=parameter if levels is None else term.parameter)
            for term, (_, _, _, (weight, parameter), levels) in zip(terms, self._terms, strict=True)
        )

    def offsets(self, maps: AffineMaps) -> list[np.ndarray]:
        """Those of the terms."""
        if not self._terms or not maps.offset.any():
            return [one.start for _, _, one, *_ in self._terms]
        return [one.blocks.at(maps.offset) + one.start for _, _, one, *_ in self._terms]

    def _right_side(self, which: int, maps: AffineMaps) -> np.ndarray:
        rows, _, _, rhs = self._rows[which]
        return rhs - rows @ maps.offset if rhs.size else rhs

    def zero(self, maps: AffineMaps) -> Rows:
        """The equality rows."""
        return self._instance(0, maps)

    def nonneg(self, maps: AffineMaps) -> Rows:
        """The inequality rows."""
        return self._instance(1, maps)

    def levels(self, form: Form, maps: AffineMaps) -> tuple[Rows, Rows]:
        """Equality and inequality rows with the matrices of a form."""
        known = form.equalities, form.inequalities
        zero, nonneg = (
            rows._replace(rhs=self._right_side(at, maps)) for at, rows in enumerate(known)
        )
        return zero, nonneg

    def _instance(self, which: int, maps: AffineMaps) -> Rows:
        _, blocks, extra, rhs = self._rows[which]
        if not rhs.size:
            return Rows(np.zeros((0, maps.size + extra.shape[1])), rhs)
        matrix = dense(maps.times(blocks))
        if extra.shape[1]:
            matrix = np.hstack([matrix, extra])
        return Rows(matrix, self._right_side(which, maps))


def values(
    each: Sequence[Instantiator],
    maps: Callable[[slice], Sequence[AffineMaps] | StackedMaps],
    points: np.ndarray,
) -> np.ndarray:
    """The objectives of k clients at points of shape (k, p, m), (k, p).

    From the values of their pieces, as far as they are in it: not multiplied out. The clients have
    one :attr:`Instantiator.form_of_values`; ``maps`` gives those of some of them.
    """
    first, found = each[0], np.empty(points.shape[:2])
    stops, valued = first._stops, sorted({at for one in set(each) for at in one._valued})
    at_once = max(1, ROOM // max(1, points.shape[1] * int(stops[-1])))
    for start in range(0, len(points), at_once):
        part = slice(start, start + at_once)
        some = maps(part)
        y = np.zeros((*points[part].shape[:2], int(stops[-1])))
        for at in valued:
            _enter(y[:, :, stops[at] : stops[at + 1]], some, at, points[part])
        found[part] = _values(each[part], y)
    return found


def _values(each: Sequence[Instantiator], y: np.ndarray) -> np.ndarray:
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


def _of_each(stack: np.ndarray) -> Iterable[np.ndarray]:
    """What is of each client, or the same of all."""
    return stack if len(stack) > 1 else repeat(stack[0])


_DIAGONALS = MadeOnce()


def _diagonal(P: Any) -> np.ndarray | None:
    """What is on the diagonal; None where there is more than that."""
    columns = np.repeat(np.arange(P.shape[1]), np.diff(P.indptr))
    if not np.array_equal(P.indices, columns):
        return None
    return np.bincount(columns, P.data, minlength=P.shape[1])


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


def _levels(block: Block, groups: np.ndarray, replication: RowReplication) -> _Levels | None:
    """What bounds the functions of a block; None where it is no data."""
    if block.levels is None:
        return None
    matrix, start = block.levels
    return _Levels(block, ColumnBlocks.of(replication.apart(matrix), replication.stops), start)


def _arguments(block: Block, groups: np.ndarray, replication: RowReplication) -> _Arguments | None:
    """What the functions of a block are of; None of linear ones, which have no arguments."""
    if not block.offset.size:
        return None
    counts = replication.counts(groups)
    if block.width == 1 and groups.size == 1 and groups[0] != APART:
        # One function of each row of data, as most are: so are the pieces multiplied
        blocks = ColumnBlocks.of_each(
            block.matrix, replication.piece, int(counts[0]), replication.stops
        )
        return _Arguments(blocks, np.repeat(block.offset, counts))
    rows = Repeats.of_functions(counts, block.width)
    matrix = repeated(block.matrix, rows, replication.entries)
    return _Arguments(ColumnBlocks.of(matrix, replication.stops), rows.vector(block.offset))
