r"""Lowering: a client as numbers in its own variables, checked against the client itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.affine import affine_parts, explicit
from dald_model.client import Client
from dald_model.form import ConeProgram, Form, Quadratic, Rows, Term
from dald_model.recognise import Canonical, Structure
from dald_model.skeleton import Cut, Skeleton, cut
from dald_model.values import flat, largest, number, preserved

AGREE = 1e-8
"""Relative difference from cvxpy's own values that is put down to rounding."""
UNREADABLE = (
    cp.DCPError,
    cp.SolverError,
    AssertionError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""What cvxpy raises where a client cannot be cut: curvature that rests on the sign of an affine
part, and atoms that cannot be made again from their arguments (perspective, suppfunc)."""
SPARSE = 0.1
"""Density below which a matrix stays sparse."""


class Lowered:
    """A client's :class:`Form`, with the way back to the dual values of its constraints."""

    def __init__(self, form: Form, skeleton: Skeleton, structure: Structure) -> None:
        self.form = form
        self._skeleton, self._structure = skeleton, structure

    def local_duals(
        self, equality: np.ndarray, inequality: np.ndarray, balls: np.ndarray
    ) -> tuple[Any, ...]:
        r"""Dual values of the constraints from the multipliers of a complete form.

        With the signs of :math:`\nabla f + E^\top \nu + A^\top \lambda = 0`, and those of its
        balls :math:`\|u\|_2 \le r`; for each constraint the values of its cvxpy
        ``dual_variables``.
        """
        found = np.zeros(self._skeleton.height)
        found[self._structure.zero] = equality
        found[self._structure.nonneg] = inequality
        limits = [one for b in self._structure.blocks if b.kind == "ball" for one in b.found]
        for one, multiplier in zip(limits, balls, strict=True):
            found[one.row] = one.gain * multiplier
        return self._skeleton.duals(found)

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        """The same from the dual vector of the form's cone program."""
        return self._skeleton.duals(multipliers[: self._skeleton.height])


class Lowering:
    """Lowers clients one after the other; those that are alike share a :class:`Skeleton`."""

    def __init__(self) -> None:
        self._skeletons: dict[Hashable, list[Skeleton]] = {}
        self._recipes: dict[int, Recipe] = {}
        self._rows: dict[bytes, np.ndarray] = {}

    def __call__(self, client: Client) -> Lowered | None:
        """Lower a client; None where cvxpy or the check against it leaves nothing to rely on."""
        for whole in (False, True):
            try:
                found = self._lowered(client, cut(client, whole=whole), whole)
            except UNREADABLE:
                continue
            if agrees(found.form, client):
                return found
        return None

    def _lowered(self, client: Client, given: Cut, whole: bool) -> Lowered:
        alike = self._skeletons.setdefault(given.key, [])
        skeleton = next((one for one in alike if one.accepts(given.numbers)), None)
        if skeleton is None:
            skeleton = Skeleton(client, whole=whole)
            if not whole:
                alike.append(skeleton)
        problem, structure = skeleton.of(given.numbers)
        maps = Maps(given.pieces, client.variables)
        # Kept with its problem, so that the id stays the problem's own.
        if id(problem) not in self._recipes:
            self._recipes[id(problem)] = Recipe(problem, structure, maps.stops)
        recipe = self._recipes[id(problem)]
        quadratic = recipe.quadratic(maps)
        terms = recipe.terms(maps)
        equalities = self._shared(recipe.zero(maps))
        inequalities = self._shared(recipe.nonneg(maps))
        form = Form(
            maps.size,
            quadratic,
            equalities,
            inequalities,
            terms,
            structure.complete,
            partial(_cone_program, problem, maps),
            structure.extra.size,
        )
        return Lowered(form, skeleton, structure)

    def _shared(self, rows: Rows) -> Rows:
        """The same rows with one matrix for all clients that have it."""
        key = repr(rows.matrix.shape).encode() + rows.matrix.tobytes()
        return rows._replace(matrix=self._rows.setdefault(key, rows.matrix))


class Maps:
    """The affine maps :math:`y_j = F_j x + f_j` of a client's pieces, m variables in all."""

    def __init__(self, pieces: Sequence[Any], variables: Sequence[cp.Variable]) -> None:
        self.size = sum(v.size for v in variables)
        self.matrices: list[Any] = []
        self.offsets: list[np.ndarray] = []
        for piece in pieces:
            slopes, offset = affine_parts(piece)
            if len(variables) == 1 and slopes:
                matrix = slopes[variables[0].id]
            else:
                blocks = [
                    explicit(slopes[v.id], v.size)
                    if v.id in slopes
                    else sp.csr_array((offset.size, v.size))
                    for v in variables
                ]
                matrix: Any = sp.csr_array(sp.hstack(blocks, "csr"))
                if matrix.nnz > SPARSE * offset.size * self.size:
                    matrix = matrix.toarray()
            self.matrices.append(matrix)
            self.offsets.append(offset)
        self.stops = np.cumsum([0, *(offset.size for offset in self.offsets)])
        self.offset = np.concatenate([*self.offsets, np.empty(0)])

    def times(self, split: Split) -> Any:
        """The matrix @ F for all pieces together; the data themselves where it picks them."""
        total: Any = None
        for at, block, factor in split.parts:
            own = self.matrices[at]
            if own is None:
                part: Any = block
            elif factor is None:
                part = block @ own
            elif (factor == 1.0).all():
                part = own
            elif sp.issparse(own):
                part = own.multiply(factor[:, None]).tocsr()
            else:
                part = factor[:, None] * own
            total = part if total is None else _dense(total) + _dense(part)
        return sp.csr_array((split.height, self.size)) if total is None else total

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """F.T @ vector for all pieces together, shape (m,)."""
        total = np.zeros(self.size)
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            if vector[start:stop].any():
                total += vector[start:stop] if own is None else own.T @ vector[start:stop]
        return total


class Split:
    """A matrix over all pieces, taken apart by piece, once for all clients of a skeleton.

    ``parts`` lists (piece, block, factor): the block is diag(factor), or factor is None.
    """

    def __init__(self, matrix: Any, stops: np.ndarray) -> None:
        self.height = matrix.shape[0]
        self.parts: list[tuple[int, sp.csr_array, np.ndarray | None]] = []
        for at, (start, stop) in enumerate(pairwise(stops)):
            block = sp.csr_array(matrix[:, start:stop])
            block.sort_indices()
            if block.nnz:
                picks = block.shape == (block.nnz, block.nnz)
                picks = picks and np.array_equal(block.indices, np.arange(block.nnz))
                self.parts.append((at, block, block.data if picks else None))


class Recipe:
    """How the numbers of a form follow from a client's maps: the same for a whole skeleton."""

    def __init__(self, problem: Canonical, structure: Structure, stops: np.ndarray) -> None:
        own = problem.own
        P = sp.csr_array(problem.P[:own, :own])
        self._P, self._constant, self._slope = P, problem.d, problem.q[:own].copy()
        self._blocks = []
        for block in structure.blocks:
            weight, bound = block.weights(problem.P, problem.q)
            self._slope += block.linear.T @ weight
            self._constant += float(weight @ block.shift)
            if block.kind != "linear":
                self._blocks.append((block, Split(block.matrix, stops), weight, bound))
        self._linear = [
            (sp.csr_array(rows[:, :own]), Split(rows[:, :own], stops), extra, problem.b[at])
            for at in (structure.zero, structure.nonneg)
            for rows in [problem.A[at]]
            for extra in [rows[:, structure.extra].toarray()]
        ]
        diagonal = P.diagonal()
        self._live = np.flatnonzero(diagonal)
        self._picked: Split | None = None
        if P.nnz == self._live.size:
            root = np.sqrt(diagonal[self._live]), (np.arange(self._live.size), self._live)
            self._picked = Split(sp.csr_array(root, shape=(self._live.size, own)), stops)
        self._squares = [
            (at, Split(P[start:stop], stops)) for at, (start, stop) in enumerate(pairwise(stops))
        ]

    def quadratic(self, maps: Maps) -> Quadratic:
        r"""With P, q over y: :math:`F^\top P F`, :math:`F^\top (P f + q)`, and the constant."""
        f = maps.offset
        bent = self._P @ f
        constant = self._constant + float(f @ bent / 2 + self._slope @ f)
        slope = maps.transposed_times(bent + self._slope)
        if self._picked is not None and 2 * self._live.size < maps.size:
            return Quadratic(None, slope, constant, _dense(maps.times(self._picked)))
        matrix = np.zeros((maps.size, maps.size))
        for at, split in self._squares:
            if split.parts:
                left, right = maps.matrices[at], maps.times(split)
                matrix += _dense(right if left is None else left.T @ right)
        return Quadratic((matrix + matrix.T) / 2, slope, constant)

    def terms(self, maps: Maps) -> tuple[Term, ...]:
        """The recognised functions of the client's own variables."""
        found = []
        for block, split, weight, bound in self._blocks:
            matrix = maps.times(split)
            if sp.issparse(matrix) and matrix.nnz > SPARSE * matrix.shape[0] * matrix.shape[1]:
                matrix = matrix.toarray()
            offset = block.matrix @ maps.offset + block.offset
            found.append(Term(block.kind, weight, matrix, offset, bound, block.width))
        return tuple(found)

    def zero(self, maps: Maps) -> Rows:
        """The equality rows."""
        return self._rows(0, maps)

    def nonneg(self, maps: Maps) -> Rows:
        """The inequality rows."""
        return self._rows(1, maps)

    def _rows(self, which: int, maps: Maps) -> Rows:
        rows, split, extra, right = self._linear[which]
        matrix = _dense(maps.times(split))
        if extra.shape[1]:
            matrix = np.hstack([matrix, extra])
        return Rows(matrix, right - rows @ maps.offset)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def _cone_program(problem: Canonical, maps: Maps) -> ConeProgram:
    """The whole cone program over the client's variables and the auxiliary ones."""
    own = problem.own
    rest = problem.q.size - own
    F = sp.csr_array(
        sp.vstack([sp.csr_array(explicit(m, maps.size)) for m in maps.matrices], "csr")
    )
    extra = sp.eye_array(rest, format="csr")
    change = sp.csc_array(sp.block_diag([F, extra], "csc")) if rest else sp.csc_array(F)
    shift = np.concatenate([maps.offset, np.zeros(rest)])
    bent = problem.P @ shift
    return ConeProgram(
        sp.csc_array(change.T @ problem.P @ change),
        change.T @ (bent + problem.q),
        problem.d + float(shift @ bent / 2 + problem.q @ shift),
        sp.csc_array(problem.A @ change),
        problem.b - problem.A @ shift,
        problem.arguments,
    )


def agrees(form: Form, client: Client) -> bool:
    """Whether a form has the client's own values at random points, as cvxpy computes them."""
    if not form.complete:
        return True
    generator = np.random.default_rng(0)
    with preserved(client.variables), np.errstate(all="ignore"):
        for sign in (np.asarray, np.abs):  # the second is inside the domain of many a logarithm
            parts = []
            for v in client.variables:
                v.save_value(v.project(sign(generator.normal(size=v.shape))))
                parts.append(flat(v.value))
            point = np.concatenate(parts)
            theirs, ours = number(client.cost.value), form.objective(point)
            if np.isfinite(theirs) and not abs(theirs - ours) <= AGREE * max(1.0, abs(theirs)):
                return False
            if np.isfinite(ours) and not np.isfinite(theirs):
                return False
            stated = max((largest(rule.violation()) for rule in client.constraints), default=0.0)
            # With extra variables a point alone does not say how far it is outside.
            if not form.extra and not abs(stated - form.violation(point)) <= AGREE * max(
                1.0, stated
            ):
                return False
    return True
