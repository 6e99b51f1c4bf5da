"""Re-solves by curvature from an earlier result: the active set is held and checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.adding import Adding
from tests.benchmarks import held_paths
from tests.front.resolving import (
    Resolving,
    predictive_control,
    regularisation_path,
    rolling_budget,
)


def _robust() -> Resolving:
    """Robust losses of unequal owners with a rule of their own, and a weight on the sizes."""
    rng, weight, x = np.random.default_rng(0), cp.Parameter(nonneg=True), cp.Variable(5)
    model, costs, rules = dm.Model("robust"), [], []
    for i in range(4):
        A = rng.normal(size=(20 + i, 5))
        b = A @ np.arange(5) + rng.standard_t(2, size=20 + i)
        costs.append(cp.sum(cp.huber(2 * (A @ x - b))) + weight * cp.norm1(x))
        rules.append(x <= 3 + i / 10)
        model.client(i, costs[-1], [rules[-1]])

    def step(at: int) -> None:
        weight.value = 0.8**at

    return Resolving(model, costs, rules, step, 20)


PATHS: dict[str, tuple[Callable[[], Resolving], float]] = {
    "lasso": (regularisation_path, 2.0),
    "logistic": (lambda: regularisation_path("logistic"), 3.0),
    "tanks": (lambda: predictive_control(steps=20), 1.0),
    "budget": (rolling_budget, 2.0),
    "huber": (held_paths.huber, 2.0),
    "huber of a lasso": (_robust, 3.0),
    "support vectors": (held_paths.support_vectors, 25.0),
    "network lasso": (held_paths.network_lasso, 4.0),
}
"""Paths, and the mean rounds that a step from the one before may take; hinges change theirs."""


@pytest.mark.parametrize("name", PATHS)
def test_a_step_of_a_path_has_the_values_of_all_in_one_in_few_rounds(name: str) -> None:
    make, most = PATHS[name]
    given, result, rounds = make(), None, []
    for at in range(min(given.steps, 20)):
        given.step(at)
        result = given.model.solve(start=result, disclose="curvature")
        given.problem.solve(solver="CLARABEL")
        assert result.status == "optimal"
        assert result.value == pytest.approx(given.problem.value, rel=1e-6)
        rounds.append(result.rounds)
    assert np.mean(rounds[1:]) <= most


def _boxed() -> tuple[dm.Model, cp.Variable, cp.Parameter, cp.Constraint]:
    model, x, aim = dm.Model("aim"), cp.Variable(3, name="x"), cp.Parameter(3, name="aim")
    rule = x <= 1
    model.client("near", cp.sum_squares(x - aim), [rule])
    model.client("weight", cp.norm1(x))
    return model, x, aim, rule


def test_an_unchanged_active_set_is_confirmed_in_one_round() -> None:
    model, x, aim, rule = _boxed()
    aim.value = np.array([3.0, 1.0, 0.2])
    first = model.solve(disclose="curvature")
    aim.value = np.array([2.0, 1.2, -0.1])
    again = model.solve(start=first, disclose="curvature")
    assert (again.status, again.rounds) == ("optimal", 1)
    np.testing.assert_allclose(again[x], [1.0, 0.7, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.array(rule.dual_value), [1.0, 0.0, 0.0], atol=1e-8)


def test_an_aggregator_starts_from_an_earlier_result_too() -> None:
    model, x, aim, _ = _boxed()
    algorithm = dm.InteriorPoint(aggregator=Adding())
    aim.value = np.array([3.0, 1.0, 0.2])
    first = model.solve(algorithm=algorithm)
    aim.value = np.array([2.0, 1.2, -0.1])
    again = model.solve(start=first, algorithm=algorithm)
    assert (again.status, again.rounds) == ("optimal", 1)
    np.testing.assert_allclose(again[x], [1.0, 0.7, 0.0], atol=1e-9)


def test_where_everything_changes_the_run_begins_in_the_middle() -> None:
    model, x, aim, _ = _boxed()
    aim.value = np.array([3.0, 1.0, 0.2])
    result = model.solve(disclose="curvature")
    for drawn in np.random.default_rng(0).normal(size=(10, 3)) * 100:
        aim.value = drawn
        result = model.solve(start=result, disclose="curvature")
        assert result.status == "optimal"
        shrunk = np.sign(drawn) * np.maximum(np.abs(drawn) - 0.5, 0)
        within = 1e-7 * np.abs(drawn).max()
        np.testing.assert_allclose(result[x], np.minimum(shrunk, 1), atol=within)


def test_states_that_have_nothing_to_do_with_those_before_are_answered() -> None:
    rng, at, parts = np.random.default_rng(0), cp.Parameter(4, name="at"), []
    model = dm.Model("four units")
    for i in range(4):
        x, u = cp.Variable(9, name=f"x{i}"), cp.Variable(8, name=f"u{i}")
        rules = [x[0] == at[i], x[1:] == 0.95 * x[:-1] + u, cp.abs(u) <= 1]
        model.client(i, cp.sum_squares(x) + 0.1 * cp.sum_squares(u), rules)
        parts.append(u)
    model.couple(sum(parts) == 1)
    problem, result = model.monolithic(), None
    for _ in range(10):
        at.value = 3 * rng.normal(size=4)
        result = model.solve(start=result, disclose="curvature")
        problem.solve(solver="CLARABEL")
        assert (result.status, result.rounds <= 15) == ("optimal", True)
        assert result.value == pytest.approx(problem.value, rel=1e-6)


def test_after_a_step_without_an_answer_the_next_one_has_it() -> None:
    x, most = cp.Variable(2, name="x"), cp.Parameter(name="most")
    model = dm.Model("sometimes")
    model.client("low", cp.sum_squares(x), [x >= 1])
    model.client("high", cp.norm1(x), [cp.sum(x) <= most])
    result, said = None, []
    for value in (3.0, 1.0, 2.5):
        most.value = value
        result = model.solve(start=result, disclose="curvature")
        said.append(str(result.status))
    assert said == ["optimal", "infeasible", "optimal"]


def test_a_weight_of_zero_and_other_units_on_the_way() -> None:
    b, weight = np.array([3.0, -0.2, 1.0]), cp.Parameter(nonneg=True, name="weight")
    model, x = dm.Model("shrinking"), cp.Variable(3, name="x")
    scale = cp.Parameter(nonneg=True, name="scale")
    model.client("near", scale * cp.sum_squares(x - b), [x <= 2])
    model.client("small", weight * cp.norm1(x))
    result = None
    for factor, share in ((1.0, 1.0), (1.0, 0.0), (1e6, 0.5), (1e-6, 0.5), (1e-6, 0.0)):
        scale.value, weight.value = factor, factor * share
        result = model.solve(start=result, disclose="curvature")
        assert result.status == "optimal"
        wanted = np.minimum(np.sign(b) * np.maximum(np.abs(b) - share / 2, 0), 2)
        np.testing.assert_allclose(result[x], wanted, atol=1e-7)


def test_a_norm_of_a_difference_that_vanishes_and_comes_back() -> None:
    one, two = np.array([3.0, -1.0, 0.5]), np.array([1.0, 1.0, 0.0])
    x, y, weight = cp.Variable(3), cp.Variable(3), cp.Parameter(nonneg=True)
    unit = cp.Parameter(nonneg=True)
    model = dm.Model("two")
    model.client("one", unit * cp.sum_squares(x - one))
    model.client("two", unit * cp.sum_squares(y - two))
    model.couple(objective=weight * cp.norm(x - y))
    apart, middle, result, rounds = one - two, (one + two) / 2, None, []
    for share, factor in ((2, 1), (1, 1), (0, 1), (5, 1), (2.9, 1), (1, 1e6), (4, 1e6), (2, 1e-6)):
        weight.value, unit.value = share * factor, factor
        result = model.solve(start=result, disclose="curvature")
        assert result.status == "optimal"
        left = apart * max(0.0, 1 - share / float(np.linalg.norm(apart)))
        np.testing.assert_allclose(result[x], middle + left / 2, atol=1e-7)
        np.testing.assert_allclose(result[y], middle - left / 2, atol=1e-7)
        rounds.append(result.rounds)
    assert max(rounds) <= 25
    weight.value = 2.1 * factor
    assert model.solve(start=result, disclose="curvature").rounds <= 3


def test_a_norm_whose_weight_vanishes_beside_robust_losses() -> None:
    """Without its weight the norm comes by a cone program, of which no active set is held."""
    b, weight = np.array([2.0, -0.3, 0.1]), cp.Parameter(nonneg=True)
    model, x = dm.Model("robust"), cp.Variable(3)
    model.client("near", cp.sum(cp.huber(x - b, 5)))
    model.client("small", weight * cp.norm(x) + cp.sum_squares(x))
    result = None
    for value in (1.0, 0.5, 0.0, 0.2, 9.0):
        weight.value = value
        result = model.solve(start=result, disclose="curvature")
        assert result.status == "optimal"
        shrunk = max(0.0, 1 - value / (2 * float(np.linalg.norm(b))))
        np.testing.assert_allclose(result[x], shrunk * b / 2, atol=1e-6)


def test_a_run_within_a_run_and_an_older_start_disturb_nothing() -> None:
    model, x, aim, _ = _boxed()
    aim.value = np.array([3.0, 1.0, 0.2])
    first = model.solve(disclose="curvature")
    aim.value = np.array([-3.0, 1.0, 0.2])
    within: list[dm.Result] = []

    def again(at: object) -> None:
        if not within:
            within.append(model.solve(start=first, disclose="curvature"))

    outer = model.solve(start=first, disclose="curvature", callback=again)
    for result in (outer, *within, model.solve(start=first, disclose="curvature")):
        np.testing.assert_allclose(result[x], [-2.5, 0.5, 0.0], atol=1e-7)


@pytest.mark.parametrize(
    ("make", "rounds"), [(held_paths.support_vectors, 3), (held_paths.huber, 1)]
)
def test_a_checkpoint_of_a_run_from_a_start_is_taken_up(
    make: Callable[[], Resolving], rounds: int, tmp_path: Path
) -> None:
    given = make()
    given.step(0)
    first = given.model.solve(disclose="curvature")
    given.step(1)
    whole = given.model.solve(start=first, disclose="curvature")
    options = {"checkpoint": tmp_path / "run", "every": 1, "max_rounds": rounds}
    given.model.solve(start=first, disclose="curvature", **options)
    taken = dm.resume(tmp_path / "run", given.model, max_rounds=50)
    assert (taken.status, taken.rounds) == ("optimal", whole.rounds)
    assert taken.value == pytest.approx(whole.value, rel=1e-9)


COSTS_AND_RULES: dict[str, tuple[Callable[..., tuple[Any, list[Any]]], list[tuple[float, ...]]]] = {
    "a bound that comes and goes": (
        lambda x, p: (0.0, [x <= p[0]]),
        [(0.5,), (1e20,), (0.3,), (0.31,), (2e20,), (1.1,)],
    ),
    "a ball": (lambda x, p: (0.0, [cp.norm(x) <= p[0]]), [(1.0,), (1.01,), (9.0,), (0.0,), (2.0,)]),
    "weights": (
        lambda x, p: (p[0] * cp.norm1(x) + p[1] * cp.norm(x), []),
        [(0.5, 1.0), (0.4, 0.9), (0.0, 0.9), (0.0, 0.0), (1.0, 0.0), (1.1, 1.2)],
    ),
    "the entry of a row": (
        lambda x, p: (0.0, [p[0] * x[0] + x[1] <= p[1], x >= -1]),
        [(1.0, 1.0), (1.0, 1.1), (2.0, 1.0), (0.0, 1.0), (1.0, 2.1)],
    ),
    "rules that no point keeps": (
        lambda x, p: (0.0, [x >= p[0], x <= 1]),
        [(0.5,), (0.9,), (2.0,), (0.8,), (0.7,), (1.5,), (0.2,)],
    ),
}
"""What an owner adds to its squares, and values of the Parameters in it, step by step."""


@pytest.mark.parametrize("name", COSTS_AND_RULES)
def test_a_path_has_the_values_of_all_in_one_where_parameters_change_more_than_numbers(
    name: str,
) -> None:
    added, values = COSTS_AND_RULES[name]
    given = [cp.Parameter(nonneg=True) for _ in values[0]]
    model, costs, rules = dm.Model("in turn"), [], []
    x = [cp.Variable(3) for _ in range(3)]
    for i, own in enumerate(x):
        more, kept = added(own, given)
        costs.append(cp.sum_squares(own - np.arange(3) - i) + more)
        model.client(i, costs[-1], kept)
        rules += [*kept, own == x[0]]
    model.consensus(x[0] == x[1], x[1] == x[2])
    problem, result = cp.Problem(cp.Minimize(sum(costs)), rules), None
    for step in values:
        for parameter, value in zip(given, step, strict=True):
            parameter.value = value
        result = model.solve(start=result, disclose="curvature")
        problem.solve(solver="CLARABEL")
        assert str(result.status) == problem.status
        assert result.value == pytest.approx(problem.value, rel=1e-6)


def test_many_alike_stay_as_they_were_beside_one_whose_numbers_change() -> None:
    """Ridge regression over its weight, in closed form."""
    rng, w, weight = np.random.default_rng(0), cp.Variable(3), cp.Parameter(nonneg=True)
    A, b, model, result = rng.normal(size=(30, 8, 3)), rng.normal(size=(30, 8)), dm.Model(), None
    model.clients(
        {i: (A[i], b[i]) for i in range(30)}, lambda own: cp.sum_squares(own[0] @ w - own[1])
    )
    model.client("weight", weight * cp.sum_squares(w))
    moments, right = np.einsum("nij,nik->jk", A, A), np.einsum("nij,ni->j", A, b)
    for value in (0.1, 1.0, 10.0, 100.0):
        weight.value = value
        result = model.solve(disclose="curvature", start=result)
        assert result.status == "optimal"
        expected = np.linalg.solve(moments + value * np.eye(3), right)
        assert result[w] == pytest.approx(expected, rel=1e-8)
    compiled = model.compile()
    made = [i for i in range(30) if "form" in vars(compiled[i].lowered)]
    assert len(made) < 10, "the numbers of most stay in the arrays of all"
