r"""Consensus regression with a robust loss, which bounds the influence of wrong readings.

.. math::
    \min_w \; \sum_{i=1}^n \sum_{k=1}^{N_i}
    \sigma_i^2 \log\!\Big(1 + \frac{(a_{ik}^\top w - b_{ik})^2}{\sigma_i^2}\Big)

:math:`A_i`, shape :math:`(N_i, m)`, and :math:`b_i` are the rows of client :math:`i`;
:math:`\sigma_i` is the residual, in units of :math:`b`, from which on a reading counts less and
less. It is the likelihood of errors with a Cauchy distribution. The loss is not convex beyond
:math:`\sigma_i`, so the model ends "stationary"; it starts at the least-squares fit, from which the
robust one is the nearest valley. Black, Anandan (1996): The robust estimation of multiple motions.
Computer Vision and Image Understanding 63(1).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm

Rows = Mapping[Any, tuple[np.ndarray, np.ndarray]]


def robust_losses(rows: Rows, scales: Mapping[Any, float]) -> dm.Model:
    r"""One vector of coefficients under a robust loss at each client.

    Parameters
    ----------
    rows : dict
        Client -> (features, target), with a column of ones if there is to be an intercept.
    scales : dict
        Client -> :math:`\sigma_i`, in units of the target.

    Returns
    -------
    Model
        Starting at the least-squares fit of all rows.
    """
    model = dm.Model("robust consensus")
    features, target = (np.concatenate(parts) for parts in zip(*rows.values(), strict=True))
    w = cp.Variable(features.shape[1], name="w", value=np.linalg.lstsq(features, target)[0])
    for name, (own, readings) in rows.items():
        scaled = (own @ w - readings) / scales[name]
        loss = scales[name] ** 2 * cp.sum(cp.log(1 + cp.square(scaled)))
        model.client(name, loss, nonconvex=True)
    return model


REFERENCE = 11.581778629547593
"""The objective at the stationary point by scipy 1.17's BFGS, from the same start."""


def readings() -> Rows:
    """Five meters of one quantity that depends on two inputs; a fifth of the readings is wrong."""
    rng = np.random.default_rng(0)
    found = {}
    for i in range(5):
        features = np.column_stack([np.ones(20), rng.normal(size=(20, 2))])
        target = features @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=20)
        target[:4] += rng.choice([-6.0, 6.0], size=4)
        found[f"meter {i}"] = features, target
    return found


def model() -> dm.Model:
    """Five meters, whose readings are exact to 0.1."""
    rows = readings()
    return robust_losses(rows, dict.fromkeys(rows, 0.3))


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
