"""A result is of the problem that was solved, whatever its Parameters have become."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def test_an_earlier_result_is_verified_against_its_own_problem() -> None:
    """Of |x - t|^2 + |x|^2 over two entries the minimum is t^2."""
    x, target = cp.Variable(2, name="x"), cp.Parameter(name="target")
    model = dm.Model()
    model.client("a", cp.sum_squares(x - target))
    model.client("b", cp.sum_squares(x))
    results = []
    for t in (2.0, 4.0):
        target.value = t
        results.append(model.solve())
    for result, t in zip(results, (2.0, 4.0), strict=True):
        check = result.verify()
        assert check.ok
        assert check.aio_value == pytest.approx(t**2, rel=1e-6)
    assert target.value == 4.0
    assert x.value == pytest.approx(np.array([2.0, 2.0]), rel=1e-4)


def test_parameters_in_a_consensus_equality_and_a_constraint() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    shift, bound = cp.Parameter(2, name="shift"), cp.Parameter(nonneg=True, name="bound")
    model = dm.Model()
    model.client("a", cp.sum_squares(x), [cp.sum(x) >= bound])
    model.client("b", cp.sum_squares(y))
    model.consensus(x + shift == y)
    assert [p.name() for p in model.parameters] == ["bound", "shift"]
    shift.value, bound.value = np.array([1.0, -1.0]), 4.0
    first = model.solve()
    shift.value, bound.value = np.zeros(2), 0.0
    second = model.solve()
    # x = (2 - 1/2, 2 + 1/2) and y = (2 + 1/2, 2 - 1/2): 4 (4 + 1/4)
    assert first.value == pytest.approx(17.0, rel=1e-4)
    assert first.verify().ok
    assert second.verify().ok
    shift.value = None
    assert first.verify().ok
    assert shift.value is None


def test_what_a_callback_computes_follows_from_the_others() -> None:
    """Of t x / 2 + (t x - 1)^2 + x^2 the minimum is 1 - (3 t / 4)^2 / (t^2 + 1)."""
    x, t = cp.Variable(name="x"), cp.Parameter(name="t")
    given: Any = t  # whose value may be None, says cvxpy
    given.value = 1.0
    half = cp.CallbackParam(lambda: given.value / 2)
    model = dm.Model()
    model.client("a", cp.square(t * x - 1) + half * x)
    model.client("b", cp.square(x))
    results = []
    for value in (1.0, 2.0):
        given.value = value
        results.append(model.solve())
    for result, value in zip(results, (1.0, 2.0), strict=True):
        least = 1 - (3 * value / 4) ** 2 / (value**2 + 1)
        assert result.value == pytest.approx(least, rel=1e-4)
        assert result.verify().ok
