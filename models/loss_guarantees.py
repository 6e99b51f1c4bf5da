r"""Federated regression with a guarantee for each client: nobody's loss exceeds its limit.

.. math::
    \min_w \; \frac{1}{N} \sum_{i=1}^n \|A_i w - b_i\|^2
    \quad \text{s.t. } \frac{1}{N_i} \|A_i w - b_i\|^2 \le c_i, \; i = 1, \dots, n

:math:`A_i`, shape :math:`(N_i, m + 1)`, are the rows of client :math:`i` and a first column of
ones, :math:`b_i` their targets, :math:`c_i` its limit, in squared units of the target. A guarantee
is a constraint of the client's own: it tells nobody its loss. The multiplier says what a client's
limit costs all others. Averages of gradients cannot state it; see Shen, Cervino, Hassani, Ribeiro
(2022): An agnostic approach to federated learning with class imbalance. ICLR.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp

import dald_model as dm
from dald_model.models.linear_regression import Parts, age_groups, squared_error


def guaranteed_regression(parts: Parts, limits: Mapping[Any, float]) -> dm.Model:
    """Least squares with an intercept, the mean squared error of some clients limited.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    limits : dict
        Client -> its largest mean squared error; clients without a limit are left out.

    Returns
    -------
    Model
    """
    model = dm.Model("regression with guarantees")
    rows = sum(len(target) for _, target in parts.values())
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    for name, (features, target) in parts.items():
        loss = squared_error(w, features, target)
        limit = [loss / len(target) <= limits[name]] if name in limits else []
        model.client(name, loss / rows, limit)
    return model


REFERENCE = 2875.1494244
"""The optimal value by scipy 1.17's SLSQP with analytic gradients."""


def model() -> dm.Model:
    """Four age groups of Diabetes; the two that all rows together serve worst are limited."""
    return guaranteed_regression(age_groups(), {"age group 0": 2900.0, "age group 1": 2950.0})


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
