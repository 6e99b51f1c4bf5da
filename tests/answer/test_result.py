"""What a result answers when asked, and what it refuses, against numbers by hand."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Answers, Turn
from tests.coordinate.chain import Spy
from tests.coordinate.two import squares
from tests.expect import near


def test_a_result_says_what_it_cannot_answer() -> None:
    model = squares()
    result = model.solve()
    stranger = cp.Variable(name="stranger")
    with pytest.raises(dm.ResultError, match=r"'stranger' has no value; it is no variable of the"):
        result[stranger]
    with pytest.raises(dm.ResultError, match=r"'c' is neither a variable nor.*one of 'a', 'b'"):
        result["c"]
    with pytest.raises(dm.ResultError, match=r"stranger == 1.0 is no constraint of the model"):
        result.duals[stranger == 1]
    with pytest.raises(KeyError):
        result["c"]


def test_the_duals_are_a_mapping_of_the_declared_objects() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rule, edge = x <= -3, x == y
    model = dm.Model()
    model.client("a", cp.square(x - 1), [rule])
    model.client("b", cp.square(y + 2))
    model.consensus(edge)
    result = model.solve()
    # 2 (y + 2) - mu = 0 and 2 (x - 1) + mu + lam = 0 at -3
    assert [c.id for c in result.duals] == [rule.id, edge.id]
    assert len(result.duals) == 2
    assert (result.duals[edge], result.duals[rule]) == near((-2.0, 10.0))


def test_a_result_stays_valid_after_the_model_is_solved_again() -> None:
    p = cp.Parameter(name="p", value=1.0)
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    edge = x == y
    model = dm.Model()
    model.client("a", cp.square(x - p))
    model.client("b", cp.square(y + 2))
    model.consensus(edge)
    first = model.solve()
    p.value = 8.0
    second = model.solve()
    assert (first.value, first[x], first["b"][y], first.duals[edge]) == near((4.5, -0.5, -0.5, 3.0))
    assert (second.value, second[x], second.duals[edge]) == near((50.0, 3.0, 10.0))
    assert x.value == near(3.0)
    first.apply()
    assert x.value == near(-0.5)
    assert edge.dual_value == near(3.0)
    assert len(first.history) == first.rounds


def test_seconds_count_from_the_call_of_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still but in the metrics and where a client is asked."""
    model, now, before = squares(), [50.0], []
    model.compile()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Slow(Spy):
        def open(self, subproblems: Sequence[Any]) -> Any:
            session = super().open(subproblems)

            def minimise(turn: Turn, tolerance: float) -> Answers:
                now[0] += 100.0 if not before else 0.0
                return session.minimise(turn, tolerance)

            return SimpleNamespace(minimise=minimise)

    def waits(at: dm.Iterate) -> float:
        before.append(now[0] - 50.0)
        now[0] += 10.0
        return at.objective

    result = model.solve(
        rho=1.0, max_rounds=3, metrics={"objective again": waits}, solver=Slow(NAMED["factor"])
    )
    assert before[0] >= 200.0, "both clients are asked for their own minimisers, too"
    assert result.history.seconds.tolist() == before
    assert result.seconds == before[-1] + 10.0
