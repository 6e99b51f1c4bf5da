"""Solves that go on from the one before with other Parameters, against the AIO solve of each."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.front.resolving import (
    Resolving,
    predictive_control,
    regularisation_path,
    rolling_budget,
)


def compared(given: Resolving) -> list[dm.Result]:
    """All steps, each from the result before, with the value that the AIO solve has."""
    results = []
    for at in range(given.steps):
        given.step(at)
        result = given.model.solve(start=results[-1] if results else None)
        assert result.status == "optimal"
        found = {v.id: result[v] for v in given.problem.variables()}
        prices = [c.dual_value for c in given.problem.constraints[-1:]]
        given.problem.solve(solver="CLARABEL")
        assert result.value == pytest.approx(given.problem.value, rel=1e-5)
        for v in given.problem.variables():
            np.testing.assert_allclose(found[v.id], np.asarray(v.value), atol=1e-3)
        for rule, price in zip(given.problem.constraints[-1:], prices, strict=True):
            np.testing.assert_allclose(np.asarray(price), np.asarray(rule.dual_value), atol=1e-3)
        result.apply()  # the next step goes on from our answer
        results.append(result)
    return results


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of Clarabel on logistic losses
@pytest.mark.parametrize(
    ("make", "share"),
    [
        (lambda: regularisation_path("lasso"), 0.5),
        (lambda: regularisation_path("ridge"), 0.5),
        (lambda: regularisation_path("logistic", 4, 5), 1.0),  # another curvature at every answer
        (predictive_control, 0.5),
        (rolling_budget, 0.5),
    ],
    ids=["lasso", "ridge", "logistic", "control", "budget"],
)
def test_every_step_is_the_all_in_one_answer(make: Callable[[], Resolving], share: float) -> None:
    given = make()
    results = compared(given)
    compiled = {id(result.compiled) for result in results}
    assert len(compiled) == 1
    assert all(result.recalled for result in results[1:])
    # A start knows the clients: fewer rounds than the first, of quadratics on average half
    rounds = [result.rounds for result in results]
    assert np.mean(rounds[1:]) < share * rounds[0]


def test_units_are_measured_again_where_the_numbers_have_moved() -> None:
    """The weight may quarter before they are, or matter no more: twice on the way from 10 to 0.1.

    And what a path goes on with is always of the size that a new model shows.
    """
    given = regularisation_path()
    measured, result = [], None
    for at in range(given.steps):
        given.step(at)
        result = given.model.solve(start=result)
        measured.append(result.measured)
        if at % 6 == 0:
            assert result.state is not None
            fresh = given.model.solve(max_rounds=1).state
            assert fresh is not None
            for name in ("lengths", "slopes"):
                ratio = getattr(result.state.units, name) / getattr(fresh.units, name)
                assert max(ratio.max(), 1 / ratio.min()) < 5
    assert len({id(one) for one in measured}) == 3
    assert given.model.solve(start=result).measured is result.measured
    assert given.model.solve().measured is not result.measured


def test_what_did_not_change_is_the_same_object() -> None:
    """Of a weight on a penalty neither the data nor their squares are made again."""
    x, weight = cp.Variable(3), cp.Parameter(nonneg=True, value=1.0)
    shift = cp.Parameter(3, value=np.ones(3))
    rng = np.random.default_rng(0)
    model = dm.Model()
    model.client("a", cp.sum_squares(rng.normal(size=(5, 3)) @ x) + weight * cp.norm1(x))
    model.client("b", cp.sum_squares(rng.normal(size=(5, 3)) @ (x - shift)), [x <= 4 + weight])
    compiled = model.compile()
    before = {name: compiled[name].form for name in "ab"}
    weight.value, shift.value = 2.0, 3 * np.ones(3)
    now = {name: compiled[name].form for name in "ab"}
    assert now["a"].quadratic is before["a"].quadratic
    assert now["a"].terms[0].weight == pytest.approx(2 * before["a"].terms[0].weight)
    assert now["b"].quadratic.matrix == pytest.approx(before["b"].quadratic.matrix)
    np.testing.assert_allclose(now["b"].inequalities.rhs, 6.0)
    result = model.solve()
    assert result.verify().ok


def test_a_weight_that_becomes_zero_is_read_anew() -> None:
    """A term that is not there has no cone: the structure is another one."""
    x, w = cp.Variable(), cp.Parameter(nonneg=True, value=3.0)
    model = dm.Model()
    model.client("a", w * cp.abs(x - 2) + cp.square(x))
    model.client("b", cp.square(x - 1))
    # x^2 + (x - 1)^2 + w |x - 2|: x = (2 + w) / 4 below the kink at 2
    for value in (3.0, 0.0, 1.0, 20.0):
        w.value = value
        result = model.solve()
        assert result[x] == pytest.approx(min((2 + value) / 4, 2.0), abs=1e-5)
        assert result.verify().ok
