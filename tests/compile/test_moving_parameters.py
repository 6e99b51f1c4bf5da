"""Numbers of a client with other values of Parameters: what they do not touch stays."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 3))


def test_a_parameter_moves_what_it_stands_in_and_no_matrix() -> None:
    """A Parameter in a constraint moves its right-hand side alone, one in a loss its slopes."""
    x, start, aim = cp.Variable(3), cp.Parameter(value=1.0), cp.Parameter(3, value=np.ones(3))
    cost = cp.sum_squares(A @ x - 1) + cp.sum_squares(x - aim) + cp.norm1(x)
    model = dm.Model()
    model.client("a", cost, [x[0] == start, x <= 5])
    model.client("b", cp.sum_squares(x))
    compiled = model.compile()
    first = compiled["a"].form
    assert first is not None
    start.value = 2.0
    second = compiled["a"].form
    assert second is not None
    assert second.quadratic.matrix is first.quadratic.matrix
    np.testing.assert_array_equal(second.quadratic.linear, first.quadratic.linear)
    assert second.terms[0].matrix is first.terms[0].matrix
    assert second.inequalities.matrix is first.inequalities.matrix
    np.testing.assert_allclose(second.equalities.rhs - first.equalities.rhs, [1.0])
    aim.value = np.zeros(3)
    third = compiled["a"].form
    assert third is not None
    np.testing.assert_array_equal(third.equalities.rhs, second.equalities.rhs)
    assert third.quadratic.matrix is first.quadratic.matrix
    # |x - 1|^2 to |x|^2
    np.testing.assert_allclose(third.quadratic.linear - first.quadratic.linear, 2.0)
    point = RNG.normal(size=3)
    assert third.objective(point) == pytest.approx(
        np.sum((A @ point - 1) ** 2) + np.sum(point**2) + np.abs(point).sum()
    )
