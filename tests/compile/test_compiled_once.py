"""compile() compiles, solve() only runs: the same arrays, and nothing is asked of cvxpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile import lowering
from tests.expect import flat
from tests.zoo import PROBLEMS

LOWERED = [
    "least_squares", "ridge", "lasso", "group_lasso", "huber", "quantile", "logistic", "svm",
    "nonnegative", "portfolio", "entropy", "nuclear_norm", "semidefinite",
]  # fmt: skip
ARRAY = np.random.default_rng(3).normal(size=(9, 3))


@pytest.fixture(autouse=True)
def nothing_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "templates", {})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for each time that cvxpy canonicalised."""
    found: list[Any] = []
    canonicalise = cp.Problem.get_problem_data

    def counted(*given: Any, **options: Any) -> Any:
        found.append(given[0])
        return canonicalise(*given, **options)

    monkeypatch.setattr(cp.Problem, "get_problem_data", counted)
    return found


def arrays(model: dm.Model) -> list[Any]:
    """The forms and sides of the clients."""
    compiled = model.compile()
    return [part for sub in compiled.values() for part in (sub.form, sub.sides)]


def are_the_same(one: list[Any], two: list[Any]) -> bool:
    """Not alike, but the very objects."""
    return all(a is b for a, b in zip(one, two, strict=True))


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
def test_a_solve_after_compile_makes_no_arrays_and_canonicalises_nothing(
    name: str, asked: list[Any]
) -> None:
    model = PROBLEMS[name]().on(nx.path_graph(3)).model
    before = arrays(model)
    count = len(asked)
    assert count > 0
    first = model.solve(max_rounds=3)
    assert not first.fallbacks
    model.solve(max_rounds=3, rho=2.0, start=first)
    assert are_the_same(arrays(model), before)
    assert len(asked) == count


def test_clients_alike_are_canonicalised_once(asked: list[Any]) -> None:
    x = [cp.Variable(3) for _ in range(20)]
    model = dm.Model("alike")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(ARRAY @ v - i), [v >= -i])
    model.consensus(*[v == x[0] for v in x[1:]])
    model.solve()
    assert len(asked) == 1


def test_a_model_that_is_built_again_asks_cvxpy_nothing(asked: list[Any]) -> None:
    answers = []
    for shift in (0.0, 1.0):
        model, x = pair(lambda x, to=shift: cp.huber(x[0] - to) + cp.sum_squares(x[1:] - 2 - to))
        assert model.solve().status == "optimal"
        answers.append(flat(x.value))
        assert len(asked) == 1
    np.testing.assert_allclose(answers, [[0, 2, 2], [1, 3, 3]], atol=1e-5)


def test_a_new_value_of_a_parameter_moves_numbers_and_asks_cvxpy_nothing(asked: list[Any]) -> None:
    target = cp.Parameter(3, name="target", value=np.zeros(3))
    shift = cp.Parameter(3, name="shift", value=np.zeros(3))
    model, x = pair(lambda x: cp.sum_squares(x - target), lambda x: x + shift)
    known = arrays(model)
    for goal, moved, is_new in (
        (np.ones(3), 0.0, True),
        (np.arange(3.0), 2.0, True),
        (np.arange(3.0), 2.0, False),
    ):
        target.value, shift.value = goal, np.full(3, moved)
        assert model.solve().status == "optimal"
        # |x - t|^2 + |x + s - t|^2 is least at t - s / 2
        np.testing.assert_allclose(flat(x.value), goal - moved / 2, atol=1e-5)
        before, known = known, arrays(model)
        assert are_the_same(known, before) != is_new
    assert len(asked) == 1


def test_a_parameter_without_a_value_waits_for_the_solve(asked: list[Any]) -> None:
    target = cp.Parameter(3, name="target")
    model, x = pair(lambda x: cp.sum_squares(x - target))
    model.compile()
    assert not asked
    with pytest.raises(dm.OptionError, match="the Parameter 'target' has no value"):
        model.solve()
    target.value = np.arange(3.0)
    assert model.solve().status == "optimal"
    np.testing.assert_allclose(flat(x.value), np.arange(3.0), atol=1e-6)


def test_one_client_waits_and_the_others_are_compiled(asked: list[Any]) -> None:
    x, y, target = cp.Variable(3), cp.Variable(3), cp.Parameter(3)
    model = dm.Model("one waits")
    model.client("ready", cp.sum_squares(x - 1))
    model.client("waits", cp.sum_squares(y - target))
    model.consensus(x == y)
    model.compile()
    assert len(asked) == 1
    target.value = np.full(3, 3.0)
    model.solve()
    assert len(asked) == 1
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
    """Time is told by a clock that moves only while cvxpy canonicalises, one second each."""
    now, canonicalise = 100.0, cp.Problem.get_problem_data
    monkeypatch.setattr("time.perf_counter", lambda: now)

    def slow(*given: Any, **options: Any) -> Any:
        nonlocal now
        now += 1.0
        return canonicalise(*given, **options)

    monkeypatch.setattr(cp.Problem, "get_problem_data", slow)
    model, _ = pair(lambda x: cp.sum_squares(ARRAY @ x - 1))
    result = model.solve()
    assert model.compile().seconds == 1.0
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
