"""A solver that fails: who takes over, with which dual values, and what the result tells."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Answers, Factor, Multipliers, Reference, Step, Turn
from tests.coordinate.chain import MEAN, Spy, by_hand, capped, chain, follows
from tests.expect import near

FACTOR = "no minimiser to working accuracy"


def session_of_conic() -> Any:
    """The class of the sessions that ``conic`` opens."""
    return type(NAMED["conic"].open([chain()[0].compile()["a"]]))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """Make ``Factor`` fail on one client of its session from one round on; its turns are told.

    The first turns are those in which clients are asked for their own answers.
    """
    solve = Factor.solve

    def fail(place: int, round_: int) -> list[list[int]]:
        turns: list[list[int]] = []

        def failing(self: Factor, which: np.ndarray, *told: Any) -> Step:
            step = solve(self, which, *told)
            turns.append(which.tolist())
            seen = sum(place in turn for turn in turns)
            if place not in turns[-1] or seen <= round_:  # the first is not of a round
                return step
            at = which == place
            points = np.where(at[:, None], np.nan, step.points)
            return step._replace(points=points, failed=step.failed | at)

        monkeypatch.setattr(Factor, "solve", failing)
        return turns

    return fail


@pytest.mark.parametrize("solver", ["auto", "factor", {"b": "factor"}, {"b": NAMED["factor"]}])
def test_a_client_whose_solver_fails_goes_on_with_the_next(solver: Any, broken: Any) -> None:
    model, x = chain()
    known = model.solve(acceleration=None, solver=solver)
    turns = broken(place=2, round_=4)
    result = model.solve(acceleration=None, solver=solver)
    assert result.status == "optimal"
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert result.fallbacks == ((4, "b", "factor", "conic", FACTOR),)
    event = result.fallbacks[0]
    assert (event.round, event.client) == (4, "b")
    assert (event.failed, event.next, event.message) == ("factor", "conic", FACTOR)
    count = result.history.fallbacks.tolist()
    assert count == [0] * 3 + [1] * (result.rounds - 3)
    assert turns == [[0, 1, 2]] + 4 * [[0, 1], [2]] + (result.rounds - 4) * [[0, 1]], (
        "b is not tried again"
    )
    assert result.rounds == known.rounds
    assert result.history.objective.to_numpy() == near(known.history.objective.to_numpy())
    line = f"  fallbacks        1, first client 'b' in round 4: from factor to conic ({FACTOR})"
    assert line in str(result).splitlines()
    assert result.verify().ok
    assert model.solve(acceleration=None, solver="conic").fallbacks == ()


def test_who_shares_the_session_of_a_failure_keeps_the_solver(broken: Any) -> None:
    """Clients a and c are solved side by side; c fails from the second round on."""
    model, x = chain()
    turns = broken(place=1, round_=2)
    result = model.solve()
    assert result.status == "optimal"
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert result.fallbacks == ((2, "c", "factor", "conic", FACTOR),)
    assert turns == [[0, 1, 2]] + 2 * [[0, 1], [2]] + (result.rounds - 2) * [[0], [2]]
    follows(by_hand(1.0, 6), rho=1.0)


def test_the_dual_values_are_those_of_who_took_over(
    monkeypatch: pytest.MonkeyPatch, broken: Any
) -> None:
    model, x, rule = capped()
    known = model.solve(solver={"b": "conic"})
    monkeypatch.setattr(dm.solvers.ActiveSet, "solve", _fails(dm.solvers.ActiveSet.solve, 4))
    broken(place=0, round_=5)
    result = model.solve()
    assert result.status == "optimal"
    assert [(e.round, e.client, e.failed, e.next) for e in result.fallbacks] == [
        (3, "b", "active_set", "conic"),
        (5, "a", "factor", "conic"),
    ]
    assert result.history.fallbacks.tolist() == [0, 0, 1, 1] + [2] * (result.rounds - 4)
    assert result[x[1]] == near([3.5, 3.0])
    assert result.duals[rule] == near(3.0)
    assert result.value == near(known.value)
    text = str(result)
    assert "2, first client 'b' in round 3: from active_set to conic (" in text
    assert "factor" not in text, "only the first is told"


def _fails(solve: Any, round_: int) -> Any:
    """A step method that fails from its call number ``round_`` on."""
    calls = 0

    def failing(self: Any, which: np.ndarray, *told: Any) -> Step:
        nonlocal calls
        calls += 1
        step = solve(self, which, *told)
        failed = np.full(which.size, calls >= round_)
        return step._replace(points=np.where(failed[:, None], np.nan, step.points), failed=failed)

    return failing


def test_two_solvers_fail_in_one_round(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    def nothing(self: Any, turn: Turn, tolerance: float) -> Answers:
        size, count = 2 * turn.which.size, turn.which.size
        said = dict.fromkeys(range(count), "no luck")
        return Answers(
            np.full(size, np.nan),
            np.full(count, np.nan),
            ["solver_error"] * count,
            Multipliers.none(turn.which.size),
            said,
        )

    monkeypatch.setattr(session_of_conic(), "minimise", nothing)
    broken(place=2, round_=2)
    model, x = chain()
    result = model.solve()
    assert result.status == "optimal"
    assert result[x[1]] == near(MEAN)
    last = "reference (CLARABEL)"
    assert result.fallbacks == (
        (2, "b", "factor", "conic", FACTOR),
        (2, "b", "conic", last, "no luck"),
    )
    assert result.history.fallbacks.tolist() == [0] + [2] * (result.rounds - 1)


def test_after_the_last_solver_there_is_none(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    def nothing(self: Any, sub: Any, tolerance: float) -> tuple[str, str]:
        return "solver_error", "out of luck"

    model, _ = chain()
    monkeypatch.setattr(Reference, "answer", nothing)
    result = model.solve(solver="reference")
    assert (result.status, result.culprit, result.fallbacks) == ("solver_error", "a", ())
    assert model.solve().status == "optimal", "nobody needs it"
    broken(place=2, round_=3)
    assert model.solve(solver={"b": NAMED["factor"]}).status == "optimal", "conic is there still"


def test_a_solver_of_ones_own_has_no_next() -> None:
    class Half(Spy):
        def open(self, subproblems: Sequence[Any]) -> Any:
            session = super().open(subproblems)

            def minimise(turn: Turn, tolerance: float) -> Answers:
                answers = session.minimise(turn, tolerance)
                if len(self.turns) < 4:
                    return answers
                nothing = np.full(2, np.nan)
                return Answers(
                    nothing, nothing[:1], ["solver_error"], Multipliers.none(1), {0: "tired"}
                )

            return SimpleNamespace(minimise=minimise)

    model, _ = chain()
    result = model.solve(acceleration=None, solver={"b": Half(NAMED["conic"])})
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "b", 3)
    assert result.fallbacks == ()
    assert "(tired)" in result.detail


@pytest.mark.parametrize("solver", ["auto", "conic", "reference"])
def test_infeasible_is_the_word_of_the_reference(solver: str) -> None:
    """Whoever finds no point first, the next is asked, down to the reference."""
    chains = {
        "auto": [("active_set", "conic"), ("conic", "reference (CLARABEL)")],
        "conic": [("conic", "reference (CLARABEL)")],
        "reference": [],
    }
    model, x = chain()
    impossible = dm.Model()
    for name, client in model.clients.items():
        rules = [x[1] >= 1, x[1] <= 0] if name == "b" else []
        impossible.client(name, client.objective, rules)
    impossible.consensus(x[0] == x[1], x[1] == x[2])
    result = impossible.solve(solver=solver)
    assert (result.status, result.culprit, result.value) == ("infeasible", "b", math.inf)
    assert [(e.failed, e.next) for e in result.fallbacks] == chains[solver]
    assert all((e.round, e.client) == (1, "b") for e in result.fallbacks)
    assert result.history.empty


def test_after_the_last_solver_the_others_have_their_turn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The factor fails b in round 3 only; conic has one good round, and the reference none."""
    one_by_one = session_of_conic()
    solve, minimise = Factor.solve, one_by_one.minimise
    rounds, answers = [0], [0]

    def once(self: Any, which: np.ndarray, slopes: np.ndarray, tolerance: float = 0.0) -> Any:
        step = solve(self, which, slopes, tolerance)
        rounds[0] += which.tolist() == [2]
        failed = np.full(which.size, rounds[0] == 3 and which.tolist() == [2])
        return step._replace(failed=failed)

    def tired(self: Any, turn: Turn, tolerance: float) -> Answers:
        answers[0] += 1
        found = minimise(self, turn, tolerance)
        return found if answers[0] == 1 else found._replace(statuses=["solver_error"])

    monkeypatch.setattr(Factor, "solve", once)
    monkeypatch.setattr(one_by_one, "minimise", tired)
    monkeypatch.setattr(Reference, "answer", lambda self, sub, eps: ("solver_error", "no luck"))
    model, x = chain()
    result = model.solve()
    assert result.status == "optimal", str(result)
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert [(e.round, e.client, e.failed, e.next) for e in result.fallbacks] == [
        (3, "b", "factor", "conic"),
        (4, "b", "conic", "reference (CLARABEL)"),
        (4, "b", "reference (CLARABEL)", "factor"),
    ]


# --- dual values are those of the round -----------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "conic", "reference"])
def test_the_best_round_keeps_its_dual_values_though_others_followed(solver: str) -> None:
    """With so long a dual step the residuals sway, and the best round is not the last."""
    model, x, rule = capped()
    options: dict[str, Any] = {
        "algorithm": dm.DALD(dual_step=2.6),
        "stopping": dm.FixedBudget(1),
        "rho": 1.0,
        "solver": solver,
        "accuracy": 1e-9,
    }
    result = model.solve(max_rounds=20, **options)
    best = result.answer_round
    assert 0 < best < result.rounds
    known = model.solve(max_rounds=best, eps_pri=0.0, eps_dual=0.0, **options)
    assert known.answer_round == best
    assert result.duals[rule] == known.duals[rule]
    assert (result[x[1]] == known[x[1]]).all()
    later = model.solve(max_rounds=20, eps_pri=0.0, eps_dual=0.0, **options)
    assert later.answer_round == 20
    assert abs(later.duals[rule] - known.duals[rule]) > 1e-3, "it would be noticed"
