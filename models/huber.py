r"""Huber regression over several owners of rows: outliers pull, but not harder with distance.

.. math::
    \min_w \; \sum_{i=1}^n \sum_{k=1}^{N_i} h(a_{ik}^\top w - b_{ik}), \qquad
    h(r) = \begin{cases} r^2 & |r| \le M \\ 2 M |r| - M^2 & |r| > M \end{cases}

:math:`a_{ik}` are the features of row :math:`k` of client :math:`i` behind a 1; :math:`M` is in
units of the target. Huber (1964): Robust estimation of a location parameter. Annals of
Mathematical Statistics 35(1).
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts, clinics


def consensus_huber(parts: Parts, threshold: int) -> dm.Model:
    """Huber regression with an intercept, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    threshold : int or float
        :math:`M`, from where on a residual counts linearly.

    Returns
    -------
    Model
    """
    model = dm.Model("huber regression")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    for name, (features, target) in parts.items():
        design = np.column_stack([np.ones(len(target)), features])
        model.client(name, cp.sum(cp.huber(design @ w - target, threshold)))
    return model


REFERENCE = 1056859.68037
"""The optimal value by scipy 1.17's ``least_squares(loss="huber")``."""


def model() -> dm.Model:
    """Four clinics with the rows of Diabetes, threshold 50."""
    return consensus_huber(clinics(), threshold=50)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
