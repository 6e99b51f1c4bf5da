r"""The elastic net over several owners of rows, through a server.

.. math::
    \min_w \; \frac{1}{2N} \sum_{i=1}^n \|A_i w - b_i\|^2
    + \alpha \sum_{k=1}^m \Big(\eta\, |w_k| + \frac{1 - \eta}{2}\, w_k^2\Big)

:math:`A_i`, shape :math:`(N_i, m + 1)`, has a first column of ones; :math:`w_0`, the intercept, is
not penalised. Zou, Hastie (2005): Regularization and variable selection via the elastic net.
JRSS B 67(2).
"""

import cvxpy as cp

import dald_model as dm
from dald_model.models.linear_regression import Parts, clinics, squared_error


def consensus_net(parts: Parts, alpha: float, ratio: float) -> dm.Model:
    r"""The elastic net, each client with its own rows and its share of the penalty.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    alpha, ratio : float
        :math:`\alpha` and :math:`\eta`, as ``alpha`` and ``l1_ratio`` of scikit-learn.

    Returns
    -------
    Model
    """
    model = dm.Model("elastic net")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    rows = sum(len(target) for _, target in parts.values())
    penalty = ratio * cp.norm1(w[1:]) + (1 - ratio) / 2 * cp.sum_squares(w[1:])
    for name, (features, target) in parts.items():
        loss = squared_error(w, features, target) / (2 * rows)
        model.client(name, loss + alpha / len(parts) * penalty)
    return model


REFERENCE = 1779.35620554
"""The optimal value at the coefficients of scikit-learn 1.9's ``ElasticNet(tol=1e-12)``."""


def model() -> dm.Model:
    """Four clinics with the rows of Diabetes, penalty 1, half of it absolute."""
    return consensus_net(clinics(), alpha=1.0, ratio=0.5)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
