r"""Points of clients: what is known there between turns and in one, and steps from there.

See :mod:`dald_model.solvers.exact.newton` for the method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.newton_model import QuadraticModels, Steps

LEVEL = 1e-6
"""An objective that falls by more than this share of its parts along such a step goes on."""


class First(NamedTuple):
    """Points of the domains of clients, and what terms and smooth terms are there."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray


@dataclass
class TermGroup:
    r"""Clients of a session whose terms are in the same arrays, and :math:`w \varphi''` there.

    Attributes
    ----------
    clients : ndarray of int, shape (k,)
        Their positions in the session.
    terms : Terms
    first : First
        Where who is asked for nothing yet stands.
    curvatures, last_curvatures : ndarray, shape (k, arguments)
        At the points where H was taken, and at the last points.
    at_once : int
        How many of them are worked on together: their matrices stay in cache.
    """

    clients: np.ndarray
    terms: Terms
    first: First
    curvatures: np.ndarray
    last_curvatures: np.ndarray
    at_once: int


@dataclass
class NewtonState:
    """State of B clients between two turns."""

    points: np.ndarray
    values: np.ndarray
    smooth_gradients: np.ndarray
    rates: np.ndarray
    radii: np.ndarray
    spent: np.ndarray
    is_cold: np.ndarray
    is_stale: np.ndarray
    is_new: np.ndarray
    is_feasible: np.ndarray


@dataclass
class Points:
    """Points of k clients, and what is known there.

    Attributes
    ----------
    x : ndarray, shape (k, m)
    values : ndarray, shape (k,)
        Of the terms, kinks included.
    smooth_gradients, quadratic_gradients : ndarray, shape (k, m)
        Of the terms, and of the quadratic part.
    curvatures : ndarray, shape (k, arguments)
    steps, sizes, multipliers : ndarray
        See :class:`~dald_model.solvers.exact.newton_model.Steps`.
    """

    x: np.ndarray
    values: np.ndarray
    smooth_gradients: np.ndarray
    quadratic_gradients: np.ndarray
    curvatures: np.ndarray
    steps: np.ndarray
    sizes: np.ndarray
    multipliers: np.ndarray

    def gradients(self, at: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Gradients of all but the kinks."""
        return self.quadratic_gradients[at] + self.smooth_gradients[at]

    def take(self, at: np.ndarray | slice, others: Points, kept: np.ndarray | slice) -> None:
        """Go to those of other points that are kept."""
        self.x[at], self.values[at] = others.x[kept], others.values[kept]
        self.smooth_gradients[at] = others.smooth_gradients[kept]
        self.quadratic_gradients[at] = others.quadratic_gradients[kept]
        self.curvatures[at] = others.curvatures[kept]
        self.steps[at], self.sizes[at] = others.steps[kept], others.sizes[kept]
        self.multipliers[at] = others.multipliers[kept]

    def aim(self, at: np.ndarray | slice, found: Steps) -> None:
        """Take other steps from the same points."""
        self.steps[at], self.sizes[at] = found.steps, found.sizes
        self.multipliers[at] = found.multipliers


class Trial(NamedTuple):
    """Points that clients try.

    Attributes
    ----------
    points : Points
    is_inside : ndarray of bool
        Whether they are in the domain.
    is_rounding : ndarray of bool
        Whether the steps from there are rounding errors of the points, and gain nothing.
    """

    points: Points
    is_inside: np.ndarray
    is_rounding: np.ndarray


def tried(terms: Terms, models: QuadraticModels, live: np.ndarray, x: np.ndarray) -> Trial:
    """Evaluate points of some clients, shape (k, m)."""
    values, smooth_gradients, curvatures = terms.evaluate(live, x)
    quadratic_gradients = models.gradient(live, x)
    is_inside = np.isfinite(values) & np.isfinite(smooth_gradients).all(axis=1)
    if not is_inside.all():
        smooth_gradients[~is_inside] = 0.0
    if terms.has_kinks:
        values = values + terms.kinks(live, x)
    with np.errstate(over="ignore", invalid="ignore"):  # a trial may be anywhere
        found = models.steps(live, x, quadratic_gradients + smooth_gradients)
    points = Points(x, values, smooth_gradients, quadratic_gradients, curvatures, *found[:3])
    is_rounding = is_inside & found.is_rounding
    if is_rounding.any():
        is_rounding &= _is_level(points, models.linear[selection(live)])
    return Trial(points, is_inside, is_rounding)


def _is_level(points: Points, linear: np.ndarray) -> np.ndarray:
    """Whether objectives hardly fall along steps that are small beside their points.

    Beside a pole that is far from zero a step to twice the distance from it is as small.
    """
    sides = np.abs(points.quadratic_gradients) + np.abs(linear)
    parts = np.vecdot(np.abs(points.x), sides) + np.abs(points.values)
    return np.abs(np.vecdot(points.gradients(), points.steps)) <= LEVEL * parts
