r"""Quadratic models of the objectives of a batch of clients, and the steps to their minimisers.

See :mod:`dald_model.solvers.exact.newton` for the method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dald_model.solvers.arrays.indexing import selection, times

STEP_ERROR = 0.05
"""Error of a step beside that of the point, where the step method is iterative."""

FLOOR = 1e-12
"""Steps between points are rounding errors below this share of them; without rows none are
subtracted."""

FIRST_SHIFT, LAST_SHIFT, SHIFT_GROWTH = 1e-11, 1e-2, 100.0
"""Levenberg's multiples of the diagonal, tried in turn where H is singular."""

FLAT_SHIFT = 1e-4
"""What a variable without curvature gets of the largest there is, in natural units.

Rounding misses the rows that hold it by 1 / FLAT_SHIFT more than those of others.
"""


class Steps(NamedTuple):
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


class QuadraticModels:
    """Quadratic models of the clients ``which`` of a ``NewtonSession``.

    Attributes
    ----------
    linear, natural : ndarray, shape (k, m)
        The augmented terms' c, and the natural lengths of the variables.
    goal : float
        The error of a point that is asked for, in natural lengths.
    """

    def __init__(
        self,
        session: Any,
        which: np.ndarray,
        linear: np.ndarray,
        lengths: np.ndarray,
        goal: float,
    ) -> None:
        at = selection(which)
        self.linear, self.natural, self.goal = linear, lengths, goal
        self._session, self._which = session, which
        self._penalty = session.penalty[at]
        self._quadratic = None if session.quadratic is None else session.quadratic[at]

    def gradient(self, live: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Gradients of the quadratic part, augmented terms included."""
        at = selection(live)
        penalty = self._penalty[at]
        found = penalty * x if penalty.ndim == 2 else times(penalty, x)
        found += self.linear[at]
        if self._quadratic is not None:
            found += times(self._quadratic[at], x)
        return found

    def steps(self, live: np.ndarray, x: np.ndarray, gradient: np.ndarray) -> Steps:
        """Steps from x to the minimisers of the quadratic models; NaN where there is none."""
        hessians, which = self._session.hessians, self._which[live]
        natural = self.natural[selection(live)]
        if hessians is None:
            # Without rows the step itself is the minimiser, free of the rounding errors of H x.
            found = self._session.method.solve(which, gradient, natural)
            step = found.points
        else:
            linear = gradient - times(hessians[selection(which)], x)
            found = self._session.method.solve(which, linear, STEP_ERROR * self.goal * natural)
            step = found.points - x
        length = np.abs(step)
        sizes = np.max(length / natural, axis=1, initial=0.0)
        is_rounding = np.zeros(which.size, dtype=bool)
        if self._session.floor:
            is_rounding |= np.all(length <= self._session.floor * np.abs(x), axis=1)
        if found.failed.any():
            sizes[found.failed] = np.nan
        return Steps(step, sizes, found.multipliers, is_rounding)

    def unbalanced(self, gradients: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """What is left of all gradients at points that steps are taken from, shape (k, m)."""
        if self._session.hessians is None:
            return np.abs(gradients)
        # The minimiser of the quadratic model balances everything but H d
        return np.abs(times(self._session.hessians[selection(self._which)], steps))

    def renew(self, live: np.ndarray, hessians: np.ndarray) -> None:
        """Take Hessians of the terms, shape (k, m, m), which become those of the models."""
        if self._quadratic is not None:
            hessians += self._quadratic[live]
        if self._penalty.ndim == 2:
            add_diagonal(hessians, self._penalty[live])
        else:
            hessians += self._penalty[live]
        method, which = self._session.method, self._which[live]
        failed = np.flatnonzero(method.factor(which, hessians))
        shift = FIRST_SHIFT
        while failed.size and shift <= LAST_SHIFT:
            diagonal = np.diagonal(hessians[failed], axis1=1, axis2=2)
            shifts = _shifts(diagonal, self.natural[live[failed]], shift)
            hessians[failed] = _shifted(hessians[failed], shifts)
            failed = failed[method.factor(which[failed], hessians[failed])]
            shift *= SHIFT_GROWTH
        if self._session.hessians is not None:
            self._session.hessians[which] = hessians


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
