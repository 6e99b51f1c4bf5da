r"""Min-max fair federated learning: the client that is served worst is served as well as can be.

.. math::
    \min_{w, t} \; t + \frac{\lambda}{2} \|w\|^2
    \quad \text{s.t. } \frac{1}{N_i} \|A_i w - b_i\|^2 \le t, \; i = 1, \dots, n

:math:`A_i`, shape :math:`(N_i, m + 1)`, are the rows of client :math:`i` and a first column of
ones, :math:`b_i` their targets, here +1 and -1. The bound :math:`t` is shared as
:math:`w` is, so that each loss stays where its rows are. The multipliers of the bounds are the
weights, adding up to one, of the mixture of clients for which :math:`w` is best. Mohri, Sivek,
Suresh (2019): Agnostic federated learning. ICML.
"""

from collections.abc import Mapping

import cvxpy as cp

import dald_model as dm
from dald_model.datasets import Dataset, load_hospitals, standardised_together
from dald_model.models.linear_regression import squared_error


def fair_score(clients: Mapping[str, Dataset], weight: float) -> dm.Model:
    r"""A score by least squares that minimises the largest of the clients' mean losses.

    Parameters
    ----------
    clients : dict
        Client -> its rows.
    weight : float
        :math:`\lambda`, the ridge.

    Returns
    -------
    Model
        With the shared variables ``w`` and ``worst``.
    """
    model = dm.Model("min-max fairness")
    w = cp.Variable(next(iter(clients.values())).features.shape[1] + 1, name="w")
    worst = cp.Variable(name="worst")
    for name, rows in clients.items():
        loss = squared_error(w, rows.features, rows.target) / len(rows.target)
        share = (worst + weight / 2 * cp.sum_squares(w)) / len(clients)
        model.client(name, share, [loss <= worst])
    return model


REFERENCE = 0.585901907121
"""The optimal value by scipy 1.17's SLSQP with analytic gradients."""


def model() -> dm.Model:
    """The four hospitals of the heart data, with a ridge of 0.01."""
    return fair_score(standardised_together(load_hospitals()), weight=0.01)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
