r"""The lasso peer to peer: clients in a ring, no server.

.. math::
    \min_w \; \frac{1}{2N} \sum_{i=1}^n \|A_i w - b_i\|^2 + \alpha \sum_{k=1}^m |w_k|,
    \qquad N = \sum_{i=1}^n N_i

:math:`w_0` is the intercept, which is not penalised. All clients use one vector; the ring says
who talks to whom, and each keeps a copy of its own.
"""

import cvxpy as cp
import networkx as nx

import dald_model as dm
from dald_model.datasets import load
from dald_model.models.linear_regression import Parts, squared_error


def consensus_lasso(parts: Parts, alpha: float) -> dm.Model:
    r"""The lasso in a ring, each client with its own rows.

    Parameters
    ----------
    parts : dict
        Client -> (features, target), in the order of the ring.
    alpha : float
        The weight of the penalty, as in scikit-learn's ``Lasso``.

    Returns
    -------
    Model
    """
    model = dm.Model("lasso")
    w = cp.Variable(next(iter(parts.values()))[0].shape[1] + 1, name="w")
    rows = sum(len(target) for _, target in parts.values())
    for name, (features, target) in parts.items():
        loss = squared_error(w, features, target) / (2 * rows)
        model.client(name, loss + alpha / len(parts) * cp.norm1(w[1:]))
    model.topology(nx.cycle_graph(list(parts)))
    return model


REFERENCE = 1533.76871696
"""The optimal value at the coefficients of scikit-learn 1.9's ``Lasso(alpha=1, tol=1e-12)``."""


def model() -> dm.Model:
    """Four clinics with the rows of Diabetes, penalty 1."""
    parts = load("diabetes").standardised().split(4, 0)
    return consensus_lasso({f"clinic {at}": part for at, part in enumerate(parts)}, alpha=1.0)


if __name__ == "__main__":
    result = model().solve()
    print(result)
    print(result.verify())
