r"""Interior-point steps for many clients with smooth functions in constraints at once.

With slacks s of :math:`g(x) \le 0`, which are rows and limits, and multipliers :math:`\lambda`,

.. math::
    \nabla f(x) + J(x)^\top \lambda + E^\top \nu = 0, \quad E x = e, \quad g(x) + s = 0, \quad
    \lambda \circ s = \sigma \mu,

are solved by Newton steps, whose systems have the size of x and :math:`\nu` alone: the curvature of
the limits comes with one number each. :math:`\sigma` is Mehrotra's. All is in natural units: x in
lengths, g in what it changes by with these, the objective in energies.

Source: Nocedal and Wright 2006, Numerical optimization, section 19.2 and algorithm 14.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from dald_model.sizes import HALVINGS, INNER, SUMMED
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.level_form import LevelForm
from dald_model.solvers.exact.level_system import Functions, Scale, System

LEVEL_STEPS = 25
"""At most until each of these; from rough starts 4 to 14 are enough."""
BOUNDARY = 0.995
"""Share of the way to the boundary that a step may go."""
TRIED_FROM = (0.1, 1e-2, 1e-4)
"""Steps of x, in lengths, from which on it is tried whether the tight rows are known; slacks much
smaller than the last would be rounding of g."""
LAST_STEPS = 8
"""Newton's steps with these at most: errors of TRIED_FROM are squared each time; with 6 a logistic
loss below a bound, weakly held, was not answered."""
LEAST_SLACK = 0.1
"""Share of what g + s is off that slacks are at least: where g bends, they would reach zero before
g does, and steps be short from there."""


class LevelAnswers(NamedTuple):
    """Points, multipliers of e, b and the limits, what is left of slopes, and who failed."""

    points: np.ndarray
    multipliers: np.ndarray
    left: np.ndarray
    failed: np.ndarray


class LevelNewton:
    """Clients of one :attr:`LevelForm.key`."""

    def __init__(self, forms: Sequence[LevelForm]) -> None:
        self._forms, self._functions = forms, Functions.of(forms)
        self.linear = np.array([form.goal.slope for form in forms])
        self._equal = np.array([form.equalities.matrix for form in forms])
        self._right = np.array([form.equalities.rhs for form in forms])
        self._stops = np.cumsum([self.linear.shape[1], self._right.shape[1]])
        wide = int(self._stops[-1]) + self._functions.height
        self._last = np.full((len(forms), wide), np.nan)

    def objectives(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The clients' own at points (k, m)."""
        found = np.array([self._forms[at].goal.level for at in which.tolist()])
        bends = np.array([self._forms[at].matrix @ x for at, x in zip(which, points, strict=True)])
        found += np.vecdot(bends / 2 + self.linear[which], points)
        goal = self._functions.take(which).goal
        return found if goal is None else found + goal.values(None, points)

    def solve(
        self,
        which: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        starts: np.ndarray,
        units: tuple[np.ndarray, np.ndarray],
        tolerance: float,
    ) -> LevelAnswers:
        """Minimise with these H and c, (k, m, m) and (k, m), from points or the last answers.

        ``units`` are the lengths and slopes, (k, m); ``tolerance`` is of points, in lengths.
        """
        with np.errstate(all="ignore"):
            lengths, energy = units[0], (units[0] * units[1]).max(axis=1)[:, None]
            functions, ones = self._functions.take(which), np.ones((which.size, self._height))
            is_in = functions.is_inside(starts)
            x = np.where(is_in[:, None], starts, self._inner[which]) / lengths
            whole = System(
                hessians * (lengths[:, :, None] * lengths[:, None, :] / energy[:, :, None]),
                linear * lengths / energy,
                self._equal[which] * lengths[:, None, :],
                self._right[which],
                functions,
                Scale(lengths, energy, ones),
            )
            whole = whole.gauged(x)
            last = np.split(self._last[which], self._stops, axis=1)
            tight, error = last[2] > 0, max(INNER * tolerance, SUMMED)
            *found, met = finished(whole, whole.scale.reduced(*last), tight, error)
            slack = np.maximum(-whole.known(x, ones).values, 1.0)
            state = [x, np.zeros(found[1].shape), slack, ones]
            at, system = np.arange(which.size), whole
            for near in TRIED_FROM:
                rest = np.flatnonzero(~met[at])
                at, system = at[rest], system.take(rest)
                if not at.size:
                    break
                state, ahead, tight = inner_steps(system, [one[rest] for one in state], near)
                others = finished(system, ahead, tight, error)
                is_met = others[3]
                for out, part in zip(found, others, strict=False):
                    out[at[is_met]] = part[is_met]
                met[at[is_met]] = True
            x, nu, lam = found
            left = whole.dual(whole.known(x, lam), x, nu, lam) * energy / lengths
            answers = np.concatenate(whole.scale.restored(x, nu, lam), axis=1)
        self._last[which] = np.where(met[:, None], answers, np.nan)
        size = lengths.shape[1]
        return LevelAnswers(answers[:, :size], answers[:, size:], np.abs(left), ~met)

    @property
    def _height(self) -> int:
        return self._functions.height

    @cached_property
    def _inner(self) -> np.ndarray:
        """A point in the domain of all terms for every client."""
        given = [[*chain(f.goal.terms, *(one.terms for one in f.limits))] for f in self._forms]
        return Terms.of(given, self.linear.shape[1]).inner()


def inner_steps(
    system: System, state: list[np.ndarray], near: float
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    r"""Interior-point steps of x, :math:`\nu`, s and :math:`\lambda`, until those of x are short.

    Also x, :math:`\nu` and :math:`\lambda` a Newton step ahead, and which rows are tight there.
    """
    x, nu, s, lam = state
    known, rests = system.known(x, lam), np.zeros(len(x), dtype=bool)
    step: Sequence[np.ndarray] = state
    for _ in range(LEVEL_STEPS):
        solve = system.solver(known, x, nu, s, lam)
        step = solve(lam * s)
        rests |= ~(np.abs(step[0]).max(axis=1) > near)
        if rests.all():
            break
        mean, far = (lam * s).mean(axis=1, keepdims=True), reach(s, lam, step, 1.0)
        ahead = (s + far * step[2]) * (lam + far * step[3])
        centring = np.clip(ahead.mean(axis=1, keepdims=True) / mean, 0.0, 1.0) ** 3
        step = solve(lam * s + step[2] * step[3] - centring * mean)
        step = [np.where(rests[:, None], 0.0, one) for one in step]
        far = reach(s, lam, step, BOUNDARY)
        far[rests] = 0.0
        moved = state
        for _ in range(HALVINGS):
            moved = [one + far * way for one, way in zip((x, nu, s, lam), step, strict=True)]
            known = system.known(moved[0], moved[3])
            is_out = ~known.is_finite & (far[:, 0] > 0)
            if not is_out.any():
                break
            far[is_out] /= 2
        x, nu, s, lam = moved
        s = np.maximum(s, LEAST_SLACK * np.abs(known.values + s))
    ahead = [one + way for one, way in zip((x, nu, s, lam), step, strict=True)]
    return [x, nu, s, lam], [*ahead[:2], ahead[3]], ahead[3] > ahead[2]


def finished(
    system: System, begun: list[np.ndarray], tight: np.ndarray, error: float
) -> tuple[np.ndarray, ...]:
    r"""x, :math:`\nu`, :math:`\lambda` by Newton steps with tight rows; and who is right."""
    x, nu, lam = begun
    lam, is_short = np.where(tight, lam, 0.0), np.zeros(len(x), dtype=bool)
    for _ in range(LAST_STEPS):
        step = system.tight_step(system.known(x, lam), x, nu, lam, tight)
        x, nu, lam = (one + way for one, way in zip((x, nu, lam), step, strict=True))
        is_short = np.abs(step[0]).max(axis=1) <= error
        if (is_short | ~np.isfinite(x).all(axis=1)).all():
            break
    lam = np.maximum(lam, 0.0)
    return x, nu, lam, is_short & system.is_met(system.known(x, lam), x, nu, lam, error)


def reach(s: np.ndarray, lam: np.ndarray, step: Sequence[np.ndarray], share: float) -> np.ndarray:
    """How far steps may go, at most 1, so that slacks and multipliers stay positive, (k, 1)."""
    both, moves = np.concatenate([s, lam], axis=1), np.concatenate([*step[2:]], axis=1)
    ratios = np.where(moves < 0, -both / moves, np.inf)
    return np.minimum(share * ratios.min(axis=1, initial=np.inf), 1.0)[:, None]
