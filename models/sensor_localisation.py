r"""Sensors that find their places from distances to each other: the disk relaxation.

.. math::
    \min_{x_1, \dots, x_n} \; \sum_{(i, j) \in E} \big(\|x_i - x_j\| - d_{ij}\big)_+^2
    + \sum_{i=1}^n \sum_{k \in \mathcal A_i} \big(\|x_i - a_k\| - r_{ik}\big)_+^2

:math:`x_i`, shape (2,), is the place of sensor :math:`i`, :math:`a_k` that of an anchor, which is
known; :math:`d_{ij}` and :math:`r_{ik}` are measured distances, all in one unit of length. Only
being too far apart costs: of the circle of a measurement this is the disk, the convex hull. Soares,
Xavier, Gomes (2015): Simple and fast convex relaxation method for cooperative localization in
sensor networks using range measurements. IEEE Trans. Signal Process. 63(17).
"""

from collections.abc import Mapping
from typing import NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array


class Ranges(NamedTuple):
    """Anchors by their places, shape (q, 2); distances by pairs of sensors, and to anchors."""

    anchors: Array
    between: Mapping[tuple[int, int], float]
    to_anchors: Mapping[tuple[int, int], float]


def located(ranges: Ranges) -> dm.Model:
    """Places of sensors that each know their own measurements.

    Parameters
    ----------
    ranges : Ranges

    Returns
    -------
    Model
        With a coupling a pair of sensors that hear each other.
    """
    model = dm.Model("sensor localisation")
    sensors = {end for pair in ranges.between for end in pair}
    x = {sensor: cp.Variable(2, name=f"x{sensor}") for sensor in sorted(sensors)}
    for sensor, place in x.items():
        apart = [
            cp.norm(place - ranges.anchors[anchor]) - far
            for (one, anchor), far in ranges.to_anchors.items()
            if one == sensor
        ]
        own = cp.sum_squares(cp.pos(cp.hstack(apart))) if apart else 0 * cp.sum(place)
        model.client(f"sensor {sensor}", own)
    for (one, other), far in ranges.between.items():
        too_far = cp.pos(cp.norm(x[one] - x[other]) - far)
        model.couple(objective=cp.square(too_far), name=f"{one} hears {other}")
    return model


REFERENCE = 0.0233505725374
"""The optimal value by scipy 1.17's BFGS with analytic gradients."""


def meadow(sensors: int = 6, reach: float = 0.8) -> Ranges:
    """Sensors in the unit square, anchors in its corners, distances with noise; seed 0."""
    random = np.random.default_rng(0)
    truth = random.random((sensors, 2))
    anchors = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])

    def measured(one: Array, other: Array) -> dict[tuple[int, int], float]:
        far = np.linalg.norm(one[:, None] - other[None], axis=2)
        noisy = np.abs(far + random.normal(scale=0.1, size=far.shape))
        return {(i, k): noisy[i, k] for i, k in np.argwhere(far < reach).tolist()}

    between = {pair: far for pair, far in measured(truth, truth).items() if pair[0] < pair[1]}
    return Ranges(anchors, between, measured(truth, anchors))


def model() -> dm.Model:
    """Six sensors and four anchors, which hear each other up to 0.8."""
    return located(meadow())


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
