"""compile() compiles, solve() only runs: counted by what cvxpy and the lowering are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.lowering import Lowering
from dald_model.declare.affine import stacked_map
from dald_model.values import flat
from tests.zoo import PROBLEMS

LOWERED = [
    "least_squares", "ridge", "lasso", "group_lasso", "huber", "quantile", "logistic", "svm",
    "nonnegative", "portfolio", "entropy", "nuclear_norm", "semidefinite",
]  # fmt: skip
ARRAY = np.random.default_rng(3).normal(size=(9, 3))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often cvxpy canonicalised, a client was lowered, and a side was made numbers."""
    found = {"canonicalised": 0, "lowered": 0, "sides": 0}

    def counted(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            found[kind] += 1
            return function(*args, **options)

        return count

    canonicalise = cp.Problem.get_problem_data
    monkeypatch.setattr(cp.Problem, "get_problem_data", counted("canonicalised", canonicalise))
    monkeypatch.setattr(Lowering, "__call__", counted("lowered", Lowering.__call__))

    def made(sides: Sequence[cp.Expression], variables: Sequence[cp.Variable]) -> Any:
        found["sides"] += len(sides)
        return stacked_map(sides, variables)

    monkeypatch.setattr("dald_model.compile.subproblem.stacked_map", made)
    return found


def pair(
    cost: Callable[[cp.Variable], Any], side: Callable[[cp.Variable], Any] = lambda x: x
) -> tuple[dm.Model, cp.Variable]:
    """Two clients of one shape that agree, and the variable of the first."""
    x = [cp.Variable(3, name=f"x{i}") for i in range(2)]
    model = dm.Model("pair")
    for i in range(2):
        model.client("ab"[i], cost(x[i]))
    model.consensus(side(x[0]) == x[1])
    return model, x[0]


@pytest.mark.parametrize("name", LOWERED)
def test_a_solve_after_compile_neither_lowers_nor_canonicalises(
    name: str, counts: dict[str, int]
) -> None:
    model = PROBLEMS[name]().on(nx.path_graph(3)).model
    compiled = model.compile()
    assert counts["lowered"] == len(compiled)
    assert counts["sides"] == 2 * len(compiled.edges)
    assert counts["canonicalised"] > 0
    before = dict(counts)
    first = model.solve(max_rounds=3)
    assert not first.fallbacks
    model.solve(max_rounds=3, rho=2.0, start=first)
    assert counts == before


def test_clients_alike_are_canonicalised_once(counts: dict[str, int]) -> None:
    x = [cp.Variable(3) for _ in range(20)]
    model = dm.Model("alike")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(ARRAY @ v - i), [v >= -i])
    model.consensus(*[v == x[0] for v in x[1:]])
    model.solve()
    assert counts == {"canonicalised": 1, "lowered": 20, "sides": 2 * 19}


def test_a_new_value_of_a_parameter_moves_numbers_and_asks_cvxpy_nothing(
    counts: dict[str, int],
) -> None:
    target = cp.Parameter(3, name="target", value=np.zeros(3))
    shift = cp.Parameter(3, name="shift", value=np.zeros(3))
    model, x = pair(lambda x: cp.sum_squares(x - target), lambda x: x + shift)
    model.compile()
    for goal, moved in ((np.ones(3), 0.0), (np.arange(3.0), 2.0), (np.arange(3.0), 2.0)):
        target.value, shift.value = goal, np.full(3, moved)
        before = dict(counts)
        assert model.solve().status == "optimal"
        # |x - t|^2 + |x + s - t|^2 is least at t - s / 2
        np.testing.assert_allclose(flat(x.value), goal - moved / 2, atol=1e-5)
        assert counts["canonicalised"] == before["canonicalised"] == 1
    assert counts["lowered"] == 2 * 3, "at compile and for each of two changes, not for the third"


def test_a_parameter_without_a_value_waits_for_the_solve(counts: dict[str, int]) -> None:
    target = cp.Parameter(3, name="target")
    model, x = pair(lambda x: cp.sum_squares(x - target))
    model.compile()
    assert counts["lowered"] == counts["canonicalised"] == 0
    with pytest.raises(dm.OptionError, match="the Parameter 'target' has no value"):
        model.solve()
    target.value = np.arange(3.0)
    assert model.solve().status == "optimal"
    np.testing.assert_allclose(flat(x.value), np.arange(3.0), atol=1e-6)


def test_one_client_waits_and_the_others_are_compiled(counts: dict[str, int]) -> None:
    x, y, target = cp.Variable(3), cp.Variable(3), cp.Parameter(3)
    model = dm.Model("one waits")
    model.client("ready", cp.sum_squares(x - 1))
    model.client("waits", cp.sum_squares(y - target))
    model.consensus(x == y)
    model.compile()
    assert counts["lowered"] == 1
    target.value = np.full(3, 3.0)
    model.solve()
    assert counts == {"canonicalised": 1, "lowered": 2, "sides": 2}
    np.testing.assert_allclose(flat(x.value), np.full(3, 2.0), atol=1e-5)


def test_parameters_set_by_hand_survive_a_solve() -> None:
    model, _ = pair(lambda x: cp.sum_squares(ARRAY @ x - 1))
    sub = model.compile()["a"]
    mine = {"mu": np.arange(3.0), "rho": np.arange(1.0, 4.0), "neighbours": -np.arange(3.0)}

    def held() -> dict[str, Any]:
        found = {kind: getattr(sub, kind)["b"].value for kind in mine}
        return {kind: value.tolist() for kind, value in found.items()}

    assert held() == {"mu": [0.0] * 3, "rho": [1.0] * 3, "neighbours": [0.0] * 3}
    for kind, value in mine.items():
        getattr(sub, kind)["b"].value = value
    given = held()
    assert model.solve().status == "optimal"
    assert held() == given
    assert model.compile()["a"] is sub
    assert held() == given
    model.compile(rho=5.0)
    assert held() == {"mu": [0.0] * 3, "rho": [5.0] * 3, "neighbours": [0.0] * 3}


def test_seconds_of_compiling_and_of_the_run_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is told by a clock that moves only while a client is lowered, one second each."""
    now = 100.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    lower = Lowering.__call__

    def slow(self: Lowering, client: Any, before: Any) -> Any:
        nonlocal now
        now += 1.0
        return lower(self, client, before)

    monkeypatch.setattr(Lowering, "__call__", slow)
    model, _ = pair(lambda x: cp.sum_squares(ARRAY @ x - 1))
    result = model.solve()
    assert model.compile().seconds == 2.0
    assert result.seconds == 0.0


def test_a_bound_of_each_row_is_repeated_over_its_columns() -> None:
    """Power of each plant and hour within what is built: (3, 1) beside (3, 2), at two clients."""
    built, model = cp.Variable(3, name="built"), dm.Model("capacity by plant and hour")
    for stage in range(2):
        power = cp.Variable((3, 2), name=f"power{stage}")
        cost = cp.sum_squares(power - stage) + cp.sum_squares(built - stage)
        model.client(stage, cost, [power <= built[:, None]])
    result = model.solve()
    assert result.verify().ok
    # Of one plant 2 max(1 - x, 0)^2 + x^2 + (x - 1)^2 is least at 3 / 4, where it is 3 / 4
    assert result.value == pytest.approx(9 / 4, rel=1e-6)
    assert result["built"] == pytest.approx(np.full(3, 0.75), rel=1e-5)
