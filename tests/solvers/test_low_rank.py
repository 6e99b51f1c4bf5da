"""Wide quadratics by their roots, against optimality conditions, cvxpy and dense arrays."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq

import dald_model as dm
from dald_model.solvers.exact.low_rank_client import LowRankClient, Separable

TIGHT = 1e-9
"""Relative error of what counts as working accuracy."""
WIDE = 300
"""Variables of a client that is kept by its root."""
SHAPES = {"few rows": (30, 80, 1.0), "sparse": (170, 400, 0.02), "tall": (260, 200, 0.02)}
Kinks = tuple[np.ndarray, np.ndarray, np.ndarray]


def kinks(kind: str, size: int) -> Kinks:
    """Columns, levels and slopes left and right of the rows of all variables."""
    parts = {
        "none": [],
        "l1": [(0.0, -0.7, 0.7)],
        "l1 and box": [(0.0, -0.3, 0.3), (0.4, 0.0, np.inf), (-0.3, -np.inf, 0.0)],
        "signs": [(0.0, -np.inf, 0.0)],
    }[kind]
    each = [np.repeat(np.array(one)[:, None], size, axis=1) for one in parts]
    table = np.concatenate([np.zeros((3, 0)), *each], axis=1)
    return np.tile(np.arange(size), len(parts)), table[0], table[1:]


# Every pair of a shape, a kind and a weight, not every triple
@pytest.mark.parametrize(
    ("shape", "kind", "hold"),
    [
        (shape, kind, (1.0, 1e-3, 1e-8)[(i + j) % 3])
        for i, shape in enumerate(SHAPES)
        for j, kind in enumerate(("none", "l1", "l1 and box", "signs"))
    ],
)
def test_points_meet_the_optimality_conditions(shape: str, kind: str, hold: float) -> None:
    height, size, density = SHAPES[shape]
    rng = np.random.default_rng(1)
    root = sp.csr_array(sp.random_array((height, size), density=density, rng=rng))
    ridge = sp.csr_array(np.sqrt(0.1 * hold) * sp.eye_array(size))
    columns, levels, ends = kinks(kind, size)
    functions = Separable.of(size, columns, levels, ends) if columns.size else Separable.none(size)
    method = LowRankClient(sp.vstack([root, ridge], "csr"), functions)
    assert method.take(np.full(size, 0.9 * hold))
    pulled = root.T @ rng.normal(size=height) * 3
    for change in (0.0, 1e-3, 1.0):
        c = pulled + change * rng.normal(size=size) * np.sqrt(hold)
        found = method.minimise(c)
        assert found is not None
        x = found[0]
        gradient = root.T @ (root @ x) + hold * x + c
        low, high = gradient.copy(), gradient.copy()
        for k, level, left, right in zip(columns, levels, *ends, strict=True):
            low[k] += right if x[k] > level else left
            high[k] += left if x[k] < level else right
        scale = TIGHT * (1 + np.abs(c).max())
        assert (low <= scale).all()
        assert (high >= -scale).all()


def wide(count: int, size: int, rng: np.random.Generator) -> list[tuple[Any, np.ndarray]]:
    truth = rng.normal(size=size) * (rng.random(size) < 0.1)
    parts = []
    for rows in (5, 40, 120)[:count]:
        A = sp.csr_array(sp.random_array((rows, size), density=0.03, rng=rng))
        parts.append((A, A @ truth + 0.1 * rng.normal(size=rows)))
    return parts


def model(parts: list[tuple[Any, np.ndarray]], x: cp.Variable, *, bounded: bool) -> dm.Model:
    found = dm.Model("wide")
    for i, (A, b) in enumerate(parts):
        cost = cp.sum_squares(A @ x - b) + 0.01 * cp.sum_squares(x) + 0.02 * cp.norm1(x)
        found.client(i, cost, [x >= -0.2, x <= 0.5] if bounded else [])
    return found


@pytest.mark.parametrize("bounded", [False, True])
def test_a_wide_lasso_is_that_of_the_monolithic_problem(*, bounded: bool) -> None:
    parts = wide(3, WIDE, np.random.default_rng(4))
    x = cp.Variable(WIDE)
    stated = model(parts, x, bounded=bounded)
    rows = stated.compile().explain()
    assert {row.solver for row in rows} <= {"low_rank", "average"}
    result = stated.solve()
    assert result.status == "optimal"
    assert result.verify().ok  # with the multipliers of the bounds

    y = cp.Variable(WIDE)
    cost = sum(
        cp.sum_squares(A @ y - b) + 0.01 * cp.sum_squares(y) + 0.02 * cp.norm1(y) for A, b in parts
    )
    whole: Any = cp.Problem(cp.Minimize(cost), [y >= -0.2, y <= 0.5] if bounded else [])
    whole.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert whole.value is not None
    assert abs(result.value - whole.value) <= 1e-7 * abs(whole.value)


def test_rounds_are_those_of_cvxpy() -> None:
    """The readable path, client by client through cvxpy, stands at the same points."""
    parts = wide(2, WIDE, np.random.default_rng(5))
    points = []
    for solver in ("auto", "reference"):
        x = cp.Variable(WIDE)
        stated = model(parts, x, bounded=True)
        stated.topology("server")  # which leaves the clients their rules
        options = {"rho": 1.0, "max_rounds": 4, "acceleration": None}
        result = stated.solve(solver=solver, **options)
        assert result.rounds == 4
        points.append(np.concatenate([result[i][x] for i in range(2)]))
    assert np.abs(points[0] - points[1]).max() <= 1e-5


@pytest.mark.parametrize("cap", [1.0, 3e-4])
def test_wide_owners_under_one_budget_are_those_of_the_closed_form(cap: float) -> None:
    """Each owner shares one sum: the edges join the root, and bounds meet no square matrix.

    Entries cost w x^2: they are p / 2w, at most the cap, with the p that makes up the budget.
    """
    weights = np.random.default_rng(9).uniform(1.0, 3.0, (6, WIDE))
    x = [cp.Variable(WIDE, name=f"x{i}", nonneg=True) for i in range(6)]
    stated = dm.Model("budget")
    for i, one in enumerate(x):
        stated.client(i, cp.sum(cp.multiply(weights[i], cp.square(one))), [one <= cap])
    stated.couple(sum(cp.sum(one) for one in x) == 0.4)
    solvers = {row.clients: row.solver for row in stated.compile().explain()}
    assert solvers[tuple(range(6))] == "low_rank"
    result = stated.solve()
    assert result.status == "optimal"

    def total(price: float) -> float:
        return float(np.minimum(price / (2 * weights), cap).sum()) - 0.4

    price: Any = brentq(total, 0.0, 1.0, xtol=1e-15)
    expected = np.minimum(price / (2 * weights), cap)
    found = np.array([result[i][one] for i, one in enumerate(x)])
    assert np.abs(found - expected).max() <= 1e-4 * expected.max()  # that of `verify`


def test_no_square_matrix_is_made() -> None:
    size = 3000
    parts = wide(3, size, np.random.default_rng(6))
    stated = model(parts, cp.Variable(size), bounded=False)
    tracemalloc.start()
    stated.solve(max_rounds=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * size**2 / 2


def test_wide_clients_travel() -> None:
    parts = wide(2, WIDE, np.random.default_rng(8))
    sub = model(parts, cp.Variable(WIDE), bounded=False).compile()[0]
    form = dm.unpack(dm.pack(sub)).form
    assert sub.form is not None
    assert form is not None
    assert sp.issparse(form.quadratic.root)
    assert form.digest == sub.form.digest
