"""A run that is watched: bar, log and callback; and silence where none was asked for."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from dald_model.models.mean import common_number


def chain() -> dm.Model:
    return common_number(range(6), peers=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"acceleration": None},
        {
            "acceleration": None,
            "sequence": dm.Sequence.natural(),
            "stopping": dm.FixedBudget(1),
            "rho": 1.0,
        },
        {"algorithm": dm.BCD()},
        {"online": dm.Dropout(0.2, seed=1)},
    ],
    ids=["default", "plain", "one by one", "fixed point", "absent"],
)
def test_the_callback_is_told_of_each_round(options: dict[str, Any]) -> None:
    model, seen = chain(), []
    w = model.variables[0]

    def callback(at: dm.Iterate) -> None:
        seen.append((at.round, at.row["primal_scaled"], at.objective, float(at[w])))

    result = model.solve(callback=callback, **options)
    rounds, primal, objective, values = zip(*seen, strict=True)
    assert rounds == tuple(range(1, result.rounds + 1))
    history = result.history
    np.testing.assert_array_equal(primal, history.primal_scaled)
    np.testing.assert_array_equal(objective, history.objective)
    assert values[result.answer_round - 1] == pytest.approx(float(result["w"]))
    assert result.rounds == model.solve(**options).rounds, "watching changes nothing"


def test_a_callback_that_returns_true_ends_the_run_with_its_best() -> None:
    result = chain().solve(callback=lambda at: np.bool_(at.round == 3), acceleration=None)
    assert (result.status, result.rounds) == ("interrupted", 3)
    assert result.status.message == (
        "the run was interrupted, from the keyboard or by its callback"
    )
    assert result.detail == "the callback ended the run after round 3"
    assert result.answer_round in (1, 2, 3)
    assert np.isfinite(result["w"])
    assert chain().solve(callback=lambda at: at.round).status == "optimal", "3 is not True"


def test_an_error_in_a_callback_keeps_what_was_found() -> None:
    def callback(at: dm.Iterate) -> None:
        if at.round == 2:
            raise ValueError("my own")

    with pytest.raises(dm.RunError, match=r"callback: .*raised ValueError \(my own\)") as caught:
        chain().solve(callback=callback)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.result.rounds == 2


@pytest.mark.parametrize("given", [3, "print", int])
def test_what_is_no_callback_is_refused(given: Any) -> None:
    with pytest.raises(dm.OptionError, match=r"callback: given .*expected a function of a dm"):
        chain().solve(callback=given)


def test_the_log_has_rounds_and_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="dald_model"):
        result = chain().solve(acceleration=None)
    lines = [record.getMessage() for record in caplog.records if record.name == "dald_model"]
    assert lines[0] == "mean: a run of at most 1000 rounds begins"
    assert lines[-1].startswith(f"mean: optimal after {result.rounds} rounds")
    assert len(lines) == result.rounds + 2
    last = result.history.iloc[-1]
    primal, dual = f"{last.primal_scaled:.1e}", f"{last.dual_scaled:.1e}"
    said = f"primal {primal} (allowed 1e-06)  dual {dual} (allowed 1e-06)  rho {last.rho:.2g}"
    assert lines[-2] == f"mean: round {result.rounds}, {said}"
    levels = {record.levelno for record in caplog.records[1:-1]}
    assert levels == {logging.DEBUG}


def test_silence_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    chain().solve()
    assert capfd.readouterr() == ("", "")


def test_the_line_shows_phases_residuals_tolerances_and_no_percentage(
    capfd: pytest.CaptureFixture[str],
) -> None:
    result = chain().solve(verbose=True, acceleration=None, eps_dual=1e-5)
    out, err = capfd.readouterr()
    assert out == ""
    shown = [line.split(" [")[0] for line in err.replace("\n", "\r").split("\r") if line.strip()]
    assert shown[:2] == ["mean: compiling", "mean: measuring the clients"]
    last = result.history.iloc[-1]
    assert shown[-1] == (
        f"mean: optimal after {result.rounds} rounds, primal {last.primal_scaled:.1e} (allowed "
        f"1e-06), dual {last.dual_scaled:.1e} (allowed 1e-05), rho {last.rho:.2g}"
    )
    assert "%" not in err


def test_a_run_that_fails_to_end_does_not_show_that_all_is_done(
    capfd: pytest.CaptureFixture[str],
) -> None:
    chain().solve(verbose=True, max_rounds=2)
    assert "mean: round_limit after 2 rounds" in capfd.readouterr().err
