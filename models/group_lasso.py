r"""Several targets, one choice of features: the multi-task lasso over owners of rows.

.. math::
    \min_{W, c} \; \frac{1}{2N} \sum_{i=1}^n \|A_i W + \mathbf 1 c^\top - B_i\|_F^2
    + \alpha \sum_{k=1}^m \|W_{k\cdot}\|

:math:`A_i`, shape :math:`(N_i, m)`, and :math:`B_i`, shape :math:`(N_i, q)`, are the rows of client
:math:`i`; a feature's row :math:`W_{k\cdot}` of shape :math:`(q,)` is zero as a whole or not at
all. Yuan, Lin (2006): Model selection and estimation in regression with grouped variables.
JRSS B 68(1).
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array


def consensus_groups(parts: Mapping[Any, tuple[Array, Array]], alpha: float) -> dm.Model:
    """The multi-task lasso, each client with its own rows and its share of the penalty.

    Parameters
    ----------
    parts : dict
        Client -> (features, targets), both matrices.
    alpha : float
        The weight of the penalty, as in scikit-learn's ``MultiTaskLasso``.

    Returns
    -------
    Model
    """
    model = dm.Model("group lasso")
    features, targets = next(iter(parts.values()))
    W = cp.Variable((features.shape[1], targets.shape[1]), name="W")
    c = cp.Variable(targets.shape[1], name="c")
    rows = sum(len(target) for _, target in parts.values())
    penalty = alpha / len(parts) * cp.sum(cp.norm(W, 2, axis=1))
    for name, (features, targets) in parts.items():
        miss = features @ W + np.ones((len(targets), 1)) @ cp.reshape(c, (1, -1), order="C")
        model.client(name, cp.sum_squares(miss - targets) / (2 * rows) + penalty)
    return model


REFERENCE = 1.20342731252
"""The optimal value at scikit-learn 1.9's ``MultiTaskLasso(alpha=0.1, tol=1e-12)``."""


def athletes() -> tuple[Array, Array]:
    """Linnerud, which scikit-learn ships: 20 men, three exercises, three measures of the body.

    Returns
    -------
    features, targets
        Each column with mean 0 and variance 1, each of shape (20, 3).
    """
    from sklearn.datasets import load_linnerud  # slow to import

    rows: Any = load_linnerud()
    scaled = [(part - part.mean(axis=0)) / part.std(axis=0) for part in (rows.data, rows.target)]
    return scaled[0], scaled[1]


def model() -> dm.Model:
    """Two clubs of ten of the athletes, penalty 0.1."""
    features, targets = athletes()
    clubs = {"club 0": slice(10), "club 1": slice(10, None)}
    return consensus_groups(
        {name: (features[rows], targets[rows]) for name, rows in clubs.items()}, alpha=0.1
    )


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
