"""Answers that are small beside what the clients would have alone."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

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
