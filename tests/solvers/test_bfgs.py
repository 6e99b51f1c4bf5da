"""scipy's BFGS in the solver layer: minimisers of closed forms, and runs that reach the optimum."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.solvers.known import Known, lambda_value, least_squares, logistic, make_turn, pulled

TOLERANCE = 1e-6


def drawn(seed: int = 5) -> list[Known]:
    rng = np.random.default_rng(seed)
    return [least_squares(rng, 8, 3), logistic(rng, 20, 4), least_squares(rng, 5, 2)]


def test_it_finds_where_the_gradient_of_the_augmented_lagrangian_is_zero() -> None:
    known, rng = drawn(), np.random.default_rng(1)
    session = dm.solvers.BFGS().open([one.sub for one in known])
    for _ in range(3):  # the later ones start with an inverse Hessian
        turn, parts = make_turn(known, np.array([2, 0, 1]), rng)
        answers = session.minimise(turn, TOLERANCE)
        assert list(answers.statuses) == ["optimal"] * 3
        begin = 0
        for i, (at, part) in enumerate(zip(turn.which, parts, strict=True)):
            one = known[at]
            x = answers.points[begin : begin + one.size]
            begin += one.size
            assert np.abs(one.gradient(x) + pulled(one, x, part)).max() <= TOLERANCE
            assert answers.objectives[i] == pytest.approx(one.value(x), rel=1e-11)
            for move in 1e-3 * np.eye(one.size):
                assert lambda_value(one, x, part) < lambda_value(one, x + move, part)


def fit(scale: float = 1.0) -> tuple[dm.Model, np.ndarray]:
    """Least squares on a chain, and its coefficients by the normal equations."""
    rng = np.random.default_rng(2)
    x, model, rows, sides = cp.Variable(3, name="x"), dm.Model("fit"), [], []
    for i in range(3):
        A = rng.normal(size=(30, 3)) * [1.0, scale, 1.0]
        b = A @ [1.0, -1.0 / scale, 2.0] + rng.normal(size=30)
        model.client(i, cp.sum_squares(A @ x - b))
        rows.append(A)
        sides.append(b)
    model.topology(nx.path_graph(3))
    return model, np.linalg.lstsq(np.vstack(rows), np.concatenate(sides))[0]


@pytest.mark.parametrize("options", [{}, {"stopping": dm.FixedBudget(1), "acceleration": None}])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_a_run_reaches_the_fit_of_all_rows(scale: float, options: dict[str, Any]) -> None:
    model, best = fit(scale)
    result = model.solve(solver="BFGS", max_rounds=1000, **options)
    assert result.status == "optimal"
    assert result.verify().ok
    assert result[0]["x"] == pytest.approx(best, rel=1e-4)


def test_one_client_by_name_and_the_others_as_they_are() -> None:
    model, best = fit()
    result = model.solve(solver={1: "BFGS"})
    assert result.status == "optimal"
    assert result[1]["x"] == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "rules", "why"),
    [
        (lambda x: cp.norm1(x), lambda x: [], "its objective has abs terms"),
        (lambda x: cp.sum_squares(x - 1), lambda x: [x >= 0], "it has constraints"),
    ],
)
def test_what_is_not_smooth_is_refused_with_what_takes_it(loss: Any, rules: Any, why: str) -> None:
    x, model = cp.Variable(2, name="x"), dm.Model("other")
    model.client("a", cp.sum_squares(x))
    model.client("b", loss(x), rules(x))
    with pytest.raises(dm.OptionError, match=f"'BFGS' cannot take client 'b': {why}; choose one"):
        model.solve(solver="BFGS")
