"""The all-in-one problem is an ordinary cvxpy problem, also after a solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


@pytest.mark.parametrize(
    ("atom", "least"),
    [
        # By symmetry all entries are t: of t + 3 (t - 1)^2 and of 3 t + 3 (t - 1)^2 the minimum
        (lambda x: cp.cvar(x, 0.6), 11 / 12),
        (lambda x: cp.sum_largest(x, 3), 9 / 4),
        (lambda x: cp.sum_largest(x, 1.5), 1.5 * 3 / 4 + 3 / 16),
    ],
)
def test_it_is_solved_again_where_its_variables_have_values(
    atom: Callable[[cp.Variable], Any], least: float
) -> None:
    x = cp.Variable(3)
    model = dm.Model()
    model.client("a", atom(x))
    model.client("b", cp.sum_squares(x - 1))
    assert model.solve().value == pytest.approx(least, rel=1e-4)
    before = x.value
    problem = model.monolithic()
    problem.get_problem_data(cp.CLARABEL)
    np.testing.assert_array_equal(x.value, before)
    for _ in range(2):
        assert problem.solve(solver=cp.CLARABEL) == pytest.approx(least, rel=1e-6)
    assert model.monolithic().solve(solver=cp.SCS, eps=1e-8) == pytest.approx(least, rel=1e-6)


def test_many_clients_are_no_expression_to_vectorise() -> None:
    """Cvxpy warns of an objective of 10,000 nodes, and here nobody wrote it."""
    x = cp.Variable()
    model = dm.Model()
    for i in range(3):
        cost = sum(cp.square(x - k) for k in range(i * 900, (i + 1) * 900))
        model.client(i, cost)
    with pytest.warns(UserWarning, match="too many subexpressions"):
        cp.Problem(cp.Minimize(sum(client.cost for client in model.clients.values())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.monolithic()


def test_cvxpy_still_needs_help_with_a_sum_of_the_largest_whose_variable_has_a_value() -> None:
    """If this fails cvxpy is mended, and dald_model/declare/problem.py can go."""
    x = cp.Variable(3)
    x.value = np.arange(3.0)
    for atom, error in ((cp.cvar(x, 0.6), TypeError), (cp.sum_largest(x, 3), ValueError)):
        with pytest.raises(error):
            cp.Problem(cp.Minimize(atom + cp.sum_squares(x))).solve(solver=cp.CLARABEL)
