"""Instantiation: the numbers of a form from a client's affine maps and its template."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine_maps import AffineMaps, dense
from dald_model.compile.cone_program import cone_program
from dald_model.compile.form import SPARSE_ROOT, ConeProgram, Form, Quadratic, Rows, Term
from dald_model.compile.pieces import Arguments, Levels, Pieces
from dald_model.compile.stacked_forms import StackedForms
from dald_model.compile.stacked_maps import NotStackedError, StackedMaps
from dald_model.declare.affine import scaled
from dald_model.sizes import SPARSE


class Instantiator(Pieces):
    """How the numbers of a form follow from a client's maps: the same for a whole template."""

    def cone(
        self, maps: AffineMaps, before: ConeProgram | None = None, *, is_bent_anew: bool = False
    ) -> ConeProgram:
        """The whole cone program of a client.

        With that of maps that differ in their offsets alone, its matrices; but the objective's is
        made anew where it ``is_bent_anew``.
        """
        levels = partial(getattr, self, "levels_within")
        return cone_program(self.program, maps, levels, before, is_bent_anew=is_bent_anew)

    def quadratic(self, maps: AffineMaps) -> Quadratic:
        r"""With P, q over y: :math:`F^\top P F`, :math:`F^\top (P f + q)`, and the constant."""
        if self._is_diagonal and maps.size >= SPARSE_ROOT and self._entries(maps) <= maps.size**2:
            return Quadratic(None, *self._slope(maps), self._sparse_root(maps))
        if self._is_bent and self._is_diagonal and 2 * self._live.size >= maps.size:
            matrix, constant = np.zeros((maps.size, maps.size)), self._constant
            linear = np.zeros(maps.size)
            if self._is_tilted:
                linear += maps.turned(self._linear, self._sloping)
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

    def tilted(self, known: Quadratic, maps: AffineMaps) -> Quadratic:
        """The quadratic of maps that had this one with other slopes."""
        return Quadratic(known.matrix, *self._slope(maps), known.root)

    def each(self, maps: StackedMaps, like: Form) -> StackedForms:
        """The numbers of many clients that are like one.

        Raises :class:`NotStackedError` where they are kept by sparse matrices, or data bound norms.
        """
        known = enumerate((like.equalities, like.inequalities))
        rows = tuple(self._each_rows(which, maps, own) for which, own in known)
        terms = tuple(
            self._each_term(maps, term, arguments, levels)
            for term, (_, _, arguments, _, levels) in zip(like.terms, self._terms, strict=True)
        )
        return StackedForms(like, *self._each_quadratic(maps), rows, terms)

    def _each_quadratic(self, maps: StackedMaps) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        """See :meth:`quadratic`: matrix, root, slopes and constants."""
        if maps.size >= SPARSE_ROOT:
            raise NotStackedError
        f = maps.offset
        bent = self._diagonal * f if self._P is None else (self._P @ f.T).T
        constants = self._constant + np.vecdot(bent / 2 + self._linear, f)
        linear = maps.transposed_times(bent + self._linear)
        squares: Any = np.zeros((1, maps.size, maps.size))
        if self._is_bent and self._is_diagonal and 2 * self._live.size >= maps.size:
            for at, weights in self._weights:
                squares = squares + maps.weighed_square(at, weights)
        elif self._is_diagonal:
            roots = maps.times(self._picked) if self._is_bent else squares[:, :0]
            return None, roots, linear, constants
        else:
            for at, blocks in self._squares:
                if blocks.parts:
                    own, product = maps.matrices[at], maps.times(blocks)
                    squares = squares + (product if own is None else own.swapaxes(1, 2) @ product)
            squares = (squares + squares.swapaxes(1, 2)) / 2
        return squares, None, linear, constants

    def _each_rows(
        self, which: int, maps: StackedMaps, own: Rows
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """See :meth:`zero` and :meth:`nonneg`; of one client they are these."""
        rows, blocks, extra, rhs = self._rows[which]
        is_one = all(len(maps.offsets[at]) == 1 for at, _, _ in blocks.parts)
        sides = None if is_one else rhs - (rows @ maps.offset.T).T
        if not maps.varies(blocks):
            return None, sides
        matrices = maps.times(blocks)
        whole = np.broadcast_to(extra, (len(matrices), *extra.shape))
        return np.concatenate([matrices, whole], axis=2), sides

    def _each_term(
        self, maps: StackedMaps, own: Term, arguments: Arguments, levels: Levels | None
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """See :meth:`terms`; of one client it is this one."""
        is_other = maps.varies(arguments.blocks)
        if levels is not None or (is_other and sp.issparse(own.matrix)):
            raise NotStackedError
        matrices = maps.times(arguments.blocks) if is_other else None
        return matrices, arguments.blocks.at(maps.offset.T).T + arguments.start

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
        if moved & self._costly:
            quadratic = self.tilted(quadratic, maps)
        for which, stated in enumerate(self._stating):
            if moved & stated:
                rows[which] = Rows(rows[which].matrix, self._right_side(which, maps))
        terms = form.terms
        if terms:
            pairs = zip(terms, self._terms, self.offsets(maps), strict=True)
            terms = tuple(
                term._replace(
                    offset=offset,
                    parameter=term.parameter if levels is None else levels.radii(maps),
                )
                for term, (*_, levels), offset in pairs
            )
        return form.with_others(
            quadratic=quadratic,
            equalities=rows[0],
            inequalities=rows[1],
            terms=terms,
            program=program,
        )

    def _slope(self, maps: AffineMaps) -> tuple[np.ndarray, float]:
        f = maps.offset
        if not self._is_sloped:
            return np.zeros(maps.size), self._constant
        bent = self._bent(f)
        constant = self._constant + float(f @ bent / 2 + self._linear @ f)
        return maps.transposed_times(bent + self._linear, self._sloping), constant

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
