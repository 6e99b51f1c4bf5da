"""Answers on disk: read by names in another process, on the model declared again, or refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import near

DECLARED = '''
import cvxpy as cp
import numpy as np
import dald_model as dm

def market(order=range(4), turned=False, shape=2, extra=0):
    """Of (x_i - i)^2 at x_0 + ... + x_3 = 10 in both entries: x_i = i + 1, each price -2.

    Two of them also agree, shifted by the Parameter, which is 1: it holds anyway, at a price of 0.
    """
    x = {i: cp.Variable(shape, name=f"x{i}") for i in range(4)}
    shift = cp.Parameter(name="shift", value=1.0)
    model = dm.Model("market")
    for i in order:
        model.client(("area", i), cp.sum_squares(x[i] - i), [x[i] >= -9, x[i] <= 50])
    for i in range(extra):
        x[4] = cp.Variable(shape, name="x4")
        model.client(f"new {i}", cp.sum_squares(x[4]))
        model.consensus(x[4] == x[3])
    balance = sum(x.values()) == 10
    model.couple(balance, name="balance")
    model.consensus(x[0] + shift == x[1] if turned else x[1] == x[0] + shift)
    return model, x, balance, shift
'''
here: dict[str, Any] = {}
exec(DECLARED, here)
market: Callable[..., Any] = here["market"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "answer.npz"
    market()[0].solve(metrics={"first": lambda at: at.objective}).save(path)
    return path


def test_values_are_read_by_name_at_once(file: Path) -> None:
    model, x, _, _ = market()
    result = model.solve()
    saved = dm.load(file)
    for answer in (result, saved, dm.load(file, market()[0])):
        for i in range(4):
            assert answer[f"x{i}"] == near([i + 1.0, i + 1.0])
            assert answer["area", i][f"x{i}"] == near([i + 1.0, i + 1.0])
        frame = answer.table()
        assert frame.loc["x2"].value.tolist() == near([3.0, 3.0])
        assert frame.columns.tolist() == ["value", "clients", "apart"]
        assert frame.loc[("x3", 1), "value"] == near(4.0)
        assert set(frame.clients) == {1}
        assert answer.parameters == {"shift": 1.0}
    assert result["area", 2][x[2]] is result["area", 2]["x2"]
    assert "x2" in result["area", 2]
    assert result["area", 2].get("x1") is None
    assert saved.duals["balance"][0] == near([-2.0, -2.0])


def test_another_process_reads_it_whatever_cvxpy_numbers_there(file: Path) -> None:
    """The defect: an earlier variable of that process had the number that ours has here."""
    code = f"""{DECLARED}
others = [cp.Variable(2, name="x1") for _ in range(7)]
saved = dm.load({str(file)!r})
print(np.round(saved["x3"], 4).tolist())
for given in (dict(), dict(order=(2, 0, 3, 1), turned=True)):
    model, x, balance, shift = market(**given)
    shift.value = 5.0
    result = dm.load({str(file)!r}, model)
    try:
        result[others[0]]
    except dm.ResultError as error:
        print(error)
    check = result.verify()
    print(check.ok, "another value by now" in check.note, result.certificate().ok)
    print(np.round(result[x[3]], 4).tolist(), np.round(result.duals[balance], 3).tolist())
    shift.value = 1.0
    result.apply()
    print(np.round(x[2].value, 4).tolist(), model.solve(start=result).status)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    again = [
        "result: variable 'x1' has no value; it is no variable of the model, or the run ended "
        "(optimal) before a first round was complete",
        "True True True",
        "[4.0, 4.0] [-2.0, -2.0]",
        "[3.0, 3.0] optimal",
    ]
    assert done == ["[4.0, 4.0]", *again, *again]


def test_the_whole_result_comes_back(file: Path) -> None:
    result, path = dm.load(file, market()[0]), file.with_name("again.npz")
    result.save(path)
    again = dm.load(path)
    first = dm.load(file)
    assert again.history.equals(first.history)
    assert again.history["first"].tolist() == again.history.objective.tolist()
    assert [set(who) for who in again.history.who] == len(again.history) * [
        {*(("area", i) for i in range(4)), "balance"}
    ]
    for name in ("status", "value", "rounds", "answer_round", "eps_pri", "seconds", "left"):
        assert getattr(again, name) == getattr(first, name)
    assert again.multipliers.keys() == first.multipliers.keys()
    assert str(again) == str(first)
    assert str(first).startswith("Saved answer of 'market'\n  status           optimal")
    assert len(first.plot().axes) == 3


def test_going_on_from_a_loaded_result_begins_where_it_ended(file: Path) -> None:
    model = market()[0]
    cold = model.solve(acceleration=None)
    warm = model.solve(acceleration=None, start=dm.load(file, model))
    assert warm.rounds <= 2 < cold.rounds
    assert warm.verify().ok


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"shape": 3}, r"has x0 of shape \(3,\), expected x0 of shape \(2,\)"),
    "clients": ({"extra": 7}, r"has 'new 0', 'new 1', .* and 2 more, 7 in all besides, expected"),
    "fewer": ({"order": range(3)}, r"lacks \('area', 3\)"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_model_is_refused_in_words(kind: str, file: Path) -> None:
    given, said = OTHERS[kind]
    with pytest.raises(dm.ResultError, match=f"the answer was saved of another.*{said}"):
        dm.load(file, market(**given)[0])


def test_constraints_in_another_order_are_not_taken_for_each_other(tmp_path: Path) -> None:
    def declared(turn: int) -> dm.Model:
        w, u = cp.Variable(2, name="w"), cp.Variable(2, name="u")
        model = dm.Model()
        model.client("a", cp.sum_squares(w), [w[:1] >= 1, w[1:] >= 2][::turn])
        model.client("b", cp.sum_squares(u), [u <= 9])
        model.consensus(*[w[:1] == u[:1], w[1:] == u[1:]])
        return model

    model, path = declared(1), tmp_path / "answer"
    model.solve().save(path)
    assert dm.load(path, declared(1)).verify().ok
    with pytest.raises(dm.ResultError, match="'a' has as constraint 0 '# <= w"):
        dm.load(path, declared(-1))


def test_what_a_saved_answer_cannot_do_is_said(file: Path) -> None:
    saved: Any = dm.load(file)
    for what in ("verify", "certificate", "apply"):
        with pytest.raises(dm.ResultError, match=f"{what}: a saved answer has neither.*saved.on"):
            getattr(saved, what)()
    model, x, _, _ = market()
    with pytest.raises(dm.ResultError, match=r"expected a name; or dm\.load"):
        saved[x[0]]
    with pytest.raises(dm.ResultError, match=r"'y' is neither a variable nor.*'x0', 'x1'"):
        saved["y"]
    with pytest.raises(dm.ResultError, match=r"client \('area', 0\) has no variable 'x1'"):
        saved["area", 0]["x1"]
    with pytest.raises(dm.OptionError, match="start: given a saved answer, expected it on its"):
        model.solve(start=saved)


def test_a_run_without_a_point_and_one_that_clients_left(tmp_path: Path) -> None:
    x = [cp.Variable(name="x") for _ in range(2)]
    model = dm.Model("impossible")
    model.client("a", cp.exp(x[0]), [x[0] >= 1, x[0] <= 0])
    model.client("b", cp.exp(x[1]))
    model.consensus(x[0] == x[1])
    path = tmp_path / "answer.npz"
    model.solve().save(path)
    saved = dm.load(path)
    assert (saved.status, saved.value, saved.culprit) == ("infeasible", np.inf, "a")
    assert dm.load(path, model).verify().ok

    w = cp.Variable(name="w")
    model = dm.Model("three")
    for i in range(3):
        model.client(i, cp.square(w - i))
    model.solve(online={3: dm.Change(leave=[2])}).save(path)
    saved = dm.load(path)
    assert (saved.status, saved.left) == ("reduced", {2: 3})
    assert saved["w"] == near(0.5)
    assert dm.load(path, model).verify().ok


def test_two_variables_of_one_name_are_asked_for_at_their_clients() -> None:
    x = [cp.Variable(name="x") for _ in range(2)]
    model = dm.Model("two")
    for i in range(2):
        model.client(i, cp.square(x[i] - 2 * i))
    model.consensus(x[0] == x[1])
    result = model.solve()
    with pytest.raises(dm.ResultError, match=r"2 variables are called 'x'.*result.client..name."):
        result["x"]
    assert result[0]["x"] == near(1.0)


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    class Owner:
        pass

    w = cp.Variable(name="w")
    model = dm.Model("objects")
    model.client(Owner(), cp.square(w))
    model.client("b", cp.square(w - 2))
    result = model.solve(max_rounds=2)
    with pytest.raises(dm.ResultError, match="has a name of type Owner, expected a string"):
        result.save(tmp_path / "a.npz")
    model = dm.Model("metric")
    model.client("a", cp.square(w))
    model.client("b", cp.square(w - 2))
    result = model.solve(max_rounds=2, metrics={"odd": lambda at: {"a": 1}})
    with pytest.raises(dm.ResultError, match="column 'odd' of the history holds dict"):
        result.save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())
    result.history = result.history.drop(columns="odd")
    result.save(tmp_path / "a.npz")
    assert dm.load(tmp_path / "a.npz").rounds == 2


def test_no_data_and_no_pickle_are_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    A, b, low = rng.normal(size=(50, 3)), rng.normal(size=50), -1234.5
    w = cp.Variable(3, name="w")
    model = dm.Model("private")
    for i in range(2):
        model.client(i, cp.norm1(A @ w - b - i), [w >= low, A[:2] @ w <= 900])
    path = tmp_path / "answer.npz"
    model.solve().save(path)
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    numbers = np.concatenate([a.reshape(-1) for n, a in arrays.items() if n != "header"])
    assert not np.isin(np.concatenate([A.reshape(-1), b, [low, 900.0]]), numbers).any()
    header = json.loads(arrays["header"].tobytes())
    assert header.pop("model") == "private"
    del header["seconds"], header["value"]  # whatever digits they have
    assert not any(said in json.dumps(header) for said in ("1234", "900"))


def damages(path: Path) -> Iterator[bytes]:
    whole = path.read_bytes()
    yield b""
    yield b"not a file of ours"
    yield whole[: len(whole) // 2]
    yield whole.replace(b"dald_model answer 1", b"dald_model answer 9")
    yield whole.replace(b'"rounds"', b'"Rounds"')
    yield whole.replace(b'"shapes": [[2]', b'"shapes": [[3]')


def test_damaged_files_are_refused_in_words(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    for data in damages(file):
        path.write_bytes(data)
        with pytest.raises(dm.ResultError, match=r"^load: "):
            dm.load(path)
    with pytest.raises(dm.ResultError, match="there is no file"):
        dm.load(tmp_path / "nothing.npz")
