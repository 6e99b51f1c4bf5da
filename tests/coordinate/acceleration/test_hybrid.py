"""Which clients the default learns, by the rounds that the issue on few rounds asks for."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
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


def test_a_row_of_zeros_ties_an_entry_to_nothing() -> None:
    """With x = (a + b, 0) the least of |x|^2 + (a - 1)^2 + (b - 1)^2 is 4/3, at a = b = 1/3."""
    x, ab = cp.Variable(2, name="x"), cp.Variable(2, name="ab")
    model = dm.Model()
    model.client("sum", cp.sum_squares(x))
    model.client("parts", cp.sum_squares(ab - 1))
    model.consensus(x == np.array([[1.0, 1.0], [0.0, 0.0]]) @ ab)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(4 / 3, rel=1e-8)
    assert result["ab"] == pytest.approx([1 / 3, 1 / 3], rel=1e-6)
