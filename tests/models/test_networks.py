"""The gallery's models on graphs and its nuclear norms, by certificates of numpy's own."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from dald_model.datasets import Array
from tests.models.first_order import network_lasso_bounds, nuclear_bounds
from tests.models.test_regressions import gallery, reference


def test_the_network_lasso_lies_between_its_bounds() -> None:
    model = gallery("network_lasso")
    parts, graph = model.two_regions()
    lower, upper = network_lasso_bounds(list(parts.values()), list(graph.edges), 2.0)
    assert upper - lower < 1e-8 * upper
    assert lower - 1e-8 <= reference("network_lasso") <= upper + 1e-8


def test_two_clusters_come_out_and_lie_between_their_bounds() -> None:
    model = gallery("clustered")
    parts = model.two_kinds()
    pairs = [(i, j) for i in parts for j in parts if i < j]
    lower, upper = network_lasso_bounds(list(parts.values()), pairs, 1.5)
    assert upper - lower < 1e-8 * upper
    assert lower - 1e-8 <= reference("clustered") <= upper + 1e-8
    declared = model.model()
    declared.solve()
    w = {name: client.variables[0].value for name, client in declared.clients.items()}
    assert all(np.allclose(w[i], w[i % 2], atol=1e-3) for i in parts)
    assert np.linalg.norm(w[0] - w[1]) > 1


def test_the_trend_is_that_of_the_dual_box() -> None:
    model = gallery("trend_filtering")
    y, weight = model.measured(), 10.0
    D = np.diff(np.eye(len(y)), n=2, axis=0)
    # min ½‖x - y‖² + λ‖Dx‖₁ = max over |u| ≤ λ of ½‖y‖² - ½‖y - D'u‖², with x = y - D'u
    u = lsq_linear(D.T, y, (-weight, weight), method="bvls", tol=1e-15).x
    x = y - D.T @ u
    value = np.sum((x - y) ** 2) / 2 + weight * np.abs(D @ x).sum()
    assert value - (y @ y - x @ x) / 2 < 1e-8, "its own certificate"
    assert reference("trend_filtering") == pytest.approx(value, rel=1e-8)


def test_the_low_rank_tasks_lie_between_their_bounds() -> None:
    model = gallery("low_rank")
    parts = list(model.tasks().values())

    def gradient(W: Array) -> Array:
        return np.array([A.T @ (A @ w - b) for (A, b), w in zip(parts, W, strict=True)])

    def value(W: Array) -> float:
        return sum(float(np.sum((A @ w - b) ** 2)) / 2 for (A, b), w in zip(parts, W, strict=True))

    def conjugate(minus: Array) -> float:
        """Of the fit, at what is its gradient at the minimum."""
        total = 0.0
        for (A, b), slope in zip(parts, minus, strict=True):
            w = np.linalg.solve(A.T @ A, A.T @ b + slope)
            total += slope @ w - np.sum((A @ w - b) ** 2) / 2
        return total

    curvature = max(np.linalg.norm(A.T @ A, 2) for A, _ in parts)
    start = np.zeros((len(parts), 5))
    lower, upper = nuclear_bounds(gradient, value, conjugate, start, 3.0, float(curvature))
    assert upper - lower < 1e-8 * upper
    assert lower - 1e-8 <= reference("low_rank") <= upper + 1e-8
    assert np.linalg.matrix_rank(solved(model), tol=1e-3) < 5


def solved(model) -> Array:
    declared = model.model()
    declared.solve()
    return np.array([client.variables[0].value for client in declared.clients.values()])


def test_the_completed_matrix_lies_between_its_bounds() -> None:
    model = gallery("matrix_completion")
    ratings = model.some_ratings()
    rated = ~np.isnan(ratings)
    given = np.where(rated, ratings, 0.0)

    lower, upper = nuclear_bounds(
        lambda X: np.where(rated, X - given, 0.0),
        lambda X: float(np.sum((X - given)[rated] ** 2)) / 2,
        lambda slope: float(np.sum(slope * given) + np.sum(slope**2) / 2),
        np.zeros(ratings.shape),
        0.5,
        1.0,
    )
    assert upper - lower < 1e-8 * upper
    assert lower - 1e-8 <= reference("matrix_completion") <= upper + 1e-8


def test_the_sensors_places_are_those_of_bfgs() -> None:
    model = gallery("sensor_localisation")
    anchors, between, to_anchors = model.meadow()

    def cost(flat: Array) -> tuple[float, Array]:
        x, value, slope = flat.reshape(-1, 2), 0.0, np.zeros((len(flat) // 2, 2))
        for (one, other), far in between.items():
            apart = x[one] - x[other]
            over = max(np.linalg.norm(apart) - far, 0.0)
            pull = 2 * over * apart / max(np.linalg.norm(apart), 1e-12)
            value, slope[one], slope[other] = (
                value + over**2,
                slope[one] + pull,
                slope[other] - pull,
            )
        for (one, anchor), far in to_anchors.items():
            apart = x[one] - anchors[anchor]
            over = max(np.linalg.norm(apart) - far, 0.0)
            value, slope[one] = (
                value + over**2,
                slope[one] + 2 * over * apart / np.linalg.norm(apart),
            )
        return float(value), slope.ravel()

    start = np.random.default_rng(1).random(12)
    found = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    assert reference("sensor_localisation") == pytest.approx(found.fun, rel=1e-8)
