r"""One turn of Newton's method for a batch of clients.

See :mod:`dald_model.solvers.exact.newton` for the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.solvers.arrays.indexing import selection, times
from dald_model.solvers.exact.newton_state import NewtonData, TermGroup

LIMIT = 100
"""Trial points for one client in one turn."""

SAFETY = 0.2
"""Which share of the tolerance the estimated error may take."""

LOST, MOST_LOST = 0.5, 0.05
"""A function is lost whose curvature is below the first share of what it was when H was taken; H
is renewed before a client is done where more than the second share of the curvature was theirs.

The estimated error is blind to directions that the last steps hardly had and in which H has
become much too large. While nothing is lost, the step is too short by 1 / LOST at most.
"""

GOOD, BAD = 0.25, 0.9
r"""Below the first :math:`\theta` the estimate is believed; beyond the second a point is dropped.

The first must be below 1/2: close to a pole, as that of the logarithm, Newton's steps are tiny
however far the minimum is, and shrink by one half.
"""

UNKNOWN = np.nan
r"""The :math:`\theta` of an H that no full step has been taken with."""

DESCENT = 1e-4
"""Which share of the predicted descent a full guarded step must bring."""

HALVINGS = 40
"""Points along a guarded step that was too long; they cost no product with a matrix."""

INNER = 0.05
"""Error of a step beside that of the point, where the step method is iterative."""

INWARD = 0.9
"""Share of the way to the edge of the domain that a point goes which breaks a row."""

ROUNDING = 1e-14
"""Differences of objectives below this share of their parts are rounding errors."""

FLOOR = 1e-12
"""Steps between points are rounding errors below this share of them; without rows none are
subtracted."""

LEVEL = 1e-6
"""An objective that falls by more than this share of its parts along such a step goes on."""

STALLS = 3
"""Steps without progress after which a guarded client whose descent is rounding gives up."""

FIRST_SHIFT, LAST_SHIFT, SHIFT_GROWTH = 1e-11, 1e-2, 100.0
"""Levenberg's multiples of the diagonal, tried in turn where H is singular."""

FLAT_SHIFT = 1e-4
"""What a variable without curvature gets of the largest there is, in natural units.

Rounding misses the rows that hold it by 1 / FLAT_SHIFT more than those of others.
"""

FADING = 0.9
r"""How much of the worst :math:`\theta` seen counts one iteration later."""

RENEWALS = 3
"""After how many Hessians in one turn a client is guarded to the end of it."""

ERROR, INACCURATE, OPTIMAL = 0, 1, 2


class _Model(NamedTuple):
    """Steps d from some points, their sizes relative to the natural lengths, and more.

    Attributes
    ----------
    steps, sizes, multipliers : ndarray
    is_rounding : ndarray of bool
        Where a step is a rounding error of the point.
    """

    steps: np.ndarray
    sizes: np.ndarray
    multipliers: np.ndarray
    is_rounding: np.ndarray


class NewtonBatch:
    """The turn of the clients ``which`` of a session, the ``members`` of a group of its terms.

    They are few enough for their matrices to stay in cache.

    Arrays have a row for every client of the batch and hold what is known at the last point kept:
    ``quadratic_gradients`` those of the quadratic part, ``smooth_gradients`` those of the terms.
    """

    def __init__(
        self,
        session: NewtonData,
        group: TermGroup,
        which: np.ndarray,
        members: np.ndarray,
        linear: np.ndarray,
        lengths: np.ndarray,
        tolerance: float,
    ) -> None:
        at = selection(which)
        self.session, self.which, self.linear = session, which, linear
        self.group, self.members = group, members
        self.goal, self.natural = SAFETY * tolerance, lengths
        self.left = np.zeros(lengths.shape)
        self.terms = group.terms.part(members)
        self.penalty = session.penalty[at]
        self.quadratic = None if session.quadratic is None else session.quadratic[at]
        state = session.state
        self.x, self.values, self.smooth_gradients = (
            state.points[at].copy(),
            state.values[at].copy(),
            state.smooth_gradients[at].copy(),
        )
        inside = at if members is which else selection(members)
        self.curvatures = group.last_curvatures[inside].copy()
        self.rates, self.radii = state.rates[at].copy(), state.radii[at].copy()
        self.spent = state.spent[at].copy()
        self.guarded, self.stale = state.is_cold[at].copy(), state.is_stale[at].copy()
        self.feasible = state.is_feasible[at].copy()
        self.codes = np.zeros(which.size, dtype=int)
        self.lengths = np.ones(which.size)
        self.falls = np.zeros(which.size, dtype=int)
        self.stalls = np.zeros(which.size, dtype=int)
        rows = session.rows
        self.quadratic_gradients, self.steps = np.zeros_like(self.x), np.zeros_like(self.x)
        self.sizes = np.full(which.size, np.inf)
        self.multipliers = np.zeros((which.size, sum(rows)))

    def minimise(self) -> None:
        """Leave the minimisers in the session's state and what else is asked for here."""
        live = np.flatnonzero(np.isfinite(self.x).all(axis=1))
        self.quadratic_gradients[live] = self._quadratic_gradient(live, self.x[live])
        self._renew(live[self.stale[live]])
        self._aim(live)
        is_known = (self.rates <= GOOD) & (self.sizes <= self.radii)
        is_there = self.sizes <= np.where(is_known, (1 - self.rates) * self.goal, 0.0)
        self.codes[is_there] = OPTIMAL
        for trial in range(LIMIT):
            live = live[(self.codes[live] == ERROR) & np.isfinite(self.sizes[live])]
            if live.size == 0:
                break
            if trial:
                self.spent[live] += 1
            self._try(live)
        self.left = self._unbalanced()
        self._write()

    def _unbalanced(self) -> np.ndarray:
        """What is left of the gradients at the points kept, shape (k, m)."""
        if self.session.hessians is None:
            return np.abs(self.quadratic_gradients + self.smooth_gradients)
        # The minimiser of the quadratic model balances everything but H d
        return np.abs(times(self.session.hessians[selection(self.which)], self.steps))

    def _try(self, live: np.ndarray) -> None:
        """Go along the steps of some clients and keep the points that are better."""
        at = selection(live)
        lengths, guarded = self.lengths[at].copy(), self.guarded[at].copy()
        x = self.x[at] + lengths[:, None] * self.steps[at]
        values, smooth_gradients, curvatures = self.terms.evaluate(live, x)
        quadratic_gradients = self._quadratic_gradient(live, x)
        is_inside = np.isfinite(values) & np.isfinite(smooth_gradients).all(axis=1)
        if not is_inside.all():
            smooth_gradients[~is_inside] = 0.0
        if self.terms.has_kinks:
            values = values + self.terms.kinks(live, x)
        with np.errstate(over="ignore", invalid="ignore"):  # a trial may be anywhere
            model = self._model(live, x, quadratic_gradients + smooth_gradients)
        sizes = self.sizes[at].copy()
        theta = model.sizes / np.maximum(sizes, np.finfo(float).tiny)
        good = is_inside & (theta <= BAD)
        if guarded.any():
            self._search(live, good, x, values, quadratic_gradients, is_inside, model.sizes)

        is_rounding = is_inside & model.is_rounding
        if is_rounding.any():
            slopes = quadratic_gradients + smooth_gradients
            is_rounding &= self._is_level(live, x, values, slopes, quadratic_gradients, model.steps)
        good |= is_rounding
        taken, kept = (at, slice(None)) if good.all() else (live[good], good)
        self.x[taken], self.values[taken] = x[kept], values[kept]
        self.smooth_gradients[taken], self.quadratic_gradients[taken] = (
            smooth_gradients[kept],
            quadratic_gradients[kept],
        )
        self.curvatures[taken] = curvatures[kept]
        self._take(taken, _Model(*(part[kept] for part in model)))

        is_full = lengths == 1
        rates = np.where(is_full, np.fmax(theta, FADING * self.rates[at]), UNKNOWN)
        believed = rates <= GOOD
        is_there = good & believed & (model.sizes <= (1 - rates) * self.goal)
        is_blind = is_there & self._has_lost(live, curvatures, is_there)
        is_there = (is_there & ~is_blind) | is_rounding
        self.codes[live[is_there]] = OPTIMAL
        self.radii[at] = np.where(believed, np.fmax(self.radii[at], sizes), self.radii[at])
        self.rates[taken] = rates[kept]
        self.feasible[live[good & is_full]] = True
        if is_there.all():
            return

        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(model.sizes / self.goal) / -np.log(theta)
        is_dear = (theta > GOOD) | (left + self.spent[at] > self.session.price)
        is_calm = is_full & (theta <= GOOD) & (self.falls[at] < 2)
        self.guarded[live[good & guarded & is_calm]] = False
        fallen = live[~good & ~guarded]
        self.falls[fallen] += 1
        self.guarded[fallen] = True
        self.lengths[live[good]] = 1.0
        renewed = np.where(good, np.where(guarded, ~is_calm, is_dear), ~guarded)
        renewed = (renewed | is_blind) & ~is_there
        # Steps can shrink under every H and yet run in a circle from one H to the next.
        again = live[renewed & good & ~guarded]
        self.falls[again] += 1
        self.guarded[again[self.falls[again] > RENEWALS]] = True
        if renewed.any():
            self._renew(live[renewed])
            self._aim(live[renewed])

    def _is_level(
        self,
        live: np.ndarray,
        x: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray,
        quadratic_gradients: np.ndarray,
        steps: np.ndarray,
    ) -> np.ndarray:
        """Whether objectives hardly fall along steps that are small beside their points.

        Beside a pole that is far from zero a step to twice the distance from it is as small.
        """
        sides = np.abs(quadratic_gradients) + np.abs(self.linear[selection(live)])
        parts = np.vecdot(np.abs(x), sides) + np.abs(values)
        return np.abs(np.vecdot(slopes, steps)) <= LEVEL * parts

    def _has_lost(self, live: np.ndarray, curvatures: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Whether too much curvature was lost since H was taken; False where not asked."""
        found = np.zeros(live.size, dtype=bool)
        if asked.any():
            now, chosen = (curvatures, live) if asked.all() else (curvatures[asked], live[asked])
            then = self.group.curvatures[selection(self.members[chosen])]
            lost = np.vecdot(then, (now < LOST * then).astype(float))
            found[asked] = lost > MOST_LOST * then.sum(axis=1)
        return found

    def _search(
        self,
        live: np.ndarray,
        good: np.ndarray,
        x: np.ndarray,
        values: np.ndarray,
        quadratic_gradients: np.ndarray,
        is_inside: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        """Judge the full steps of guarded clients by Armijo's rule: set ``good``, else lengths."""
        i = np.flatnonzero(self.guarded[live])
        at = live[i]
        before, start, step, length = (
            self.x[at],
            self.quadratic_gradients[at],
            self.steps[at],
            self.lengths[at],
        )
        linear = self.linear[at]
        merit = np.vecdot(before, start + linear) / 2 + self.values[at]
        now = np.vecdot(x[i], quadratic_gradients[i] + linear) / 2 + values[i]
        parts = np.vecdot(np.abs(before), np.abs(start) + np.abs(linear)) + np.abs(self.values[at])
        descent = np.vecdot(start + self.smooth_gradients[at], step)
        if self.terms.has_kinks:
            descent += self.terms.kinks(at, before + step) - self.terms.kinks(at, before)
        noise = ROUNDING * parts
        share = np.where(length == 1, DESCENT, 0.0)  # else it was chosen for its descent
        enough = now <= merit + share * descent + noise
        good[i] = kept = is_inside[i] & (enough | ~self.feasible[at])

        # Where no descent is left that can be told from rounding, steps need not shrink any more.
        stuck = kept & (np.abs(descent) <= noise)
        stuck &= sizes[i] > GOOD * self.sizes[at]
        self.stalls[at[stuck]] += 1
        feasible = self.feasible[at]
        self.codes[at[feasible & (self.stalls[at] >= STALLS)]] = INACCURATE
        self.codes[at[feasible & stuck & (sizes[i] <= self.goal)]] = OPTIMAL

        long, bend = at[~kept], np.vecdot(quadratic_gradients[i] - start, step) / length
        slope = np.vecdot(start, step)
        self.lengths[long] = self._slide(long, slope[~kept], bend[~kept], length[~kept])

    def _slide(
        self, at: np.ndarray, slope: np.ndarray, bend: np.ndarray, longest: np.ndarray
    ) -> np.ndarray:
        """Lengths, nearly the best, up to which the objective falls along the steps.

        With ``slope`` and ``bend``, the derivatives of its quadratic part along the steps.
        """
        if at.size == 0:
            return longest
        rise, feasible = self.terms.along(at, self.x[at], self.steps[at]), self.feasible[at]
        low, high = np.zeros(at.size), longest
        for _ in range(HALVINGS):
            middle = np.where(low == 0, high / 4, (low + high) / 2)
            found = rise(middle)
            # A point that breaks a row has no objective to go by: it need only stay in the domain
            is_falling = np.where(feasible, slope + middle * bend + found <= 0, np.isfinite(found))
            low, high = np.where(is_falling, middle, low), np.where(is_falling, high, middle)
            if (high <= 1.05 * low).all():
                break
        return np.where(low == 0, high, np.where(feasible, low, INWARD * low))

    def _quadratic_gradient(self, live: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Gradients of the quadratic part, augmented terms included."""
        at = selection(live)
        penalty = self.penalty[at]
        found = penalty * x if penalty.ndim == 2 else times(penalty, x)
        found += self.linear[at]
        if self.quadratic is not None:
            found += times(self.quadratic[at], x)
        return found

    def _model(self, live: np.ndarray, x: np.ndarray, gradient: np.ndarray) -> _Model:
        """Steps from x to the minimisers of the quadratic models; NaN where there is none."""
        hessians, which = self.session.hessians, self.which[live]
        natural = self.natural[selection(live)]
        if hessians is None:
            # Without rows the step itself is the minimiser, free of the rounding errors of H x.
            found = self.session.method.solve(which, gradient, natural)
            step = found.points
        else:
            linear = gradient - times(hessians[selection(which)], x)
            found = self.session.method.solve(which, linear, INNER * self.goal * natural)
            step = found.points - x
        length = np.abs(step)
        sizes = np.max(length / natural, axis=1, initial=0.0)
        is_rounding = np.zeros(which.size, dtype=bool)
        if self.session.floor:
            is_rounding |= np.all(length <= self.session.floor * np.abs(x), axis=1)
        if found.failed.any():
            sizes[found.failed] = np.nan
        return _Model(step, sizes, found.multipliers, is_rounding)

    def _aim(self, live: np.ndarray) -> None:
        """Take steps from the points kept."""
        at = selection(live)
        self._take(
            at,
            self._model(live, self.x[at], self.quadratic_gradients[at] + self.smooth_gradients[at]),
        )
        self.lengths[at] = 1.0

    def _take(self, at: np.ndarray | slice, model: _Model) -> None:
        self.steps[at], self.sizes[at] = model.steps, model.sizes
        self.multipliers[at] = model.multipliers

    def _renew(self, live: np.ndarray) -> None:
        """Take the Hessians at the points kept."""
        if live.size == 0:
            return
        hessians = self.terms.hessians(live, self.x[live])
        if self.quadratic is not None:
            hessians += self.quadratic[live]
        if self.penalty.ndim == 2:
            add_diagonal(hessians, self.penalty[live])
        else:
            hessians += self.penalty[live]
        method, which = self.session.method, self.which[live]
        failed = np.flatnonzero(method.factor(which, hessians))
        shift = FIRST_SHIFT
        while failed.size and shift <= LAST_SHIFT:
            diagonal = np.diagonal(hessians[failed], axis1=1, axis2=2)
            shifts = _shifts(diagonal, self.natural[live[failed]], shift)
            hessians[failed] = _shifted(hessians[failed], shifts)
            failed = failed[method.factor(which[failed], hessians[failed])]
            shift *= SHIFT_GROWTH
        if self.session.hessians is not None:
            self.session.hessians[which] = hessians
        self.rates[live], self.radii[live] = UNKNOWN, 0.0
        self.spent[live], self.stale[live] = 0.0, False
        self.group.curvatures[self.members[live]] = self.curvatures[live]

    def _write(self) -> None:
        state, which, found = self.session.state, self.which, self.codes > ERROR
        members = self.members
        if found.all():
            which, members, found = selection(which), selection(members), slice(None)
        else:
            lost = which[~found]
            state.is_cold[lost] = state.is_stale[lost] = True
            which, members = which[found], members[found]
        state.points[which], state.values[which] = self.x[found], self.values[found]
        state.smooth_gradients[which], state.rates[which] = (
            self.smooth_gradients[found],
            self.rates[found],
        )
        self.group.last_curvatures[members] = self.curvatures[found]
        state.radii[which] = self.radii[found]
        state.spent[which], state.is_feasible[which] = self.spent[found], True
        state.is_cold[which] = state.is_stale[which] = False


def add_diagonal(matrices: np.ndarray, diagonals: np.ndarray) -> None:
    """Add diagonals of shape (k, m) to k matrices, in place."""
    size = diagonals.shape[1]
    matrices[:, range(size), range(size)] += diagonals


def _shifts(diagonals: np.ndarray, lengths: np.ndarray, shift: float) -> np.ndarray:
    """What Levenberg adds to diagonals, shape (k, m)."""
    bent = diagonals * lengths**2
    top = bent.max(axis=1, keepdims=True)
    flat = max(shift, FLAT_SHIFT) * np.where(top > 0, top, 1.0) / lengths**2
    return np.where(bent <= FIRST_SHIFT * top, flat, shift * diagonals)


def _shifted(matrices: np.ndarray, diagonals: np.ndarray) -> np.ndarray:
    found = matrices.copy()
    add_diagonal(found, diagonals)
    return found
