r"""Optimality conditions of k clients with functions in constraints, and Newton's steps of them.

All is in natural units: x in lengths, g in what these change it by, the objective in energies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from dald_model.sizes import ROUNDING
from dald_model.solvers.arrays.indexing import selection, times
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.level_form import LevelForm, Limit


class Scale(NamedTuple):
    """Natural units: lengths (k, m), energies (k, 1), and what g changes by, (k, R)."""

    lengths: np.ndarray
    energy: np.ndarray
    gauge: np.ndarray

    def reduced(self, x: np.ndarray, nu: np.ndarray, lam: np.ndarray) -> list[np.ndarray]:
        """Points and multipliers in these units."""
        return [x / self.lengths, nu / self.energy, lam * self.gauge / self.energy]

    def restored(self, x: np.ndarray, nu: np.ndarray, lam: np.ndarray) -> list[np.ndarray]:
        """The same in the user's."""
        return [x * self.lengths, nu * self.energy, lam * self.energy / self.gauge]


class Known(NamedTuple):
    """Gradient and Hessian of the Lagrangian but for the quadratic; g and J."""

    gradient: np.ndarray
    hessian: np.ndarray
    values: np.ndarray
    jacobian: np.ndarray

    @property
    def is_finite(self) -> np.ndarray:
        """Who is in the domains of all terms, (k,)."""
        parts = self.gradient, self.hessian.reshape(len(self.values), -1), self.values
        return np.logical_and.reduce([np.isfinite(one).all(axis=1) for one in parts])


class Functions(NamedTuple):
    """Smooth terms of the objectives, inequalities A and b, and the limits."""

    goal: Terms | None
    rows: np.ndarray
    bounds: np.ndarray
    limits: list[tuple[Terms, np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, forms: Sequence[LevelForm]) -> Functions:
        """Those of forms of one key."""
        size = forms[0].goal.slope.size

        def terms(limits: Sequence[Limit]) -> Terms:
            return Terms.of([limit.terms for limit in limits], size)

        goals = [form.goal for form in forms]
        each = zip(*(form.limits for form in forms), strict=True)
        return cls(
            terms(goals) if goals[0].terms else None,
            np.array([form.inequalities.matrix for form in forms]),
            np.array([form.inequalities.rhs for form in forms]),
            [
                (terms(one), np.array([o.slope for o in one]), np.array([o.level for o in one]))
                for one in each
            ],
        )

    @property
    def height(self) -> int:
        """Rows and limits."""
        return self.bounds.shape[1] + len(self.limits)

    def take(self, which: np.ndarray) -> Functions:
        """Those of some clients, in this order."""
        at = selection(which)
        goal = self.goal and self.goal.part(which)
        limits = [(one.part(which), slope[at], level[at]) for one, slope, level in self.limits]
        return Functions(goal, self.rows[at], self.bounds[at], limits)

    def is_inside(self, points: np.ndarray) -> np.ndarray:
        """Whether points are in the domains of all terms."""
        terms = [one for one in (self.goal, *(one for one, _, _ in self.limits)) if one]
        given = [one.evaluate(None, points) for one in terms]
        found = [np.isfinite(one.values) & np.isfinite(one.gradients).all(axis=1) for one in given]
        return np.logical_and.reduce(found)


class System(NamedTuple):
    """H, c, E, e, the functions and the units of k clients."""

    hessian: np.ndarray
    linear: np.ndarray
    equal: np.ndarray
    right: np.ndarray
    functions: Functions
    scale: Scale

    def take(self, which: np.ndarray) -> System:
        """Those of some clients."""
        scale = Scale(*(one[which] for one in self.scale))
        own = [one[which] for one in (self.hessian, self.linear, self.equal, self.right)]
        return System(own[0], own[1], own[2], own[3], self.functions.take(which), scale)

    def gauged(self, x: np.ndarray) -> System:
        """The same with g in what it changes by at x."""
        gauge = np.abs(self.known(x, self.scale.gauge).jacobian).max(axis=2)
        gauge = np.where(gauge > 0, gauge, 1.0)
        return self._replace(scale=self.scale._replace(gauge=gauge))

    def known(self, x: np.ndarray, lam: np.ndarray) -> Known:
        """All that the functions are at x."""
        lengths, energy, gauge = self.scale
        goal, rows, bounds, limits = self.functions
        at, below = x * lengths, bounds.shape[1]
        square = lengths[:, :, None] * lengths[:, None, :]
        gradient, hessian = np.zeros(x.shape), np.zeros((*x.shape, x.shape[1]))
        if goal is not None:
            gradient = goal.gradients(None, at) * lengths / energy
            hessian = goal.hessians(None, at) * (square / energy[:, :, None])
        values, jacobian = np.empty(lam.shape), np.empty((*lam.shape, x.shape[1]))
        values[:, :below], jacobian[:, :below] = times(rows, at) - bounds, rows
        for j, (terms, slopes, levels) in enumerate(limits, start=below):
            found = terms.evaluate(None, at)
            values[:, j] = found.values + np.vecdot(slopes, at) + levels
            jacobian[:, j] = found.gradients + slopes
            share = (lam[:, j] / gauge[:, j])[:, None, None]
            hessian = hessian + share * terms.hessians(None, at) * square
        jacobian *= lengths[:, None, :] / gauge[:, :, None]
        return Known(gradient, hessian, values / gauge, jacobian)

    def dual(self, known: Known, x: np.ndarray, nu: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """The gradient of the Lagrangian."""
        found = known.gradient + times(self.hessian, x) + self.linear
        found += times(known.jacobian.transpose(0, 2, 1), lam)
        return found + times(self.equal.transpose(0, 2, 1), nu)

    def is_met(
        self, known: Known, x: np.ndarray, nu: np.ndarray, lam: np.ndarray, error: float
    ) -> np.ndarray:
        """Whether the conditions hold but for such an error of each x, and rounding, (k,)."""
        bends = np.abs(self.hessian + known.hessian)
        parts = times(bends, np.abs(x)) + np.abs(self.linear)
        parts += times(np.abs(known.jacobian.transpose(0, 2, 1)), lam)
        allowed = error * (bends.sum(axis=2) + 1.0) + ROUNDING * parts
        found = (np.abs(self.dual(known, x, nu, lam)) <= allowed).all(axis=1)
        found &= (np.abs(times(self.equal, x) - self.right) <= error).all(axis=1)
        is_tight = np.minimum(np.abs(known.values), lam) <= np.sqrt(error)
        return found & (known.values <= error).all(axis=1) & is_tight.all(axis=1)

    def solver(
        self, known: Known, x: np.ndarray, nu: np.ndarray, s: np.ndarray, lam: np.ndarray
    ) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
        r"""What gives steps of x, :math:`\nu`, s, :math:`\lambda` for what pairs are to lose."""
        jacobian, across = known.jacobian, known.jacobian.transpose(0, 2, 1)
        size = x.shape[1]
        wide = size + nu.shape[1]
        system = np.zeros((len(x), wide, wide))
        system[:, :size, :size] = self.hessian + known.hessian
        system[:, :size, :size] += (across * (lam / s)[:, None]) @ jacobian
        system[:, :size, size:] = self.equal.transpose(0, 2, 1)
        system[:, size:, :size] = self.equal
        inverse, gap = _inverses(system), known.values + s
        dual, missed = self.dual(known, x, nu, lam), times(self.equal, x) - self.right

        def step(lost: np.ndarray) -> tuple[np.ndarray, ...]:
            pull = dual + times(across, (lam * gap - lost) / s)
            move = -times(inverse, np.concatenate([pull, missed], axis=1))
            slack = -gap - times(jacobian, move[:, :size])
            return move[:, :size], move[:, size:], slack, -(lost + lam * slack) / s

        return step

    def tight_step(
        self, known: Known, x: np.ndarray, nu: np.ndarray, lam: np.ndarray, tight: np.ndarray
    ) -> list[np.ndarray]:
        r"""Newton's step of x, :math:`\nu` and :math:`\lambda` with some rows tight, others not."""
        size, stop = x.shape[1], x.shape[1] + nu.shape[1]
        wide = stop + lam.shape[1]
        jacobian = np.where(tight[:, :, None], known.jacobian, 0.0)
        system = np.zeros((len(x), wide, wide))
        system[:, :size, :size] = self.hessian + known.hessian
        system[:, size:stop, :size], system[:, stop:, :size] = self.equal, jacobian
        system[:, :size, size:] = system[:, size:, :size].transpose(0, 2, 1)
        loose = np.arange(stop, wide)
        system[:, loose, loose] = ~tight
        missed = times(self.equal, x) - self.right, np.where(tight, known.values, lam)
        right = np.concatenate([self.dual(known, x, nu, lam), *missed], axis=1)
        return np.split(-times(_inverses(system), right), [size, stop], axis=1)


def _inverses(matrices: np.ndarray) -> np.ndarray:
    """The inverses, NaN where there is none."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        found = np.full(matrices.shape, np.nan)
        for out, one in zip(found, matrices, strict=True):
            with suppress(np.linalg.LinAlgError):
                out[:] = np.linalg.inv(one)
        return found
