r"""Problems with known primal and dual answers, and the graphs they are put on.

A problem deals its data among ``n`` clients as one deals cards, so that its answer is that of the
whole pack whatever ``n`` and whatever the graph. No answer comes from this package or from cvxpy:
each is a closed form, or scikit-learn's or scipy's, and stands with its source.

The dual answer is a statement about every client. Let :math:`\mathcal C_e` be the consensus
constraint of edge :math:`e` with the sides :math:`\pm G_{ie} x_i`. At the optimum, (A1-2), (A2-2),

.. math:: -\sum_{e \ni i} \pm G_{ie}^\top \mu_e \in \partial (f_i + I_{X_i})(x_i^*),

and ``distance`` says how far a vector is from that set, worked out by hand for each problem. Where
:math:`f_i` is smooth and the graph is a tree the multipliers are thereby known themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from tests.problems.base import Array, Built, Shared
from tests.problems.constraints import entropy, nonnegative, portfolio, simplex
from tests.problems.least_squares import elastic_net, group_lasso, lasso, least_squares, ridge
from tests.problems.losses import huber, logistic, quantile, svm
from tests.problems.matrices import matrix_least_squares, nearest_psd, nuclear_norm, semidefinite
from tests.problems.parts import partial_overlap, unequal_dimensions

__all__ = ["GRAPHS", "PROBLEMS", "Array", "Built", "Shared"]

# --- graphs ---------------------------------------------------------------------------------------


def _random() -> nx.Graph:
    """Six clients, connected: a spanning path and five of the other ten edges; has odd cycles."""
    graph = nx.path_graph(6)
    others = sorted(nx.complement(graph).edges)
    picked = np.random.default_rng(4).choice(len(others), size=4, replace=False)
    graph.add_edges_from(others[i] for i in picked)
    return graph


GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "star": lambda: nx.star_graph(["hub", "n", "e", "s", "w"]),
    "chain": lambda: nx.path_graph(5),
    "ring": lambda: nx.cycle_graph(6),
    "odd ring": lambda: nx.cycle_graph(5),
    "tree": lambda: nx.full_rary_tree(2, 6),
    "grid": lambda: nx.grid_2d_graph(2, 3),
    "complete": lambda: nx.complete_graph(4),
    "random": _random,
}
"""Name -> graph whose nodes are the clients. The hub of the star is the server of a shared
variable, and a client where the problem has no variable that all share."""


# --- problems -------------------------------------------------------------------------------------

Problem = Any
"""What has a ``name`` and ``on(graph) -> Built``."""

# The order counts: tests deal graphs, kinds and seeds to the problems by their place in it.
_BUILDERS: list[Callable[[], Problem]] = [
    least_squares,
    ridge,
    lasso,
    elastic_net,
    group_lasso,
    huber,
    quantile,
    logistic,
    svm,
    nonnegative,
    simplex,
    portfolio,
    entropy,
    matrix_least_squares,
    nuclear_norm,
    semidefinite,
    nearest_psd,
    partial_overlap,
    unequal_dimensions,
]
PROBLEMS: dict[str, Callable[[], Problem]] = {build.__name__: build for build in _BUILDERS}
"""Name -> problem, whose answer is worked out once, when first asked for."""
