r"""Minimisers of many small quadratic programs by the dual active-set method DAQP.

.. math:: \tfrac12 x^\top H x + c^\top x \quad\text{s.t. } E x = e,\; A x \le b

Each client has a model of its own, which starts from the working set it last ended with. It is
given the client in units in which H has a diagonal of ones, rows have length 1 and what matters
in the solution is of size 1:

.. math::
    x = \sigma D z, \quad D = \operatorname{diag}(H)^{-1/2}, \quad
    \sigma \approx \max(\|D c\|_\infty, \|D^{-1} x\|_\infty).

Where H is singular, as of voltages that equality rows alone tell, it is given
:math:`H + E^\top W E` and :math:`c - E^\top W e`, which have the same minimisers and multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import ClassVar

import daqp
import numpy as np

from dald_model.compile.form import Form
from dald_model.deadline import check_time, is_limited
from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.cholesky import eliminate, triangles, unit_rows, variable_scales
from dald_model.solvers.exact.quadratic_step import Errors, Step, nonsmooth_terms, wide

SINGULAR = 2e-11
"""Smallest Cholesky pivot of the scaled H: DAQP regularises where it finds 1e-11 or less."""

MISSED = 1e-8
"""A client has failed whose residuals exceed this share of the largest numbers in them."""

OUTGROWN = 30.0
"""By which factor the size of a solution may leave that of the units before they are renewed."""

DAQP_OPTIMAL, NOT_CONVEX = 1, -5
"""How DAQP says that it ended."""

EQUALITY = 5
"""How DAQP is told that a row is one."""

NONE = 1e30
"""A bound that is none, in DAQP's words."""

SETTINGS = {
    # Measured, condition 1e3 to 1e9 after scaling: relative residuals of 5e-16 to 8e-15, as they
    # are at 1e-13. At 1e-11 cones of 3 m rows through one point are called infeasible from 1e6 on.
    "primal_tol": 1e-10,
    # Rows may be almost parallel after scaling: bounds and a sum of raw features 1e5 apart
    "sing_tol": 1e-14,
    # Never regularise: proximal iterations are less accurate and do not start warm
    "eps_prox": 0.0,
}


class ActiveSet:
    """Quadratic programs over linear rows, see the module."""

    is_exact: ClassVar[bool] = True

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        if form.equalities.rhs.size + form.inequalities.rhs.size == 0:
            return "it has no rows"
        return nonsmooth_terms(form) or wide(form)

    def __init__(self, forms: Sequence[Form]) -> None:
        self._models: list[daqp.Model] = []
        self._made: tuple[int, ...] = ()
        self._matrices: list[np.ndarray] = []
        self.take(forms)

    def take(self, forms: Sequence[Form]) -> None:
        """See :func:`dald_model.solvers.exact.quadratic_step.again`."""
        count, size = len(forms), forms[0].size
        matrices = [one.matrix for f in forms for one in (f.inequalities, f.equalities)]
        if len(matrices) != len(self._matrices) or not all(map(is_, matrices, self._matrices)):
            self._read(forms, size)
            self._matrices = matrices
        right = np.array([form.inequalities.rhs for form in forms])
        levels = np.array([form.equalities.rhs for form in forms])
        below, above = self._place_bounds(right[:, self._bounds])
        self._is_possible, needed = np.ones(count, dtype=bool), np.ones(levels.shape, dtype=bool)
        if levels.size:  # DAQP takes no dependent equality rows: they stay, without bounds
            unit, lengths = unit_rows(self._equalities)
            found = eliminate(unit, levels / lengths)
            self._is_possible, needed = found.consistent, found.columns >= 0
        low = np.full((count, self._others.size), -np.inf)
        self._right_lower = np.concatenate([below, low, np.where(needed, levels, -np.inf)], axis=1)
        high = right[:, self._others]
        self._right_upper = np.concatenate([above, high, np.where(needed, levels, np.inf)], axis=1)
        self._width = self._simple + self._others.size + levels.shape[1]
        self._sense = np.zeros((count, self._width), dtype=np.intc)
        self._sense[:, self._simple + self._others.size :] = np.where(needed, EQUALITY, 0)

        self._levels, self._weights = levels, np.zeros(levels.shape)
        self._hessians = np.empty((count, size, size))
        self._units = np.ones((count, size))
        self._rows = np.zeros(self._general.shape)
        self._shares = np.zeros(self._owned.shape)
        self._lengths = np.ones(self._general.shape[:2])
        self._upper = np.full(self._sense.shape, np.inf)
        self._lower = np.full(self._sense.shape, -np.inf)
        self._sizes = np.full(count, np.nan)
        self._reaches = np.ones(count)
        self._is_ready = np.zeros(count, dtype=bool)
        self._is_new = np.ones(count, dtype=bool)
        made = size, self._general.shape[1], self._simple
        if made != self._made:
            self._models, self._made = [made_up(*made) for _ in forms], made

    def _read(self, forms: Sequence[Form], size: int) -> None:
        """Take the matrices of the rows."""
        first = forms[0].inequalities.matrix
        # Clients of one shape mostly have the very same rows: one copy does
        is_shared = all(form.inequalities.matrix is first for form in forms)
        matrix = first[None] if is_shared else np.array([f.inequalities.matrix for f in forms])
        self._equalities = np.array([form.equalities.matrix for form in forms])
        # The clients share one set of arrays, so a row is a bound for all of them or for none
        is_bound = ((matrix != 0).sum(axis=2) == 1).all(axis=0)
        self._bounds, self._others = np.flatnonzero(is_bound), np.flatnonzero(~is_bound)
        self._simple = size if self._bounds.size else 0
        others = np.broadcast_to(matrix[:, self._others], (len(forms), self._others.size, size))
        self._general = np.concatenate([others, self._equalities], axis=1)
        bounds = matrix[:, self._bounds]
        columns = np.abs(bounds).argmax(axis=2)
        factors = np.take_along_axis(bounds, columns[:, :, None], axis=2)[:, :, 0]
        shape = len(forms), self._bounds.size
        columns, factors = np.broadcast_to(columns, shape), np.broadcast_to(factors, shape)
        side = (factors < 0).astype(int)
        self._placed = columns, factors, side
        places = np.sort(2 * columns + side, axis=1)
        self._is_single = bool((places[:, 1:] != places[:, :-1]).all())
        same = (columns == columns[:1]).all()
        self._columns = columns[0] if same else columns

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H for some clients; failed are those that DAQP would regularise."""
        units, scaled, failed = _scaled(hessians)
        if failed.any() and self._levels.size:
            rows, weights = self._equalities[which], np.zeros((which.size, self._levels.shape[1]))
            weights[failed] = equality_weights(hessians[failed], rows[failed])
            held = hessians + (rows * weights[:, :, None]).transpose(0, 2, 1) @ rows
            units, scaled, failed = _scaled(held)
            self._weights[which] = weights
        rows, lengths = unit_rows(self._general[which] * units[:, None, :])
        divisors = np.concatenate([units[:, : self._simple], lengths], axis=1)
        self._hessians[which], self._units[which] = scaled, units
        self._rows[which], self._lengths[which] = rows, lengths
        self._upper[which] = self._right_upper[which] / divisors
        self._lower[which] = self._right_lower[which] / divisors
        self._shares[which] = self._owned[which] / self._of_bounds(units, which)
        bounds = np.abs(np.concatenate([self._upper[which], self._lower[which]], axis=1))
        reaches = np.where(np.isfinite(bounds), bounds, 0).max(axis=1)
        self._reaches[which] = reaches = np.where(reaches > 0, reaches, 1)
        self._sizes[which] = np.where(np.isnan(self._sizes[which]), reaches, self._sizes[which])
        self._is_ready[which] = False
        for i in np.flatnonzero(~failed):
            failed[i] = self._give(which[i]) == NOT_CONVEX
        return failed

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear``, from where each client's last solve ended."""
        at = selection(which)
        units = self._units[at]
        weights, rows = self._weights[at], self._equalities[at]
        is_held = weights.any()
        if is_held:
            linear = linear - times(rows.transpose(0, 2, 1), weights * self._levels[at])
        linear = units * linear
        gradient_scale = np.abs(linear).max(axis=1)
        outgrown = gradient_scale > OUTGROWN * self._sizes[which]
        if outgrown.any():
            self._resize(which, gradient_scale, outgrown)
        points, forces, ended = self._run(which, linear)
        largest = np.where(ended, np.abs(points).max(axis=1), self._reaches[which])
        sizes = np.maximum(gradient_scale, largest)
        now = self._sizes[which]
        # A working set that ended badly is no start, neither now nor next time
        stale = (sizes > OUTGROWN * now) | (OUTGROWN * sizes < now) | ~ended
        if stale.any():
            self._is_new[which[~ended]] = True
            again = self._resize(which, sizes, stale)
            points[again], forces[again], ended[again] = self._run(which[again], linear[again])

        bent = times(self._hessians[at], points)
        energy = np.vecdot(bent, points)
        failed = ~(ended & self._fits(at, linear, points, forces, bent))
        points *= units
        if is_held:
            energy -= np.vecdot(weights, times(rows, points) ** 2)
        simple, others = self._simple, self._others.size
        inequality = np.zeros((which.size, self._bounds.size + others))
        bounds = self._of_bounds(forces, at) * self._shares[at]
        inequality[:, self._bounds] = np.maximum(bounds, 0)
        rows = forces[:, simple:] / self._lengths[at]
        inequality[:, self._others] = np.maximum(rows[:, :others], 0)
        equality = rows[:, others:]
        if failed.any():
            for found in (points, inequality, equality):
                found[failed] = np.nan
        return Step(points, equality, inequality, failed, energy)

    def _run(self, which: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, ...]:
        """What DAQP finds: points and multipliers in scaled units, and where it ended well."""
        sizes = self._sizes[which][:, None]
        live = self._is_ready[which].nonzero()[0]
        points, forces, ended = run(self._models, which, live, linear / sizes, self._width)
        points *= sizes
        forces *= sizes
        return points, forces, ended

    def _fits(
        self,
        at: np.ndarray | slice,
        linear: np.ndarray,
        points: np.ndarray,
        forces: np.ndarray,
        bent: np.ndarray,
    ) -> np.ndarray:
        """Where the optimality conditions hold; the signs of multipliers are DAQP's own."""
        simple, rows = self._simple, self._rows[at]
        pull = bent + linear
        pull[:, :simple] += forces[:, :simple]
        pull += (forces[:, None, simple:] @ rows)[:, 0, :]
        reached = np.concatenate([points[:, :simple], times(rows, points)], axis=1)
        lower, upper = self._lower[at], self._upper[at]
        allowed = np.minimum(np.maximum(reached, lower), upper)
        np.copyto(allowed, upper, where=forces > 0)
        np.copyto(allowed, lower, where=forces < 0)
        reached -= allowed
        scale = np.maximum(np.abs(linear).max(axis=1), np.abs(points).max(axis=1))
        scale = np.maximum(scale, np.abs(forces).max(axis=1, initial=0))
        missed = np.maximum(np.abs(pull).max(axis=1), np.abs(reached).max(axis=1, initial=0))
        return missed <= MISSED * scale

    def _resize(self, which: np.ndarray, sizes: np.ndarray, stale: np.ndarray) -> np.ndarray:
        """Renew the units of stale clients with a size; say which, as positions in ``which``."""
        # In smaller units bounds would be beyond what doubles hold
        is_unit = np.isfinite(sizes) & (sizes > self._reaches[which] / np.finfo(float).max)
        renewed = np.flatnonzero(stale & is_unit & self._is_ready[which])
        for i in renewed:
            self._sizes[which[i]] = sizes[i]
            self._give(which[i])
        return renewed

    def _give(self, at: int) -> int:
        """Hand a client's arrays to its model, which keeps its working set."""
        # Of so few numbers np.clip takes ten times as long
        upper = np.minimum(np.maximum(self._upper[at] / self._sizes[at], -NONE), NONE)
        lower = np.minimum(np.maximum(self._lower[at] / self._sizes[at], -NONE), NONE)
        # Without marks for the rows they stay as they are, which is the warm start
        sense = self._sense[at] if self._is_new[at] else None
        self._is_new[at] = False
        model, rows = self._models[at], self._rows[at] if self._width > self._simple else None
        flag = model.update(self._hessians[at], None, rows, upper, lower, sense)
        self._is_ready[at] = flag >= 0 and self._is_possible[at]
        return flag

    def _of_bounds(self, values: np.ndarray, which: np.ndarray | slice) -> np.ndarray:
        """Of values per variable (or more), those of the variables that the bound rows bound."""
        if self._columns.ndim == 1:
            return values[:, self._columns]
        return np.take_along_axis(values, self._columns[which], axis=1)

    def _place_bounds(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tightest bounds of every variable, shapes (B, m), and which rows they are."""
        count, height = right.shape
        columns, factors, side = self._placed
        values = right / factors
        np.negative(values, out=values, where=side == 1)
        each = np.arange(count)
        sides = np.full((2, count, self._simple), np.inf)  # upper bounds, lower ones negated
        if self._is_single:
            sides[side, each[:, None], columns] = values
            self._owned = 1 / factors
            return -sides[1], sides[0]
        owners = np.full((2, count, self._simple), -1)
        for i in range(height):
            value = values[:, i]
            tighter = value < sides[side[:, i], each, columns[:, i]]
            place = side[tighter, i], each[tighter], columns[tighter, i]
            sides[place] = value[tighter]
            owners[place] = i
        owner = owners[side, each[:, None], columns]
        self._owned = np.where(owner == np.arange(height), 1 / factors, 0.0)
        return -sides[1], sides[0]


def _scaled(hessians: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The units in which H has a diagonal of ones, H in these, and where DAQP would regularise."""
    units = variable_scales(hessians)
    scaled = hessians * outer(units)
    return units, scaled, triangles(scaled, SINGULAR)[1]


def equality_weights(hessians: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Weights W of equality rows (k, p, m) that bend them as H bends what they are of, (k, p).

    A variable without curvature has that of the rows which others tell a weight of.
    """
    bends, squares = np.diagonal(hessians, axis1=1, axis2=2), rows**2
    weights = np.zeros(rows.shape[:2])
    for _ in range(rows.shape[1] + 1):
        known = np.divide(1.0, bends, out=np.zeros(bends.shape), where=bends > 0)
        reach = (squares * known[:, None, :]).max(axis=2)
        weights = np.divide(1.0, reach, out=np.zeros(reach.shape), where=reach > 0)
        told = np.where(bends > 0, bends, (squares * weights[:, :, None]).max(axis=1))
        if np.array_equal(told > 0, bends > 0):
            break
        bends = told
    return weights


def made_up(size: int, rows: int, bounds: int) -> daqp.Model:
    """A model with the settings, which DAQP takes only after a set-up; its numbers mean nothing."""
    model, bound = daqp.Model(), np.full(bounds + rows, NONE)
    model.setup(np.eye(size), np.zeros(size), np.ones((rows, size)), bound, -bound)
    model.settings = SETTINGS | {"iter_limit": budget(size, rows + bounds)}
    return model


def budget(size: int, rows: int) -> int:
    """Iterations after which the next solver is asked.

    A warm start takes some ten, a cold one about as many as rows become active. The most seen in
    121 models is 100 of 300 variables and rows, and 65 of 12; what takes more cycles, for ever.
    """
    return 100 + 2 * (size + rows)


def run(
    models: Sequence[daqp.Model],
    which: np.ndarray,
    live: np.ndarray,
    linear: np.ndarray,
    width: int,
) -> tuple[np.ndarray, ...]:
    """What DAQP finds for ``which[live]``: points, multipliers, and where it ended well."""
    points, forces = np.zeros(linear.shape), np.zeros((which.size, width))
    ended = np.zeros(which.size, dtype=bool)
    flags = []
    keep, timed = flags.append, is_limited()
    # Copied out one by one: DAQP's answers kept until the end cost 1 to 2 us more each
    for i, at, own in zip(live.tolist(), which[live].tolist(), linear[live], strict=True):
        if timed:
            check_time()
        model = models[at]
        model.update(None, own)
        points[i], _, flag, notes = model.solve()
        forces[i] = notes["lam"]
        keep(flag)
    ended[live] = np.array(flags) == DAQP_OPTIMAL
    return points, forces, ended
