r"""Rows of k clients whose functions have no gradient, and the forces by which they act.

A polyhedral row has :math:`\max(l_t u_t, h_t u_t)`: absolute values have :math:`l = -w, \; h = w`;
of a row :math:`a^\top x \le b` it is the indicator, :math:`l = 0, \; h = \infty`; and of an
equality :math:`l = -\infty`. The rows of a block have a function together, :math:`w \|u_g\|` or the
indicator of :math:`\|u_g\| \le r`.

With a penalty :math:`\tau` and multipliers s the force at u is the gradient of the Moreau envelope,
a function of :math:`v = s + \tau u`,

.. math::
    \operatorname{clip}(v_t, l_t, h_t), \qquad \min(1, w / \|v_g\|)\, v_g, \qquad
    \max(0, 1 - \tau r / \|v_g\|)\, v_g,

whose (generalised) derivative by u is :math:`\tau (a I + b \, \hat v \hat v^\top)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.indexing import Index
from dald_model.solvers.arrays.matrices import Dense, Matrices, alike, is_sparse, together
from dald_model.solvers.arrays.terms import shared


class NonsmoothRows(NamedTuple):
    """The rows of k clients in arrays: blocks, then the others; clients with fewer have zeros last.

    Attributes
    ----------
    matrix : Matrices
        A, products of shape (k, R).
    offset : ndarray, shape (k, R)
        b.
    functions : Functions
    columns : ndarray of int, shape (k, R)
        The variable of a row that has one only; else -1.
    levels, entries : ndarray, shape (k, R)
        Where such a row has its kink, and its entry.
    """

    matrix: Matrices
    offset: np.ndarray
    functions: Functions
    columns: np.ndarray
    levels: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, forms: Sequence[Form]) -> NonsmoothRows:
        """Norms and balls, absolute values, inequalities and equalities of forms of one size."""
        if not any(map(height, forms)):
            nothing = np.zeros((len(forms), 0))
            matrix = Dense(np.zeros((*nothing.shape, forms[0].size)))
            functions = Functions(nothing, nothing, ())
            return cls(matrix, nothing, functions, nothing.astype(int), nothing, nothing)
        parts = [_parts(form) for form in forms]
        most = max(offset.size for _, offset, _, _ in parts)
        matrix = together([own for own, *_ in parts], (most, forms[0].size))
        arrays = np.zeros((3, len(parts), most))
        columns, (levels, entries) = (
            np.full((len(parts), most), -1),
            np.zeros((2, *arrays.shape[1:])),
        )
        for i, (own, *numbers) in enumerate(parts):
            arrays[:, i, : numbers[0].size] = numbers
            rows, own_columns, own_entries = _single(own)
            columns[i, rows], entries[i, rows] = own_columns, own_entries
            levels[i, rows] = -arrays[0, i, rows] / entries[i, rows]
        functions = Functions(arrays[1], arrays[2], _blocks(forms))
        return cls(matrix, arrays[0], functions, columns, levels, entries)

    def again(self, forms: Sequence[Form]) -> NonsmoothRows:
        """Those of forms with the same matrices, whose other numbers may be others."""
        arrays = np.zeros((3, *self.offset.shape))
        for i, form in enumerate(forms):
            numbers = _numbers(form)
            arrays[:, i, : numbers[0].size] = numbers
        offset = arrays[0]
        is_single = self.columns >= 0
        levels = np.divide(-offset, self.entries, out=np.zeros_like(offset), where=is_single)
        functions = Functions(arrays[1], arrays[2], _blocks(forms))
        return self._replace(offset=offset, functions=functions, levels=levels)

    def take(self, index: Index) -> NonsmoothRows:
        """Those of some clients."""
        return NonsmoothRows(
            self.matrix.take(index),
            self.offset[index],
            self.functions.take(index),
            self.columns[index],
            self.levels[index],
            self.entries[index],
        )

    def curvature(self, stiffness: np.ndarray, found: Derivative, at: Index) -> np.ndarray:
        r""":math:`A^\top \tau (a I + b \, \hat v \hat v^\top) A` of clients ``at``, (k, m, m)."""
        curved = self.matrix.gram(stiffness * found.shares, at)
        full = self.matrix.take(at).full if found.turns else None
        for block, bends, directions in found.turns:
            assert full is not None
            shape = (len(bends), bends.shape[1], block.width, -1)
            rows = full[:, block.rows].reshape(shape)
            along = (directions[:, :, None, :] @ rows)[:, :, 0]
            weights = bends * block.grouped(stiffness)[:, :, 0]
            curved += along.transpose(0, 2, 1) @ (weights[:, :, None] * along)
        return curved

    def put(self, points: np.ndarray, chosen: np.ndarray) -> None:
        """Put variables exactly where those of the chosen rows that have one only have a kink."""
        clients, rows = np.nonzero(chosen & (self.columns >= 0) & self.functions.kinked)
        points[clients, self.columns[clients, rows]] = self.levels[clients, rows]


def matrices(form: Form) -> list[Any]:
    """The matrices that its rows are of, one after the other."""
    rows = [part.matrix for part in (form.inequalities, form.equalities) if part.rhs.size]
    return [*(term.matrix for term in form.kinked), *rows]


def height(form: Form) -> int:
    """How many rows a form has."""
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    return rows + sum(term.offset.size for term in form.kinked)


def single_rows(form: Form) -> tuple[np.ndarray, ...] | None:
    """Columns, levels of the kinks, entries, l and h of rows of one variable each; None of others.

    Of a form that has rows and no norms; in the order of :meth:`NonsmoothRows.of`.
    """
    matrix, offset, low, high = _parts(form)
    rows, columns, entries = _single(matrix)
    if rows.size < offset.size:
        return None
    return columns, -offset / entries, entries, low, high


def parted(forms: Sequence[Form]) -> list[np.ndarray]:
    """Parts of clients of one size that are to share arrays, as positions."""
    sizes, smooth = np.array([form.size for form in forms]), [form.smooth for form in forms]
    found = []
    for part in shared(smooth, sizes) if smooth[0] else [np.arange(sizes.size)]:
        own = [forms[at] for at in part.tolist()]
        counts = np.array([[height(form)] for form in own])
        if (counts == counts[0]).all():
            found.append(part)
            continue
        is_dense = np.array([not is_sparse([_parts(form)[0] for form in own])])
        found += [part[at] for at in alike(sizes[part], counts, np.ones_like(counts), is_dense)]
    return found


def _parts(form: Form) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """A, b, l and h of one client."""
    parts = matrices(form)
    if not parts:
        return np.zeros((0, form.size)), *_numbers(form)
    if len(parts) == 1:
        return parts[0], *_numbers(form)
    return sp.vstack([sp.csr_array(one) for one in parts], "csr"), *_numbers(form)


def _numbers(form: Form) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """b, l and h of one client; no limits in blocks, whose sizes say more."""
    terms = form.kinked
    rows = [part for part in (form.inequalities, form.equalities) if part.rhs.size]
    parts = [*(term.offset for term in terms), *(-part.rhs for part in rows)]
    offset = np.concatenate([np.zeros(0), *parts])
    limits = [
        term.weight if term.kind.is_polyhedral else np.full(term.offset.size, np.inf)
        for term in terms
    ]
    weight = np.concatenate([np.zeros(0), *limits])
    below, equal = form.inequalities.rhs.size, form.equalities.rhs.size
    low = np.concatenate([-weight, np.zeros(below), np.full(equal, -np.inf)])
    return offset, low, np.concatenate([weight, np.full(below + equal, np.inf)])


def _blocks(forms: Sequence[Form]) -> tuple[NormBlock, ...]:
    """The norms and balls of forms of one shape."""
    found, at = [], 0
    for terms in zip(*map(_joint, forms), strict=True):
        first, stop = terms[0], at + terms[0].offset.size
        sizes = [term.parameter if term.is_set else term.weight for term in terms]
        found.append(NormBlock(slice(at, stop), first.width, first.is_set, np.array(sizes)))
        at = stop
    return tuple(found)


def _joint(form: Form) -> list[Term]:
    return [term for term in form.kinked if not term.kind.is_polyhedral]


def _single(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows with one entry, its columns and the entries."""
    if isinstance(matrix, np.ndarray):  # which takes several times as long by its entries
        stands = matrix != 0
        rows = np.flatnonzero(np.count_nonzero(stands, axis=1) == 1)
        columns = stands[rows].argmax(axis=1)
        return rows, columns, matrix[rows, columns]
    own: Any = sp.coo_array(matrix)
    is_held = own.data != 0
    rows, columns, entries = own.row[is_held], own.col[is_held], own.data[is_held]
    is_single = np.bincount(rows, minlength=own.shape[0])[rows] == 1
    return rows[is_single], columns[is_single], entries[is_single]


class NormBlock(NamedTuple):
    """The rows of one norm or ball term: ``sizes`` (k, T) are the weights or the radii."""

    rows: slice
    width: int
    is_ball: bool
    sizes: np.ndarray

    def grouped(self, rows: np.ndarray) -> np.ndarray:
        """What each group has of values of all rows, (k, T, width)."""
        return rows[:, self.rows].reshape(len(rows), -1, self.width)

    def read(self, v: np.ndarray, stiffness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of the v of groups, and at which lengths the function changes over these."""
        lengths = np.sqrt(np.vecdot(v, v))
        levels = self.grouped(stiffness)[:, :, 0] * self.sizes if self.is_ball else self.sizes
        ratios = np.divide(levels, lengths, out=np.full(levels.shape, np.inf), where=lengths > 0)
        return lengths, ratios


class Derivative(NamedTuple):
    """How forces change with u: a, (k, R), and of each block the b, (k, T), and the directions."""

    shares: np.ndarray
    turns: list[tuple[NormBlock, np.ndarray, np.ndarray]]

    def of(self, index: Index) -> Derivative:
        """That of some clients."""
        turns = [(block, bends[index], way[index]) for block, bends, way in self.turns]
        return Derivative(self.shares[index], turns)

    def bearings(self, stiffness: np.ndarray) -> np.ndarray:
        r"""What the derivative of blocks depends on: :math:`\tau a \hat v`, (k, R)."""
        found = np.zeros(self.shares.shape)
        for block, bends, directions in self.turns:
            own = block.grouped(stiffness * self.shares) * (bends != 0)[:, :, None]
            found[:, block.rows] = (own * directions).reshape(len(found), -1)
        return found


class Functions(NamedTuple):
    """The functions of the rows of k clients: limits l and h of the forces, (k, R), and blocks."""

    low: np.ndarray
    high: np.ndarray
    blocks: tuple[NormBlock, ...]

    def take(self, index: Index) -> Functions:
        """Those of some clients."""
        blocks = tuple(block._replace(sizes=block.sizes[index]) for block in self.blocks)
        return Functions(self.low[index], self.high[index], blocks)

    @property
    def kinked(self) -> np.ndarray:
        """Which rows have a kink at u = 0, (R,): all but those of balls."""
        found = np.ones(self.low.shape[1], dtype=bool)
        for block in self.blocks:
            found[block.rows] = not block.is_ball
        return found

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sums of the functions at u = ``values`` that break no row, (k,)."""
        sides = np.where(values < 0, self.low, self.high)
        found = np.vecdot(np.where(np.isfinite(sides), sides, 0.0), values)
        for block in self.blocks:
            if not block.is_ball:
                lengths = np.linalg.norm(block.grouped(values), axis=2)
                found += np.vecdot(block.sizes, lengths)
        return found

    def forces(self, pulled: np.ndarray, stiffness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The forces at v = ``pulled``, and which rows are at a kink or an edge, (k, R)."""
        held = np.minimum(np.maximum(pulled, self.low), self.high)
        inside = (pulled > self.low) & (pulled < self.high)
        for block in self.blocks:
            v = block.grouped(pulled)
            ratios = block.read(v, stiffness)[1]
            factors = np.maximum(1 - ratios, 0.0) if block.is_ball else np.minimum(ratios, 1.0)
            held[:, block.rows] = (factors[:, :, None] * v).reshape(len(pulled), -1)
            is_in = (ratios < 1) == block.is_ball
            inside[:, block.rows] = np.repeat(is_in, block.width, axis=1)
        return held, inside

    def spans(self, pulled: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Between which multiples of ``change`` rows that are in no block are inside, (2, k, R)."""
        return (np.array([self.low, self.high]) - pulled) / np.where(change != 0, change, 1.0)

    def derivative(
        self, pulled: np.ndarray, stiffness: np.ndarray, inside: np.ndarray
    ) -> Derivative:
        """How the forces change there."""
        shares, turns = inside.astype(float), []
        for block in self.blocks:
            v = block.grouped(pulled)
            lengths, ratios = block.read(v, stiffness)
            bends = np.where(ratios < 1, ratios if block.is_ball else -ratios, 0.0)
            own = np.maximum(1 - ratios, 0.0) if block.is_ball else np.minimum(ratios, 1.0)
            shares[:, block.rows] = np.repeat(own, block.width, axis=1)
            turns.append((block, bends, v / np.where(lengths > 0, lengths, 1.0)[:, :, None]))
        return Derivative(shares, turns)
