"""What a user's function raises, and Ctrl-C: it is seen, and the rounds before are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clarabel as typed_clarabel
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.solvers import NAMED

clarabel: Any = typed_clarabel
"""It has no annotations."""


def three() -> tuple[dm.Model, cp.Variable]:
    w = cp.Variable(2, name="w")
    model = dm.Model("three")
    for i in range(3):
        model.client(i, cp.sum_squares(w - i), [w >= -5])
    return model, w


def raises(call: int, error: BaseException) -> Callable[..., None]:
    """A function that raises when it is called for this time."""
    count = 0

    def function(*given: Any) -> None:
        nonlocal count
        count += 1
        if count == call:
            raise error

    return function


class Stop:
    """The stopping condition of ADMM, until it breaks."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        if outer == 4 and inner == 1:
            raise self.error
        return True

    def __repr__(self) -> str:
        return "Stop()"


class Rule(dm.ResidualBalancing):
    """Penalties that break after the third outer loop."""

    def update(self, state: Any, outer: int) -> np.ndarray:
        if outer == 3:
            raise ZeroDivisionError("division by zero")
        return super().update(state, outer)

    def __repr__(self) -> str:
        return "Rule()"


class Solver:
    """Someone's solver, which breaks in the fourth round of its clients."""

    name, batches, is_exact = "mine", False, True

    def refuses(self, subproblem: dm.Subproblem) -> str:
        return ""

    def open(self, subproblems: Any) -> Any:
        inner, breaks = NAMED["conic"].open(subproblems), raises(10, ZeroDivisionError("0"))

        class Session:
            def minimise(self, turn: Any, tolerance: float) -> Any:
                breaks()
                return inner.minimise(turn, tolerance)

        return Session()

    def __repr__(self) -> str:
        return "Solver()"


ERROR = ZeroDivisionError("division by zero")


def breaking_online(moment: dm.Moment) -> None:
    if moment.round == 4:
        raise ERROR


def breaking_choice(moment: dm.Moment, generator: Any) -> list[Any]:
    # Sequences are tried out before the run, for whether they are fair
    if moment.round == 4 and np.isfinite(moment.residuals.primal):
        raise ERROR
    return [0, 1, 2, "server"]


BREAKING: dict[str, tuple[dict[str, Any], str, int]] = {
    "metric": ({"metrics": {"norm": raises(3, ERROR)}}, "metrics: 'norm'", 3),
    "online": ({"online": breaking_online}, "online: Callback(function=", 3),
    # With a penalty of one it starts at zero, and takes more than three rounds
    "sequence": ({"sequence": dm.Sequence.custom(breaking_choice), "rho": 1.0}, "sequence: ", 3),
    # It is asked after a sweep, which is made by then
    "stopping": ({"stopping": Stop(ERROR)}, "stopping: Stop()", 4),
    "penalty rule": ({"rho": Rule()}, "rho: Rule()", 3),
}


@pytest.mark.parametrize("what", BREAKING)
def test_the_rounds_made_are_kept_and_the_exception_is_the_cause(what: str) -> None:
    given, said, made = BREAKING[what]
    model, w = three()
    with pytest.raises(dm.RunError) as caught:
        model.solve(acceleration=None, **given)
    error = caught.value
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert str(error).startswith(said)
    assert str(error).endswith(
        f" raised ZeroDivisionError (division by zero) after {made} rounds; what was found is "
        "kept, as `result` of this error"
    )
    check_kept(error.result, given, w, made)


def check_kept(result: Any, given: dict[str, Any], w: cp.Variable, made: int) -> None:
    """The judge is a run of as many rounds that nobody broke off."""
    assert isinstance(result, dm.Result)
    assert result.status == "user_error"
    assert result.rounds == made
    alike = {k: v for k, v in given.items() if k == "sequence" or v == 1.0}
    if "stopping" in given:
        alike["stopping"] = dm.FixedBudget(1)
    if "metrics" in given:
        alike["metrics"] = {"nothing": lambda at: None}
    if "online" in given:
        alike["online"] = lambda moment: None
    model, v = three()
    whole = model.solve(acceleration=None, **alike, max_rounds=made)
    columns = ["outer", "inner", "primal", "dual", "objective", "rho"]
    np.testing.assert_array_equal(result.history[columns], whole.history[columns])
    assert result.answer_round == whole.answer_round
    np.testing.assert_array_equal(result[w], whole[v])
    np.testing.assert_array_equal(w.value, whole[v])
    assert result.value == whole.value
    whole_model: Any = result.compiled.model
    assert whole_model.solve(start=result).status == "optimal"


def test_a_solver_of_the_users_that_raises() -> None:
    model, _ = three()
    with pytest.raises(dm.RunError) as caught:
        model.solve(acceleration=None, solver=Solver())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.result.rounds >= 1
    assert caught.value.result.status == "user_error"


def test_the_metrics_before_the_one_that_raised_are_in_the_history() -> None:
    model, _ = three()
    metrics = {"one": lambda at: 1.0, "two": raises(1, ERROR)}
    with pytest.raises(dm.RunError) as caught:
        model.solve(metrics=metrics)
    result: Any = caught.value.result
    assert result.history.one.tolist() == [1.0]
    assert "two" not in result.history
    assert (result.rounds, result.answer_round) == (1, 1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"online": lambda moment: "a" if moment.round == 4 else None, "acceleration": None},
            dm.OptionError,
            "online: given 'a', expected a dm.Change such as dm.Change(leave=['a']) or None",
        ),
        (
            {"metrics": {"z": lambda at: at[cp.Variable(name="z")] if at.objective < 3.3 else 0}},
            dm.ResultError,
            "metrics: 'z' is no variable of 'three'",
        ),
    ],
)
def test_an_error_of_ours_in_a_later_round_keeps_the_rounds_before(
    given: dict[str, Any], error: type[dm.DaldError], message: str
) -> None:
    model, w = three()
    with pytest.raises(error) as caught:
        model.solve(**given)
    assert str(caught.value) == message
    result: Any = caught.value.result
    assert result.status == "user_error"
    assert result.detail == message
    assert result.rounds == result.history.index[-1] >= 1
    assert result[w].shape == (2,)


def panics(at: dm.Iterate) -> None:
    """Clarabel is written in Rust, and what it raises here is no Exception."""
    cones = [clarabel.GenPowerConeT([0.5, 0.6], 1)]
    nothing, rows = sp.csc_array((3, 3)), sp.eye_array(3, format="csc")
    settings = clarabel.DefaultSettings()
    clarabel.DefaultSolver(nothing, np.zeros(3), rows, np.zeros(3), cones, settings)


def test_a_panic_keeps_the_rounds_before(capfd: pytest.CaptureFixture[str]) -> None:
    model, _ = three()
    with pytest.raises(dm.RunError) as caught:
        model.solve(metrics={"panic": panics})
    assert not isinstance(caught.value.__cause__, Exception)
    assert "raised PanicException (assertion failed" in str(caught.value)
    assert caught.value.result.rounds == 1
    assert "panicked" in capfd.readouterr().err


def test_what_ends_the_process_is_let_through() -> None:
    model, _ = three()
    with pytest.raises(SystemExit):
        model.solve(metrics={"exit": raises(2, SystemExit(3))})
    assert model.solve().status == "optimal"


def test_an_error_before_the_first_round_has_no_result() -> None:
    model, _ = three()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(max_rounds=0)
    assert caught.value.result is None


# --- Ctrl-C ---------------------------------------------------------------------------------------


class Interrupted(dm.ResidualBalancing):
    """Someone presses Ctrl-C while the first penalties are computed."""

    def init(self, compiled: Any) -> np.ndarray:
        raise KeyboardInterrupt


def test_an_interruption_before_the_first_round_is_a_status() -> None:
    model, w = three()
    result = model.solve(rho=Interrupted())
    assert (result.status, result.detail) == ("interrupted", "before the first round")
    assert (result.rounds, result.answer_round) == (0, 0)
    assert np.isnan(result.value)
    assert "interrupted" in str(result)
    assert w.value is None
    for ask in (lambda: result[w], lambda: result[0], lambda: result.plot()):
        with pytest.raises(dm.ResultError):
            ask()
    with pytest.raises(dm.OptionError):
        model.solve(start=result)
    assert model.solve().status == "optimal"


def test_an_interruption_while_the_numbers_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the clients with a Parameter, which has another value by then."""
    w, step = cp.Variable(2, name="w"), cp.Parameter(name="step", value=2.0)
    model = dm.Model("three")
    for i in range(3):
        model.client(i, cp.sum_squares(w - i * step), [w >= -5])
    model.compile()
    step.value = 1.0
    with monkeypatch.context() as patch:
        patch.setattr(dm.Subproblem, "instantiate", raises(2, KeyboardInterrupt()))
        assert model.solve().status == "interrupted"
    assert model.solve().value == pytest.approx(4.0, rel=1e-4)


def test_an_interruption_while_compiling_leaves_the_model_to_be_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is nothing that a result could say yet."""
    model, _ = three()
    with monkeypatch.context() as patch:
        patch.setattr(dm.Subproblem, "instantiate", raises(2, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            model.solve()
    assert model.solve().value == pytest.approx(4.0, rel=1e-4)


def test_an_interruption_in_a_metric_keeps_the_round() -> None:
    model, _ = three()
    result = model.solve(metrics={"stop": raises(3, KeyboardInterrupt())})
    assert (result.status, result.detail) == ("interrupted", "after 3 complete rounds")
    assert result.rounds == 3
