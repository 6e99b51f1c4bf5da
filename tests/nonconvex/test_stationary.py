"""Models with clients that are not convex end at points whose first-order conditions hold.

Each is checked by gradients written out by hand, by roots of a polynomial or in closed form.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

TOLERANCE = 1e-5
"""Of first-order conditions, relative to 1 + |F|: what the issue of non-convex owners asks for."""


def meters(count: int, wrong: float = 8.0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of a linear model of which a fifth is wrong."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        A = rng.normal(size=(20, 3))
        b = A @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=20)
        b[:4] += wrong * rng.normal(size=4)
        found.append((A, b))
    return found


def robust(w: cp.Variable, A: np.ndarray, b: np.ndarray) -> Any:
    return cp.sum(cp.log(1 + cp.square(A @ w - b)))


def robust_gradient(rows: list[tuple[np.ndarray, np.ndarray]], w: np.ndarray) -> np.ndarray:
    parts = [A.T @ (2 * (A @ w - b) / (1 + (A @ w - b) ** 2)) for A, b in rows]
    return np.sum(parts, axis=0)


@pytest.mark.parametrize("graph", [None, nx.path_graph(5)], ids=["server", "path"])
def test_robust_losses(graph: nx.Graph | None) -> None:
    rows, w, model = meters(5), cp.Variable(3, name="w"), dm.Model("robust")
    for i, (A, b) in enumerate(rows):
        model.client(i, robust(w, A, b), nonconvex=True)
    model.topology(graph)
    result = model.solve()
    assert result.status == "stationary"
    gradient = robust_gradient(rows, result["w"])
    assert np.abs(gradient).max() <= TOLERANCE * (1 + result.value)
    assert result.verify().ok


def test_a_robust_loss_in_a_ball_that_binds() -> None:
    """There the gradient points along the radius, inwards."""
    rows, w, model = meters(3), cp.Variable(3, name="w"), dm.Model("ball")
    for i, (A, b) in enumerate(rows):
        rules = [cp.sum_squares(w) <= 1] if i == 0 else []
        model.client(i, robust(w, A, b), rules, nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    x = result["w"]
    assert x @ x == pytest.approx(1.0, abs=1e-5)
    gradient = robust_gradient(rows, x)
    multiplier = -gradient @ x
    assert multiplier > 0
    assert np.abs(gradient + multiplier * x).max() <= TOLERANCE * (1 + result.value)


def test_outside_of_a_circle_is_its_nearest_point() -> None:
    """In closed form: of p inside of the unit circle it is p / |p|."""
    x = cp.Variable(2, name="x", value=np.array([1.0, 1.0]))
    model, p = dm.Model("circle"), np.array([0.3, 0.4])
    model.client("near", cp.sum_squares(x - p))
    model.client("away", 0, [cp.sum_squares(x) >= 1], nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    assert result["x"] == pytest.approx([0.6, 0.8], abs=1e-4)


def test_squared_ranges() -> None:
    rng = np.random.default_rng(3)
    anchors, true = np.array([[0.0, 0], [1, 0], [0, 1]]), rng.uniform(size=(4, 2))
    X = cp.Variable((4, 2), name="X", value=true + 0.1 * rng.normal(size=(4, 2)))
    model = dm.Model("ranges")
    wanted = [[1.01 * np.sum((p - a) ** 2) for a in anchors] for p in true]
    between = [1.01 * np.sum((true[i] - true[(i + 1) % 4]) ** 2) for i in range(4)]
    for i in range(4):
        errors = [cp.sum_squares(X[i] - a) - d for a, d in zip(anchors, wanted[i], strict=True)]
        errors.append(cp.sum_squares(X[i] - X[(i + 1) % 4]) - between[i])
        model.client(i, sum(map(cp.square, errors)), nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    x, gradient = result["X"], np.zeros((4, 2))
    for i in range(4):
        for a, d in zip(anchors, wanted[i], strict=True):
            gradient[i] += 4 * (np.sum((x[i] - a) ** 2) - d) * (x[i] - a)
        j = (i + 1) % 4
        pull = 4 * (np.sum((x[i] - x[j]) ** 2) - between[i]) * (x[i] - x[j])
        gradient[i] += pull
        gradient[j] -= pull
    assert np.abs(gradient).max() <= TOLERANCE * (1 + result.value)


def test_a_non_convex_owner_with_a_convex_sum() -> None:
    """2 |x|^2 - sum(x) - |x|^2 is least where every entry is one half."""
    x, model = cp.Variable(2, name="x", value=np.array([3.0, -3.0])), dm.Model("sum")
    model.client("convex", 2 * cp.sum_squares(x) - cp.sum(x))
    model.client("concave", -cp.sum_squares(x), nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    assert result["x"] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert "the largest negative curvature met is 2, at client 'concave'" in result.detail


def test_a_lasso_and_a_robust_loss() -> None:
    """The slope of both is within the weight where an entry is zero, and equal to it elsewhere."""
    rows, w, model = meters(1), cp.Variable(3, name="w"), dm.Model("mixed")
    model.client("sparse", 8 * cp.norm1(w))
    model.client("robust", robust(w, *rows[0]), nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    x, gradient = result["w"], robust_gradient(rows, result["w"])
    wrong = np.where(np.abs(x) > 1e-5, gradient + 8 * np.sign(x), np.maximum(abs(gradient) - 8, 0))
    assert np.abs(wrong).max() <= TOLERANCE * (1 + result.value)


def two_minima(start: float) -> dm.Model:
    x, model = cp.Variable(name="x", value=start), dm.Model("two minima")
    model.client("a", cp.power(x, 4) - 2 * cp.square(x), nonconvex=True)
    model.client("b", 0.2 * x)
    return model


ROOTS = sorted(np.roots([4, 0, -4, 0.2]).real)
"""Two minima, and the maximum between them."""


@pytest.mark.parametrize(("start", "at"), [(1.5, 2), (-1.5, 0), (0.02, 0)])
def test_two_minima(start: float, at: int) -> None:
    """The nearest one downhill; from 0.02 Anderson's mixing would go to the maximum near it."""
    result = two_minima(start).solve()
    assert result.status == "stationary"
    assert float(result["x"]) == pytest.approx(ROOTS[at], abs=1e-5)


def test_several_starts_find_the_lower_minimum_and_keep_all_runs() -> None:
    result = two_minima(1.5).solve(starts=9)
    assert float(result["x"]) == pytest.approx(ROOTS[0], abs=1e-5)
    assert len(result.runs) == 9
    assert {run.status for run in result.runs} == {"stationary"}
    assert float(result.runs[0]["x"]) == pytest.approx(ROOTS[2], abs=1e-5)
    assert all(len(run.history) == run.rounds for run in result.runs)


def test_a_time_limit_is_for_all_starts_together() -> None:
    """The first start ends it at once: of nine one is left, and its status says why."""
    result = two_minima(1.5).solve(starts=9, time_limit=1e-6)
    assert [run.status for run in result.runs] == ["time_limit"]


def test_a_lower_point_is_told_with_its_start() -> None:
    check = two_minima(1.5).solve().verify()
    low, high = (x**4 - 2 * x**2 + 0.2 * x for x in (ROOTS[0], ROOTS[2]))
    assert check.ok
    assert check["a lower point"].difference == pytest.approx(high - low, rel=1e-4)
    assert check["a lower point"].where == "drawn start 4"
    assert "lower by 0.4; try starts=9" in check.note


def test_a_point_that_is_not_stationary_fails() -> None:
    rows, w, model = meters(3), cp.Variable(3, name="w"), dm.Model("robust")
    for i, (A, b) in enumerate(rows):
        model.client(i, robust(w, A, b), nonconvex=True)
    result = model.solve(max_rounds=2)
    assert result.status == "round_limit"
    check = result.verify()
    assert not check.ok
    assert not check["stationarity"].ok
    assert model.solve(start=result).status == "stationary"


def test_other_units_end_alike() -> None:
    """Columns from 1e-2 to 1e2 and a loss in thousands."""
    rows, w, model = meters(3), cp.Variable(3, name="w"), dm.Model("units")
    units = np.array([1.0, 100.0, 0.01])
    for i, (A, b) in enumerate(rows):
        model.client(i, 1e3 * robust(w, A * units, b), nonconvex=True)
    result = model.solve()
    assert result.status == "stationary"
    gradient = 1e3 * robust_gradient([(A * units, b) for A, b in rows], result["w"])
    assert np.abs(gradient).max() <= 1e-4 * (1 + result.value)  # what "stationary" promises
