r"""A bound on how much lower than at a point a convex expression is near by, by its subgradient.

For every subgradient g of a convex L at x, and spreads X,

.. math:: L(x) - \min_{\|(y - x) / X\|_1 \le \delta} L(y) \le \delta \|X \circ g\|_\infty,

whatever other constraints on y there are. cvxpy knows a subgradient; as it is wrong for an atom now
and then, the inequality is tried at some points before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping

import cvxpy as cp
import numpy as np

from dald_model.answer.rescaling import cost_at
from dald_model.compile.measures import Measure
from dald_model.declare.client import unique_variables
from dald_model.values import REFUSALS, flat, holding

TRIALS = 2
"""Random moves, and their opposites, that the inequality is tried at."""
ROUNDING = 64 * np.finfo(float).eps
"""Of the size of the expression."""


def steepest(
    cost: cp.Expression,
    linear: Mapping[int, np.ndarray],
    around: Mapping[int, Measure],
    radius: float,
) -> float:
    r"""The figure :math:`\|X \circ g\|_\infty` at the centres; infinite where it is not known.

    Parameters
    ----------
    cost : cp.Expression
        Convex.
    linear : dict
        Variable id -> slopes of what is added to it, as cvxpy is slow at the plainest.
    around : dict
        Variable id -> the point and the spreads.
    radius : float
        How far away the inequality is tried, in spreads.
    """
    variables = unique_variables([cost])
    centres = {v.id: around[v.id].centre for v in variables}
    try:
        with holding((v, centres[v.id]) for v in variables), np.errstate(all="ignore"):
            slopes = {v.id: flat(gradient) for v, gradient in cost.grad.items()}
    except REFUSALS:  # of a point outside of the domain it is None
        return np.inf
    scaled = {v.id: flat(around[v.id].spread) * slopes.get(v.id, 0.0) for v in variables}
    charged = {key: flat(around[key].spread) * slope for key, slope in linear.items()}
    sums = [scaled.get(key, 0.0) + one for key, one in charged.items()]
    found = max(float(np.abs(one).max(initial=0.0)) for one in sums)
    here, generator = cost_at(cost, centres), np.random.default_rng(0)
    slack = ROUNDING * abs(here)
    for _ in range(TRIALS):
        moves = {v.id: generator.uniform(-radius, radius, v.size) for v in variables}
        for sign in (1.0, -1.0):
            there = {
                v.id: centres[v.id]
                + sign * moves[v.id].reshape(v.shape, order="F") * around[v.id].spread
                for v in variables
            }
            rise = sum(sign * float((moves[key] * one).sum()) for key, one in scaled.items())
            value = cost_at(cost, there)
            # Outside of its domain it is infinite
            if np.isfinite(value) and not value >= here + rise - slack:
                return np.inf
    return found if np.isfinite(found) and np.isfinite(here) else np.inf
