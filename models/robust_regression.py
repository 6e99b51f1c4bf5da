r"""Regression that is robust to whatever bounded error the clients' measurements have.

.. math::
    \min_w \; \sum_{i=1}^n \max_{\|\Delta_i\|_F \le \rho_i} \|(A_i + \Delta_i) w - b_i\|
    \;=\; \min_w \; \sum_{i=1}^n \|A_i w - b_i\| + \rho_i \|w\|

:math:`A_i`, shape :math:`(N_i, m)`, and :math:`b_i` are the rows of client :math:`i`,
:math:`\rho_i` is by how much its features may be wrong, all entries together. The worst case has a
closed form, so that each client carries its own uncertainty. El Ghaoui, Lebret (1997): Robust
solutions to least-squares problems with uncertain data. SIAM J. Matrix Anal. Appl. 18(4).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts, clinics


def robust_consensus(parts: Parts, errors: Mapping[Any, float]) -> dm.Model:
    r"""Least worst-case residuals, each client with its own rows and its own uncertainty.

    Parameters
    ----------
    parts : dict
        Client -> (features, target), without a column of ones, the target centred.
    errors : dict
        Client -> :math:`\rho_i`, in units of the features.

    Returns
    -------
    Model
    """
    model = dm.Model("robust regression")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1], name="w")
    for name, (features, target) in parts.items():
        model.client(name, cp.norm(features @ w - target) + errors[name] * cp.norm(w))
    return model


REFERENCE = 2551.54456673
"""The optimal value by scipy 1.17's BFGS: no residual is zero, so that it is smooth."""


def model() -> dm.Model:
    """Four clinics of Diabetes; the features of the last are known worst."""
    parts = clinics()
    mean = np.mean(np.concatenate([target for _, target in parts.values()]))
    centred = {name: (features, target - mean) for name, (features, target) in parts.items()}
    return robust_consensus(centred, dict(zip(parts, (1.0, 1.0, 1.0, 5.0), strict=True)))


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
