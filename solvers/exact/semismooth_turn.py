"""One turn of the semismooth Newton method for some clients.

See :mod:`dald_model.solvers.exact.semismooth_newton` for the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.deadline import check_time
from dald_model.sizes import INNER, ROUNDING, SUMMED
from dald_model.solvers.arrays.indexing import double, selection, times
from dald_model.solvers.arrays.stack import TermValues
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.cholesky import inverse_roots, variable_scales
from dald_model.solvers.exact.line_search import FLATTER_SLOPE, flattened, turned
from dald_model.solvers.exact.semismooth_state import SOFT, ClientState, is_inside

STIFF, STIFFENING = 1e6, 5.0
r"""The penalties :math:`\tau` at most, relative to what a row is held with by the diagonal of H.

And by how much they grow with each s: stiff ones leave little of an error of s.
"""

FIRM = 1e2
r"""The penalties of balls at most: along the edge of a stiffer one Newton steps are short."""

TURNED = 1e-2
"""Share by which the derivative of a block may change before the inverse is taken anew: then each
step still leaves no more of the error than this."""

GOOD = 0.25
r"""The ratio :math:`\theta` of two steps up to which a Hessian is kept.

Below 1/2: near a pole, as that of the logarithm, Newton's steps are tiny however far the minimum
is, and shrink or grow by a factor of two.
"""

LOST, MOST_LOST = 0.5, 0.05
"""A function is lost whose curvature is below the first share of what it was when the Hessian was
taken; the Hessian is renewed before a client is done where more than the second share of the
curvature was theirs. Steps are blind to directions which the last ones hardly had and in which the
Hessian has become much too large; while nothing is lost they are too short by 1 / LOST at most."""

TRAPPED = 0.1
"""A step by which an argument grows by more than this share of itself leaves a pole, as that of an
entropy: next to it steps are tiny however far the minimum is, and so is what the objective falls
by. At a minimum an argument grows by rounding alone."""

MET = 10.0
"""How many errors of the points the rows may be off their kinks; blocks, which bend, only INNER:
with errors of one, points were 1.7 times as wrong as allowed at condition 1e3."""

ALONG = 2**13
"""Numbers up to which those who are done are carried along: to copy the others takes as long as a
step, and most end within two of each other."""

FIRST_SHIFT, LAST_SHIFT, SHIFT_GROWTH = 1e-11, 1e-2, 100.0
"""Levenberg's multiples of the diagonal, tried in turn where a Hessian is singular: from rounding
to where a step is no longer Newton's."""


class Midway(NamedTuple):
    """Where clients are between two steps, so that they go on as if nobody else had been done.

    Attributes
    ----------
    bent, pulled : ndarray, shapes (k, m) and (k, R)
        H x, and the rows' forces before they are clipped.
    is_fresh : ndarray of bool, shape (k,)
        Whether the multipliers are the forces of an inner minimiser.
    is_new : ndarray of bool, shape (k,)
        Whether none were found since the solve began.
    """

    bent: np.ndarray
    pulled: np.ndarray
    is_fresh: np.ndarray
    is_new: np.ndarray

    def of(self, chosen: np.ndarray) -> Midway:
        """Those of some clients."""
        return Midway(*(each[chosen] for each in self))


class SemismoothTurn:
    """Some clients of a group, until all of them are done, or half of many.

    ``hessians`` are their H without the smooth terms.
    """

    def __init__(
        self,
        group: ClientState,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        errors: np.ndarray,
    ) -> None:
        at = selection(members)
        self._group, self._at, self._members = group, at, members
        self._rows, self._grown = group.rows.take(at), group.grown[at].copy()
        self._functions = self._rows.functions
        self._reaches, self._forces = group.reaches[at], group.forces[at]
        self._stiffness = self._stiff()
        self._hessians, self._linear, self._errors = hessians, linear, errors
        self._roots, self._inside = group.roots[at], group.inside[at].copy()
        self._is_stale, self._bearings = group.is_stale[at].copy(), group.bearings[at].copy()
        # How far rows may be off: so far as points may be that are MET times as wrong as allowed
        self._moves = MET * np.sqrt(self._rows.matrix.squared_times(errors**2))
        for block in self._functions.blocks:
            self._moves[:, block.rows] *= INNER / MET
        self.x, self.multipliers = group.points[at].copy(), group.multipliers[at].copy()
        self._values = group.values[at].copy()
        self._smooth: Terms | None = None
        self._short = 1.0
        self._pull = np.zeros(linear.shape)
        self._is_outgrown = np.zeros(len(linear), dtype=bool)
        self.is_lost = np.zeros(len(linear), dtype=bool)
        if group.smooth is not None:
            self._smooth, self._short = group.smooth.part(members), INNER
            self._levels, self._pull = group.levels[at].copy(), group.slopes[at].copy()
            self._curvatures = group.curvatures[at].copy()

    def run(self, steps: int, way: Midway | None) -> tuple[np.ndarray, int, Midway]:
        """Go on; say who is done, how many steps were taken, and where everybody is."""
        matrix, taken = self._rows.matrix, 0
        is_large = self._hessians.size + self._values.size > ALONG
        is_done = np.zeros(len(self.x), dtype=bool)
        if way is None:
            way = Midway(times(self._hessians, self.x), self._pulled(), is_done, ~is_done)
        bent, pulled, is_fresh, is_new = way
        gradient, ahead = None, None
        stood = is_stuck = np.zeros(len(self.x), dtype=bool)
        held, inside = self._functions.forces(pulled, self._stiffness)
        while taken < steps:
            taken += 1
            if self._is_outgrown.any():
                self._bend()
                pulled, ahead = self._pulled(), None
                held, inside = self._functions.forces(pulled, self._stiffness)
            self._renew(pulled, inside)
            slope = bent + self._linear + self._pull
            if gradient is None or ahead is None:
                gradient = slope + matrix.back(held)
                ahead = double(self._roots, gradient)
            step = -ahead
            allowed, floor = self._allowed(slope)
            sizes = (np.abs(step) / allowed).max(axis=1)
            # The first step from other multipliers says how far these were from the best
            self.is_lost = ~np.isfinite(sizes) | is_stuck
            ends = is_fresh & (sizes <= self._short) & ~is_done
            if ends.any():
                is_done = is_done | (ends & self._meets(held, floor) & self._is_sure(step, ends))
            rests = is_done | self.is_lost
            if rests.all() or (is_large and 2 * np.count_nonzero(rests) > rests.size):
                break
            step[rests] = 0.0
            change, bend = matrix.times(step), times(self._hessians, step)
            first, base = np.vecdot(gradient, step), np.vecdot(bent + self._linear, step)
            moved = step, change, self._stiffness * change
            lengths, pulled, held, after = self._search(first, base, bend, pulled, moved)
            self.x += lengths * step
            self._values += lengths * change
            bent += lengths * bend
            is_fresh = (lengths[:, 0] == 1) & (after == inside).all(axis=1) | (sizes <= INNER)
            gradient, ahead = None, None
            if self._smooth is not None:
                gradient = bent + self._linear + self._pull + matrix.back(held)
                ahead = double(self._roots, gradient)
                is_fresh &= self._is_shrinking(ahead, sizes, allowed, floor)
                self._is_outgrown &= ~rests
            if self._values.size:  # with other multipliers they are others
                ahead = None
            is_fresh &= ~is_done
            np.copyto(self.multipliers, held, where=is_fresh[:, None])
            self._hurry((ends & ~is_done).nonzero()[0], inside, sizes)
            is_new = is_new & ~is_fresh
            is_short = is_new & (lengths[:, 0] < 1 / STIFFENING) & (self._smooth is not None)
            shrank = self._stiffen(is_fresh, is_short)
            pulled = np.where((is_fresh | shrank)[:, None], self._pulled(), pulled)
            held, inside = self._functions.forces(pulled, self._stiffness)
            # At the edge of a domain, beyond which rows pull, every step is as the last
            stands = lengths[:, 0] == 0
            is_stuck, stood = stood & stands, stands & ~(is_fresh | shrank)
        self._write(is_done)
        return is_done, taken, Midway(bent, pulled, is_fresh, is_new)

    def _allowed(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps that are none, (k, m), and those of rounding in units of the variables, (k,)."""
        units = self._group.units[self._at]
        reach = np.maximum(np.abs(self.x) / units, units * np.abs(slope)).max(axis=1)
        floor = ROUNDING * np.maximum(reach, self._forces)
        return np.maximum(self._errors, units * floor[:, None]), floor

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

    def _is_sure(self, step: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Whether short steps of those asked mean that a minimiser is near."""
        found = np.ones(len(step), dtype=bool)
        if self._smooth is None:
            return found
        before = self._group.before[self._at]
        lost = np.vecdot(before, (self._curvatures < LOST * before).astype(float))
        is_blind = asked & (lost > MOST_LOST * before.sum(axis=1))
        self._is_outgrown |= is_blind
        found &= ~is_blind
        if self._smooth.has_traps:
            at = np.flatnonzero(asked)
            is_trapped = self._smooth.growth(at, self.x[at], step[at]) > TRAPPED
            self._is_outgrown[at[is_trapped]] = True
            found[at[is_trapped]] = False
        return found

    def _is_shrinking(
        self, ahead: np.ndarray, sizes: np.ndarray, allowed: np.ndarray, floor: np.ndarray
    ) -> np.ndarray:
        """Whether the step after one shrinks as a good Hessian makes it; else it is renewed."""
        theta = (np.abs(ahead) / allowed).max(axis=1) / np.maximum(sizes, np.finfo(float).tiny)
        units = self._group.units[self._at]
        is_rounding = (np.abs(ahead) / units).max(axis=1) <= floor
        found = (theta <= GOOD) | is_rounding
        self._is_outgrown |= ~found
        return found

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
        count = np.minimum(steps.min(axis=1, initial=np.inf), most)
        count[np.isinf(count)] = 0.0
        self.multipliers[stuck] += np.maximum(count, 0.0)[:, None] * drift

    def _stiffen(self, fresh: np.ndarray, short: np.ndarray) -> np.ndarray:
        """Have penalties grow with new multipliers, and shrink where steps are short; say whose do.

        Short ones of smooth terms, each of which has a Hessian of its own, end at the next of many
        kinks that are as stiff as the last solve left them.
        """
        before = self._grown
        if not self._values.size:
            return np.zeros(before.size, dtype=bool)
        grown = np.where(fresh, np.minimum(STIFFENING * before, STIFF), before)
        grown = np.where(short, np.maximum(before / STIFFENING, SOFT), grown)
        if (grown != before).any():
            self._is_stale |= grown != before
            self._grown = grown
            self._stiffness = self._stiff()
        return grown < before

    def _stiff(self) -> np.ndarray:
        """The penalties of the rows."""
        found = np.repeat(self._grown[:, None], self._reaches.shape[1], axis=1)
        for block in self._functions.blocks:
            if block.is_ball:
                found[:, block.rows] = np.minimum(found[:, block.rows], FIRM)
        return found / self._reaches**2

    def _bend(self) -> None:
        """Take the Hessians of smooth terms anew where the last ones do not do."""
        assert self._smooth is not None
        own = np.flatnonzero(self._is_outgrown)
        self._is_stale[own], self._is_outgrown[own] = True, False
        curved = self._hessians[own] + self._smooth.hessians(own, self.x[own])
        self._group.bend(self._members[own], curved, self._curvatures[own])
        self._reaches, self._forces = self._group.reaches[self._at], self._group.forces[self._at]
        self._stiffness = self._stiff()

    def _renew(self, pulled: np.ndarray, inside: np.ndarray) -> None:
        """Take the roots for other rows J, blocks that turned and Hessians that did not do."""
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
        check_time()  # roots of thousands of variables take seconds
        at = selection(differs.nonzero()[0])
        curved = self._group.hessians[self._members[at]]
        if self._values.size:
            curved = curved + self._rows.curvature(self._stiffness[at], found.of(at), at)
        self._roots[at] = _roots(curved)
        self._inside[at], self._is_stale[at] = inside[at], False

    def _search(
        self,
        first: np.ndarray,
        base: np.ndarray,
        bend: np.ndarray,
        pulled: np.ndarray,
        moved: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How far along the steps the inner problem's objective falls, at most 1; forces there.

        Of shape (k, 1), and as :meth:`_pulled` and :meth:`Functions.forces` give them. ``first`` is
        the slope at the start, ``base`` that of the quadratic part. ``moved`` are the steps and by
        what they change the rows and their forces.
        """
        step, change, stiff = moved
        ahead, rise = pulled + stiff, np.vecdot(step, bend)
        held, inside = self._functions.forces(ahead, self._stiffness)
        last = base + rise + np.vecdot(held, change)
        known = self._smooth and self._smooth.evaluate(None, self.x + step)
        if known:
            last += np.where(is_inside(known), np.vecdot(known.gradients, step), np.inf)
        lengths = np.ones((first.size, 1))
        long = (last > -FLATTER_SLOPE * first).nonzero()[0]
        if long.size:
            functions, stiffness = self._functions.take(long), self._stiffness[long]
            begin, force, changed = pulled[long], stiff[long], change[long]
            start, bent = base[long], rise[long]
            smooth = self._smooth and self._smooth.along(long, self.x[long], step[long])

            def plain(at: np.ndarray) -> np.ndarray:
                now = functions.forces(begin + at[:, None] * force, stiffness)[0]
                return start + at * bent + np.vecdot(now, changed)

            def slope(at: np.ndarray) -> np.ndarray:
                return plain(at) + smooth(at) if smooth else plain(at)

            def zero(
                low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray
            ) -> np.ndarray:
                """Where slopes are zero if those of smooth terms are linear between two lengths."""
                curved = below - plain(low)
                rise = (above - plain(high) - curved) / (high - low)
                begins = plain(np.zeros(low.size)) + curved - low * rise
                return turned(begins, bent + rise, force * changed, spans)

            if functions.blocks or not self._values.size:
                lengths[long, 0] = flattened(slope, first[long], last[long])
            else:
                spans = functions.spans(begin, force)
                if smooth:
                    lengths[long, 0] = flattened(slope, first[long], last[long], zero)
                else:
                    lengths[long, 0] = turned(first[long], bent, force * changed, spans)
            if self._smooth and known:
                there = self._smooth.evaluate(long, self.x[long] + lengths[long] * step[long])
                for whole, part in zip(known, there, strict=True):
                    whole[long] = part
        if known:
            self._go(known, lengths)
        if long.size:
            ahead = pulled + lengths * stiff
            held, inside = self._functions.forces(ahead, self._stiffness)
        return lengths, ahead, held, inside

    def _go(self, known: TermValues, lengths: np.ndarray) -> None:
        """Take what smooth terms are at the new points; who would leave the domain stays."""
        is_out = ~is_inside(known)
        if is_out.any():
            old = self._levels, self._pull, self._curvatures
            for whole, before in zip(known, old, strict=True):
                whole[is_out] = before[is_out]
            lengths[is_out] = 0.0
        self._levels, self._pull, self._curvatures = known

    def _write(self, is_done: np.ndarray) -> None:
        """Leave everything in the group; variables of one row's kink exactly there.

        What rows are is worked out anew: far from the origin what steps add up to is not exact.
        """
        group, at = self._group, self._at
        self._rows.put(self.x, self._inside & is_done[:, None])
        group.points[at] = self.x
        group.values[at] = self._rows.matrix.times(self.x) + self._rows.offset
        group.multipliers[at], group.inside[at] = self.multipliers, self._inside
        group.roots[at], group.is_stale[at] = self._roots, self._is_stale
        group.bearings[at] = self._bearings
        group.grown[at] = self._grown
        if self._smooth is not None:
            group.levels[at], group.slopes[at] = self._levels, self._pull
            group.curvatures[at] = self._curvatures
            pull = times(self._hessians, self.x) + self._linear + self._pull
            group.left[at] = np.abs(pull + self._rows.matrix.back(self.multipliers))


def _roots(matrices: np.ndarray) -> np.ndarray:
    """W of some Hessians, whose diagonals are raised where they are singular; NaN if in vain."""
    found, failed = inverse_roots(matrices, SUMMED)
    shift, lost = FIRST_SHIFT, failed.nonzero()[0]
    while lost.size and shift <= LAST_SHIFT:
        shifted = matrices[lost]
        units = variable_scales(shifted)
        shifted = shifted + shift * np.eye(units.shape[1]) / units[:, :, None] ** 2
        found[lost], failed = inverse_roots(shifted, SUMMED)
        lost, shift = lost[failed], SHIFT_GROWTH * shift
    found[lost] = np.nan
    return found
