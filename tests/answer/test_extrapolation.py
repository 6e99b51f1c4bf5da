"""Extrapolated warm starts, against functions of Parameters in closed form."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.front.resolving import Resolving, predictive_control, regularisation_path


@pytest.mark.parametrize(
    ("make", "first", "most"),
    [
        (lambda: regularisation_path(clients=4, size=5), 8, 1.2),
        (lambda: regularisation_path("ridge", 4, 5), 8, 1.2),
        (lambda: regularisation_path("logistic", 4, 5), 8, 2.2),
        (lambda: predictive_control(tanks=3, horizon=4, steps=30), 8, 1.3),
    ],
    ids=["lasso", "ridge", "logistic", "control"],
)
def test_a_path_goes_on_in_a_round_or_two(
    make: Callable[[], Resolving], first: int, most: float
) -> None:
    """And is right: each value is that of the all-in-one solve, which knows of no path."""
    given, rounds, result = make(), [], None
    for at in range(given.steps):
        given.step(at)
        result = given.model.solve(start=result)
        assert result.status == "optimal"
        rounds.append(result.rounds)
        if at % 5 == 0:
            value = result.value
            given.problem.solve(solver="CLARABEL")
            assert value == pytest.approx(given.problem.value, rel=1e-6)
            result.apply()
    assert np.mean(rounds[first:]) <= most


def test_the_letter_of_the_algorithms_goes_on_from_where_it_was() -> None:
    """Without acceleration nothing is extrapolated: the first round is from the last iterate."""
    x, weight = cp.Variable(2, name="x"), cp.Parameter(nonneg=True, value=1.0)
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.sum_squares(x - i) + weight * cp.sum_squares(x))
    result = None
    for value in (1.0, 2.0, 3.0, 4.0):
        weight.value = value
        result = model.solve(start=result)
    assert result is not None
    weight.value = 5.0
    told = model.solve(start=result, max_rounds=1)
    plain = model.solve(start=result, max_rounds=1, acceleration=None)
    # x = 3 / (3 + 3 w) of weight w: expected within a few percent of its step
    optimum = 1 / (1 + weight.value)
    miss = [np.abs(one[x] - optimum).max() for one in (told, plain)]
    assert miss[0] < 0.1 * miss[1]


def test_the_last_round_teaches_and_what_is_kept_of_a_path_is_nearer_than_its_answer() -> None:
    """Against the minimiser of squares, in closed form, of each weight."""
    rng = np.random.default_rng(1)
    x, weight = cp.Variable(4), cp.Parameter(nonneg=True)
    parts = [(rng.normal(size=(9, 4)), rng.normal(size=9)) for _ in range(5)]
    model = dm.Model()
    for at, (A, b) in enumerate(parts):
        model.client(at, cp.sum_squares(A @ x - b) + weight * cp.sum_squares(x))
    H, g = sum(A.T @ A for A, _ in parts), sum(A.T @ b for A, b in parts)
    result, missed = None, []
    for value in np.geomspace(3, 0.3, 12):
        weight.value = value
        result = model.solve(start=result)
        exact = np.linalg.solve(H + 5 * value * np.eye(4), g)
        size, state = result.compiled.size, result.state
        kept = result.trail.answers[-1][size : 3 * size].reshape(2, -1)
        far = [np.abs(sides.reshape(2, -1, 4) - exact).max() for sides in (state.sides, kept)]
        missed.append(far)
    answers, kept = np.array(missed[1:]).T
    assert kept.max() < 1e-6
    assert np.median(kept / answers) < 0.5


def test_what_was_learnt_outlasts_steps_that_asked_nothing_of_it() -> None:
    """Where answers are where they were expected, models stay those of the runs before."""
    rng = np.random.default_rng(4)
    x, weight = cp.Variable(3, name="x"), cp.Parameter(nonneg=True, name="weight")
    model, hessian, slope = dm.Model(), np.zeros((3, 3)), np.zeros(3)
    for at in range(4):
        A, b = rng.normal(size=(20, 3)), rng.normal(size=20)
        model.client(at, cp.sum_squares(A @ x - b) + weight * cp.sum_squares(x))
        hessian, slope = hessian + A.T @ A, slope + A.T @ b
    result, rounds = None, []
    for weight.value in np.geomspace(4, 2, 16):
        result = model.solve(start=result)
        rounds.append(result.rounds)
    assert rounds[-3:] == [1, 1, 1]
    assert result is not None
    assert result.learnt is not None
    assert set(result.recalled) == set(range(4))
    weight.value = 0.5
    expected = np.linalg.solve(hessian + 4 * 0.5 * np.eye(3), slope)
    for acceleration in (dm.Hybrid(), dm.Anderson()):  # the first is whose models they are
        after = model.solve(start=result, acceleration=acceleration)
        assert after.rounds > 1
        assert bool(after.recalled) == isinstance(acceleration, dm.Hybrid)
        np.testing.assert_allclose(after[x], expected, atol=1e-6)
