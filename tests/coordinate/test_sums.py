"""Penalties along one sum: one for all, in the units of the sum."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.sums import alike_in_sums

FACTORS = np.array([1.0, -2.0, 10.0])


def test_their_root_mean_square_in_units_of_the_sum() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.square(v))
    model.couple(sum(a * v for a, v in zip(FACTORS, x, strict=True)) == 1)
    compiled = model.compile()
    # Each shares a_k x_k or x_k: what counts is what a move of the sum by one costs
    given = np.array([3.0, 4.0, 12.0])
    assert compiled.size == 3
    sides = [compiled[i].sides[0].toarray()[0, 0] for i in range(3)]
    per_sum = given * np.abs(np.array(sides) / FACTORS)
    found = alike_in_sums(compiled, given) * np.abs(np.array(sides) / FACTORS)
    assert found == pytest.approx(np.full(3, np.sqrt(np.mean(per_sum**2))))


def test_norms_of_differences_and_clients_keep_theirs() -> None:
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v))
    model.consensus(x[0] == x[1])
    model.couple(objective=cp.norm(x[1] - x[2]))
    given = np.arange(1.0, 7.0)
    np.testing.assert_array_equal(alike_in_sums(model.compile(), given), given)
