r"""Multi-task learning in few dimensions: the clients' models side by side have low rank.

.. math::
    \min_{w_1, \dots, w_n} \; \frac12 \sum_{i=1}^n \|A_i w_i - b_i\|^2
    + \lambda\, \big\|[w_1 \; \cdots \; w_n]\big\|_*

:math:`A_i`, shape :math:`(N_i, m)`, and :math:`b_i` are the rows of client :math:`i`. The nuclear
norm, the sum of the singular values, is a coupling of all clients, which sees the models and no
rows. Argyriou, Evgeniou, Pontil (2008): Convex multi-task feature learning. Machine Learning 73.
"""

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts


def multitask(parts: Parts, weight: float) -> dm.Model:
    r"""Least squares, one model a client, with the nuclear norm of all models.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    weight : float
        :math:`\lambda`.

    Returns
    -------
    Model
        With the coupling "rank".
    """
    model, models = dm.Model("low-rank multi-task learning"), []
    for name, (features, target) in parts.items():
        models.append(cp.Variable(features.shape[1], name=f"w of {name}"))
        model.client(name, cp.sum_squares(features @ models[-1] - target) / 2)
    model.couple(objective=weight * cp.normNuc(cp.vstack(models)), name="rank")
    return model


REFERENCE = 16.5703850227
"""The optimal value by accelerated proximal gradient steps, to a gap of 1e-9."""


def tasks(clients: int = 6) -> Parts:
    """Clients with eight rows of five features, whose truths lie in a plane; seed 0."""
    random = np.random.default_rng(0)
    plane = random.normal(size=(2, 5))
    parts = {}
    for at in range(clients):
        features, truth = random.normal(size=(8, 5)), random.normal(size=2) @ plane
        parts[f"task {at}"] = features, features @ truth + 0.3 * random.normal(size=8)
    return parts


def model() -> dm.Model:
    """Six tasks, penalty 3."""
    return multitask(tasks(), weight=3.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
