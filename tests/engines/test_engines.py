"""The same iterates wherever clients are solved, and honest ends where a host is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import HostLostError, InProcess, Processes, Residents
from tests.engines.declared import market
from tests.engines.messages import DamagedError, decode, encode
from tests.zoo import GRAPHS, PROBLEMS

SEVERAL = [
    "least_squares",
    "lasso",
    "group_lasso",
    "svm",
    "quantile",
    "logistic",
    "simplex",
    "entropy",
    "semidefinite",
    "unequal_dimensions",
]
"""Of the zoo, one or two of each solver."""
LIVES = Path("/proc").exists()
"""Whether what a process does can be read."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(workers=2) as engine:
        yield engine


def rounds(found: dm.Result) -> Any:
    """The history but for what depends on the machine and the engine."""
    return found.history.drop(columns=["seconds", "asked again", "seen", "strike"], errors="ignore")


def same(one: dm.Result, two: dm.Result) -> None:
    """Bit for bit: every round, the last state, the answer and all dual values."""
    left, right = (rounds(found) for found in (one, two))
    assert left.equals(right)
    assert (one.status, one.value, one.answer_round) == (two.status, two.value, two.answer_round)
    assert one.state is not None
    assert two.state is not None
    for what in ("points", "sides", "mu", "rho", "objectives", "slack"):
        np.testing.assert_array_equal(getattr(one.state, what), getattr(two.state, what))
    assert len(one.duals) == len(two.duals)
    for mine, other in zip(one.duals.by_id.values(), two.duals.by_id.values(), strict=True):
        pairs = zip(mine, other, strict=True) if isinstance(mine, list) else [(mine, other)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_host_gives_the_iterates_of_this_process(name: str) -> None:
    graphs = ["star", "chain"][:: 1 if len(name) % 2 else -1]
    for graph, options in zip(graphs, ({}, {"acceleration": None, "max_rounds": 25}), strict=True):
        model = PROBLEMS[name]().on(GRAPHS[graph]()).model
        here = model.solve(**options)
        same(here, model.solve(engine=InProcess(1), **options))
        same(here, model.solve(engine=InProcess(2), **options))


@pytest.mark.parametrize("name", ["logistic", "simplex", "svm"])
def test_processes_give_the_iterates_of_as_many_hosts_here(name: str, processes: Processes) -> None:
    for graph, options in (("star", {}), ("chain", {"acceleration": None, "max_rounds": 25})):
        model = PROBLEMS[name]().on(GRAPHS[graph]()).model
        same(model.solve(engine=InProcess(2), **options), model.solve(engine=processes, **options))


def test_what_has_no_data_stays_here_and_the_answer_is_verified(processes: Processes) -> None:
    model = market()
    found = model.solve(engine=processes)
    same(model.solve(), found)
    assert found.verify().ok


def test_absent_clients_and_metrics_are_as_in_one_process(processes: Processes) -> None:
    model, seen = market(), []
    options: dict[str, Any] = {"online": dm.Dropout(0.3, seed=2), "max_rounds": 40}
    here = model.solve(**options)
    metrics = {"seen": lambda at: seen.append(at.objective) or at.objective}
    there = model.solve(engine=processes, metrics=metrics, **options)
    assert rounds(here).equals(rounds(there))
    assert seen == there.history["objective"].tolist()


def test_a_client_that_its_solver_fails_on_goes_to_the_next_one_there() -> None:
    x, y = cp.Variable(2), cp.Variable(2)
    model = dm.Model("logarithm")
    model.client("a", -cp.sum(cp.log(x)) + cp.sum(x), [x <= 3])
    model.client("b", cp.sum_squares(y - 2))
    model.consensus(x == y)
    same(model.solve(solver={"a": "conic"}), model.solve(solver={"a": "conic"}, engine=InProcess()))


def test_infeasible_and_unbounded_clients_are_named_as_in_one_process() -> None:
    for objective, rules in ((cp.sum_squares, [0]), (cp.sum, [])):
        x, y = cp.Variable(2), cp.Variable(2)
        model = dm.Model("none")
        model.client("a", objective(x), [x >= 1, cp.sum(x) <= 1] if rules else [])
        model.client("b", cp.sum(y) if not rules else cp.sum_squares(y))
        model.consensus(x == y)
        here, there = model.solve(), model.solve(engine=InProcess(2))
        assert (here.status, here.culprit, here.detail) == (
            there.status,
            there.culprit,
            there.detail,
        )
        assert not here.status.has_answer


def test_what_no_engine_can_take_is_refused_in_words() -> None:
    model = PROBLEMS["ridge"]().on(GRAPHS["chain"]()).model
    with pytest.raises(dm.OptionError, match=r"no client can be solved elsewhere.*'reference"):
        model.solve(engine=InProcess(), solver="reference")
    with pytest.raises(dm.OptionError, match=r"engine: given 3, expected .*Processes"):
        model.solve(engine=3)
    wrong: dict[str, Any] = {"workers": 0, "retries": -1, "deadline": 0, "threads": 0.5}
    for name, value in wrong.items():
        with pytest.raises(dm.OptionError, match=f"Processes: given {name}={value}, expected"):
            Processes(**{name: value})


def lethal(engine: Processes, at: int, worker: int = 0, how: int = signal.SIGKILL) -> Any:
    """A metric that kills a process after some round."""
    rounds = count(1)

    def strike(_: dm.Iterate) -> int:
        now, pid = next(rounds), engine.hosts()[worker].pid
        if now == at and pid is not None:
            os.kill(pid, how)
        return now

    return strike


@pytest.mark.parametrize(("at", "worker"), [(1, 0), (3, 1)])
def test_a_killed_process_is_replaced_and_the_run_goes_on(
    at: int, worker: int, processes: Processes
) -> None:
    model = market()
    found = model.solve(engine=processes, metrics={"strike": lethal(processes, at, worker)})
    (loss,) = found.losses
    assert (loss.round, loss.host) == (at + 1, f"process {worker}")
    assert set(loss.clients) <= set(model.clients)
    assert "killed by signal 9" in loss.message
    assert "hosts lost" in str(found)
    assert found.status == "optimal"
    assert found.verify().ok
    assert found.history.loc[at + 1, "asked again"] == loss.clients


def test_a_process_that_is_killed_at_any_moment_costs_nothing_but_time(
    processes: Processes,
) -> None:
    rng, model = np.random.default_rng(0), market()
    workers = processes.hosts()
    pid = workers[rng.integers(2)].pid
    assert pid is not None
    strike = Timer(rng.uniform(0, 0.3), os.kill, (pid, signal.SIGKILL))
    strike.start()
    found = model.solve(engine=processes)
    strike.join()
    assert found.status == "optimal"
    assert found.verify().ok
    assert len(found.losses) <= 1


def test_what_stayed_with_a_process_that_is_killed_after_the_last_round_is_found_again(
    processes: Processes,
) -> None:
    model = market()
    here = model.solve()
    found = model.solve(
        engine=processes, metrics={"strike": lethal(processes, here.rounds, worker=0)}
    )
    assert [loss.round for loss in found.losses] == [here.rounds]
    assert rounds(found).equals(rounds(here))
    for mine, other in zip(found.duals.by_id.values(), here.duals.by_id.values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)


def test_a_process_that_is_lost_too_often_ends_the_run_with_its_rounds(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "retries", 0)
    said = r"process 0 was lost 1 time in round 4 .*'area"
    with pytest.raises(dm.LostError, match=said) as caught:
        market().solve(engine=processes, metrics={"strike": lethal(processes, 3)})
    assert caught.value.result.rounds == 3
    assert caught.value.result.status == "lost"
    assert np.isfinite(caught.value.result.value)


def test_a_deadline_is_one_whatever_the_process_does(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = market()
    model.solve(engine=processes)  # they are there, and have their clients
    monkeypatch.setattr(processes, "deadline", 2.0)
    monkeypatch.setattr(processes, "retries", 0)
    strike = lethal(processes, 2, how=signal.SIGSTOP)
    with pytest.raises(dm.RunError, match=r"no reply within 2\.0 s"):
        model.solve(engine=processes, metrics={"strike": strike})
    monkeypatch.undo()
    assert model.solve(engine=processes).status == "optimal"


@pytest.mark.skipif(not LIVES, reason="/proc tells which processes there are")
def test_processes_end_with_their_coordinator_however_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import os, signal, dald_model as dm\n"
        "engine = dm.engines.Processes(workers=1)\n"
        "print(*(host.pid for host in engine.hosts()), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == -signal.SIGKILL
    left = [Path(f"/proc/{pid}/cmdline") for pid in ended.stdout.split()]
    assert len(left) == 1
    for _ in range(400):
        if not any(b"engines.worker" in path.read_bytes() for path in left if path.exists()):
            return
        time.sleep(0.05)
    pytest.fail("a process is still there")


class Unreliable:
    """An engine of one's own: hosts that get each message twice, and are lost at random."""

    retries, deadline = 8, None
    interchangeable = False

    def __init__(self, share: float, seed: int, count: int = 2) -> None:
        rng = np.random.default_rng(seed)
        self._hosts = [UnreliableHost(f"host {at}", share, rng) for at in range(count)]

    def hosts(self) -> list[UnreliableHost]:
        return self._hosts


class UnreliableHost:
    def __init__(self, name: str, share: float, rng: np.random.Generator) -> None:
        self.name, self._share, self._rng = name, share, rng
        self._residents = Residents()

    def send(self, message: bytes) -> Future[bytes]:
        reply: Future[bytes] = Future()
        if self._rng.random() < self._share:
            self._residents = Residents()
            reply.set_exception(HostLostError("drawn"))
            return reply
        first = self._residents.handle(message)
        assert self._residents.handle(message) is first
        reply.set_result(first)
        return reply

    def restart(self) -> None:
        self._residents = Residents()


@pytest.mark.parametrize("name", ["ridge", "lasso", "simplex"])
def test_runs_whose_hosts_are_lost_at_random_all_find_the_optimum(name: str) -> None:
    model = PROBLEMS[name]().on(GRAPHS["chain"]()).model
    losses = 0
    for seed in range(3):
        found = model.solve(engine=Unreliable(0.1, seed))
        assert found.status == "optimal"
        assert found.verify().ok
        losses += len(found.losses)
    assert losses > 3


def test_what_does_not_depend_on_warm_starts_is_the_same_whoever_is_lost() -> None:
    model = PROBLEMS["ridge"]().on(GRAPHS["chain"]()).model
    same(model.solve(), model.solve(engine=Unreliable(0.0, seed=0)))
    found = model.solve(engine=Unreliable(0.2, seed=1))
    assert found.losses
    same(model.solve(), found)


def test_messages_arrive_as_they_were_sent_and_damaged_ones_are_refused() -> None:
    arrays = {
        "a": np.linspace(0, 1, 6).reshape(2, 3).T,
        "b": np.arange(3),
        "c": np.zeros(0),
        "d": np.array([3, 4], dtype=np.uint8),
    }
    message = encode({"number": 4}, arrays)
    found = decode(message)
    assert found.said == {"number": 4}
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    for damaged in (b"", message[:-1], message + b"0", message[:20], message[8:]):
        with pytest.raises(DamagedError):
            decode(damaged)
