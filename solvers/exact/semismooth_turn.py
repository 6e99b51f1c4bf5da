"""One turn of the method of multipliers for clients with rows that have no gradient.

See :mod:`dald_model.solvers.exact.semismooth_newton` for the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.arrays.matrices import SHARED
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.line_search import FLATTER, flattened
from dald_model.solvers.exact.nonsmooth_rows import NonsmoothRows
from dald_model.solvers.exact.separable import INNER, LARGE, ActiveKinks
from dald_model.values import ROUNDING

SOFT = 10.0
r"""The penalties :math:`\tau` at first, relative to what a row is held with by the diagonal of H.

Soft ones make inner problems of few steps.
"""

STIFF, GROWTH = 1e6, 5.0
r"""The penalties :math:`\tau` at most, relative to what a row is held with by the diagonal of H.

And by how much they grow with each s: stiff ones leave little of an error of s.
"""

FIRM = 1e2
r"""The penalties of balls at most: along the edge of a stiffer one Newton steps are short."""

TURNED = 1e-2
"""Share by which the derivative of a block may change before the inverse is taken anew: then each
step still leaves no more of the error than this."""

MET = 10.0
"""How many errors of the points the rows may be off their kinks; blocks, which bend, only INNER:
with errors of one, points were 1.7 times as wrong as allowed at condition 1e3."""

ALONG = 2**13
"""Numbers up to which those who are done are carried along: to copy the others takes as long as a
step, and most end within two of each other."""


class Group:
    r"""Clients whose rows are in the same arrays, and what is kept of them between turns.

    Attributes
    ----------
    rows : NonsmoothRows
    multipliers, values : ndarray, shape (k, R)
        s, and u at the last points.
    reaches : ndarray, shape (k, R)
        How far a row moves with variables by :math:`\operatorname{diag}(H)^{-1/2}`.
    forces : ndarray, shape (k,)
        How far the force of a row can move such variables.
    grown : ndarray, shape (k,)
        How stiff the clients are by now.
    inside : ndarray of bool, shape (k, R)
        The rows J that the inverses are of.
    bearings : ndarray, shape (k, R)
        Where the blocks pointed then, see :meth:`NonsmoothRows.bearings`.
    inverses : ndarray, shape (k, m, m)
    is_stale : ndarray of bool, shape (k,)
        Whether H is another than that of the inverse.
    active : ActiveKinks or None
        Of clients with kinks of single variables alone, which are those that it ``takes``.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        self._begin(NonsmoothRows.of(forms), forms[0].size)

    def take(self, forms: Sequence[Form]) -> None:
        """Be as if made from these forms, of the same matrices."""
        self._begin(self.rows.again(forms), forms[0].size)

    def _begin(self, rows: NonsmoothRows, size: int) -> None:
        self.rows, shape = rows, rows.offset.shape
        self.multipliers, self.values = np.zeros(shape), rows.offset.copy()
        self.reaches, self.forces = np.ones(shape), np.ones(shape[0])
        self.grown = np.full(shape[0], SOFT)
        self.inside = np.zeros(shape, dtype=bool)
        self.bearings = np.zeros(shape)
        self.inverses = np.zeros((shape[0], size, size))
        self.is_stale = np.ones(shape[0], dtype=bool)
        self.at_once = max(1, SHARED // max(1, rows.matrix.bytes, 8 * size**2))
        self.active: ActiveKinks | None = None
        if not rows.functions.blocks:
            self.takes, self.active = rows.active(size)

    def renew(self, members: np.ndarray, hessians: np.ndarray) -> None:
        """Take other H."""
        shares = 1 / np.diagonal(hessians, axis1=1, axis2=2)
        squares = self.rows.matrix.take(selection(members)).squared_times(shares)
        reaches = np.sqrt(np.where(squares > 0, squares, 1.0))
        limits = np.where(
            np.isfinite(self.rows.functions.high[members]), self.rows.functions.high[members], 0.0
        )
        for block in self.rows.functions.blocks:
            shortest = block.grouped(reaches).min(axis=2)
            reaches[:, block.rows] = np.repeat(shortest, block.width, axis=1)
            if not block.is_ball:
                limits[:, block.rows] = np.repeat(block.sizes[members], block.width, axis=1)
        self.reaches[members] = reaches
        self.forces[members] = (limits * self.reaches[members]).max(axis=1)
        self.is_stale[members] = True
        if self.active is not None:
            self.active.forget(members)

    def enter(self, members: np.ndarray, points: np.ndarray, multipliers: np.ndarray) -> None:
        """Take what was found elsewhere for clients whose rows are of single variables."""
        rows = self.rows
        self.multipliers[members] = multipliers
        own = np.take_along_axis(points, np.maximum(rows.columns[members], 0), axis=1)
        self.values[members] = rows.entries[members] * (own - rows.levels[members])


class Way(NamedTuple):
    """Where clients are between two steps, so that they go on as if nobody else had been done.

    Attributes
    ----------
    bent, pulled : ndarray, shapes (k, m) and (k, R)
        H x, and the rows' forces before they are clipped.
    is_fresh : ndarray of bool, shape (k,)
    """

    bent: np.ndarray
    pulled: np.ndarray
    is_fresh: np.ndarray

    def of(self, chosen: np.ndarray) -> Way:
        """Those of some clients."""
        return Way(*(each[chosen] for each in self))


class SemismoothTurn:
    """Some clients of a group, until all of them are done, or half of many."""

    def __init__(
        self,
        group: Group,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        points: np.ndarray,
        errors: np.ndarray,
    ) -> None:
        at = selection(members)
        self._group, self._at = group, at
        self._rows, self._grown = group.rows.take(at), group.grown[at].copy()
        self._functions = self._rows.functions
        self._reaches, self._forces = group.reaches[at], group.forces[at]
        self._stiffness = self._stiff()
        self._hessians, self._linear, self._errors = hessians, linear, errors
        self._inverses, self._inside = group.inverses[at], group.inside[at].copy()
        self._is_stale, self._bearings = group.is_stale[at].copy(), group.bearings[at].copy()
        self._units = variable_scales(hessians)
        # How far rows may be off: so far as points may be that are MET times as wrong as allowed
        self._moves = MET * np.sqrt(self._rows.matrix.squared_times(errors**2))
        for block in self._functions.blocks:
            self._moves[:, block.rows] *= INNER / MET
        self.x, self.multipliers = points.copy(), group.multipliers[at].copy()
        self._values = group.values[at].copy()

    def run(self, steps: int, way: Way | None) -> tuple[np.ndarray, int, Way]:
        """Go on; say who is done, how many steps were taken, and where everybody is."""
        matrix, taken, units = self._rows.matrix, 0, self._units
        is_large = self._hessians.size + self._values.size > ALONG
        is_done = np.zeros(len(self.x), dtype=bool)
        if way is None:
            way = Way(times(self._hessians, self.x), self._pulled(), is_done)
        bent, pulled, is_fresh = way
        held, inside = self._functions.forces(pulled, self._stiffness)
        while taken < steps:
            taken += 1
            self._renew(pulled, inside)
            slope = bent + self._linear
            gradient = slope + matrix.back(held)
            step = -_solved(self._inverses, gradient)
            reach = np.maximum(np.abs(self.x) / units, units * np.abs(slope)).max(axis=1)
            floor = ROUNDING * np.maximum(reach, self._forces)
            allowed = np.maximum(self._errors / units, floor[:, None])
            sizes = (np.abs(step) / units / allowed).max(axis=1)
            # The first step from other multipliers says how far these were from the best
            ends = is_fresh & (sizes <= 1) & ~is_done
            if ends.any():
                is_done = is_done | (ends & self._meets(held, floor))
            if is_done.all() or (is_large and 2 * np.count_nonzero(is_done) > is_done.size):
                break
            step[is_done] = 0.0
            change, bend = matrix.times(step), times(self._hessians, step)
            lengths, pulled, held, after = self._search(
                np.vecdot(gradient, step),
                np.vecdot(slope, step),
                np.vecdot(step, bend),
                pulled,
                self._stiffness * change,
                change,
            )
            self.x += lengths * step
            self._values += lengths * change
            bent += lengths * bend
            is_fresh = (lengths[:, 0] == 1) & (after == inside).all(axis=1)
            is_fresh |= sizes <= INNER
            is_fresh &= ~is_done
            np.copyto(self.multipliers, held, where=is_fresh[:, None])
            self._hurry(np.flatnonzero(ends & ~is_done), inside, sizes)
            self._stiffen(is_fresh)
            pulled = np.where(is_fresh[:, None], self._pulled(), pulled)
            held, inside = self._functions.forces(pulled, self._stiffness)
        self._write(is_done)
        return is_done, taken, Way(bent, pulled, is_fresh)

    def _pulled(self) -> np.ndarray:
        """The rows' forces before they are clipped."""
        return self.multipliers + self._stiffness * self._values

    def _meets(self, held: np.ndarray, floor: np.ndarray) -> np.ndarray:
        """Whether the multipliers are the forces at the points, but for errors of the points.

        Rows that are all at their kinks may contradict each other, and cannot be.
        """
        missed = np.abs(held - self.multipliers) / self._stiffness
        allowed = np.maximum(self._moves, floor[:, None] * self._reaches)
        return np.asarray((missed <= allowed).all(axis=1))

    def _hurry(self, stuck: np.ndarray, inside: np.ndarray, sizes: np.ndarray) -> None:
        """Have multipliers of clients that stand still where the first of them reaches its limit.

        Of more rows J than variables not all can be at their kinks. Their multipliers then move by
        the same each time, and nothing else does, until a row leaves J: that may take thousands of
        steps. So many are gone at once, but no more than move a point by what it may be off.
        """
        if not stuck.size:
            return
        drift = np.where(inside[stuck], self._stiffness[stuck] * self._values[stuck], 0.0)
        for block in self._functions.blocks:  # whose forces have no limits to reach
            drift[:, block.rows] = 0.0
        ends = np.where(drift > 0, self._functions.high[stuck], self._functions.low[stuck])
        left = ends - self.multipliers[stuck]
        steps = np.divide(left, drift, out=np.full(left.shape, np.inf), where=drift != 0)
        most = np.divide(1.0, sizes[stuck], out=np.full(stuck.size, np.inf), where=sizes[stuck] > 0)
        count = np.minimum(steps.min(axis=1), most)
        count[np.isinf(count)] = 0.0
        self.multipliers[stuck] += np.maximum(count, 0.0)[:, None] * drift

    def _stiffen(self, chosen: np.ndarray) -> None:
        """Have the penalties of some clients grow."""
        grown = np.where(chosen, np.minimum(GROWTH * self._grown, STIFF), self._grown)
        if (grown > self._grown).any():
            self._is_stale |= grown > self._grown
            self._grown = grown
            self._stiffness = self._stiff()

    def _stiff(self) -> np.ndarray:
        """The penalties of the rows."""
        found = np.repeat(self._grown[:, None], self._reaches.shape[1], axis=1)
        for block in self._functions.blocks:
            if block.is_ball:
                found[:, block.rows] = np.minimum(found[:, block.rows], FIRM)
        return found / self._reaches**2

    def _renew(self, pulled: np.ndarray, inside: np.ndarray) -> None:
        """Take the inverses for other rows J, and for blocks that turned."""
        differs = self._is_stale | (inside != self._inside).any(axis=1)
        found = self._functions.derivative(pulled, self._stiffness, inside)
        if found.turns:
            bearings = found.bearings(self._stiffness)
            for block, _, _ in found.turns:
                now, before = block.grouped(bearings), block.grouped(self._bearings)
                turned = np.abs(now - before).max(axis=2) > TURNED * np.abs(now).max(axis=2)
                differs |= turned.any(axis=1)
            np.copyto(self._bearings, bearings, where=differs[:, None])
        if not differs.any():
            return
        at = selection(np.flatnonzero(differs))
        curved = self._rows.curvature(self._stiffness[at], found.of(at), at)
        curved += self._hessians[at]
        self._inverses[at] = _inverted(curved)
        self._inside[at], self._is_stale[at] = inside[at], False

    def _search(
        self,
        first: np.ndarray,
        base: np.ndarray,
        bend: np.ndarray,
        pulled: np.ndarray,
        stiff: np.ndarray,
        change: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How far along the steps the inner problem's objective falls, at most 1; forces there.

        Of shape (k, 1), and as :meth:`_pulled` and :meth:`Functions.forces` give them. ``first`` is
        the slope at the start, ``base`` that without the rows.
        """
        ahead = pulled + stiff
        held, inside = self._functions.forces(ahead, self._stiffness)
        lengths = np.ones((first.size, 1))
        last = base + bend + np.vecdot(held, change)
        long = np.flatnonzero(last > -FLATTER * first)
        if long.size == 0:
            return lengths, ahead, held, inside
        functions, stiffness = self._functions.take(long), self._stiffness[long]
        begin, moved, changed = pulled[long], stiff[long], change[long]
        start, rise = base[long], bend[long]

        def slope(at: np.ndarray) -> np.ndarray:
            now = functions.forces(begin + at[:, None] * moved, stiffness)[0]
            return start + at * rise + np.vecdot(now, changed)

        lengths[long, 0] = flattened(slope, first[long], last[long])
        ahead[long] = begin + lengths[long] * moved
        return lengths, ahead, *self._functions.forces(ahead, self._stiffness)

    def _write(self, is_done: np.ndarray) -> None:
        """Leave everything in the group; variables of one row's kink exactly there."""
        group, at = self._group, self._at
        self._rows.put(self.x, self._values, self._inside & is_done[:, None])
        group.values[at] = self._values
        group.multipliers[at], group.inside[at] = self.multipliers, self._inside
        group.inverses[at], group.is_stale[at] = self._inverses, self._is_stale
        group.bearings[at] = self._bearings
        group.grown[at] = self._grown


def _inverted(matrices: np.ndarray) -> np.ndarray:
    """The inverses of small matrices; of large ones triangular factors, which take less time."""
    if matrices.shape[1] < LARGE:
        units = outer(variable_scales(matrices))
        return np.linalg.inv(matrices * units) * units
    return np.linalg.cholesky(matrices)


def _solved(inverses: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The products of what :func:`_inverted` gave with vectors."""
    if inverses.shape[1] < LARGE:
        return times(inverses, right)
    pairs = zip(inverses, right, strict=True)
    # The rows of numpy's lower triangle are the columns of LAPACK's upper one
    return np.array([cho_solve((lower.T, False), own, check_finite=False) for lower, own in pairs])
