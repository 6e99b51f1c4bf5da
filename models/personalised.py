r"""Personalised models by soft consensus: each client pays for its distance from what all share.

.. math::
    \min_{w, w_1, \dots, w_n} \; \sum_{i=1}^n \|A_i w_i - b_i\|^2
    + \lambda \sum_{i=1}^n \|w_i - w\|^2

:math:`w_i` stays with client :math:`i`; :math:`w`, which all use, is their mean. With
:math:`\lambda \to 0` each client fits alone, with :math:`\lambda \to \infty` all fit one model.
Hanzely, Richtarik (2020): Federated learning of a mixture of global and local models.
"""

import cvxpy as cp

import dald_model as dm
from dald_model.models.linear_regression import Parts, age_groups, squared_error


def soft_consensus(parts: Parts, weight: float) -> dm.Model:
    r"""Least squares with an intercept, one model a client, near to a shared one.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    weight : float
        :math:`\lambda`, what a unit of squared distance costs.

    Returns
    -------
    Model
    """
    model = dm.Model("soft consensus")
    size = next(iter(parts.values()))[0].shape[1] + 1
    shared = cp.Variable(size, name="shared")
    for name, (features, target) in parts.items():
        mine = cp.Variable(size, name=f"w of {name}")
        distance = cp.sum_squares(mine - shared)
        model.client(name, squared_error(mine, features, target) + weight * distance)
    return model


REFERENCE = 1194668.73601
"""The optimal value by the normal equations of all models together."""


def model() -> dm.Model:
    """Four age groups of Diabetes, distances at 100 a square."""
    return soft_consensus(age_groups(), weight=100.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
