"""Solves in several threads and processes: each answer is right."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def mean_model(targets: Any, x: cp.Variable | None = None, solver: str = "auto") -> dm.Model:
    """Of sum_i (w - t_i)^2 the minimum is that at the mean."""
    w = cp.Variable(name="w") if x is None else x
    model = dm.Model("mean")
    for i, t in enumerate(targets):
        model.client(i, cp.square(w - t) + cp.pos(-w))
    return model


def least(targets: Any) -> float:
    return float(np.sum((np.array(targets) - np.mean(targets)) ** 2))


def solved(targets: list[float]) -> tuple[float, float]:
    """To be run in another process: what is given and what comes back is data."""
    model = mean_model(targets)
    result = model.solve()
    return result.value, float(result[model.variables[0]])


CLOSE = 1e-4
"""What `verify` allows, relative."""
TARGETS = [[float(seed), 2.0 * seed + 1, 7.0] for seed in range(1, 7)]


@pytest.fixture
def _impatient() -> Any:
    """Threads are switched as often as may be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("solver", ["auto", "reference"])
def test_threads_solve_models_of_their_own(solver: str) -> None:
    def work(targets: list[float]) -> tuple[float, bool]:
        result = mean_model(targets).solve(solver=solver, eps_pri=1e-5, eps_dual=1e-5)
        return result.value, result.verify().ok

    with ThreadPoolExecutor(4) as pool:
        for targets, (value, is_right) in zip(TARGETS, pool.map(work, TARGETS), strict=True):
            assert value == pytest.approx(least(targets), rel=CLOSE)
            assert is_right


@pytest.mark.usefixtures("_impatient")
def test_threads_solve_models_that_share_their_variables() -> None:
    """A variable has one value; each thread sees that of its own solve in its result."""
    w = cp.Variable(name="w")
    models = [mean_model(targets, w) for targets in TARGETS]

    def work(model: dm.Model) -> tuple[float, float]:
        result = model.solve(solver="reference", eps_pri=1e-5, eps_dual=1e-5)
        return result.value, float(result[w])

    with ThreadPoolExecutor(4) as pool:
        for targets, (value, at) in zip(TARGETS, pool.map(work, models), strict=True):
            assert value == pytest.approx(least(targets), rel=CLOSE)
            assert at == pytest.approx(np.mean(targets), rel=CLOSE)


@pytest.mark.usefixtures("_impatient")
def test_threads_solve_one_model() -> None:
    model = mean_model(TARGETS[0])

    def work(rho: float) -> tuple[float, bool]:
        result = model.solve(rho=rho, solver="reference", eps_pri=1e-5, eps_dual=1e-5)
        return result.value, result.verify().ok

    with ThreadPoolExecutor(4) as pool:
        for value, is_right in pool.map(work, [1.0, 2.0]):
            assert value == pytest.approx(least(TARGETS[0]), rel=CLOSE)
            assert is_right


def test_a_solve_within_a_solve() -> None:
    """A metric may solve the very model."""
    model = mean_model(TARGETS[0])
    once = model.solve()
    result = model.solve(metrics={"again": lambda at: model.solve().value}, max_rounds=5)
    np.testing.assert_array_equal(result.history.objective, once.history.objective[: result.rounds])
    assert result.history.again.to_numpy() == pytest.approx(least(TARGETS[0]), rel=CLOSE)


@pytest.mark.slow
def test_a_spawned_process_solves() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        value, at = pool.submit(solved, TARGETS[0]).result(timeout=120)
    assert value == pytest.approx(least(TARGETS[0]), rel=CLOSE)
    assert at == pytest.approx(np.mean(TARGETS[0]), rel=CLOSE)


forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


def forked(work: Callable[[], Any]) -> Any:
    """What a function gives in a forked process, which has all that this one has."""
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(work()))
    child.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(60) else None
    finally:
        child.kill()
        child.join()


@forks
def test_a_forked_process_solves_the_model_of_its_parent() -> None:
    model = mean_model(TARGETS[0])
    here = model.solve()
    value, is_right = forked(lambda: ((r := model.solve()).value, r.verify().ok))
    assert value == here.value
    assert is_right
    assert model.solve(start=here).value == pytest.approx(least(TARGETS[0]), rel=CLOSE)


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python's, of such a fork
def test_a_process_forked_while_a_thread_solves_does_not_wait_for_it() -> None:
    """The thread is not in the child, and nobody there would ever let it go on."""
    model = mean_model(TARGETS[0])
    begun, may_end = threading.Event(), threading.Event()

    def waits(_: Any) -> None:
        begun.set()
        may_end.wait(60)

    thread = threading.Thread(target=lambda: model.solve(metrics={"wait": waits}, max_rounds=1))
    thread.start()
    try:
        assert begun.wait(60)
        other = mean_model(TARGETS[1])
        assert forked(lambda: other.solve().value) == pytest.approx(least(TARGETS[1]), rel=CLOSE)
    finally:
        may_end.set()
        thread.join()


@forks
def test_a_result_does_not_come_back_from_a_process() -> None:
    model = mean_model(TARGETS[0])

    def says() -> str:
        try:
            return str(ForkingPickler.dumps(model.solve()))
        except dm.CopyError as error:
            return str(error)

    assert forked(says).startswith("Result: cannot be pickled or sent to another process")
