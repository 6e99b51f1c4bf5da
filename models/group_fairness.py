r"""Group fairness over all clients: scores that hardly correlate with a protected attribute.

.. math::
    \min_{w, s} \; & \frac{1}{N} \sum_{i=1}^n \sum_{k=1}^{N_i}
    \log\big(1 + \exp(-b_{ik} a_{ik}^\top w)\big) + \frac{\lambda}{2} \|w\|^2 \\
    \text{s.t. } & s_i = \frac{1}{N} \sum_{k=1}^{N_i} (z_{ik} - \bar z)\, a_{ik}^\top w, \;
    \Big|\sum_{i=1}^n s_i\Big| \le c

:math:`z_{ik}` is the protected attribute of row :math:`k` of client :math:`i`, :math:`\bar z` its
mean over all rows, :math:`a_{ik}` the other features and a 1 behind them. The constraint is on the
federation, not on each client: a client shares one number, :math:`s_i`, its part of the
covariance. Zafar, Valera, Gomez Rodriguez, Gummadi (2017): Fairness constraints. AISTATS.
"""

from collections.abc import Mapping

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array, load_hospitals, standardised_together

Protected = Mapping[str, tuple[Array, Array, Array]]
"""Client -> features, shape (N_i, m); targets, +1 or -1; protected attribute, shape (N_i,)."""


def fair_scores(clients: Protected, limit: float, weight: float) -> dm.Model:
    r"""Logistic regression with a bound on the covariance of scores and protected attribute.

    Parameters
    ----------
    clients : dict
        Client -> (features, target, protected).
    limit : float
        :math:`c`, the largest covariance, either sign.
    weight : float
        :math:`\lambda`, the ridge.

    Returns
    -------
    Model
        With the coupling "covariance".
    """
    model = dm.Model("group fairness")
    w = cp.Variable(next(iter(clients.values()))[0].shape[1] + 1, name="w")
    rows = sum(len(target) for _, target, _ in clients.values())
    mean = sum(protected.sum() for _, _, protected in clients.values()) / rows
    parts = []
    for name, (features, target, protected) in clients.items():
        design = np.column_stack([features, np.ones(len(target))])
        part = cp.Variable(name=f"part of {name}")
        loss = cp.sum(cp.logistic(-(target[:, None] * design) @ w)) / rows
        ridge = weight / (2 * len(clients)) * cp.sum_squares(w)
        model.client(name, loss + ridge, [part == (protected - mean) @ design / rows @ w])
        parts.append(part)
    model.couple(cp.abs(cp.sum(cp.hstack(parts))) <= limit, name="covariance")
    return model


REFERENCE = 0.60051422244
"""The optimal value by scipy 1.17's SLSQP with analytic gradients."""


def protected_by_sex() -> Protected:
    """The hospitals' rows, without the column of the sex; this is what is protected."""
    return {
        name: (
            np.delete(rows.features, rows.columns.index("sex"), axis=1),
            rows.target,
            rows.features[:, rows.columns.index("sex")],
        )
        for name, rows in standardised_together(load_hospitals()).items()
    }


def model() -> dm.Model:
    """The four hospitals of the heart data; without the bound the covariance is 0.41."""
    return fair_scores(protected_by_sex(), limit=0.05, weight=0.01)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
