"""Certificates: bounds below every optimum, gaps that close, and what they say else."""

from dataclasses import replace
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import number, says
from tests.front.couplings import ZOO

EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
DIGITS = 1e-8
"""What the optimum that a bound is held against is itself wrong by, relative."""


def least(model: dm.Model) -> float:
    """The optimum of the all-in-one problem, as a minimum."""
    problem = model.monolithic()
    problem.solve(solver=cp.CLARABEL, **EXACT)
    assert problem.status == "optimal"
    sense = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    return sense * number(problem.value)


@cache
def solved(name: str) -> dm.Result:
    return ZOO[name]().model.solve()


@cache
def optimum(name: str) -> float:
    return least(ZOO[name]().model)


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_is_certified_without_the_all_in_one_solve(name: str) -> None:
    found = solved(name).certificate()
    assert found.ok, str(found)
    assert found.gap < 1e-4
    true = optimum(name)
    assert found.bound <= true + DIGITS * max(1.0, abs(true))
    assert found.bound == pytest.approx(true, rel=1e-5)


@pytest.mark.parametrize("name", ["market", "network_lasso", "cone", "soft_consensus"])
def test_a_bound_holds_with_whatever_multipliers(name: str) -> None:
    """A run that was stopped early, and multipliers that nobody computed."""
    result = ZOO[name]().model.solve(max_rounds=4, acceleration=None)
    early = result.certificate()
    true = optimum(name)
    allowed = DIGITS * max(1.0, abs(true))
    assert early.bound <= true + allowed
    assert not early.ok
    rng = np.random.default_rng(0)
    for ends, mu in result.multipliers.items():
        result.multipliers[ends] = mu + rng.normal(size=mu.size)
    found = result.certificate()
    assert found.bound <= true + allowed


def test_a_maximum_is_bounded_from_above() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model("gains")
    for i, v in enumerate(x):
        model.client(i, cp.Maximize(cp.sqrt(v + i)), [v <= 5])
    model.couple(sum(x) <= 4)
    found = model.solve().certificate()
    true = -least(model)
    assert found.ok
    assert found.bound >= true - DIGITS
    assert found.bound == pytest.approx(true, abs=1e-5)


def test_a_server_and_a_client_that_cvxpy_alone_knows() -> None:
    w = cp.Variable(2, name="w")
    model = dm.Model("shared")
    model.client("a", cp.sum_squares(w - 1))
    model.client("b", cp.norm(w, 3) + cp.sum_squares(w))
    model.client("c", cp.sum(cp.exp(w)))
    found = model.solve().certificate()
    assert found.ok, str(found)
    assert found.bound <= least(model) + DIGITS


@pytest.mark.parametrize("kind", ["reciprocal", "root"])
def test_flows_that_want_far_more_than_their_link_holds(kind: str) -> None:
    """Lagrange: sum w / x over a link of C is (sum sqrt w)^2 / C, sum w sqrt(x) is sqrt(C w w)."""
    capacity, model, x = 2e6, dm.Model("link"), [cp.Variable(name=f"x{i}") for i in range(3)]
    if kind == "reciprocal":
        weights = np.array([1e6, 4e6, 9e6])
        costs = [w * cp.inv_pos(v) for w, v in zip(weights, x, strict=True)]
        true = np.sqrt(weights).sum() ** 2 / capacity
    else:
        weights = np.array([1e-3, 2e-3, 3e-3])
        costs = [-w * cp.sqrt(v) for w, v in zip(weights, x, strict=True)]
        true = -np.sqrt(capacity * weights @ weights)
    for i, (cost, v) in enumerate(zip(costs, x, strict=True)):
        model.client(i, cost, [v >= 1e3, v <= 5e7])
    model.couple(sum(x) <= capacity)
    found = model.solve().certificate()
    assert found.ok, str(found)
    assert found.bound <= true * (1 + np.sign(true) * DIGITS)


def test_it_stands_in_for_a_verification() -> None:
    result = solved("box")
    found = result.verify(aio=False, tol_objective=1e-6)
    says(found, "Certificate of 'box': passed", "client solves alone", "within 10 lengths")
    assert bool(found)
    with pytest.raises(dm.OptionError) as caught:
        result.verify(aio=False, solver="SCS")
    says(caught.value, "solver='SCS'", "leave one of them out")
    odd: Any = {"aio": "no"}
    with pytest.raises(dm.OptionError):
        result.verify(**odd)


def test_values_that_break_a_constraint_fail() -> None:
    model = ZOO["market"]().model
    found = model.solve(max_rounds=3).certificate()
    assert not found.ok
    assert found.violation > 1e-4
    says(found, "FAILED", "sum(x0")


def test_results_without_a_point_or_without_clients() -> None:
    x, y, z = (cp.Variable(name=name) for name in "xyz")
    model = dm.Model()
    for name, v in {"a": x, "b": y, "c": z}.items():
        model.client(name, cp.square(v - 1), [v >= 2])
    model.consensus(x == y, y == z)
    left = model.solve(online={2: dm.Change(leave=["c"])})
    with pytest.raises(dm.ResultError) as caught:
        left.certificate()
    says(caught.value, "clients left", "result.verify()")
    model = dm.Model()
    model.client("a", cp.square(x), [x >= 2, x <= 1])
    model.client("b", cp.square(y))
    model.consensus(x == y)
    with pytest.raises(dm.ResultError) as caught:
        model.solve().certificate()
    says(caught.value, "certificate", "infeasible", "no point")


@pytest.mark.parametrize("limit", [1e4, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("holders", [1, 2])
def test_a_limit_of_a_square_is_certified_in_any_units(limit: float, holders: int) -> None:
    """-x + x / 2 falls until x is the root of the limit."""
    model = dm.Model()
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model.client("a", -x, [x**2 <= limit][: holders - 1])
    model.client("b", y / 2, [y**2 <= limit])
    model.consensus(x == y)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(-np.sqrt(limit) / 2, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in ZOO if name != "network_lasso"])
def test_a_run_may_end_at_a_certified_gap(name: str) -> None:
    """No later than by its residuals, and no farther from the optimum than certified."""
    result = ZOO[name]().model.solve(gap=1e-4)
    assert result.status in ("certified", "optimal"), str(result)
    assert result.status.has_answer
    found = result.certificate()
    rows = [found["gap to the bound"], found["constraint violation"], found["consensus violation"]]
    assert all(row.ok for row in rows), str(found)
    assert found.outcome != "failed", "prices of a gap of 1e-4 may be unproved, but are not wrong"
    true = optimum(name)
    size = max(abs(found.value), abs(true))
    # What violates constraints may be better than the optimum by their prices
    assert abs(found.value - true) <= 1e-3 * size
    assert found.value - true <= max(found.value - found.bound, 0.0) + DIGITS * size


def test_a_certified_run_says_what_is_certified() -> None:
    model = ZOO["soft_consensus"]().model
    result = model.solve(gap=1e-3)
    assert result.status == "certified"
    assert result.rounds < solved("soft_consensus").rounds
    says(result, "certified gap met its tolerance", "gap ", "violation ")
    assert result.verify(tol_objective=1e-3, tol_feasibility=1e-3)["objective gap"].ok
    odd: Any = {"gap": -1}
    with pytest.raises(dm.OptionError) as caught:
        model.solve(**odd)
    says(caught.value, "gap: given -1", "positive number such as 1e-4")


@pytest.mark.parametrize("name", ["market", "network_lasso", "box"])
def test_what_is_corrupt_is_not_certified(name: str) -> None:
    """It judges the result: its value, its points and its multipliers, not the run's last state."""
    result = solved(name)
    assert result.certificate().ok
    rng = np.random.default_rng(0)
    mu = {ends: one + rng.normal(size=one.size) for ends, one in result.multipliers.items()}
    values = {
        key: x + 0.01 * rng.normal(size=x.shape) for key, x in result.recovered.values.items()
    }
    wrong = [
        replace(result, value=np.nan),
        replace(result, value=1.5 * result.value + 1.0),
        replace(result, multipliers=mu),
        replace(result, recovered=replace(result.recovered, values=values)),
    ]
    assert not any(one.certificate().ok for one in wrong)


def test_the_cost_of_consensus_does_not_depend_on_where_rules_are_held() -> None:
    """A server holds rules that all state with the same numbers, and none that differ by 1e-9."""
    costs = []
    for step in (0.0, 1e-9):
        rng, w, model = np.random.default_rng(0), cp.Variable(4), dm.Model()
        for at in range(3):
            A = rng.normal(size=(12, 4))
            loss = cp.sum_squares(A @ w - A @ np.array([1, -1, 0.5, -2]) - rng.normal(size=12))
            model.client(at, loss, [w >= -step * at, cp.sum(w) <= 1 + step * at])
        assert bool(model.compile().form.common.rules) == (step == 0)
        costs.append(model.solve().certificate().cost)
    assert costs[0] == pytest.approx(costs[1], rel=1e-4)
