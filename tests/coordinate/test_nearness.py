"""Answers that are small beside what the clients would have alone."""

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.outer_test import Nearness
from dald_model.coordinate.whole import Here

EPS = 1e-6


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([[2.0, 0.0], [2.0 + 1e-5, 0.0]], False),  # though 1e-5 is 1e-8 of the lengths
        ([[2.0, 0.0], [2.0 + 1e-6, 0.0]], True),
        ([[0.0, 2.0], [2e-6, 2.0]], True),  # beside the largest of the edge
        ([[0.0, 2.0], [3e-6, 2.0]], False),
        ([[0.0, 1e-4], [0.0, 2e-4]], True),  # zero beside lengths of 1000
        ([[50.0, 0.0], [50.0 + 1e-4, 0.0]], True),  # not small
    ],
)
def test_a_gap_is_held_against_what_is_agreed_on(sides: Any, expected: bool) -> None:
    compiled: Any = SimpleNamespace(edges=[SimpleNamespace(parts=[slice(0, 2)])])
    given = np.array(sides)
    units = SimpleNamespace(lengths=np.array([1e3, 1e3]))
    state: Any = SimpleNamespace(units=units, primal=given[0] - given[1], sides=given, whole=Here())
    assert Nearness(compiled).is_met(state, EPS) == expected


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
