r"""Localisation from measured distances: sensors that each know only their own ranges.

.. math::
    \min_{X} \; \sum_{i=1}^n \Big[ \sum_{a \in \mathcal A_i}
    \big(\|x_i - p_a\|^2 - d_{ia}^2\big)^2
    + \sum_{j \in \mathcal N_i} \big(\|x_i - x_j\|^2 - d_{ij}^2\big)^2 \Big]

:math:`x_i`, the rows of :math:`X`, are positions in metres, :math:`p_a` anchors that sensor
:math:`i` hears, :math:`d` measured distances. A square of squared distances is not convex:
reflected positions can be local minima, so several starts pay. (The model ``sensor_localisation``
is a convex relaxation.) Biswas, Ye (2004): Semidefinite programming for ad hoc wireless sensor
network localization. IPSN.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np

import dald_model as dm


class Heard(NamedTuple):
    """What one sensor has measured: distances in metres to anchors and to other sensors."""

    anchors: Mapping[int, float]
    sensors: Mapping[int, float]


def positions_from_ranges(
    anchors: Sequence[Sequence[float]], heard: Sequence[Heard], start: np.ndarray
) -> dm.Model:
    """Positions that fit all squared distances best, each sensor with its own measurements.

    Parameters
    ----------
    anchors : sequence
        Known positions (metres).
    heard : sequence of Heard
        One per sensor.
    start : ndarray, shape (sensors, 2)
        Where the search begins.

    Returns
    -------
    Model
        Each sensor uses its own position and those of the sensors that it heard.
    """
    model = dm.Model("ranges")
    X = cp.Variable(start.shape, name="X", value=start)
    for i, (fixed, others) in enumerate(heard):
        known = [(anchors[a], d) for a, d in fixed.items()] + [(X[j], d) for j, d in others.items()]
        errors = [cp.sum_squares(X[i] - place) - d**2 for place, d in known]
        model.client(f"sensor {i}", cp.sum_squares(cp.hstack(errors)), nonconvex=True)
    return model


REFERENCE = 2.2987266068513827
"""The objective at the stationary point by scipy 1.17's BFGS, from the same start."""
ANCHORS = ((0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0))


def measured(positions: np.ndarray, noise: float, reach: float = 7.0) -> list[Heard]:
    """Distances with an error of some metres, of all within reach of each other."""
    rng = np.random.default_rng(1)

    def distance(one: np.ndarray, two: np.ndarray) -> float:
        return float(np.linalg.norm(one - two) + noise * rng.normal())

    found = []
    for i, place in enumerate(positions):
        anchors = {a: distance(place, np.array(p)) for a, p in enumerate(ANCHORS)}
        others = {j: distance(place, p) for j, p in enumerate(positions) if j != i}
        near = {a: d for a, d in anchors.items() if d <= reach}
        found.append(Heard(near, {j: d for j, d in others.items() if d <= reach}))
    return found


def model() -> dm.Model:
    """Six sensors in a square of ten metres, errors of five centimetres, a start in the middle."""
    rng = np.random.default_rng(0)
    positions = rng.uniform(1, 9, size=(6, 2))
    start = 5 + 0.5 * rng.normal(size=(6, 2))
    return positions_from_ranges(ANCHORS, measured(positions, 0.05), start)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
