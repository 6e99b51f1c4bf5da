r"""Trend filtering over consecutive stretches of time: a line with few kinks, owner by owner.

.. math::
    \min_x \; \frac12 \sum_{t=1}^T (x_t - y_t)^2 + \lambda \sum_{t=2}^{T-1}
    |x_{t-1} - 2 x_t + x_{t+1}|

:math:`y_t` is measured, :math:`x_t` the trend, both in the units of the measurement. Each client
owns a stretch of time; at a seam the two second differences that reach over it are a coupling of
neighbours, which sees the two last and the two first points of these. Kim, Koh, Boyd, Gorinevsky
(2009): l1 trend filtering. SIAM Review 51(2).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array


def trend(stretches: Mapping[Any, Array], weight: float) -> dm.Model:
    r"""Stretches that follow one another, smoothed together.

    Parameters
    ----------
    stretches : dict
        Client -> its measurements, at least two, in order of time.
    weight : float
        :math:`\lambda`, the cost of a kink of slope one.

    Returns
    -------
    Model
        With a coupling a seam.
    """
    model, x = dm.Model("trend filtering"), {}
    for name, y in stretches.items():
        x[name] = cp.Variable(len(y), name=f"x of {name}")
        kinks = cp.norm1(cp.diff(x[name], k=2)) if len(y) > 2 else 0
        model.client(name, cp.sum_squares(x[name] - y) / 2 + weight * kinks)
    for before, after in pairwise(stretches):
        seam = cp.hstack([x[before][-2:], x[after][:2]])
        kinks = cp.norm1(cp.diff(seam, k=2))
        model.couple(objective=weight * kinks, name=f"seam {before} to {after}")
    return model


REFERENCE = 15.5510075959
"""The optimal value by scipy 1.17's ``lsq_linear`` on the dual, a box."""


def measured() -> Array:
    """Eighty points of a line with two kinks and noise, drawn with seed 0."""
    time = np.arange(80)
    truth = np.interp(time, [0, 30, 55, 79], [0.0, 6.0, 1.0, 4.0])
    return truth + np.random.default_rng(0).normal(scale=0.5, size=80)


def model() -> dm.Model:
    """Four quarters of twenty points each, penalty 10."""
    quarters = enumerate(np.split(measured(), 4), start=1)
    return trend({f"quarter {at}": y for at, y in quarters}, weight=10.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
