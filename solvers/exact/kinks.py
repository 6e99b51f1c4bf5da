r"""Minimisers of many quadratics plus any number of rows with kinks, by their multipliers.

.. math::
    \min_x \tfrac12 x^\top H x + c^\top x + \sum_t \max(l_t u_t, h_t u_t), \qquad u = A x + b,

absolute values, hinges, quantiles and linear rows, see
:mod:`dald_model.solvers.exact.kinked_rows`. The method of multipliers with multipliers s of
:math:`u = A x + b` minimises, again and again,

.. math::
    \tfrac12 x^\top H x + c^\top x + \sum_t e_t(x), \qquad
    \nabla e_t(x) = a_t \operatorname{clip}(s_t + \tau_t u_t, \; l_t, \; h_t),

and takes the clipped for the next s. The inner problem is a convex piecewise quadratic with one
gradient: a semismooth Newton step, with the rows J that are not clipped in
:math:`H + A_J^\top \operatorname{diag}(\tau_J) A_J`, is exact where J stays (Li, Sun and Toh 2018,
"A highly efficient semismooth Newton augmented Lagrangian method for solving lasso problems"). All
is of the size m of x, however many rows there are; and while J stays from round to round, a round
is two products with A and one with an inverse that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.active_set import FLAT
from dald_model.solvers.exact.cholesky import triangles
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.kink_search import Rows, zeros
from dald_model.solvers.exact.kinked_rows import KinkedRows, height, parted
from dald_model.solvers.exact.quadratic_step import Errors, Step, nonsmooth_terms
from dald_model.solvers.exact.separable_kinks import ActiveKinks

SOFT, STIFF, GROWTH = 10.0, 1e6, 5.0
r"""The penalties :math:`\tau`, relative to what a row is held with by the diagonal of H: at first,
at most, and by how much they grow with each s.

Soft ones make inner problems of few steps, stiff ones leave little of an error of s.
"""
LIMIT = 200
"""Steps for one turn; a client that needs more has failed."""

INNER = 0.1
"""Share of the error for a step at which the inner problem counts as solved."""

MET = 10.0
"""How many errors of the points the rows may be off their kinks."""

ROUNDING = 1e-14
"""Steps below this share of a point, or of what moves it, are rounding errors."""

LARGE = 64
"""Variables from which on a triangular factor is kept in place of an inverse, and clients with
kinks of single variables are left to :mod:`dald_model.solvers.exact.separable_kinks`."""

SHARED = 2**22
"""Bytes of matrices that are worked on together: they stay in cache for all steps of a turn."""


class Kinks:
    """Quadratics with absolute values and linear rows, as many as there are; see the module."""

    is_exact: ClassVar[bool] = False

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        found = nonsmooth_terms(form, but_polyhedral=True)
        return found or ("" if height(form) else "it has neither rows nor absolute values")

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        self._below, self._equal = forms[0].inequalities.rhs.size, forms[0].equalities.rhs.size
        self._heights = np.array([height(form) for form in forms])
        self._hessians = np.zeros((count, size, size))
        self._points = np.zeros((count, size))
        self._failed = np.ones(count, dtype=bool)
        self._group = np.zeros(count, dtype=int)
        self._member = np.zeros(count, dtype=int)
        self._groups: list[_Group] = []
        for part in parted(forms):
            self._group[part], self._member[part] = len(self._groups), range(part.size)
            self._groups.append(_Group([forms[at] for at in part.tolist()]))

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H; failed are those that are not positive definite to working accuracy."""
        self._hessians[which] = hessians
        self._failed[which] = triangles(hessians * outer(variable_scales(hessians)), FLAT)[1]
        diagonals = np.diagonal(hessians, axis1=1, axis2=2)
        for number, group in enumerate(self._groups):
            own = np.flatnonzero((self._group[which] == number) & ~self._failed[which])
            if own.size:
                group.renew(self._member[which[own]], 1 / diagonals[own])
        return self._failed[which]

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear`` to errors of these sizes, from the last multipliers."""
        errors = np.broadcast_to(0.0 if errors is None else errors, linear.shape)
        failed = self._failed[which] | ~np.isfinite(linear).all(axis=1)
        duals = np.full((which.size, self._below + self._equal), np.nan)
        for number, group in enumerate(self._groups):
            mine = np.flatnonzero((self._group[which] == number) & ~failed)
            for start in range(0, mine.size, group.at_once):
                part = mine[start : start + group.at_once]
                failed[part] = ~self._minimise(group, which[part], linear[part], errors[part])
                members = self._member[which[part]]
                duals[part] = self._own(group.multipliers[members], self._heights[which[part]])
        points = np.where(failed[:, None], np.nan, self._points[which])
        energy = np.vecdot(points, times(self._hessians[selection(which)], points))
        return Step(points, duals[:, self._below :], duals[:, : self._below], failed, energy)

    def _minimise(
        self, group: _Group, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> np.ndarray:
        """Have clients of a group at their minimisers; say where one was found."""
        found = self._placed(group, which, linear, errors)
        live, left, way = np.flatnonzero(~found), LIMIT, None
        while live.size and left > 0:
            at = which[live]
            members, hessians = self._member[at], self._hessians[selection(at)]
            own = linear[live], self._points[at], errors[live]
            turn = _Turn(group, members, hessians, *own)
            is_done, taken, way = turn.run(left, way)
            self._points[at] = turn.x
            found[live[is_done]] = True
            live, left, way = live[~is_done], left - taken, way.of(~is_done)
        lost = which[~found]
        members = self._member[lost]
        self._points[lost] = group.multipliers[members] = 0.0
        group.values[members] = group.rows.offset[members]
        return found

    def _placed(
        self, group: _Group, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> np.ndarray:
        """Have those at their minimisers whose kinks are of single variables, if found at once."""
        found = np.zeros(which.size, dtype=bool)
        for i, at in enumerate(which.tolist()):
            member = int(self._member[at])
            active = group.active[member]
            if active is not None:
                answer = active.minimise(self._hessians[at], linear[i], self._points[at], errors[i])
                if answer is not None:
                    self._points[at], found[i] = answer[0], True
                    group.enter(member, *answer)
        return found

    def _own(self, multipliers: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Those of the inequalities and equalities, which are each client's last rows."""
        width = self._below + self._equal
        return np.take_along_axis(multipliers, heights[:, None] - width + np.arange(width), axis=1)


class _Group:
    r"""Clients whose rows are in the same arrays, and what is kept of them between turns.

    Attributes
    ----------
    rows : KinkedRows
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
    inverses : ndarray, shape (k, m, m)
    is_stale : ndarray of bool, shape (k,)
        Whether H is another than that of the inverse.
    active : list of ActiveKinks or None
        Of each client with ``LARGE`` variables and kinks of single ones alone.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        self.rows = KinkedRows.of(forms)
        shape, size = self.rows.offset.shape, forms[0].size
        self.multipliers, self.values = np.zeros(shape), self.rows.offset.copy()
        self.reaches, self.forces = np.ones(shape), np.ones(shape[0])
        self.grown = np.full(shape[0], SOFT)
        self.inside = np.zeros(shape, dtype=bool)
        self.inverses = np.zeros((shape[0], size, size))
        self.is_stale = np.ones(shape[0], dtype=bool)
        self.at_once = max(1, SHARED // max(1, self.rows.matrix.bytes, 8 * size**2))
        self.active: list[ActiveKinks | None] = [
            self.rows.active(at, size) if size >= LARGE else None for at in range(shape[0])
        ]

    def renew(self, members: np.ndarray, shares: np.ndarray) -> None:
        """Take other H, of which ``shares`` are the inverse of the diagonals."""
        squares = self.rows.matrix.take(selection(members)).squared_times(shares)
        self.reaches[members] = np.sqrt(np.where(squares > 0, squares, 1.0))
        limits = np.where(np.isfinite(self.rows.high[members]), self.rows.high[members], 0.0)
        self.forces[members] = (limits * self.reaches[members]).max(axis=1)
        self.is_stale[members] = True
        for active in map(self.active.__getitem__, members.tolist()):
            if active is not None:
                active.forget()

    def enter(self, member: int, point: np.ndarray, multipliers: np.ndarray) -> None:
        """Take what was found elsewhere for a client whose rows are of single variables."""
        rows, count = self.rows, multipliers.size
        self.multipliers[member, :count] = multipliers
        own, at = rows.columns[member, :count], slice(None, count)
        self.values[member, at] = rows.entries[member, at] * (point[own] - rows.levels[member, at])


class _Way(NamedTuple):
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

    def of(self, chosen: np.ndarray) -> _Way:
        """Those of some clients."""
        return _Way(*(each[chosen] for each in self))


class _Turn:
    """Some clients of a group, until half of them are done."""

    def __init__(
        self,
        group: _Group,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        points: np.ndarray,
        errors: np.ndarray,
    ) -> None:
        at = selection(members)
        self._group, self._at = group, at
        self._rows, self._grown = group.rows.take(at), group.grown[at].copy()
        self._reaches, self._forces = group.reaches[at], group.forces[at]
        self._stiffness = self._grown[:, None] / self._reaches**2
        self._hessians, self._linear, self._errors = hessians, linear, errors
        self._inverses, self._inside = group.inverses[at], group.inside[at].copy()
        self._is_stale = group.is_stale[at].copy()
        self._units = variable_scales(hessians)
        self.x, self.multipliers = points.copy(), group.multipliers[at].copy()
        self._values = group.values[at].copy()

    def run(self, steps: int, way: _Way | None) -> tuple[np.ndarray, int, _Way]:
        """Go on; say who is done, how many steps were taken, and where everybody is."""
        matrix, taken, units = self._rows.matrix, 0, self._units
        is_done = np.zeros(len(self.x), dtype=bool)
        if way is None:
            way = _Way(times(self._hessians, self.x), self._pulled(), is_done)
        bent, pulled, is_fresh = way
        held, inside = self._clipped(pulled)
        while taken < steps:
            taken += 1
            self._renew(inside)
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
                is_done = is_done | (ends & self._meets(inside, allowed.max(axis=1)))
            if 2 * np.count_nonzero(is_done) > is_done.size:
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
            self._stiffen(is_fresh)
            pulled = np.where(is_fresh[:, None], self._pulled(), pulled)
            held, inside = self._clipped(pulled)
        self._write(is_done)
        return is_done, taken, _Way(bent, pulled, is_fresh)

    def _pulled(self) -> np.ndarray:
        """The rows' forces before they are clipped."""
        return self.multipliers + self._stiffness * self._values

    def _meets(self, inside: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Whether the rows J are at their kinks but for errors of the points, as some cannot be."""
        missed = np.where(inside, np.abs(self._values), 0.0) / self._reaches
        return np.asarray((missed <= MET * allowed[:, None]).all(axis=1))

    def _stiffen(self, chosen: np.ndarray) -> None:
        """Have the penalties of some clients grow."""
        grown = np.where(chosen, np.minimum(GROWTH * self._grown, STIFF), self._grown)
        if (grown > self._grown).any():
            self._is_stale |= grown > self._grown
            self._grown = grown
            self._stiffness = grown[:, None] / self._reaches**2

    def _clipped(self, pulled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows' forces, and where they are between their limits."""
        low, high = self._rows.low, self._rows.high
        return np.clip(pulled, low, high), (pulled > low) & (pulled < high)

    def _renew(self, inside: np.ndarray) -> None:
        """Take the inverses for other rows J."""
        differs = self._is_stale | (inside != self._inside).any(axis=1)
        if not differs.any():
            return
        at = selection(np.flatnonzero(differs))
        weights = np.where(inside[at], self._stiffness[at], 0.0)
        found = self._rows.matrix.gram(weights, at)
        found += self._hessians[at]
        self._inverses[at] = _inverted(found)
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

        Of shape (k, 1), and as :meth:`_pulled` and :meth:`_clipped` give them. ``first`` is the
        slope at the start, ``base`` that without the rows.
        """
        ahead = pulled + stiff
        held, inside = self._clipped(ahead)
        lengths = np.ones((first.size, 1))
        long = np.flatnonzero(base + bend + np.vecdot(held, change) > -0.5 * first)
        if long.size == 0:
            return lengths, ahead, held, inside
        rows = self._rows.low[long], self._rows.high[long]
        along = Rows(pulled[long], stiff[long], change[long], *rows)
        lengths[long, 0] = zeros(first[long], bend[long], along)
        ahead[long] = along.pulled + lengths[long] * along.stiff
        return lengths, ahead, *self._clipped(ahead)

    def _write(self, is_done: np.ndarray) -> None:
        """Leave everything in the group; variables of one row's kink exactly there."""
        group, at = self._group, self._at
        self._rows.put(self.x, self._values, self._inside & is_done[:, None])
        group.values[at] = self._values
        group.multipliers[at], group.inside[at] = self.multipliers, self._inside
        group.inverses[at], group.is_stale[at] = self._inverses, self._is_stale
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
