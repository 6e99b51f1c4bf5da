"""The iterates of one process on a cluster of Ray, and honest ends where an actor dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from doctest import DocTestFinder, DocTestRunner
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import HostLostError, InProcess, Ray, ray_actors
from dald_model.models import hospitals
from tests.algorithms.test_interior_point import drawn
from tests.engines.declared import ENVIRONMENT, hundred, left, market
from tests.engines.test_engines import rounds, same
from tests.engines.test_members import ALONE, values_by_round


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(dm.OptionError, match=r'pip install "dald_model\[ray\]"'):
        Ray()


@pytest.fixture(scope="module")
def ray() -> Iterator[Ray]:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with Ray(hosts=2) as engine:
        yield engine


def test_it_gives_the_iterates_of_as_many_hosts_here(ray: Ray) -> None:
    many = hundred()
    for model in (market(), many, hospitals.model()):
        same(model.solve(engine=InProcess(2)), found := model.solve(engine=ray))
        assert found.verify(aio=False).ok
    assert found.value == pytest.approx(hospitals.REFERENCE, rel=1e-6)
    plain = {"acceleration": None, "max_rounds": 25}
    same(many.solve(engine=InProcess(2), **plain), many.solve(engine=ray, **plain))


@pytest.mark.parametrize("kind", ["logistic", "quadratic"])
def test_curvature_has_the_iterates_of_one_process(ray: Ray, kind: str) -> None:
    model = drawn(4, kind)[0]
    theirs = values_by_round(model, algorithm=ALONE)[1]
    found, ours = values_by_round(model, disclose="curvature", engine=ray)
    here = model.solve(disclose="curvature", engine=InProcess(2))
    assert (found.status, found.shown) == ("optimal", here.shown)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_its_example_runs(ray: Ray) -> None:
    """As a guest of the cluster of ``ray``; doctest leaves it out, which would start another."""
    for actor in ray.hosts():
        actor.stop()  # there is room for two
    (test,) = (one for one in DocTestFinder(recurse=False).find(Ray) if one.examples)
    for one in test.examples:
        one.options.clear()
    assert DocTestRunner().run(test) == (0, 3)


def test_an_actor_that_is_killed_is_replaced_or_its_clients_are_lost(
    ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, model = count(1), market()

    def strike(_: dm.Iterate) -> int:
        if (now := next(calls)) % 10 == 3:
            pid = ray.hosts()[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        return now

    found = model.solve(engine=ray, metrics={"strike": strike})
    assert [(loss.round, loss.host) for loss in found.losses] == [(4, "actor 0")]
    assert rounds(found)["primal_scaled"].iloc[-1] <= 1e-6
    assert found.verify().ok
    monkeypatch.setattr(ray, "retries", 0)
    calls = count(1)
    with pytest.raises(dm.LostError, match=r"actor 0 was lost 1 time in round 4 .*'area") as caught:
        model.solve(engine=ray, metrics={"strike": strike})
    assert (caught.value.result.status, caught.value.result.rounds) == ("lost", 3)
    calls = count(1)
    found = model.solve(engine=ray, metrics={"strike": strike}, online=dm.Unanswered())
    assert set(found.history["unanswered"].to_list()[3]) == set(found.losses[0].clients)
    assert found.status == "optimal"
    assert found.verify().ok


def test_an_actor_without_a_place_is_lost_and_not_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full:
        """A cluster that places nobody."""

        class exceptions:  # noqa: N801 - Ray's name
            GetTimeoutError = type("GetTimeoutError", (Exception,), {})
            RayError = type("RayError", (Exception,), {})

        handle = ready = None

        def remote(self) -> Any:
            self.ready = self
            return self

        def get(self, _: object, timeout: float) -> None:
            assert timeout == 0.0
            raise self.exceptions.GetTimeoutError

    monkeypatch.setattr(ray_actors, "READY", 0.0)
    cluster: Any = Full()
    actor = ray_actors.Actor("actor 0", cluster, cluster)
    actor.start()
    with pytest.raises(HostLostError, match=r"^the cluster had no place for it within 0 s$"):
        actor.send(b"").result()
    with pytest.raises(HostLostError, match=r"^the cluster had no place for it within 0 s$"):
        actor.restart()


def test_what_the_cluster_cannot_give_is_refused_in_words() -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    for name, value in {"hosts": 0, "retries": -1, "deadline": 0, "threads": 0.5}.items():
        given: dict[str, object] = {name: value}
        with pytest.raises(dm.OptionError, match=f"Ray: given {name}={value}, expected"):
            Ray(**given)  # pyright: ignore[reportArgumentType] - refused
    with pytest.raises(dm.OptionError, match="Ray: given address=7, expected text"):
        Ray(address=7)  # pyright: ignore[reportArgumentType] - refused


@pytest.mark.skipif(not Path("/proc").exists(), reason="/proc tells which processes there are")
def test_nothing_is_left_of_it_when_its_coordinator_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import os, signal, dald_model as dm, ray\n"
        "from tests.engines.declared import market\n"
        "engine = dm.engines.Ray(hosts=1)\n"
        "market().solve(engine=engine)\n"
        "print(ray.get_runtime_context().get_session_name(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    session = ended.stdout.split()[-1]
    assert not left(session, seconds=30)
