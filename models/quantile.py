r"""Quantile regression over several owners of rows: a line that a share of all rows lies below.

.. math::
    \min_w \; \frac{1}{N} \sum_{i=1}^n \sum_{k=1}^{N_i} \rho_\tau(b_{ik} - a_{ik}^\top w), \qquad
    \rho_\tau(r) = \max(\tau r, (\tau - 1) r)

:math:`a_{ik}` are the features of row :math:`k` of client :math:`i` behind a 1, :math:`\tau` is the
share. Koenker, Bassett (1978): Regression quantiles. Econometrica 46(1).
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts, clinics


def consensus_quantile(parts: Parts, share: float) -> dm.Model:
    r"""Quantile regression with an intercept, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    share : float
        :math:`\tau`, as ``quantile`` of scikit-learn's ``QuantileRegressor``.

    Returns
    -------
    Model
    """
    model = dm.Model("quantile regression")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    rows = sum(len(target) for _, target in parts.values())
    for name, (features, target) in parts.items():
        miss = target - np.column_stack([np.ones(len(target)), features]) @ w
        model.client(name, cp.sum(cp.maximum(share * miss, (share - 1) * miss)) / rows)
    return model


REFERENCE = 9.08789678386
"""The optimal value at the coefficients of scikit-learn 1.9's ``QuantileRegressor(alpha=0)``."""


def model() -> dm.Model:
    """Four clinics with the rows of Diabetes: what nine patients in ten stay below."""
    return consensus_quantile(clinics(), share=0.9)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
