"""Where runs begin: at the clients' own answers, and nearer where these are far out and flat."""

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

SIZE, COUNT = 6, 50


def drawn(count: int, rows: int, noise: float, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and signs of each client."""
    rng = np.random.default_rng(seed)
    truth, found = rng.normal(size=SIZE), []
    for _ in range(count):
        A = rng.normal(size=(rows, SIZE))
        found.append((A, np.sign(A @ truth + noise * rng.normal(size=rows))))
    return found


def logistic(
    data: list[tuple[np.ndarray, np.ndarray]], ridge: float = 0.0, centre: float = 0.0
) -> dm.Model:
    """``centre`` is where the origin is moved to."""
    x, model = cp.Variable(SIZE, name="x"), dm.Model("logistic")
    for name, (A, b) in enumerate(data):
        loss = cp.sum(cp.logistic(-cp.multiply(b, A @ x - A.sum(axis=1) * centre)))
        model.client(name, loss + ridge * cp.sum_squares(x - centre))
    return model


GRAPHS = {
    "star": (None, 30),
    "ring": (nx.cycle_graph(COUNT), 60),
    "grid": (nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, COUNT // 5)), 60),
    "tree": (nx.full_rary_tree(2, COUNT), 60),
    "path": (nx.path_graph(COUNT), 60),
}


@pytest.mark.parametrize(
    ("graph", "rows", "noise"),
    [
        ("star", 20, 0.5),
        ("ring", 60, 0.5),
        ("grid", 20, 0.5),
        ("tree", 100, 1.0),
        ("path", 60, 0.5),
    ],
)
def test_fifty_logistic_clients_without_a_ridge(graph: str, rows: int, noise: float) -> None:
    """Within the rounds that issue 12 asks for, by default options, verified by certificate.

    Of 20 rows each client alone is separable, of 60 many, of 100 hardly any.
    """
    model = logistic(drawn(COUNT, rows, noise, 5))
    chosen, most = GRAPHS[graph]
    model.topology(chosen)
    result = model.solve()
    assert result.status == "optimal"
    assert result.rounds <= most
    assert result.certificate().ok


EPS = 1e-6


@pytest.mark.parametrize("averse", [0.1, 0.16, 1.0, 10.0])
def test_a_budget_is_kept_beside_itself_where_desks_would_buy_a_thousand(averse: float) -> None:
    """Sum x == 1 to what eps_pri says of the shares, and the all-in-one optimum."""
    rng = np.random.default_rng(7)
    model, costs, x = dm.Model(), [], []
    for desk in range(6):
        x.append(cp.Variable(5))
        returns, root = 0.1 * rng.normal(size=5) + 0.1, rng.normal(size=(5, 5)) / 3
        costs.append(averse * cp.sum_squares(root @ x[-1]) - returns @ x[-1])
        model.client(desk, costs[-1], [x[-1] >= 0])
    budget: Any = sum(cp.sum(one) for one in x) == 1
    model.couple(budget, name="budget")
    result = model.solve()
    assert result.status == "optimal"
    largest = max(float(np.sum(one.value)) for one in x)
    assert abs(sum(float(np.sum(one.value)) for one in x) - 1) <= len(x) * EPS * largest
    whole = cp.Problem(cp.Minimize(sum(costs)), [budget, *(one >= 0 for one in x)])
    optimum: Any = whole.solve(solver=cp.CLARABEL)
    assert result.value == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("seed", [2, 3, 4, 6, 8, 13])
def test_the_worst_mean_square_of_owners_without_noise(seed: int) -> None:
    """Each alone reaches zero, so what is left there tells no length of the worst."""
    rng = np.random.default_rng(seed)
    w, worst, model = cp.Variable(5, name="w"), cp.Variable(name="worst"), dm.Model("schools")
    mean = rng.normal(size=5)
    for school in range(9):
        count = int(rng.integers(8, 60))
        X = rng.normal(size=(count, 5))
        y = X @ (mean + 0.3 * rng.normal(size=5))
        model.client(school, worst / 9, [cp.sum_squares(X @ w - y) / count <= worst])
    result = model.solve()
    assert result.status == "optimal", result.detail
    assert result.verify().ok
