"""Answers that rounding has left outside of the domain of an atom, or at its edge."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def shared_singular() -> tuple[dm.Model, float]:
    r"""A matrix that everybody shares, singular at the optimum, and the optimum.

    :math:`p^\top X^{-1} p + \operatorname{tr} X` with :math:`p = 1` is least at
    :math:`X = 11^\top / \sqrt 3`, of rank one, where it is :math:`2 \sqrt 3`: with
    :math:`X = s\,qq^\top`, q = p/|p|, it is 3/s + s. Half of the trace is another client's.
    """
    X = cp.Variable((3, 3), name="X", PSD=True)
    model = dm.Model("singular")
    model.client("inverse", cp.Minimize(cp.matrix_frac(np.ones(3), X) + cp.trace(X) / 2))
    model.client("trace", cp.Minimize(cp.trace(X) / 2 + 0.0 * cp.sum_squares(X)))
    return model, 2 * np.sqrt(3)


def test_the_value_at_a_singular_matrix_is_its_limit_from_inside() -> None:
    model, least = shared_singular()
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(least, rel=1e-5)
    assert result.verify()


def test_the_value_is_the_objective_at_the_values_given() -> None:
    rng = np.random.default_rng(5)
    x = cp.Variable(3, name="x")
    model = dm.Model("shared")
    for i in range(4):
        A, b = rng.normal(size=(9, 3)), rng.normal(size=9)
        model.client(i, cp.Minimize(cp.sum_squares(A @ x - b) + cp.norm1(x)))
    result = model.solve()
    objective = model.monolithic().objective
    assert result.value == pytest.approx(float(objective.value), rel=1e-14)
