r"""Multinomial logistic regression over several owners of rows: more than two classes.

.. math::
    \min_{W, c} \; \sum_{i=1}^n \sum_{k=1}^{N_i} \Big( \log \sum_{l=1}^q e^{s_{ikl}}
    - s_{ik b_{ik}} \Big) + \frac{1}{2C} \|W\|_F^2, \qquad s_{ik} = W^\top a_{ik} + c

:math:`a_{ik}`, shape :math:`(m,)`, are the features of row :math:`k` of client :math:`i`,
:math:`b_{ik}` its class, :math:`W`, shape :math:`(m, q)`, a column a class. The intercepts
:math:`c` are not penalised and add up to zero, since a constant on all classes changes nothing.
Hastie, Tibshirani, Friedman (2009): The elements of statistical learning, section 4.4.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import Array
from dald_model.datasets.partition import even


def consensus_classes(parts: Mapping[Any, tuple[Array, Array]], inverse: float) -> dm.Model:
    """Multinomial logistic regression, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, class of each row, from 0 on).
    inverse : float
        :math:`C`, as in scikit-learn's ``LogisticRegression``.

    Returns
    -------
    Model
    """
    model = dm.Model("multinomial logistic regression")
    classes = int(max(target.max() for _, target in parts.values())) + 1
    W = cp.Variable((next(iter(parts.values()))[0].shape[1], classes), name="W")
    c = cp.Variable(classes, name="c")
    for name, (features, target) in parts.items():
        scores = features @ W + np.ones((len(target), 1)) @ cp.reshape(c, (1, classes), order="C")
        hit = cp.sum(cp.multiply(np.eye(classes)[target.astype(int)], scores))
        ridge = cp.sum_squares(W) / (2 * inverse * len(parts))
        loss = cp.sum(cp.log_sum_exp(scores, axis=1)) - hit
        model.client(name, loss + ridge, [cp.sum(c) == 0])
    return model


REFERENCE = 31.3787682608
"""The optimal value at the coefficients of scikit-learn 1.9's ``LogisticRegression``."""


def irises() -> tuple[Array, Array]:
    """Fisher's irises, which scikit-learn ships: 150 flowers, four measures, three species.

    Returns
    -------
    features, target
        Each feature with mean 0 and variance 1; 0, 1 or 2.
    """
    from sklearn.datasets import load_iris  # slow to import

    rows: Any = load_iris()
    return (rows.data - rows.data.mean(axis=0)) / rows.data.std(axis=0), rows.target


def model() -> dm.Model:
    """Three gardens with the irises, C = 1."""
    features, target = irises()
    parts = enumerate(even(len(target), 3, seed=0))
    return consensus_classes(
        {f"garden {at}": (features[part], target[part]) for at, part in parts}, inverse=1.0
    )


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
