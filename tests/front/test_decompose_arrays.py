"""Problems in arrays dealt to owners of entries and of rows, against the whole solve."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

rng = np.random.default_rng(1)
MANY, WIDE = 12, 3
WEIGHTS, WISHES = rng.uniform(0.5, 4, (MANY, WIDE)), rng.uniform(0, 4, (MANY, WIDE))
DATA, TARGETS = rng.normal(size=(30, 4)), rng.normal(size=30)
SIGNS = np.sign(TARGETS)
HALF: Any = 0.5


def market() -> tuple[cp.Problem, cp.Variable]:
    x = cp.Variable((MANY, WIDE), name="X")
    cost = cp.sum(cp.multiply(WEIGHTS, cp.square(x - WISHES)))
    rules = [x >= 0, cp.sum(x, axis=1) <= 5, cp.sum(x, axis=0) <= WISHES.sum(axis=0) / 2]
    return cp.Problem(cp.Minimize(cost), rules), x


def check(problem: cp.Problem, model: dm.Model, count: int) -> None:
    result = model.solve()
    assert len(model.clients) == count
    assert result.verify().ok
    rules: list[Any] = problem.constraints
    found = [np.array(rule.dual_value) for rule in rules]
    assert result.value == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-5)
    for now, rule in zip(found, rules, strict=True):
        np.testing.assert_allclose(now, rule.dual_value, atol=1e-4)
        np.testing.assert_allclose(result.duals[rule], now)


@pytest.mark.parametrize(
    ("how", "count"),
    [
        (lambda x: {}, 4),
        (lambda x: {"clients": {i: x[i] for i in range(MANY)}}, MANY),
        (lambda x: {"clients": {"few": x[:3], "many": [x[3:8], x[8:]]}}, 2),
        (lambda x: {"clients": 6}, 6),
        (lambda x: {"clients": lambda v: [[f"area {i % 3}"] * WIDE for i in range(MANY)]}, 3),
    ],
)
def test_entries_are_dealt(how, count):
    problem, x = market()
    check(problem, dm.decompose(problem, **how(x)), count)


def losses(w):
    fit = DATA @ w
    yield cp.sum_squares(fit - TARGETS) + 0.1 * cp.norm1(w)
    yield cp.sum(cp.logistic(-cp.multiply(SIGNS, fit))) + 0.1 * cp.sum_squares(w)
    yield cp.sum(cp.huber(fit - TARGETS, HALF)) / 3
    yield cp.sum(cp.logistic(fit) - cp.multiply(SIGNS > 0, fit)) + cp.sum_squares(w)
    yield cp.norm1(fit - TARGETS) + cp.sum_squares(w)


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(
    "rows", [{"a": range(7), "b": range(7, 12), "c": np.arange(30) >= 12}, 3], ids=["named", "3"]
)
def test_rows_of_data_are_dealt(at, rows):
    w = cp.Variable(4, name="w")
    problem = cp.Problem(cp.Minimize(list(losses(w))[at]))
    model = dm.decompose(problem, rows=rows)
    check(problem, model, 3)
    assert all(client.objective.variables() == [w] for client in model.clients.values())


def test_stacked_data_are_dealt_where_nobody_said_how():
    w = cp.Variable(4, name="w")
    problem = cp.Problem(cp.Minimize(cp.sum_squares(DATA @ w - TARGETS)))
    assert problem.solve(method="dald") == pytest.approx(problem.solve(), rel=1e-6)
    assert problem.solve(method="dald", rows=5) == pytest.approx(problem.solve(), rel=1e-6)
    check(problem, dm.decompose(problem), 4)


def test_slacks_go_with_their_rows_and_chains_are_cut_between():
    w, slack = cp.Variable(4, name="w"), cp.Variable(30, name="slack", nonneg=True)
    rules: list[Any] = [cp.multiply(SIGNS, DATA @ w) >= 1 - slack]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) + cp.sum(slack)), rules)
    model = dm.decompose(problem, rows=3)
    assert [v.name() for v in model.shared] == ["w"]
    assert model.solve().value == pytest.approx(problem.solve(), rel=1e-5)
    u = cp.Variable(12, name="u")
    problem = cp.Problem(cp.Minimize(cp.sum_squares(u - WEIGHTS[:, 0]) + cp.norm1(cp.diff(u))))
    model = dm.decompose(problem, clients=3)
    assert len(model.couplings) == 2
    check(problem, model, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rows": {"a": range(20), "b": range(15, 30)}}, "row 15 is given to 2 owners"),
        ({"rows": {"a": range(10), "b": range(10, 25)}}, "they are 25 rows"),
        ({"rows": 31}, "at most the number of rows of data, 30"),
    ],
)
def test_rows_that_are_none_are_refused(given, words):
    w = cp.Variable(4, name="w")
    problem = cp.Problem(cp.Minimize(cp.sum_squares(DATA @ w - TARGETS)))
    with pytest.raises(dm.DecompositionError, match=words):
        dm.decompose(problem, **given)


def test_an_entry_of_two_owners_is_refused():
    problem, x = market()
    with pytest.raises(dm.DecompositionError, match="entries of 'X' are given to 'a' and to 'b'"):
        dm.decompose(problem, clients={"a": x[:7], "b": x[5:]})
