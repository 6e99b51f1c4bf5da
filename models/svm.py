r"""A support vector machine over several owners of rows.

.. math::
    \min_{w, c} \; \frac12 \|w\|^2
    + C \sum_{i=1}^n \sum_{k=1}^{N_i} \max\big(0, 1 - b_{ik} (a_{ik}^\top w + c)\big)

:math:`a_{ik}` are the features of row :math:`k` of client :math:`i`, :math:`b_{ik}` is +1 or -1.
The intercept :math:`c` is not penalised. Forero, Cano, Giannakis (2010): Consensus-based
distributed support vector machines. JMLR 11.
"""

import cvxpy as cp

import dald_model as dm
from dald_model.datasets.partition import even
from dald_model.models.logistic import Shards, breast_cancer


def consensus_machine(shards: Shards, cost: float) -> dm.Model:
    """A linear support vector machine, each client with its own rows.

    Parameters
    ----------
    shards : dict
        Client -> (features, target), targets +1 or -1.
    cost : float
        :math:`C`, as in scikit-learn's ``SVC``.

    Returns
    -------
    Model
    """
    model = dm.Model("support vector machine")
    w = cp.Variable(next(iter(shards.values()))[0].shape[1], name="w")
    c = cp.Variable(name="c")
    for name, (features, target) in shards.items():
        margin = (target[:, None] * features) @ w + target * c
        ridge = cp.sum_squares(w) / (2 * len(shards))
        model.client(name, ridge + cost * cp.sum(cp.pos(1 - margin)))
    return model


REFERENCE = 0.869345986018
"""The optimal value at the coefficients of scikit-learn 1.9's ``SVC(kernel="linear")``."""


def model() -> dm.Model:
    """Four clinics with the rows of Breast Cancer, C = 0.01."""
    features, target = breast_cancer()
    parts = enumerate(even(len(target), 4, seed=0))
    return consensus_machine(
        {f"clinic {at}": (features[part], target[part]) for at, part in parts}, cost=0.01
    )


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
