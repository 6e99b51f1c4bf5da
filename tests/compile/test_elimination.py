"""Limits of maxima are rows of the client's own variables, with cvxpy's dual values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

SIZE = 4
WEIGHTS = np.array([1.0, 3.0, 0.5, 7.0])
Rule = Callable[[cp.Variable, cp.Variable], Any]

RULES: dict[str, Rule] = {
    "absolute values": lambda x, t: cp.abs(x) <= 0.3,
    "each its own": lambda x, t: cp.abs(cp.multiply(WEIGHTS, x) - 1) <= 0.2 * WEIGHTS,
    "a multiple": lambda x, t: 3 * cp.abs(x[0] - x[1]) + 1 <= 1.3,
    "below a variable": lambda x, t: cp.abs(x) <= t,
    "largest entry": lambda x, t: cp.max(x) <= 0.3,
    "smallest entry": lambda x, t: cp.min(x) >= 0.6,
    "largest of some": lambda x, t: cp.maximum(x[0], 2 * x[1], x[2] - x[3]) <= 0.2,
    "norm": lambda x, t: cp.norm_inf(x - 1) <= 0.3,
    "largest absolute value": lambda x, t: 2 * cp.max(cp.abs(cp.multiply(WEIGHTS, x))) <= t,
    "positive parts": lambda x, t: cp.pos(x - 0.1) <= 0.2,
    "itself and more": lambda x, t: cp.abs(x) <= x + 0.1,
    "steps": lambda x, t: cp.abs(cp.diff(x)) <= 0.1,
}
STAYS: dict[str, Rule] = {
    "sum": lambda x, t: cp.norm1(x) <= 0.9,
    "sum of largest": lambda x, t: cp.sum_largest(x, 2) <= 0.9,
    "sum of positive parts": lambda x, t: cp.sum(cp.pos(x)) <= 0.9,
}


def model_of(rule: Rule) -> tuple[dm.Model, list[Any]]:
    """Two clients with such a rule each, and with different data, that agree on t."""
    rng, model, rules, shared = np.random.default_rng(5), dm.Model("maxima"), [], []
    for i in range(2):
        x, t = cp.Variable(SIZE, name=f"x{i}"), cp.Variable(name=f"t{i}")
        A, b = rng.normal(size=(9, SIZE)), 2 * rng.normal(size=9) + 2
        rules.append(rule(x, t))
        model.client(i, cp.sum_squares(A @ x - b) + cp.square(t - cp.sum(x)), [rules[-1]])
        shared.append(t)
    model.consensus(shared[0] == shared[1])
    return model, rules


@pytest.mark.parametrize("name", [*RULES, *STAYS])
def test_values_and_dual_values_are_those_of_cvxpy(name: str) -> None:
    model, rules = model_of({**RULES, **STAYS}[name])
    result = model.solve()
    ours = [np.array(rule.dual_value) for rule in rules]
    value = model.monolithic().solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert result.status == "optimal"
    assert result.value == pytest.approx(value, rel=1e-6)
    assert result.verify().ok
    plain = model.monolithic()
    plain.solve(solver=cp.CLARABEL)
    for rule, mine in zip(rules, ours, strict=True):
        np.testing.assert_allclose(mine, rule.dual_value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RULES)
def test_no_column_is_left(name: str) -> None:
    model, _ = model_of(RULES[name])
    for sub in model.compile().values():
        if not sub.client.is_server:
            assert sub.form is not None
            assert sub.form.complete
            assert sub.form.extra == 0
            assert sub.form.cone.linear.size == sub.size


@pytest.mark.parametrize("name", STAYS)
def test_columns_stay_where_rows_would_become_more(name: str) -> None:
    model, _ = model_of(STAYS[name])
    forms = [sub.form for sub in model.compile().values() if not sub.client.is_server]
    assert all(form is not None and form.extra > 0 for form in forms)


def test_thousands_of_limits_are_rows_of_few_numbers() -> None:
    x, model = cp.Variable(3000), dm.Model("wide")
    model.client("one", cp.sum_squares(x - 1), [cp.abs(x) <= 0.5])
    model.client("other", cp.sum_squares(x[:2]))
    rows = model.compile()["one"].form.cone.rows
    assert rows.shape == (6000, 3000)
    assert rows.nnz == 6000
