"""The bound by a subgradient against the least value near by, which is known in closed form."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from dald_model.answer.rescaling import Measure
from dald_model.answer.subgradient import steepest

RADIUS = 1e-3
NONE = np.zeros(2)


def bound(cost: Any, x: Any, centre: Any, spread: Any, linear: Any = NONE) -> float:
    around = {x.id: Measure(np.asarray(centre, float), np.asarray(spread, float))}
    return steepest(cost, {x.id: np.asarray(linear, float)}, around, RADIUS)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_of_a_quadratic_it_is_the_steepest_scaled_slope(unit: float) -> None:
    x = cp.Variable(2)
    cost = cp.sum_squares(x / unit - np.array([1.0, 4.0]))
    # gradients 2 (0 - 1) and 2 (3 - 4) a unit, spreads of one and of five units, and a charge
    centre, spread = [0.0, 3 * unit], [unit, 5 * unit]
    assert bound(cost, x, centre, spread) == pytest.approx(10.0)
    assert bound(cost, x, centre, spread, [0.0, 2 / unit]) == pytest.approx(2.0)


def test_at_a_minimum_it_is_zero() -> None:
    x = cp.Variable(2)
    assert bound(cp.sum_squares(x - 1), x, [1, 1], [1, 1]) == 0.0
    assert bound(cp.norm1(x), x, [0, 0], [1, 1]) <= 1.0  # any subgradient of it will do


def test_it_is_no_less_than_what_a_step_gains() -> None:
    """exp(x) + exp(-2 y) falls by no more than the bound times the step."""
    x = cp.Variable(2)
    cost = cp.exp(x[0]) + cp.exp(-2 * x[1])
    found = bound(cost, x, [0.3, 0.1], [1.0, 2.0])
    step = RADIUS * 2.0
    gained = np.exp(-0.2) - np.exp(-0.2 - 2 * step)
    assert gained <= found * RADIUS <= 1.01 * gained


def test_where_there_is_no_gradient_nothing_is_known() -> None:
    x = cp.Variable(2)
    assert bound(-cp.sum(cp.log(x)), x, [-1, 1], [1, 1]) == np.inf


def test_a_gradient_that_the_values_contradict_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = cp.Variable(2)
    cost = cp.sum_squares(x)
    monkeypatch.setattr(type(cost), "grad", {x: np.zeros((2, 1))})
    assert bound(cost, x, [1, 1], [1, 1]) == np.inf
