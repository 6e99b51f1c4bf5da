"""Couplings: the zoo against the all-in-one solve, closed forms, and what a user sees of them."""

from copy import copy
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near, says
from tests.front.couplings import ZOO

EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
NEAR = 1e-5
"""Of values, variables and prices, relative to max(1, size): ten times the tolerances."""


def flat(dual: Any) -> np.ndarray:
    parts = dual if isinstance(dual, list) else [dual]
    return np.concatenate([np.ravel(part) for part in parts])


def at(variables: list[cp.Variable]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v.value)) for v in variables])


def close(found: Any, true: Any, tolerance: float = NEAR) -> None:
    """The largest difference, relative to the largest number."""
    scale = max(1.0, float(np.abs(true).max()))
    assert float(np.abs(found - true).max()) <= tolerance * scale


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_has_the_values_and_prices_of_the_all_in_one_solve(name: str) -> None:
    known = ZOO[name]()
    result = known.model.solve()
    assert result.status == "optimal", str(result)
    ours = [np.array(v.value) for v in known.model.variables]
    prices = [flat(rule.dual_value) for rule in known.priced]
    check = result.verify()
    assert check.ok, str(check)
    problem = known.model.monolithic()
    problem.solve(solver=cp.CLARABEL, **EXACT)
    close(result.value, problem.value)
    if known.is_unique:
        for mine, v in zip(ours, known.model.variables, strict=True):
            close(mine, v.value)
    for mine, rule in zip(prices, known.priced, strict=True):
        close(mine, flat(rule.dual_value))


# --- closed forms ---------------------------------------------------------------------------------


def wishes(count: int, size: int = 1) -> tuple[dm.Model, list[cp.Variable], np.ndarray]:
    """Clients that want to be at random points, at a price that is twice the distance."""
    wanted = np.random.default_rng(count).normal(size=(count, size))
    x = [cp.Variable(size, name=f"x{i}") for i in range(count)]
    model = dm.Model("wishes")
    for i, v in enumerate(x):
        model.client(f"owner {i}", cp.sum_squares(v - wanted[i]))
    return model, x, wanted


def test_a_market_shares_the_excess_equally_at_twice_its_mean() -> None:
    model, x, wanted = wishes(5, 2)
    demand = np.array([4.0, -1.0])
    balance: Any = sum(x) == demand
    model.couple(balance, name="balance")
    result = model.solve()
    lacks = (demand - wanted.sum(axis=0)) / 5
    assert at(x).reshape(5, 2) == near(wanted + lacks)
    assert balance.dual_value == near(-2 * lacks)
    assert result.duals[balance] == near(-2 * lacks)
    for mu in result.multipliers.values():
        assert np.abs(mu) == near(np.abs(2 * lacks)), "each party pays the price"


@pytest.mark.parametrize(("limit", "binds"), [(-1.0, True), (50.0, False)])
def test_a_budget_costs_nothing_unless_it_binds(limit: float, binds: bool) -> None:
    model, x, wanted = wishes(6)
    spent: Any = cp.sum(cp.hstack(x)) <= limit
    model.couple(spent)
    model.solve()
    over = (wanted.sum() - limit) / 6 if binds else 0.0
    assert at(x) == near(wanted.ravel() - over)
    assert spent.dual_value == near(2 * over)


@pytest.mark.parametrize("weight", [0.3, 30.0])
def test_a_norm_on_an_edge_pulls_by_its_weight_or_makes_equal(weight: float) -> None:
    model, x, wanted = wishes(2, 3)
    model.couple(objective=weight * cp.norm(x[0] - x[1]))
    model.solve()
    gap = wanted[0] - wanted[1]
    share = min(weight / 2, np.linalg.norm(gap) / 2) / np.linalg.norm(gap)
    assert x[0].value == near(wanted[0] - share * gap)
    assert x[1].value == near(wanted[1] + share * gap)


def test_an_equality_of_two_clients_is_an_edge_with_its_price() -> None:
    model, x, wanted = wishes(2)
    rule = x[0] - 2 * x[1] == 3
    model.couple(rule)
    result = model.solve()
    assert list(result.compiled) == ["owner 0", "owner 1"]
    lacks = 3 - wanted[0] + 2 * wanted[1]
    assert x[0].value == near(wanted[0] + lacks / 5)
    assert x[1].value == near(wanted[1] - 2 * lacks / 5)
    assert rule.dual_value == near(-2 * lacks / 5)
    assert result.verify().ok


def test_a_largest_loss_is_bounded_at_its_client() -> None:
    """Two losses (x - a_i)^2 + 1 of one number that both hold: half way, each half of the price."""
    x, t = [cp.Variable(name=f"x{i}") for i in range(2)], cp.Variable(name="t")
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, 0 * v, [v >= -9, v <= 9])
    rules = [cp.square(v - 4 * i) + 1 <= t for i, v in enumerate(x)]
    model.consensus(x[0] == x[1])
    model.couple(objective=t, constraints=rules, name="worst")
    result = model.solve()
    assert [t.value, x[0].value] == near([5.0, 2.0])
    assert [rule.dual_value for rule in rules] == near([0.5, 0.5])
    assert result["worst"][t] == near(5.0)
    assert all(edge.size == 1 for edge in result.compiled.edges), "only the bound is on an edge"
    assert result.verify().ok


def test_losses_of_a_shared_variable_stay_with_the_client_that_has_their_data() -> None:
    rng = np.random.default_rng(0)
    w, t = cp.Variable(2, name="w"), cp.Variable(name="t")
    data = [(rng.normal(size=(6, 2)), rng.normal(size=6)) for _ in range(3)]
    model = dm.Model()
    for i, (A, b) in enumerate(data):
        model.client(i, cp.sum_squares(A @ w - b) / 3)
    rules = [cp.sum_squares(A @ w - b) <= t for A, b in data]
    model.couple(objective=t, constraints=rules, name="worst")
    compiled = model.compile()
    for i, (A, _) in enumerate(data):
        (bound,) = compiled[i].client.constraints
        assert any(np.array_equal(c.value, A) for c in bound.constants())
    assert not [c for rule in compiled["worst"].client.constraints for c in rule.constants()]
    assert model.solve().verify().ok


# --- what a user sees -----------------------------------------------------------------------------


def test_a_coupling_maximises_with_its_clients() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, cp.Maximize(i * v - cp.square(v)))
    rule: Any = sum(x) <= 0
    model.couple(rule, objective=cp.Maximize(-cp.abs(x[0] - x[2])))
    result = model.solve()
    problem = model.monolithic()
    price = float(rule.dual_value)
    problem.solve(solver=cp.CLARABEL, **EXACT)
    assert isinstance(problem.objective, cp.Maximize)
    assert result.value == near(problem.value)
    assert price == near(rule.dual_value)


def test_a_coupling_shows_in_tables_pictures_and_explanations() -> None:
    model, x, _ = wishes(3)
    model.couple(sum(x) == 1, name="balance")
    model.couple(objective=cp.norm(x[0] - x[1]))
    says(model, "couplings", "balance: ", "coupling: minimize")
    compiled = model.compile()
    says(compiled, "balance (coupling)")
    solvers = {name: one.solver for one in compiled.explain() for name in one.clients}
    assert solvers["balance"] == "factor"
    assert solvers["coupling"] == "semismooth"
    figure: Any = model.draw()
    assert figure.get_supxlabel() == "couplings: green"
    assert figure.get_suptitle() == "wishes: consensus graph, 3 clients, 4 edges"  # one is of two
    assert list(model.couplings) == ["balance", "coupling"]
    assert model.constraints == list(model.couplings["balance"].constraints)


def test_a_parameter_of_a_coupling_may_change_between_solves() -> None:
    model, x, wanted = wishes(4)
    demand, weight = cp.Parameter(value=1.0), cp.Parameter(nonneg=True, value=2.0)
    balance: Any = cp.sum(cp.hstack([weight * x[0], *x[1:]])) == demand
    model.couple(balance)
    result, compiled = model.solve(), model.compile()
    for want, heavy in ((1.0, 2.0), (-3.0, 2.0), (-3.0, 0.5)):
        demand.value, weight.value = want, heavy
        result = model.solve(start=result)
        a = np.array([heavy, 1.0, 1.0, 1.0])
        lacks = (want - a @ wanted.ravel()) / (a @ a)
        assert at(x) == near(wanted.ravel() + lacks * a)
        assert balance.dual_value == near(-2 * lacks)
        assert result.verify().ok
    assert model.compile() is compiled


@pytest.mark.parametrize(
    ("coupling", "status", "culprit"),
    [
        (lambda x, t: ([], -sum(x)), "unbounded", "gain"),
        (lambda x, t: ([sum(x) <= t], -t), "unbounded", "gain"),
        (lambda x, t: ([sum(x) <= -1], None), "infeasible", None),
        (lambda x, t: ([sum(x) >= 1, sum(x) <= 0], None), "infeasible", "gain"),
    ],
    ids=["objective", "own variable", "with the clients", "by itself"],
)
def test_a_coupling_without_an_optimum_is_named(coupling: Any, status: str, culprit: Any) -> None:
    x, t = [cp.Variable(name=f"x{i}") for i in range(3)], cp.Variable(name="t")
    model = dm.Model()
    for i, v in enumerate(x):
        model.client(i, 0 * v, [v >= 0])
    rules, objective = coupling(x, t)
    model.couple(*rules, objective=objective, name="gain")
    result = model.solve()
    assert result.status == status
    assert "gain" in str(result.culprit)
    if culprit:
        assert result.culprit == culprit
    assert result.verify().ok


def test_couplings_of_a_copy_are_its_own() -> None:
    model, x, _ = wishes(3)
    again = copy(model)
    again.couple(sum(x) == 1, name="balance")
    assert not model.couplings
    with pytest.raises(dm.DeclarationError) as caught:
        model.compile()
    says(caught.value, "has no coupling", "model.couple(...)")
