"""Offsets for other values of Parameters, against the whole affine map taken anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.affine_maps import moving_offset
from dald_model.declare.affine import affine_parts

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 3))
X, Y = cp.Variable(3), cp.Variable((2, 3))
SHIFT, LEVEL, TABLE = cp.Parameter(3), cp.Parameter(), cp.Parameter((2, 3))
OFFSETS: dict[str, Callable[[], Any]] = {
    "difference": lambda: X - SHIFT,
    "data times a difference": lambda: A @ (X - SHIFT) + 1,
    "weighed": lambda: cp.multiply(A[0], X - 2 * SHIFT) / 3,
    "promoted": lambda: X + LEVEL,
    "promoted difference": lambda: 2 - (X - LEVEL),
    "an entry": lambda: X[1] - LEVEL,
    "matrix": lambda: cp.vec(Y - TABLE, order="F")[:4] + A @ SHIFT,
    "summed": lambda: cp.sum(Y - TABLE, axis=0) + cp.hstack([X[:2], X[0] - LEVEL]),
    "transposed": lambda: A @ (Y - TABLE).T,
    "kron": lambda: cp.kron(np.ones((2, 1)), Y - TABLE),
}


def set_parameters(rng: np.random.Generator) -> None:
    for one in (SHIFT, LEVEL, TABLE):
        one.value = rng.normal(size=one.shape)


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_are_those_of_the_whole_map_to_the_last_bit(name: str) -> None:
    rng, expression = np.random.default_rng(1), OFFSETS[name]()
    set_parameters(rng)
    offset = moving_offset(expression)
    assert offset is not None
    for _ in range(3):
        np.testing.assert_array_equal(offset(), affine_parts(expression)[1])
        set_parameters(rng)


@pytest.mark.parametrize(
    "expression", [LEVEL * X + SHIFT, cp.multiply(SHIFT, X), X / LEVEL, TABLE @ X, SHIFT @ X]
)
def test_parameters_that_multiply_variables_are_left_to_the_whole_map(expression: Any) -> None:
    set_parameters(np.random.default_rng(2))
    assert moving_offset(expression) is None


def test_what_an_offset_does_not_touch_is_the_same_object() -> None:
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
    assert second.quadratic is first.quadratic
    assert second.terms[0] is first.terms[0]
    assert second.inequalities is first.inequalities
    np.testing.assert_allclose(second.equalities.rhs - first.equalities.rhs, [1.0])
    aim.value = np.zeros(3)
    third = compiled["a"].form
    assert third is not None
    assert third.equalities is second.equalities
    assert third.quadratic.matrix is first.quadratic.matrix
    # |x - 1|^2 to |x|^2
    np.testing.assert_allclose(third.quadratic.linear - first.quadratic.linear, 2.0)
    point = RNG.normal(size=3)
    assert third.objective(point) == pytest.approx(
        np.sum((A @ point - 1) ** 2) + np.sum(point**2) + np.abs(point).sum()
    )
