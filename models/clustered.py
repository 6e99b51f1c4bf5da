r"""Clustered federated learning: who belongs together is found, not given.

.. math::
    \min_{w_1, \dots, w_n} \; \sum_{i=1}^n \|A_i w_i - b_i\|^2
    + \lambda \sum_{i < j} \|w_i - w_j\|

It is the network lasso on the graph in which everybody is everybody's neighbour: the larger
:math:`\lambda`, the fewer clusters, and in a cluster all models are the same. Hocking, Joulin,
Bach, Vert (2011): Clusterpath, an algorithm for clustering using convex fusion penalties. ICML. For
federations: Sattler, Müller, Samek (2020): Clustered federated learning. IEEE TNNLS.
"""

import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts
from dald_model.models.network_lasso import network_regression


def clusterpath(parts: Parts, weight: float) -> dm.Model:
    r"""One model a client, a norm of the difference for each pair.

    Parameters
    ----------
    parts : dict
        Client -> (features, target).
    weight : float
        :math:`\lambda`.

    Returns
    -------
    Model
        With a coupling a pair of clients.
    """
    model = network_regression(parts, nx.complete_graph(list(parts)), weight)
    model.name = "clusterpath"
    return model


REFERENCE = 79.905755233
"""The optimal value by projected gradient steps on the dual, to a gap of 1e-9."""


def two_kinds(clients: int = 8, noise: float = 0.2) -> Parts:
    """Clients with ten rows each, drawn with seed 0; even ones have one truth, odd ones another."""
    random = np.random.default_rng(0)
    truths = np.array([[1.0, -1.0, 2.0], [-1.0, 1.0, 0.0]])
    parts = {}
    for client in range(clients):
        features = random.normal(size=(10, 3))
        target = features @ truths[client % 2] + noise * random.normal(size=10)
        parts[client] = features, target
    return parts


def model() -> dm.Model:
    """Eight clients of two kinds, penalty 1.5: two clusters come out."""
    return clusterpath(two_kinds(), weight=1.5)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
