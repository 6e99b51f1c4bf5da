r"""One turn of Newton's method for a batch of clients.

See :mod:`dald_model.solvers.exact.newton` for the method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.exact.newton_guard import ERROR, GOOD, OPTIMAL, Guard
from dald_model.solvers.exact.newton_model import QuadraticModels
from dald_model.solvers.exact.newton_points import Points, TermGroup, tried

TRIALS = 100
"""Trial points for one client in one turn."""

SAFETY = 0.2
"""Which share of the tolerance the estimated error may take."""

LOST, MOST_LOST = 0.5, 0.05
"""A function is lost whose curvature is below the first share of what it was when H was taken; H
is renewed before a client is done where more than the second share of the curvature was theirs.

The estimated error is blind to directions that the last steps hardly had and in which H has
become much too large. While nothing is lost, the step is too short by 1 / LOST at most.
"""

BAD = 0.9
r"""Beyond this :math:`\theta` a point is dropped."""

TRAPPED = 0.1
"""A step that makes an argument grow by a larger share of itself leaves a pole that holds it.

Next to that of an entropy steps are tiny however far the minimum is, and so is what the objective
falls by. At a minimum an argument grows by rounding, and that is less: who is nearer to a pole than
:data:`dald_model.solvers.arrays.stack.ROUNDED` is outside.
"""

UNKNOWN = np.nan
r"""The :math:`\theta` of an H that no full step has been taken with."""

FADING = 0.9
r"""How much of the worst :math:`\theta` seen counts one iteration later."""


class NewtonBatch:
    """The turn of clients ``which`` of a ``NewtonSession``, ``members`` of a group of its terms.

    They are few enough for their matrices to stay in cache.

    Attributes
    ----------
    points : Points
        The last points kept.
    codes : ndarray of int, shape (k,)
        How it ended, see :class:`~dald_model.solvers.exact.newton_guard.Guard`.
    left : ndarray, shape (k, m)
        What is left of the gradients there.
    """

    def __init__(
        self,
        session: Any,
        group: TermGroup,
        which: np.ndarray,
        members: np.ndarray,
        linear: np.ndarray,
        lengths: np.ndarray,
        tolerance: float,
    ) -> None:
        at = selection(which)
        self.session, self.which, self.group, self.members = session, which, group, members
        self.left = np.zeros(lengths.shape)
        self.terms = group.terms.part(members)
        self.goal = SAFETY * tolerance
        self.models = QuadraticModels(session, which, linear, lengths, self.goal)
        state = session.state
        inside = at if members is which else selection(members)
        x = state.points[at].copy()
        self.points = Points(
            x,
            state.values[at].copy(),
            state.smooth_gradients[at].copy(),
            np.zeros_like(x),
            group.last_curvatures[inside].copy(),
            np.zeros_like(x),
            np.full(which.size, np.inf),
            np.zeros((which.size, sum(session.rows))),
        )
        self.rates, self.radii = state.rates[at].copy(), state.radii[at].copy()
        self.spent, self.stale = state.spent[at].copy(), state.is_stale[at].copy()
        is_cold, is_feasible = state.is_cold[at].copy(), state.is_feasible[at].copy()
        self.guard = Guard(self.terms, self.models, is_cold, is_feasible)
        self.codes = self.guard.codes

    def minimise(self) -> None:
        """Leave the minimisers in the session's state and what else is asked for here."""
        points = self.points
        live = np.flatnonzero(np.isfinite(points.x).all(axis=1))
        points.quadratic_gradients[live] = self.models.gradient(live, points.x[live])
        self._renew(live[self.stale[live]])
        self._aim(live)
        is_known = (self.rates <= GOOD) & (points.sizes <= self.radii)
        is_there = points.sizes <= np.where(is_known, (1 - self.rates) * self.goal, 0.0)
        is_there &= ~self._are_trapped(np.arange(is_there.size), points, is_there)
        self.codes[is_there] = OPTIMAL
        for trial in range(TRIALS):
            live = live[(self.codes[live] == ERROR) & np.isfinite(points.sizes[live])]
            if live.size == 0:
                break
            if trial:
                self.spent[live] += 1
            self._try(live)
        self.left = self.models.unbalanced(points.gradients(), points.steps)
        self._write()

    def _try(self, live: np.ndarray) -> None:
        """Go along the steps of some clients and keep the points that are better."""
        at, points, guard = selection(live), self.points, self.guard
        lengths, guarded = guard.lengths[at].copy(), guard.guarded[at].copy()
        x = points.x[at] + lengths[:, None] * points.steps[at]
        trial = tried(self.terms, self.models, live, x)
        sizes, found = points.sizes[at].copy(), trial.points.sizes
        theta = found / np.maximum(sizes, np.finfo(float).tiny)
        good = trial.is_inside & (theta <= BAD)
        asked = trial.is_rounding | guarded | (trial.is_inside & (found <= self.goal))
        is_trapped = self._are_trapped(live, trial.points, asked)
        if guarded.any():
            guard.search(live, points, trial, good, is_trapped)

        good |= trial.is_rounding
        taken, kept = (at, slice(None)) if good.all() else (live[good], good)
        points.take(taken, trial.points, kept)

        is_full = lengths == 1
        rates = np.where(is_full, np.fmax(theta, FADING * self.rates[at]), UNKNOWN)
        believed = rates <= GOOD
        is_there = good & believed & (found <= (1 - rates) * self.goal)
        is_blind = is_there & self._has_lost(live, trial.points.curvatures, is_there)
        is_there = (is_there & ~is_blind | trial.is_rounding) & ~is_trapped
        self.codes[live[is_there]] = OPTIMAL
        self.radii[at] = np.where(believed, np.fmax(self.radii[at], sizes), self.radii[at])
        self.rates[taken] = rates[kept]
        guard.feasible[live[good & is_full]] = True
        if is_there.all():
            return

        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(found / self.goal) / -np.log(theta)
        is_dear = (theta > GOOD) | (left + self.spent[at] > self.session.price)
        is_calm = guard.judge(live, good, is_full & (theta <= GOOD))
        renewed = np.where(good, np.where(guarded, ~is_calm, is_dear), ~guarded)
        renewed = (renewed | is_blind | (good & is_trapped)) & ~is_there
        guard.renew(live[renewed & good & ~guarded])
        if renewed.any():
            self._renew(live[renewed])
            self._aim(live[renewed])

    def _are_trapped(self, live: np.ndarray, points: Points, asked: np.ndarray) -> np.ndarray:
        """Whose steps leave a pole next to which they are; False where not asked."""
        found = np.zeros(live.size, dtype=bool)
        if self.terms.has_traps and asked.any():
            grown = self.terms.growth(live[asked], points.x[asked], points.steps[asked])
            found[asked] = grown > TRAPPED
        return found

    def _has_lost(self, live: np.ndarray, curvatures: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Whether too much curvature was lost since H was taken; False where not asked."""
        found = np.zeros(live.size, dtype=bool)
        if asked.any():
            now, chosen = (curvatures, live) if asked.all() else (curvatures[asked], live[asked])
            then = self.group.curvatures[selection(self.members[chosen])]
            lost = np.vecdot(then, (now < LOST * then).astype(float))
            found[asked] = lost > MOST_LOST * then.sum(axis=1)
        return found

    def _aim(self, live: np.ndarray) -> None:
        """Take steps from the points kept."""
        at, points = selection(live), self.points
        points.aim(at, self.models.steps(live, points.x[at], points.gradients(at)))
        self.guard.lengths[at] = 1.0

    def _renew(self, live: np.ndarray) -> None:
        """Take the Hessians at the points kept."""
        if live.size == 0:
            return
        self.models.renew(live, self.terms.hessians(live, self.points.x[live]))
        self.rates[live], self.radii[live] = UNKNOWN, 0.0
        self.spent[live], self.stale[live] = 0.0, False
        self.group.curvatures[self.members[live]] = self.points.curvatures[live]

    def _write(self) -> None:
        state, which, found = self.session.state, self.which, self.codes > ERROR
        members, points = self.members, self.points
        if found.all():
            which, members, found = selection(which), selection(members), slice(None)
        else:
            lost = which[~found]
            state.is_cold[lost] = state.is_stale[lost] = True
            which, members = which[found], members[found]
        state.points[which], state.values[which] = points.x[found], points.values[found]
        state.smooth_gradients[which] = points.smooth_gradients[found]
        state.rates[which], state.radii[which] = self.rates[found], self.radii[found]
        self.group.last_curvatures[members] = points.curvatures[found]
        state.spent[which], state.is_feasible[which] = self.spent[found], True
        state.is_cold[which] = state.is_stale[which] = False
