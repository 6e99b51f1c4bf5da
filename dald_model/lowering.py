r"""Lowering: a client as numbers in its own variables, checked against the client itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.affine import affine_parts, explicit
from dald_model.client import Client
from dald_model.form import ConeProgram, Form, Quadratic, Rows, Term
from dald_model.recognise import Block, Canonical, Structure
from dald_model.skeleton import Cut, Skeleton, cut
from dald_model.values import flat, largest, number, preserved

AGREE = 1e-8
"""Relative difference from cvxpy's own values that is put down to rounding."""
SPARSE = 0.1
"""Density below which a matrix stays sparse."""


class Lowered:
    """A client's :class:`Form`, with the way back to the dual values of its constraints."""

    def __init__(self, form: Form, skeleton: Skeleton, structure: Structure) -> None:
        self.form = form
        self._skeleton, self._structure = skeleton, structure

    def local_duals(self, equality: np.ndarray, inequality: np.ndarray) -> tuple[Any, ...]:
        r"""Dual values of the constraints from the multipliers of a complete form's rows.

        With the signs of :math:`\nabla f + E^\top \nu + A^\top \lambda = 0`; for each constraint
        the values of its cvxpy ``dual_variables``.
        """
        found = np.zeros(self._skeleton.height)
        found[self._structure.zero] = equality
        found[self._structure.nonneg] = inequality
        return self._skeleton.duals(found)

    def cone_duals(self, multipliers: np.ndarray) -> tuple[Any, ...]:
        """The same from the dual vector of the form's cone program."""
        return self._skeleton.duals(multipliers[: self._skeleton.height])


class Lowering:
    """Lowers clients one after the other; those that are alike share a :class:`Skeleton`."""

    def __init__(self) -> None:
        self._skeletons: dict[Hashable, list[Skeleton]] = {}
        self._rows: dict[bytes, np.ndarray] = {}

    def __call__(self, client: Client) -> Lowered | None:
        """Lower a client; None where cvxpy or the check against it leaves nothing to rely on."""
        for whole in (False, True):
            try:
                found = self._lowered(client, cut(client, whole=whole), whole)
            except (cp.DCPError, cp.SolverError):
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
        quadratic = _quadratic(problem, structure, maps)
        terms = [_term(block, problem, maps) for block in structure.blocks]
        terms = [term for term in terms if term is not None]
        equalities = self._shared(_rows(problem, structure.zero, maps))
        inequalities = self._shared(_rows(problem, structure.nonneg, maps))
        shape = (
            maps.size,
            equalities.right.size,
            inequalities.right.size,
            quadratic.matrix is None and quadratic.root is not None and quadratic.root.shape,
            tuple((t.kind, t.width, t.weight.size, sp.issparse(t.matrix)) for t in terms),
            structure.complete,
        )
        form = Form(
            maps.size,
            shape,
            quadratic,
            equalities,
            inequalities,
            tuple(terms),
            structure.complete,
            partial(_cone_program, problem, maps),
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
                matrix = sp.csr_array(sp.hstack(blocks, "csr"))
                if matrix.nnz > SPARSE * matrix.shape[0] * matrix.shape[1]:
                    matrix = matrix.toarray()
            self.matrices.append(matrix)
            self.offsets.append(offset)
        self.stops = np.cumsum([0, *(offset.size for offset in self.offsets)])
        self.offset = np.concatenate([*self.offsets, np.empty(0)])

    def times(self, matrix: sp.csr_array) -> Any:
        """``matrix`` @ F for all pieces together; the data themselves where it picks them."""
        total: Any = None
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            block = matrix[:, start:stop]
            if not block.nnz:
                continue
            part = block if own is None else _product(block, own)
            total = part if total is None else _dense(total) + _dense(part)
        return sp.csr_array((matrix.shape[0], self.size)) if total is None else total

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """F.T @ vector for all pieces together, shape (m,)."""
        total = np.zeros(self.size)
        for own, start, stop in zip(self.matrices, self.stops[:-1], self.stops[1:], strict=True):
            if vector[start:stop].any():
                total += vector[start:stop] if own is None else own.T @ vector[start:stop]
        return total


def _product(block: sp.csr_array, own: Any) -> Any:
    k = block.shape[0]
    if block.shape[1] == k == block.nnz and np.array_equal(block.indices, np.arange(k)):
        factor = block.data
        if (factor == 1.0).all():
            return own
        return own.multiply(factor[:, None]).tocsr() if sp.issparse(own) else factor[:, None] * own
    return block @ own


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def _quadratic(problem: Canonical, structure: Structure, maps: Maps) -> Quadratic:
    r"""With P, q over y: :math:`F^\top P F`, :math:`F^\top (P f + q)`, and the constant."""
    own, f = problem.own, maps.offset
    P, slope = problem.P[:own, :own], problem.q[:own].copy()
    constant = problem.d
    for block in structure.blocks:
        weight, _ = block.weights(problem.P, problem.q)
        slope += block.linear.T @ weight
        constant += weight @ block.shift
    bent = P @ f
    constant += f @ bent / 2 + slope @ f
    slope = maps.transposed_times(bent + slope)
    diagonal = P.diagonal()
    if P.nnz == np.count_nonzero(diagonal):
        live = np.flatnonzero(diagonal)
        if 2 * live.size < maps.size:
            picked = sp.csr_array(
                (np.sqrt(diagonal[live]), (np.arange(live.size), live)), shape=(live.size, own)
            )
            return Quadratic(None, slope, constant, _dense(maps.times(picked)))
    matrix = np.zeros((maps.size, maps.size))
    spans = list(zip(maps.matrices, maps.stops[:-1], maps.stops[1:], strict=True))
    for one, a, b in spans:
        for two, c, d in spans:
            block = P[a:b, c:d]
            if block.nnz:
                right = block if two is None else _product(sp.csr_array(block), two)
                matrix += _dense(right if one is None else one.T @ right)
    return Quadratic((matrix + matrix.T) / 2, slope, constant)


def _term(block: Block, problem: Canonical, maps: Maps) -> Term | None:
    if block.kind == "linear":
        return None
    weight, bound = block.weights(problem.P, problem.q)
    matrix = maps.times(block.matrix)
    if sp.issparse(matrix) and matrix.nnz > SPARSE * matrix.shape[0] * matrix.shape[1]:
        matrix = matrix.toarray()
    offset = block.matrix @ maps.offset + block.offset
    return Term(block.kind, weight, matrix, offset, bound, block.width)


def _rows(problem: Canonical, at: np.ndarray, maps: Maps) -> Rows:
    matrix = problem.A[at][:, : problem.own]
    return Rows(_dense(maps.times(matrix)), problem.b[at] - matrix @ maps.offset)


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
            if not abs(stated - form.violation(point)) <= AGREE * max(1.0, stated):
                return False
    return True
