"""Clients with the user's Parameters."""

import re

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.declare.pair import pair
from tests.expect import near


def test_parameters_change_the_answer_and_not_what_is_compiled() -> None:
    """Soft thresholding: min (x - p)^2 + lam |x| + (x - p)^2 with x >= floor."""
    p, lam = cp.Parameter(name="p"), cp.Parameter(name="lam", nonneg=True)
    floor = cp.Parameter(name="floor")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    client = model.client("a", cp.square(x - p) + lam * cp.abs(x), [x >= floor])
    model.client("b", cp.square(y - p))
    model.consensus(x == y)
    assert client.parameters == [p, lam, floor]
    compiled = model.compile()
    programs = [sub.problem for sub in compiled.values()]
    for p.value, lam.value, floor.value in [(3, 2, -9), (-3, 2, -9), (0.1, 2, -9), (-3, 2, -1)]:
        shrunk = np.sign(p.value) * max(abs(p.value) - lam.value / 4, 0)
        expected = max(shrunk, floor.value)
        result = model.solve()
        assert result[x] == near(expected)
        assert result.value == near(2 * (expected - p.value) ** 2 + lam.value * abs(expected))
        assert model.compile() is compiled
        assert [sub.problem for sub in compiled.values()] == programs
    assert all(program.is_dpp() for program in programs)


def test_parameters_of_a_shared_variable_and_its_constraints() -> None:
    p, top = cp.Parameter(2, name="p"), cp.Parameter(name="top")
    w = cp.Variable(2, name="w")
    model = dm.Model()
    model.client("a", cp.sum_squares(w - p), [w <= top])
    model.client("b", cp.sum_squares(cp.multiply(p, w) - 4))
    for middle, most in [(np.array([1.0, 2.0]), 9.0), (np.array([2.0, 3.0]), 1.5)]:
        p.value, top.value = middle, most
        expected = np.minimum(5 * middle / (1 + middle**2), most)
        model.solve()
        assert w.value == near(expected)


def test_a_parameter_without_a_finite_value_is_named_before_anything_is_computed() -> None:
    p = cp.Parameter(2, name="p")
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = pair(x, cp.sum_squares(x - p), y, cp.sum_squares(y))
    with pytest.raises(dm.OptionError, match=r"client 'f'.*Parameter 'p' has no value; set its"):
        model.solve()
    p.value = [1.0, np.inf]
    with pytest.raises(dm.OptionError, match=r"client 'f'.*Parameter 'p' holds NaN or inf.*set"):
        model.solve()
    p.value = [2.0, 4.0]
    model.solve()
    assert x.value == near([1.0, 2.0])


def test_a_parameter_of_a_constraint_is_looked_at_too() -> None:
    p = cp.Parameter(name="p")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x), [x >= p])
    model.client("b", cp.square(y))
    model.consensus(x == y)
    with pytest.raises(dm.OptionError, match=re.escape("client 'a': the Parameter 'p' has no")):
        model.solve()
