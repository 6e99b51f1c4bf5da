"""Answers that rounding has left outside of the domain of an atom, or at its edge."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def test_the_value_is_the_objective_at_the_values_given() -> None:
    rng = np.random.default_rng(5)
    x = cp.Variable(3, name="x")
    model = dm.Model("shared")
    for i in range(4):
        A, b = rng.normal(size=(9, 3)), np.sign(rng.normal(size=9))
        model.client(i, cp.Minimize(cp.sum(cp.logistic(cp.multiply(b, A @ x)))))
    result = model.solve(max_rounds=2)  # the copies do not agree yet
    objective = model.monolithic().objective
    assert result.value == pytest.approx(np.asarray(objective.value).item(), rel=1e-14)


def test_the_value_at_a_singular_optimum() -> None:
    r""":math:`p^\top X^{-1} p + \operatorname{tr} X` is :math:`2 \|p\|` at the least.

    There X is :math:`pp^\top / \|p\|`, of rank one.
    """
    p = np.ones(3)
    X = cp.Variable((3, 3), name="X", PSD=True)
    model = dm.Model("singular")
    model.client("inverse", cp.Minimize(cp.matrix_frac(p, X) + cp.trace(X) / 2))
    model.client("trace", cp.Minimize(cp.trace(X) / 2 + 0.0 * cp.sum_squares(X)))
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(2 * np.sqrt(3), rel=1e-5)
    assert result.verify()


def test_what_is_declared_symmetric_is_so_to_the_last_digit() -> None:
    """A server's mean has the skew part of the prices; cvxpy's ``tr_inv`` is infinite for 1e-8."""
    X = cp.Variable((3, 3), name="X", PSD=True)
    model = dm.Model("symmetric")
    rng = np.random.default_rng(0)
    for at in range(3):
        target = rng.normal(size=(3, 3))
        model.client(at, cp.sum_squares(X - target) + cp.tr_inv(X))
    model.solve(online=dm.LossyLinks(0.2, seed=3), max_rounds=12)
    assert X.value is not None
    np.testing.assert_array_equal(X.value, X.value.T)
