"""A run that goes on from a file has the rounds of one that was not interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.checkpoint import Checkpoint
from dald_model.coordinate.serialised import NotKeptError, Reader
from dald_model.engines import InProcess
from tests.zoo import GRAPHS, PROBLEMS

PLAIN = {"acceleration": None, "max_rounds": 30}
RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": PLAIN,
    "anderson": {"acceleration": dm.Anderson(memory=5), "max_rounds": 30},
    "secant": {"acceleration": dm.Secant(), "max_rounds": 30},
    "absent": {"online": [dm.Dropout(0.3, seed=3), dm.Stragglers({1: 3})], "max_rounds": 30},
    "leaving": {"online": {4: dm.Change(leave=[2]), 9: dm.Change(join=[2])}, "max_rounds": 30},
    "drawn": {"sequence": dm.Sequence.random(2, seed=5), "max_rounds": 40},
    "balanced": {"rho": dm.ResidualBalancing(period=3), "acceleration": None, "max_rounds": 30},
    "certified": {"gap": 1e-3, "acceleration": None},
    "inner loops": {"stopping": dm.GrowingBudget(), **PLAIN},
}


def build(name: str = "ridge", graph: str = "chain") -> dm.Model:
    return PROBLEMS[name]().on(GRAPHS[graph]()).model


def watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of a run, each kept as it was written."""
    found: list[Path] = []
    write = Checkpoint.write

    def keep(self: Checkpoint, *arguments: Any) -> None:
        write(self, *arguments)
        found.append(folder / f"{len(found)}.npz")
        shutil.copy(self.path, found[-1])

    monkeypatch.setattr(Checkpoint, "write", keep)
    return found


def same(one: dm.Result, two: dm.Result) -> None:
    """Bit for bit: every round, the last state, the answer and its dual values."""
    assert one.history.drop(columns="seconds").equals(two.history.drop(columns="seconds"))
    assert (one.status, one.value, one.answer_round) == (two.status, two.value, two.answer_round)
    assert one.state is not None
    assert two.state is not None
    for what in ("points", "sides", "mu", "rho", "objectives", "multipliers"):
        np.testing.assert_array_equal(getattr(one.state, what), getattr(two.state, what))
    for mine, other in zip(one.duals.by_id.values(), two.duals.by_id.values(), strict=True):
        pairs = zip(mine, other, strict=True) if isinstance(mine, list) else [(mine, other)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)


def goes_on(
    make: Callable[[], dm.Model], options: dict[str, Any], folder: Path, files: list[Path]
) -> None:
    """From the first file, one in the middle and the last, by a model that is declared again."""
    whole = make().solve(checkpoint=folder / "run.npz", every=4, **options)
    assert len(files) >= 2
    for file in {files[0], files[len(files) // 2], files[-1]}:
        same(whole, dm.resume(file, make()))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = watched(tmp_path, monkeypatch)
    goes_on(lambda: build("ridge"), RUNS[name], tmp_path, files)


@pytest.mark.parametrize("name", ["lasso", "logistic", "svm", "simplex", "group_lasso", "entropy"])
def test_solvers_that_start_warm_go_on_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = watched(tmp_path, monkeypatch)
    graph = "chain" if name == "simplex" else "star"  # there a server holds its rules in common
    goes_on(lambda: build(name, graph), {"max_rounds": 30}, tmp_path, files)


def test_a_run_at_hosts_goes_on_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = watched(tmp_path, monkeypatch)
    whole = build("svm").solve(checkpoint=tmp_path / "run.npz", every=6, engine=InProcess(2))
    same(whole, dm.resume(files[len(files) // 2], build("svm"), engine=InProcess(2)))


def test_a_run_that_met_its_limit_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    options = {"acceleration": None, "eps_pri": 1e-9, "eps_dual": 1e-9}
    short = build().solve(checkpoint=file, every=5, max_rounds=12, **options)
    assert (short.status, short.rounds) == ("round_limit", 12)
    found = dm.resume(file, build(), max_rounds=500)
    assert found.status == "optimal"
    assert (
        found.history.loc[:12].drop(columns="seconds").equals(short.history.drop(columns="seconds"))
    )
    assert found.history["seconds"].is_monotonic_increasing
    assert found.verify(tol_objective=1e-7).ok
    again = build().solve(start=found)  # a result as any other
    assert again.status == "optimal"


SCRIPT = """
import sys, time
import cvxpy as cp, numpy as np, dald_model as dm

def build():
    x = [cp.Variable(3, name=f"x{i}") for i in range(4)]
    model = dm.Model("killed")
    for i in range(4):
        A = np.random.default_rng(i).normal(size=(12, 3))
        model.client(f"c{i}", cp.sum_squares(A @ x[i] - i), [x[i] >= -1])
    model.consensus(x[0] == x[1], x[1] == x[2], x[2] == x[3])
    return model

if __name__ == "__main__":
    options = {"acceleration": None, "eps_pri": 0.0, "max_rounds": 100000}
    build().solve(checkpoint=sys.argv[1], every=2, **options)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_a_run_that_is_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    script, file = tmp_path / "killed.py", tmp_path / "run.npz"
    script.write_text(SCRIPT)
    namespace: dict[str, Any] = {"__name__": "killed"}
    exec(SCRIPT, namespace)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, script, file], env=environment)
    rng, rounds, sizes = np.random.default_rng(0), [], []
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.01)
    for _ in range(10):  # whoever reads at any moment finds one that is whole
        time.sleep(rng.uniform(0, 0.03))
        with zipfile.ZipFile(file) as stored:
            assert stored.testzip() is None
            rounds.append(json.loads(np.load(file)["header"].tobytes())["round"])
            sizes.append(len(stored.namelist()))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert rounds == sorted(rounds)
    assert rounds[-1] > rounds[0]
    last = json.loads(np.load(file)["header"].tobytes())["round"]
    assert last >= rounds[-1]
    found = dm.resume(file, namespace["build"](), max_rounds=last + 5)
    assert found.rounds == last + 5
    options: dict[str, Any] = {"acceleration": None, "eps_pri": 0.0, "max_rounds": last + 5}
    whole = namespace["build"]().solve(checkpoint=tmp_path / "other.npz", every=2, **options)
    same(whole, found)


def test_another_model_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    weight = cp.Parameter(nonneg=True, value=1.0, name="weight")

    def make(count: int = 3, size: int = 2) -> dm.Model:
        x = [cp.Variable(size, name=f"x{i}") for i in range(count)]
        model = dm.Model("small")
        for i in range(count):
            model.client(f"c{i}", weight * cp.sum_squares(x[i] - i))
        model.consensus(*(x[i] == x[i + 1] for i in range(count - 1)))
        return model

    make().solve(checkpoint=file)
    with pytest.raises(dm.OptionError, match=r"its clients are 'c0', .*, given .*'c3'; the"):
        dm.resume(file, make(4))
    with pytest.raises(dm.OptionError, match=r"its edges are 'c0' to 'c1' \(2\).*given .*\(3\)"):
        dm.resume(file, make(size=3))
    weight.value = 1.5
    with pytest.raises(dm.OptionError, match="client 'c0' had other numbers, of its data or of"):
        dm.resume(file, make())
    weight.value = 1.0
    assert dm.resume(file, make()).status == "optimal"


def test_what_is_no_file_of_a_run_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    build().solve(checkpoint=file)
    whole = file.read_bytes()
    with pytest.raises(dm.OptionError, match=r"there is no file .*nowhere.npz; expected one that"):
        dm.resume(tmp_path / "nowhere.npz", build())
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for other in (b"", whole[: len(whole) // 2], b"PK" + whole[5:]):
        file.write_bytes(other)
        with pytest.raises(dm.OptionError, match=r"cannot be read .* expected a file that solve"):
            dm.resume(file, build())
    with pytest.raises(dm.OptionError, match=r"cannot be read .* expected a file that solve"):
        dm.resume(tmp_path / "other.npz", build())
    with pytest.raises(dm.OptionError, match=r"cannot be written .* expected a path in"):
        build().solve(checkpoint=tmp_path / "no" / "folder" / "run.npz")
    for given, said in ((3, "checkpoint: given 3"), (b"run", "checkpoint: given b'run'")):
        with pytest.raises(dm.OptionError, match=said):
            build().solve(checkpoint=given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(dm.OptionError, match="every: given 0"):
        build().solve(checkpoint=file, every=0)


def test_options_that_no_file_holds_are_given_again_and_no_others(tmp_path: Path) -> None:
    file, seen = tmp_path / "run.npz", []
    metrics = {"first": lambda at: seen.append(1) or len(seen)}
    whole = build().solve(checkpoint=file, every=3, metrics=metrics, **PLAIN)
    with pytest.raises(dm.OptionError, match=r"cannot hold the option metrics .*metrics=\.\.\."):
        dm.resume(file, build())
    with pytest.raises(dm.OptionError, match="given rho, which is in the file; expected some of"):
        dm.resume(file, build(), metrics=metrics, rho=1.0)
    with pytest.raises(dm.OptionError, match="given penalty, no option; expected some of engine"):
        dm.resume(file, build(), metrics=metrics, penalty=1.0)
    found = dm.resume(file, build(), metrics=metrics)
    assert found.rounds == whole.rounds
    odd = {"own": lambda _: object()}
    with pytest.raises(dm.OptionError, match=r"of the run's rows, builtins.object cannot be kept"):
        build().solve(checkpoint=file, every=1, metrics=odd)
    turns = dm.Sequence.alternate(dm.Sequence.random(2), dm.Sequence.natural())
    with pytest.raises(dm.OptionError, match="counts loops of its own, which no file can hold"):
        build().solve(checkpoint=file, sequence=turns)


def test_a_file_holds_no_data_of_a_client(tmp_path: Path) -> None:
    rows, file = 5000, tmp_path / "run.npz"
    data = np.random.default_rng(0).normal(size=(3, rows, 4))
    x = [cp.Variable(4, name=f"x{i}") for i in range(3)]
    model = dm.Model("large")
    for i in range(3):
        model.client(i, cp.sum(cp.logistic(data[i] @ x[i])) + cp.sum_squares(x[i]))
    model.consensus(x[0] == x[1], x[1] == x[2])
    model.solve(checkpoint=file, every=2)
    with np.load(file, allow_pickle=False) as stored:
        assert all(stored[name].size < rows for name in stored.files if name != "header")
    assert file.stat().st_size < data[0].nbytes


def test_no_class_but_ours_is_made_of_a_file() -> None:
    compiled = build().compile()
    for name in ("subprocess:Popen", "dald_model.engines.processes:Worker", "os:system", "x:y"):
        said = {"class": name, "number": 0, "state": {}}
        with pytest.raises(NotKeptError, match="the class"):
            Reader(compiled, {}).read(said)
