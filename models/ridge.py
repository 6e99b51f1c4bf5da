r"""Ridge regression through a server: one vector that every client uses.

.. math::
    \min_w \; \sum_{i=1}^n \|A_i w - b_i\|^2 + \alpha \sum_{k=1}^m w_k^2

:math:`w_0` is the intercept, which is not penalised. Each client carries its share
:math:`\alpha / n` of the penalty.
"""

import cvxpy as cp

import dald_model as dm
from dald_model.datasets import load
from dald_model.models.linear_regression import Parts, squared_error


def consensus_ridge(parts: Parts, alpha: float) -> dm.Model:
    r"""Ridge regression, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    alpha : float
        The weight of the penalty, as in scikit-learn's ``Ridge``.

    Returns
    -------
    Model
    """
    model = dm.Model("ridge")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    for name, (features, target) in parts.items():
        penalty = alpha / len(parts) * cp.sum_squares(w[1:])
        model.client(name, squared_error(w, features, target) + penalty)
    return model


REFERENCE = 1349804.5564
"""The optimal value at the coefficients of scikit-learn 1.9's ``Ridge(alpha=50)``."""


def model() -> dm.Model:
    """Four clinics with the rows of Diabetes, penalty 50."""
    parts = load("diabetes").standardised().split(4, 0)
    return consensus_ridge({f"clinic {at}": part for at, part in enumerate(parts)}, alpha=50.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
