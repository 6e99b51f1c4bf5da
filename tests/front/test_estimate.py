"""The estimate of a round is its formula, and sees what an engine costs."""

from __future__ import annotations

import time
from concurrent.futures import Future

import cvxpy as cp
import pytest

import dald_model as dm
from dald_model.engines.in_process import InProcessHost
from dald_model.estimate import Estimate
from tests.engines.test_sites import at_sites

LATENCY = 0.03


class Far(dm.engines.InProcess):
    """Hosts each of whose replies takes so long to come."""

    def hosts(self) -> list[InProcessHost]:
        return [FarHost(host.name) for host in super().hosts()]


class FarHost(InProcessHost):
    def send(self, message: bytes) -> Future[bytes]:
        reply, ready = super().send(message), time.monotonic() + LATENCY
        take = reply.result

        def result(timeout: float | None = None) -> bytes:
            time.sleep(max(0.0, ready - time.monotonic()))
            return take(timeout)

        reply.result = result  # ty: ignore
        return reply


def model(clients: int = 6) -> dm.Model:
    w, found = cp.Variable(3, name="w"), dm.Model("far")
    for at in range(clients):
        found.client(at, cp.sum_squares(w - at))
    return found


def test_a_round_is_its_parts() -> None:
    """By hand: 1 + 2 (0.5 + 4 * 0.25) + 300 / 100 + 0.125 + 0.25 seconds."""
    found = Estimate(1.0, 0.5, 0.25, 100.0, (0.125, 0.25), 300, 8, 4)
    assert found.seconds == pytest.approx(1 + 2 * 1.5 + 3 + 0.375)
    # Ten times the clients on as many hosts, one level; and on ten times as many
    assert found.at(80) == pytest.approx(10 + 1.5 + 30 + 3.75)
    assert found.at(80, hosts=40) == pytest.approx(10 + 0.5 + 40 * 0.25 + 30 + 0.375)
    assert found.at(80, graph="grid") == pytest.approx(20 + 3.0 + 60 + 3.75)
    # 64 = 8 ** 2 clients: two levels of servers, each with eight below it, all hosts at once
    level = 0.5 + 8 * 0.25 + 8 / 8 * (1 + 3)
    tree = found.at(64, hosts=64, graph="tree", fan_out=8)
    assert tree == pytest.approx(2 * level + 0.375 * 8 * 4 / 64)


def test_what_an_engine_costs_is_seen() -> None:
    """The latency is that of a reply; a round has one level of clients, and so one of it."""
    compiled = model().compile()
    here, far = compiled.estimate(), compiled.estimate(Far(hosts=2))
    assert (here.clients, here.hosts, here.latency) == (6, 0, 0.0)
    assert (far.clients, far.hosts) == (6, 2)
    assert far.latency >= 0.9 * LATENCY
    assert far.seconds - here.seconds >= 0.9 * LATENCY
    assert here.seconds == pytest.approx(here.coordinator + sum(here.solving))
    assert "2 hosts" in str(far)
    assert "this process" in str(here)


def test_of_sites_solving_is_to_be_given() -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("least squares")))
    compiled = federation.compile()
    with pytest.raises(dm.OptionError, match="expected solving="):
        compiled.estimate(federation.engine)
    found = compiled.estimate(federation.engine, solving=0.25)
    assert found.seconds >= 0.25
    assert (found.clients, found.hosts, found.sent) == (3, 3, 3 * 8 * (2 * 4 + 4 + 1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 9, "hosts": 0.5}, "hosts"),
        ({"clients": 9, "graph": "ring"}, "expected 'star', 'tree' or 'grid'"),
        ({"clients": 9, "graph": "tree", "fan_out": 1}, "fan_out"),
    ],
)
def test_what_means_nothing_is_refused(options: dict, said: str) -> None:
    found = Estimate(1.0, 0.5, 0.25, 100.0, (0.125,), 300, 8, 4)
    with pytest.raises(dm.OptionError, match=said):
        found.at(**options)
