"""State of clients between two turns of the semismooth Newton method.

See :mod:`dald_model.solvers.exact.semismooth_newton` for the method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.form import Form
from dald_model.sizes import SHARED
from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.arrays.stack import TermValues
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.cholesky import variable_scales
from dald_model.solvers.exact.nonsmooth_rows import NonsmoothRows

SOFT = 10.0
r"""The penalties :math:`\tau` at first, relative to what a row is held with by the diagonal of H.

Soft ones make inner problems of few steps.
"""


class ClientState:
    r"""Clients whose rows and smooth terms are in the same arrays, and their state between turns.

    Attributes
    ----------
    rows : NonsmoothRows
    smooth : Terms or None
    multipliers, values : ndarray, shape (k, R)
        s, and u at the last points.
    levels, slopes, curvatures : ndarray, shapes (k,), (k, m) and (k, arguments)
        Values, gradients and second derivatives of the smooth terms at the last points.
    left : ndarray, shape (k, m)
        What is left of the gradients there, beside smooth terms.
    reaches : ndarray, shape (k, R)
        How far a row moves with variables by their units.
    forces : ndarray, shape (k,)
        How far the force of a row can move such variables.
    grown : ndarray, shape (k,)
        How stiff the clients are by now.
    hessians : ndarray, shape (k, m, m)
        H, with the smooth terms' where it was taken last.
    units : ndarray, shape (k, m)
        In which its diagonal is one.
    before : ndarray, shape (k, arguments)
        The curvatures there.
    inside : ndarray of bool, shape (k, R)
        The rows J that the roots are of.
    bearings : ndarray, shape (k, R)
        Where the blocks pointed then, see :meth:`NonsmoothRows.bearings`.
    roots : ndarray, shape (k, m, m)
        W with :math:`W W^\top` the inverse.
    is_stale : ndarray of bool, shape (k,)
        Whether the roots are of other numbers.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        smooth = [form.smooth for form in forms]
        self.smooth = Terms.of(smooth, forms[0].size) if smooth[0] else None
        self._begin(NonsmoothRows.of(forms), forms[0].size)

    def take(self, forms: Sequence[Form]) -> None:
        """Be as if made from these forms, of the same matrices."""
        if self.smooth is not None:
            self.smooth = self.smooth.again([form.smooth for form in forms])
        self._begin(self.rows.again(forms), forms[0].size)

    def _begin(self, rows: NonsmoothRows, size: int) -> None:
        self.rows, shape = rows, rows.offset.shape
        count = shape[0]
        self.multipliers = np.zeros(shape)
        self.reaches, self.forces = np.ones(shape), np.zeros(count)
        self.grown = np.full(count, SOFT)
        self.inside = np.zeros(shape, dtype=bool)
        self.bearings = np.zeros(shape)
        self.left = np.zeros((count, size))
        self.hessians, self.roots = np.zeros((2, count, size, size))
        self.units = np.ones((count, size))
        self.is_stale = np.ones(count, dtype=bool)
        self.first, self.before = np.zeros((count, size)), np.zeros((count, 0))
        matrices = [rows.matrix.bytes, 8 * size**2]
        if self.smooth is not None:
            self.first = self.smooth.inner()
            self.levels, self.slopes, self.curvatures = self.smooth.evaluate(None, self.first)
            self.before = self.curvatures.copy()
            matrices.append(self.smooth.bytes)
        self.points, self.values = self.first.copy(), rows.matrix.times(self.first) + rows.offset
        self.is_new = np.ones(count, dtype=bool)
        self.at_once = max(1, SHARED // max(1, *matrices))

    def start(self, members: np.ndarray, points: np.ndarray) -> None:
        """Have clients that are asked for the first time begin at points of their domain."""
        new = self.is_new[members]
        self.is_new[members] = False
        if self.smooth is not None and new.any():
            self._put(members[new], points[new])

    def reset(self, members: np.ndarray) -> None:
        """Have clients that failed begin anew."""
        self.multipliers[members] = 0.0
        self._put(members, self.first[members])
        self.is_stale[members] = True

    def _put(self, members: np.ndarray, points: np.ndarray) -> None:
        """Have clients at these points, where all that is known there is finite."""
        if self.smooth is not None and members.size:
            levels, slopes, bends = self.smooth.evaluate(members, points)
            inside = is_inside(TermValues(levels, slopes, bends))
            members, points = members[inside], points[inside]
            self.levels[members], self.slopes[members] = levels[inside], slopes[inside]
            self.curvatures[members] = bends[inside]
        if not members.size:
            return
        at = selection(members)
        self.points[members] = points
        self.values[members] = self.rows.matrix.take(at).times(points) + self.rows.offset[members]

    def renew(self, members: np.ndarray, hessians: np.ndarray) -> None:
        """Take other H."""
        curvatures = np.zeros((members.size, 0))
        if self.smooth is not None:
            hessians = hessians + self.smooth.hessians(members, self.points[members])
            curvatures = self.curvatures[members]
        self.bend(members, hessians, curvatures)

    def bend(self, members: np.ndarray, hessians: np.ndarray, curvatures: np.ndarray) -> None:
        """Take other Hessians, those of smooth terms included, whose curvatures are these."""
        self.hessians[members], self.before[members] = hessians, curvatures
        self.units[members] = variable_scales(hessians)
        self.is_stale[members] = True
        if self.rows.offset.size:
            self._measure(members)

    def _measure(self, members: np.ndarray) -> None:
        """Take how far rows move in the units, and what forces they can have."""
        squares = self.rows.matrix.take(selection(members)).squared_times(self.units[members] ** 2)
        reaches = np.sqrt(np.where(squares > 0, squares, 1.0))
        high = self.rows.functions.high[members]
        limits = np.where(np.isfinite(high), high, 0.0)
        for block in self.rows.functions.blocks:
            shortest = block.grouped(reaches).min(axis=2)
            reaches[:, block.rows] = np.repeat(shortest, block.width, axis=1)
            if not block.is_ball:
                limits[:, block.rows] = np.repeat(block.sizes[members], block.width, axis=1)
        self.reaches[members] = reaches
        self.forces[members] = (limits * reaches).max(axis=1)

    @property
    def balls(self) -> int:
        """How many balls a client has."""
        return sum(block.sizes.shape[1] for block in self.rows.functions.blocks if block.is_ball)

    def pushes(self, members: np.ndarray) -> np.ndarray:
        """The multipliers of the balls: how strong they push."""
        own, blocks = self.multipliers[members], self.rows.functions.blocks
        found = [np.linalg.norm(one.grouped(own), axis=2) for one in blocks if one.is_ball]
        return np.concatenate([np.zeros((members.size, 0)), *found], axis=1)

    def objectives(self, members: np.ndarray) -> np.ndarray:
        """The sums of all terms at the last points."""
        at = selection(members)
        found = self.rows.functions.take(at).sums(self.values[at])
        return found if self.smooth is None else found + self.levels[at]


def is_inside(known: TermValues) -> np.ndarray:
    """Whether points are in the domain of all terms."""
    return np.isfinite(known.values) & np.isfinite(known.gradients).all(axis=1)
