r"""Guarded clients: those whose steps do not shrink, and how far they go along them.

See :mod:`dald_model.solvers.exact.newton` for the method.
"""

from __future__ import annotations

import numpy as np

from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.line_search import SEARCHES
from dald_model.solvers.exact.newton_model import QuadraticModels
from dald_model.solvers.exact.newton_points import Points, Trial
from dald_model.values import ROUNDING

GOOD = 0.25
r"""Below this :math:`\theta` the estimate of the error is believed.

It must be below 1/2: close to a pole, as that of the logarithm, Newton's steps are tiny however far
the minimum is, and shrink by one half.
"""

DESCENT = 1e-4
"""Which share of the predicted descent a full guarded step must bring."""

INWARD = 0.9
"""Share of the way to the edge of the domain that a point goes which breaks a row."""

STALLS = 3
"""Steps without progress after which a guarded client whose descent is rounding gives up."""

RENEWALS = 3
"""After how many Hessians in one turn a client is guarded to the end of it."""

ERROR, INACCURATE, OPTIMAL = 0, 1, 2


class Guard:
    """Which clients of a batch are guarded in a turn.

    Attributes
    ----------
    guarded, feasible : ndarray of bool, shape (k,)
        Who is, and whose point keeps its rows.
    lengths : ndarray, shape (k,)
        Shares of their steps that clients try next.
    codes : ndarray of int, shape (k,)
        Who is done, and how: :data:`ERROR` stands for nobody yet.
    """

    def __init__(
        self, terms: Terms, models: QuadraticModels, guarded: np.ndarray, feasible: np.ndarray
    ) -> None:
        self._terms, self._models = terms, models
        self.guarded, self.feasible = guarded, feasible
        self.lengths = np.ones(guarded.size)
        self.codes = np.full(guarded.size, ERROR)
        self._falls = np.zeros(guarded.size, dtype=int)
        self._stalls = np.zeros(guarded.size, dtype=int)

    def search(
        self,
        live: np.ndarray,
        kept: Points,
        trial: Trial,
        good: np.ndarray,
        is_trapped: np.ndarray,
    ) -> None:
        """Judge the full steps of guarded clients by Armijo's rule: set ``good``, else lengths.

        ``kept`` are the points of the batch, ``trial`` those that ``live`` try. Next to a pole that
        traps them what they fall by says nothing.
        """
        i = np.flatnonzero(self.guarded[live])
        at, tried = live[i], trial.points
        before, start, step, length = (
            kept.x[at],
            kept.quadratic_gradients[at],
            kept.steps[at],
            self.lengths[at],
        )
        linear, gradients, sizes = (
            self._models.linear[at],
            tried.quadratic_gradients[i],
            tried.sizes[i],
        )
        merit = np.vecdot(before, start + linear) / 2 + kept.values[at]
        now = np.vecdot(tried.x[i], gradients + linear) / 2 + tried.values[i]
        parts = np.vecdot(np.abs(before), np.abs(start) + np.abs(linear)) + np.abs(kept.values[at])
        descent = np.vecdot(start + kept.smooth_gradients[at], step)
        if self._terms.has_kinks:
            descent += self._terms.kinks(at, before + step) - self._terms.kinks(at, before)
        noise = ROUNDING * parts
        share = np.where(length == 1, DESCENT, 0.0)  # else it was chosen for its descent
        enough = now <= merit + share * descent + noise
        good[i] = is_kept = trial.is_inside[i] & (enough | ~self.feasible[at])

        # Where no descent is left that can be told from rounding, steps need not shrink any more.
        stuck = is_kept & (np.abs(descent) <= noise) & ~is_trapped[i]
        stuck &= sizes > GOOD * kept.sizes[at]
        self._stalls[at[stuck]] += 1
        feasible = self.feasible[at]
        self.codes[at[feasible & (self._stalls[at] >= STALLS)]] = INACCURATE
        self.codes[at[feasible & stuck & (sizes <= self._models.goal)]] = OPTIMAL

        long, bend = at[~is_kept], np.vecdot(gradients - start, step) / length
        slope = np.vecdot(start, step)
        self.lengths[long] = self._slide(
            long, kept, slope[~is_kept], bend[~is_kept], length[~is_kept]
        )

    def _slide(
        self, at: np.ndarray, kept: Points, slope: np.ndarray, bend: np.ndarray, longest: np.ndarray
    ) -> np.ndarray:
        """Lengths, nearly the best, up to which the objective falls along the steps.

        With ``slope`` and ``bend``, the derivatives of its quadratic part along the steps.
        """
        if at.size == 0:
            return longest
        rise, feasible = self._terms.along(at, kept.x[at], kept.steps[at]), self.feasible[at]
        low, high = np.zeros(at.size), longest
        for _ in range(SEARCHES):
            middle = np.where(low == 0, high / 4, (low + high) / 2)
            found = rise(middle)
            # A point that breaks a row has no objective to go by: it need only stay in the domain
            is_falling = np.where(feasible, slope + middle * bend + found <= 0, np.isfinite(found))
            low, high = np.where(is_falling, middle, low), np.where(is_falling, high, middle)
            if (high <= 1.05 * low).all():
                break
        return np.where(low == 0, high, np.where(feasible, low, INWARD * low))

    def judge(self, live: np.ndarray, good: np.ndarray, is_shrinking: np.ndarray) -> np.ndarray:
        """Guard those whose trials were dropped, and let go whose full steps shrink again.

        Returns
        -------
        ndarray of bool
            Whose steps shrink, if it fell at most once in this turn.
        """
        guarded = self.guarded[live].copy()
        is_calm = is_shrinking & (self._falls[live] < 2)
        self.guarded[live[good & guarded & is_calm]] = False
        fallen = live[~good & ~guarded]
        self._falls[fallen] += 1
        self.guarded[fallen] = True
        self.lengths[live[good]] = 1.0
        return is_calm

    def renew(self, again: np.ndarray) -> None:
        """Count new Hessians of clients whose steps shrank, and guard who asks for many.

        Steps can shrink under every H and yet run in a circle from one H to the next.
        """
        self._falls[again] += 1
        self.guarded[again[self._falls[again] > RENEWALS]] = True
