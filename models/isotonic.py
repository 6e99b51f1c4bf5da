r"""A monotone curve from the rows of several owners: nothing but its order is assumed.

.. math::
    \min_u \; \sum_{i=1}^n \sum_{k=1}^{N_i} (u_{l(ik)} - b_{ik})^2
    \quad \text{s.t. } u_1 \le u_2 \le \dots \le u_L

:math:`u_l`, in units of the target, is the response at level :math:`l`, and :math:`l(ik)` the level
of row :math:`k` of client :math:`i`. The clients agree on the curve; of a client with
:math:`n_{il}` rows at level :math:`l` only their mean enters. Barlow, Bartholomew, Bremner, Brunk
(1972): Statistical inference under order restrictions.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

import dald_model as dm
from dald_model.datasets import Array
from dald_model.models.linear_regression import clinics


def monotone_curve(parts: Mapping[Any, tuple[NDArray[np.int_], Array]], levels: int) -> dm.Model:
    """Least squares by level, the levels in order.

    Parameters
    ----------
    parts : dict
        Client -> (level of each row, from 0 to ``levels`` - 1; target).
    levels : int

    Returns
    -------
    Model
    """
    model = dm.Model("monotone curve")
    u = cp.Variable(levels, name="u")
    for name, (level, target) in parts.items():
        design = np.eye(levels)[level]
        model.client(name, cp.sum_squares(design @ u - target), [cp.diff(u) >= 0])
    return model


REFERENCE = 2078912.0509
"""The optimal value at the curve of scikit-learn 1.9's ``IsotonicRegression``."""

LEVELS = np.linspace(-2.0, 2.0, 15)
"""Edges between sixteen levels, in standard deviations."""


def model() -> dm.Model:
    """Four clinics of Diabetes: its progression by the level of the blood pressure."""
    parts = clinics().items()
    by_level = {name: (np.digitize(rows[:, 3], LEVELS), target) for name, (rows, target) in parts}
    return monotone_curve(by_level, len(LEVELS) + 1)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
