"""Files of a run: whole or not there, one run each, and what becomes of each option on resume."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model import files
from dald_model.models.mean import common_number

FREE = {"engine", "checkpoint", "every", "max_rounds", "time_limit", "verbose"}
"""What may be given anew on resume; ``metrics`` and ``callback`` have to be if they were."""
KEPT = sorted(set(signature(dm.Model.solve).parameters) - {"model", "metrics", "callback"} - FREE)
GIVEN: dict[str, Any] = {
    "algorithm": dm.DALD(),
    "disclose": "answers",
    "acceleration": None,
    "rho": 1.0,
    "eps_pri": 1e-3,
    "start": None,
}


@pytest.mark.parametrize("option", KEPT)
def test_an_option_that_is_kept_is_refused_on_resume(option: str, tmp_path: Path) -> None:
    path, model = tmp_path / "run.npz", common_number([0, 1, 5])
    model.solve(checkpoint=path, max_rounds=2, eps_pri=0.0, eps_dual=0.0)
    with pytest.raises(dm.OptionError, match=f"resume: given {option}, which is in the file"):
        dm.resume(path, model, **{option: GIVEN.get(option)})


def test_a_callback_is_asked_for_and_may_be_another(tmp_path: Path) -> None:
    path, model, calls = tmp_path / "run.npz", common_number([0, 1, 5]), []
    options: dict[str, Any] = {"acceleration": None, "eps_pri": 1e-9, "eps_dual": 1e-9}
    whole = model.solve(checkpoint=tmp_path / "whole.npz", every=2, **options)
    half = model.solve(checkpoint=path, every=2, callback=lambda at: at.round == 4, **options)
    assert half.status == "interrupted"
    with pytest.raises(dm.OptionError, match="cannot hold the option callback of its run"):
        dm.resume(path, model)
    found = dm.resume(path, model, callback=lambda at: calls.append(at.round))
    assert calls == list(range(3, found.rounds + 1))  # round 4 was not written yet
    assert (found.rounds, found.value) == (whole.rounds, whole.value)
    assert dm.resume(tmp_path / "whole.npz", model, callback=None).status == whole.status


def test_a_second_run_on_one_file_is_refused_before_its_first_round(tmp_path: Path) -> None:
    path, model = tmp_path / "run.npz", common_number([0, 1, 5])
    errors = []

    def second(at: dm.Iterate) -> None:
        try:
            common_number([0, 1, 5]).solve(checkpoint=path)
        except dm.OptionError as error:
            errors.append((str(error), error.result))

    assert model.solve(checkpoint=path, callback=second).status == "optimal"
    assert "another run is writing it" in errors[0][0]
    assert errors[0][1] is None
    assert [one.name for one in tmp_path.iterdir()] == ["run.npz"]


def test_what_is_no_regular_file_is_refused_before_the_first_round(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "run.npz", Path("/dev/null")):
        with pytest.raises(dm.OptionError, match="cannot be written") as caught:
            common_number([0, 1]).solve(checkpoint=path)
        assert caught.value.result is None


def test_a_full_disk_leaves_the_old_file_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.npz"
    common_number([0, 1, 5]).solve(checkpoint=path, max_rounds=1)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(dm.OptionError, match="No space left on device") as caught:
        common_number([0, 1, 5]).solve(checkpoint=path)
    assert caught.value.result is not None
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.parametrize("disclose", ["answers", "curvature"])
def test_the_files_hold_no_number_of_the_data(
    disclose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the manual says; arrays are not compressed, so any would be found by its bytes.

    Memory that nobody has written is full of one of them, as it may be where data were before.
    """
    rng, w, model = np.random.default_rng(0), cp.Variable(3, name="w"), dm.Model("data")
    data = rng.normal(size=(2, 20, 4))
    for at, rows in enumerate(data):
        model.client(at, cp.sum(cp.logistic(rows[:, :3] @ w - rows[:, 3])) + cp.sum_squares(w))
    empty = np.empty

    def used_before(*shape: Any, **options: Any) -> np.ndarray:
        found = empty(*shape, **options)
        if found.dtype == float:
            found[...] = data[0, 0, 0]
        return found

    monkeypatch.setattr(np, "empty", used_before)
    run, answer = tmp_path / "run.npz", tmp_path / "answer.npz"
    model.solve(disclose=disclose, checkpoint=run, every=1).save(answer)
    for file in (run, answer):
        stored = file.read_bytes()
        assert not [x for x in data.ravel() if x.tobytes() in stored]
