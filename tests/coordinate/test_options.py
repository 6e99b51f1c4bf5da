"""The options of ``solve`` but penalty and solvers: what each does, and what each refuses."""

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model import deadline
from dald_model.solvers import Reference
from tests.coordinate.chain import TARGETS, by_hand, chain, follows
from tests.expect import near, says


def _any(value: Any) -> Any:
    """What no type checker would let through."""
    return value


# --- stopping, algorithm, tolerances --------------------------------------------------------------


@pytest.mark.parametrize("v_max", [1, 2, 3])
def test_a_fixed_budget_updates_the_multipliers_every_v_max_rounds(v_max: int) -> None:
    follows(by_hand(1.0, 7, v_max=v_max), rho=1.0, stopping=dm.FixedBudget(v_max=v_max))


@pytest.mark.parametrize("step", [0.5, 1.0, 1.6])
def test_the_dual_step(step: float) -> None:
    follows(by_hand(1.0, 6, step=step), rho=1.0, algorithm=dm.DALD(dual_step=step))


def test_when_each_condition_ends_an_inner_loop() -> None:
    """(B1) to (B4) as a function of the outer loop, the inner loop and the dual residual."""
    eps = 1e-6
    b1, b2 = dm.FixedTolerance(), dm.ShrinkingTolerance(start=0.1, factor=0.5)
    b3, b4 = dm.GrowingBudget(start=1, growth=2.0), dm.FixedBudget(v_max=3)
    for outer in (1, 2, 5, 40):
        for inner in (1, 2, 3, 4, 16, 17):
            for dual in (1.0, 0.06, 0.04, 1e-3, 1e-6, 1e-9):
                at = outer, inner, dual, eps
                assert b1.ends(*at) == (dual <= eps)
                assert b2.ends(*at) == (dual <= max(eps, 0.1 * 0.5 ** (outer - 1)))
                assert b3.ends(*at) == (dual <= eps or inner >= math.ceil(2.0 ** (outer - 1)))
                assert b4.ends(*at) == (dual <= eps or inner >= 3)


@pytest.mark.parametrize(
    "stopping",
    [
        dm.FixedTolerance(),
        dm.ShrinkingTolerance(),
        dm.ShrinkingTolerance(start=1.0, factor=0.5),
        dm.GrowingBudget(),
        dm.GrowingBudget(start=2, growth=1.5),
        dm.FixedBudget(v_max=1),
        dm.FixedBudget(v_max=5),
    ],
    ids=str,
)
def test_every_condition_gets_there_on_a_chain_and_on_a_triangle(stopping: Any) -> None:
    chained, _ = chain()
    closed, x = chain()
    closed.consensus(x[2] == x[0])
    for model in (chained, closed):
        result = model.solve(stopping=stopping)
        assert result.status == "optimal"
        assert result.value == near(np.sum((TARGETS - TARGETS.mean(axis=0)) ** 2))
        inner = result.history.groupby("outer").inner
        assert (inner.min() == 1).all()
        assert (inner.count() == inner.max()).all()


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: dm.FixedBudget(v_max=0), ["FixedBudget: given v_max=0", "from 1"]),
        (lambda: dm.FixedBudget(v_max=_any(2.5)), ["FixedBudget: given v_max=2.5", "int from 1"]),
        (lambda: dm.GrowingBudget(start=0), ["given start=0, growth=1.1", "start >= 1"]),
        (lambda: dm.GrowingBudget(growth=1.0), ["growth=1.0", "growth > 1", "grows without"]),
        (lambda: dm.ShrinkingTolerance(start=0.0), ["given start=0.0", "start > 0"]),
        (lambda: dm.ShrinkingTolerance(factor=1.0), ["factor=1.0", "factor < 1", "shrinks"]),
        (lambda: dm.ShrinkingTolerance(factor=0.0), ["factor=0.0", "0 < factor"]),
        (lambda: dm.DALD(dual_step=0.0), ["DALD: given dual_step=0.0", "positive number"]),
        (lambda: dm.DALD(dual_step=-1.0), ["dual_step=-1.0", "(1 is the paper's)"]),
        (lambda: dm.DALD(dual_step=math.nan), ["dual_step=nan", "positive"]),
        (lambda: dm.DALD(dual_step=math.inf), ["dual_step=inf", "positive"]),
        (lambda: dm.DALD(dual_step=_any("1")), ["dual_step='1'", "positive"]),
    ],
    ids=[f"case {i}" for i in range(12)],
)
def test_parts_that_mean_nothing_are_refused_when_they_are_made(make: Any, parts: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make()
    says(caught.value, *parts)


@pytest.mark.parametrize(
    ("option", "bad", "parts"),
    [
        ("eps_pri", -1e-9, ["eps_pri: given -1e-09", "finite number from 0"]),
        ("eps_dual", math.inf, ["eps_dual: given inf", "finite number from 0"]),
        ("eps_pri", math.nan, ["eps_pri: given nan"]),
        ("eps_dual", "small", ["eps_dual: given 'small'"]),
        ("eps_pri", None, ["eps_pri: given None"]),
        ("max_rounds", 0, ["max_rounds: given 0", "whole number from 1"]),
        ("max_rounds", 10.0, ["max_rounds: given 10.0", "whole number from 1"]),
        ("max_rounds", None, ["max_rounds: given None"]),
        ("solver", "nope", ["solver: given 'nope'", "'auto'", "'factor', ", "among CLARABEL"]),
        ("solver", 3, ["solver: given 3", "the name of a solver or an object", "('OSQP')"]),
        ("solver", Reference, ["solver: given <class", "an object of"]),
        ("solver", ["conic"], ["solver: given ['conic']", "'auto', the name of a solver"]),
        ("solver", {"a": "nope"}, ["solver: given 'nope'", "or a cvxpy solver among CLAR"]),
        ("solver", {"a": Reference}, ["solver: given <class"]),
        ("solver", {"z": "conic"}, ["'z' is no client", "keys among 'a', 'b', 'c'"]),
        ("solver", {("a", "b"): "conic"}, ["('a', 'b') is no client"]),
        ("accuracy", 0, ["accuracy: given 0", "a number between 0 and 1"]),
        ("accuracy", 1.0, ["accuracy: given 1.0", "between 0 and 1"]),
        ("accuracy", -1e-6, ["accuracy: given -1e-06"]),
        ("accuracy", math.nan, ["accuracy: given nan"]),
        ("accuracy", math.inf, ["accuracy: given inf"]),
        ("accuracy", "high", ["accuracy: given 'high'"]),
        ("accuracy", True, ["accuracy: given True"]),
        ("algorithm", "admm", ["algorithm: given 'admm'", "expected", "dm.DALD()"]),
        ("algorithm", dm.DALD, ["algorithm: given the class DALD", "expected an object such as"]),
        ("stopping", "B4", ["stopping: given 'B4'", "dm.FixedBudget(v_max=1)"]),
        (
            "stopping",
            dm.FixedBudget,
            ["given the class FixedBudget", "an object such as"],
        ),
        ("sequence", "random", ["sequence: given 'random'", "dm.Sequence"]),
        ("sequence", [["a"], ["b"]], ["sequence: given [['a'], ['b']]", "dm.Sequence"]),
    ],
    ids=[f"case {i}" for i in range(29)],
)
def test_options_that_mean_nothing_are_refused_before_anything_is_computed(
    option: str, bad: Any, parts: list[str]
) -> None:
    model, x = chain()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(**{option: bad})
    says(caught.value, *parts)
    assert x[0].value is None


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("max_iters", "did you mean max_rounds=...?"),
        ("eps", "did you mean eps_pri=..., eps_dual=...?"),
        ("warm_start", "did you mean start=result with the result of an earlier solve?"),
        ("timelimit", "did you mean time_limit=... in seconds?"),
        ("penalty", "did you mean rho=...?"),
        ("n_jobs", "did you mean engine=dm.engines.Processes(workers=2)?"),
        ("maxrounds", "did you mean max_rounds=...?"),
        ("acceleratoin", "did you mean acceleration=...?"),
        ("gp", "geometric programs are taken after a change of variables only"),
        ("zzz", "expected one of algorithm, "),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_that_was_meant(option: str, meant: str) -> None:
    model, _ = chain()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(**_any({option: 1.0}))
    assert str(caught.value).startswith(f"{option}: solve has no such option; {meant}")


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), "1 s", True])
def test_a_time_limit_is_a_positive_number(bad: Any) -> None:
    model, _ = chain()
    with pytest.raises(dm.OptionError, match=r"time_limit: given .*, expected a positive number"):
        model.solve(time_limit=bad)


def test_a_time_limit_ends_the_run_with_the_best_iterate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes a tenth of a second by this clock, so four are over when 0.35 s have passed."""
    now = [0.0]
    monkeypatch.setattr(deadline, "clock", lambda: now[0])

    def tick(at: dm.Iterate) -> None:
        now[0] += 0.1

    model, x = chain()
    result = model.solve(time_limit=0.35, eps_pri=0.0, callback=tick)
    assert result.status == "time_limit"
    assert not result.status.has_answer
    assert result.rounds == 4
    assert result.detail.startswith("after 4 complete rounds")
    assert x[0].value is not None
    assert model.solve(start=result).status == "optimal"


def test_a_time_limit_before_the_first_round_is_a_status_too() -> None:
    model, x = chain()
    result = model.solve(time_limit=1e-9)
    assert (result.status, result.rounds, x[0].value) == ("time_limit", 0, None)
    assert (
        result.detail == "before the end of the first round; give more seconds, or time_limit=None"
    )
    assert model.solve().status == "optimal"


def test_a_time_limit_is_told_to_native_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still it never passes here, so it is Clarabel that ends the run."""
    monkeypatch.setattr(deadline, "clock", lambda: 0.0)
    rng, size = np.random.default_rng(0), 28
    shared, model = cp.Variable((size, size), symmetric=True, name="X"), dm.Model("matrices")
    for name in "ab":
        data = rng.normal(size=(size, size))
        model.client(name, cp.norm(shared - data, "nuc"), [shared >> 0])
    assert model.solve(time_limit=1e-3, solver="conic").status == "time_limit"


@pytest.mark.parametrize("zero", [("eps_pri",), ("eps_dual",), ("eps_pri", "eps_dual")])
def test_zero_tolerances_run_every_round_though_nothing_moves_any_more(zero: Any) -> None:
    """Both clients agree from the first round on: residuals are exactly zero."""
    model, x = dm.Model(), [cp.Variable(name="x"), cp.Variable(name="y")]
    for name, v in zip("ab", x, strict=True):
        model.client(name, cp.square(v))
    model.consensus(x[0] == x[1])
    options: dict[str, Any] = dict.fromkeys(zero, 0.0)
    result = model.solve(max_rounds=30, **options)
    assert (result.status, result.rounds) == ("round_limit", 30)
    assert result.value == near(0.0)


def test_looser_tolerances_take_fewer_rounds_and_tighter_ones_more() -> None:
    model, x = chain()
    rounds, errors = [], []
    for eps in (1e-2, 1e-4, 1e-6, 1e-8):
        result = model.solve(acceleration=None, eps_pri=eps, eps_dual=eps)
        last = result.history.iloc[-1]
        assert result.status == "optimal"
        assert max(last.primal_scaled, last.dual_scaled) <= eps
        rounds.append(result.rounds)
        errors.append(max(np.abs(result[v] - TARGETS.mean(axis=0)).max() for v in x))
    assert rounds == sorted(set(rounds))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-7


def test_max_rounds_may_be_a_numpy_integer() -> None:
    model, _ = chain()
    assert model.solve(acceleration=None, max_rounds=_any(np.int64(4))).rounds == 4
