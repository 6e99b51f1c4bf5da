r"""The network lasso: neighbours pay for the distance between their models, and so form regions.

.. math::
    \min_{x_1, \dots, x_n} \; \sum_{i=1}^n \|A_i x_i - b_i\|^2
    + \lambda \sum_{(i, j) \in E} \|x_i - x_j\|

:math:`A_i`, shape :math:`(N_i, m)`, and :math:`b_i` are the rows of node :math:`i`. The norm is not
squared: it makes whole regions agree exactly, and lets borders be sharp. Each edge is a coupling of
its two ends, which sees nothing but their difference. Hallac, Leskovec, Boyd (2015): Network lasso:
clustering and optimization in large graphs. KDD.
"""

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.models.linear_regression import Parts


def network_regression(parts: Parts, graph: nx.Graph, weight: float) -> dm.Model:
    r"""Least squares at each node, a norm of the difference on each edge.

    Parameters
    ----------
    parts : dict
        Node -> (features, target).
    graph : networkx.Graph
        Over the nodes.
    weight : float
        :math:`\lambda`.

    Returns
    -------
    Model
        With a coupling an edge.
    """
    model, x = dm.Model("network lasso"), {}
    for name, (features, target) in parts.items():
        x[name] = cp.Variable(features.shape[1], name=f"x{name}")
        model.client(name, cp.sum_squares(features @ x[name] - target))
    for here, there in graph.edges:
        distance = cp.norm(x[here] - x[there])
        model.couple(objective=weight * distance, name=f"edge {here}-{there}")
    return model


REFERENCE = 37.7162798646
"""The optimal value by projected gradient steps on the dual, to a gap of 1e-9."""


def two_regions(nodes: int = 12, noise: float = 0.2) -> tuple[Parts, nx.Graph]:
    """Nodes in the unit square, drawn with seed 0, with one truth in the west, one in the east."""
    random = np.random.default_rng(0)
    graph = nx.random_geometric_graph(nodes, 0.4, seed=0)
    parts = {}
    for node, place in graph.nodes(data="pos"):
        truth = np.array([1.0, -1.0, 2.0]) if place[0] < 0.5 else np.array([-1.0, 1.0, 0.0])
        features = random.normal(size=(5, 3))
        parts[node] = features, features @ truth + noise * random.normal(size=5)
    return parts, graph


def model() -> dm.Model:
    """Twelve nodes with five rows each, penalty 2."""
    parts, graph = two_regions()
    return network_regression(parts, graph, weight=2.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
