r"""The graphical lasso over several owners of rows: who depends on whom, all else given.

.. math::
    \min_{\Theta \succ 0} \; \sum_{i=1}^n \operatorname{tr}(S_i \Theta) - \log \det \Theta
    + \alpha \sum_{k \ne l} |\Theta_{kl}|, \qquad S_i = \frac1N A_i^\top A_i

:math:`A_i`, shape :math:`(N_i, m)`, are the rows of client :math:`i`, of mean 0 over all clients;
:math:`\Theta`, shape :math:`(m, m)`, is the inverse of the covariance, zero where two columns are
independent given all others. Each client carries its share of the last two terms. Friedman, Hastie,
Tibshirani (2008): Sparse inverse covariance estimation with the graphical lasso. Biostatistics 9.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array
from dald_model.models.group_lasso import athletes


def consensus_precision(parts: Mapping[Any, Array], alpha: float) -> dm.Model:
    """The graphical lasso, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> its rows, centred together with those of all others.
    alpha : float
        The weight of the penalty, as in scikit-learn's ``GraphicalLasso``.

    Returns
    -------
    Model
    """
    model = dm.Model("graphical lasso")
    columns = next(iter(parts.values())).shape[1]
    total = sum(len(rows) for rows in parts.values())
    theta = cp.Variable((columns, columns), symmetric=True, name="theta")
    off = cp.multiply(1 - np.eye(columns), theta)
    common = alpha * cp.sum(cp.abs(off)) - cp.log_det(theta)
    for name, rows in parts.items():
        fit = cp.sum(cp.multiply(rows.T @ rows / total, theta))
        model.client(name, fit + common / len(parts))
    return model


REFERENCE = 3.36983254305
"""The optimal value at the precision of scikit-learn 1.9's ``graphical_lasso(tol=1e-12)``."""


def model() -> dm.Model:
    """Two clubs of ten athletes each, their three exercises and their weight, penalty 0.2."""
    rows = np.column_stack(athletes())[:, :4]
    return consensus_precision({"club 0": rows[:10], "club 1": rows[10:]}, alpha=0.2)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
