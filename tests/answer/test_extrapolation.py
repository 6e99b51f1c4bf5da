"""Extrapolated warm starts, against functions of Parameters in closed form."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.extrapolation import KEPT, Trail, _through_points
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.state import State
from dald_model.models.mean import common_number
from tests.front.resolving import Resolving, predictive_control, regularisation_path


def told(function: Callable[[np.ndarray], np.ndarray], path: np.ndarray) -> tuple[np.ndarray, bool]:
    """How far off the last point of a path is missed, of an answer that is this function."""
    compiled = common_number([0, 1, 2]).compile()
    state = State.start(compiled, np.ones(compiled.size), Units.plain(compiled))
    trail = None
    for values in path[:-1]:
        state.mu = function(values)
        state.sides = np.array([state.mu + 1, state.mu + 1])  # they agree: no price changes
        trail = Trail.after(trail, values, state)
    assert trail is not None
    before = state.mu.copy()
    is_told = trail.extrapolate(path[-1], state)
    assert is_told or (state.mu == before).all()
    np.testing.assert_allclose(state.sides, [state.mu + 1, state.mu + 1], atol=1e-9)
    return state.mu - function(path[-1]), is_told


def test_an_affine_answer_of_several_parameters_is_told_exactly() -> None:
    rng = np.random.default_rng(0)
    matrix, path = rng.normal(size=(3, 4)), rng.normal(size=(8, 4))
    missed, is_told = told(lambda values: matrix @ values + 1, path)
    assert is_told
    assert np.abs(missed).max() < 1e-9
    # Six answers: four moves reach every value, and were not there to tell the one before
    missed, is_told = told(lambda values: matrix @ values + 1, path[:6])
    assert not is_told


@pytest.mark.parametrize("path", [np.linspace(1, 2, 9), np.array([1, 1.1, 1.3, 1.4, 1.7, 1.9])])
def test_polynomials_and_powers_along_a_line_are_told(path: np.ndarray) -> None:
    ones = np.ones(3)
    for function in (lambda t: t**3 - t, lambda t: 2 * np.log(t) ** 2):
        missed, is_told = told(lambda v, f=function: f(v.sum()) * ones, path[:, None])
        assert is_told
        assert np.abs(missed).max() < 1e-9
        both = np.stack([path, 2 * path, np.full(path.size, 5.0)], axis=1)  # along one line, too
        missed, is_told = told(lambda v, f=function: f(v[0]) * ones, both)
        assert is_told
        assert np.abs(missed).max() < 1e-9


def test_a_path_that_cannot_be_told_stays() -> None:
    """Noise is worse continued than kept, and a jump by what was not seen to change is unknown."""
    rng = np.random.default_rng(0)
    misses = [told(lambda _: rng.normal(size=3), np.arange(20.0)[:, None])[1] for _ in range(20)]
    assert np.mean(misses) < 0.7
    path = np.stack([np.arange(8.0), np.zeros(8)], axis=1)
    path[-1, 1] = 1.0
    assert not told(lambda values: values.sum() * np.ones(3), path)[1]
    path[-1] = path[-2]  # nothing has changed
    assert not told(lambda values: values.sum() * np.ones(3), path)[1]


def test_values_that_come_again_count_once_and_old_ones_go() -> None:
    compiled = common_number([0, 1, 2]).compile()
    state = State.start(compiled, np.ones(compiled.size), Units.plain(compiled))
    trail = None
    for at in range(2 * KEPT):
        trail = Trail.after(trail, np.array([at // 2 + at % 2.0]), state)
    assert trail is not None
    assert trail.values.ravel().tolist() == list(range(1, KEPT + 1))
    assert Trail.after(trail, np.zeros(0), state) is None  # nothing may change
    assert Trail.after(None, np.zeros(2_000_000), state) is None


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


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_weights_along_a_line_are_those_of_the_polynomial_through_its_points(count: int) -> None:
    points = np.random.default_rng(count).uniform(0.5, 3, size=count)
    expected = np.linalg.solve(points ** np.arange(count)[:, None], np.eye(count)[0])
    np.testing.assert_allclose(_through_points(points), expected, rtol=1e-9)


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
