"""Which clients the default learns, by the rounds that the issue on few rounds asks for."""

import cvxpy as cp
import networkx as nx
import numpy as np
from scipy.special import expit

import dald_model as dm


def test_wide_logistic_clients_on_a_grid_are_learned() -> None:
    """Fewer rounds than Anderson acceleration took alone, 153, and within the 60 that are wanted.

    Of 60 columns and 20 to 200 rows each, so that there are clients that separate theirs. At the
    optimum the gradients of all cancel, to the tolerance beside their sizes.
    """
    rng, x, model = np.random.default_rng(5), cp.Variable(60), dm.Model("grid")
    truth = rng.normal(size=60) * (rng.random(60) < 0.3)
    rows = []
    for name in range(144):
        A = rng.normal(size=(rng.integers(20, 200), 60))
        signs = np.sign(A @ truth + 0.5 * rng.normal(size=len(A)))
        rows.append(-signs[:, None] * A)
        loss = cp.sum(cp.logistic(-cp.multiply(signs, A @ x)))
        model.client(name, loss + cp.sum_squares(x) / 20)
    model.topology(nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12)))
    result = model.solve()
    assert result.rounds <= 60
    assert result.status == "optimal"
    at = np.asarray(x.value)
    gradients = np.array([A.T @ expit(A @ at) + at / 10 for A in rows])
    assert np.linalg.norm(gradients.sum(axis=0)) <= 1e-5 * np.linalg.norm(gradients, axis=1).sum()
