"""Runs that go on without clients that an engine has no answer from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import HostLostError, Residents
from tests.engines.declared import market
from tests.engines.messages import decode
from tests.zoo import GRAPHS, PROBLEMS


class Silent:
    """An engine whose last host does not answer in some rounds."""

    retries, deadline = 1, None
    interchangeable = False

    def __init__(self, is_silent: Callable[[int], bool], count: int = 2) -> None:
        never = [lambda _: False] * (count - 1)
        silences = [*never, is_silent]
        self._hosts = [SilentHost(f"host {at}", each) for at, each in enumerate(silences)]

    def hosts(self) -> list[SilentHost]:
        return self._hosts


class SilentHost:
    def __init__(self, name: str, is_silent: Callable[[int], bool]) -> None:
        self.name, self.is_silent = name, is_silent
        self._residents = Residents()

    def send(self, message: bytes) -> Future[bytes]:
        reply: Future[bytes] = Future()
        if self.is_silent(decode(message).said["round"]):
            reply.set_exception(HostLostError("it is silent"))
        else:
            reply.set_result(self._residents.handle(message))
        return reply

    def restart(self) -> None:
        self._residents = Residents()


def missed(found: dm.Result) -> dict[int, tuple[Any, ...]]:
    names = found.history["unanswered"].to_list()
    return {round_: who for round_, who in enumerate(names, start=1) if who}


@pytest.mark.parametrize("graph", ["star", "chain"])
def test_who_does_not_answer_is_absent_and_then_asked_again(graph: str) -> None:
    """The very iterates of a schedule in which these clients are absent in these rounds."""
    model = PROBLEMS["ridge"]().on(GRAPHS[graph]()).model
    options: dict[str, Any] = {"acceleration": None, "max_rounds": 40}
    engine = Silent(lambda round_: round_ in (3, 4, 9))
    found = model.solve(engine=engine, online=dm.Unanswered(), **options)
    assert list(missed(found)) == [3, 4, 9]
    (who,) = set(missed(found).values())
    told = model.solve(online={at: dm.Change(absent=who) for at in (3, 4, 9)}, **options)
    columns = ["primal", "dual", "primal_scaled", "dual_scaled", "objective", "rho"]
    assert found.history[columns].equals(told.history[columns])
    assert found.state is not None
    assert told.state is not None
    np.testing.assert_array_equal(found.state.points, told.state.points)
    np.testing.assert_array_equal(found.state.mu, told.state.mu)


def test_a_run_whose_clients_return_is_optimal_and_one_without_them_is_reduced() -> None:
    model = market()
    found = model.solve(engine=Silent(lambda at: at in (2, 5, 6)), online=dm.Unanswered())
    assert list(missed(found)) == [2, 5, 6]
    assert found.status == "optimal"
    assert found.verify().ok
    gone = model.solve(engine=Silent(lambda at: at >= 4), online=dm.Unanswered(leave_after=3))
    names = missed(gone)[4]
    assert missed(gone) == dict.fromkeys((4, 5, 6), names)
    assert gone.status == "reduced"
    assert all(f"client {name!r} left before round 7" in gone.detail for name in names)


@pytest.mark.xfail(reason="all that is left is zero, and residuals of 4e-7 are not small beside it")
def test_what_is_left_of_a_market_without_its_sellers_is_verified() -> None:
    gone = market().solve(engine=Silent(lambda at: at >= 4), online=dm.Unanswered(leave_after=3))
    assert gone.verify().ok


def test_without_it_the_run_ends_with_what_was_found() -> None:
    with pytest.raises(dm.LostError, match=r"host 1 was lost 2 times in round 4") as caught:
        market().solve(engine=Silent(lambda at: at >= 4))
    result = caught.value.result
    assert (result.status, result.rounds) == ("lost", 3)
    assert np.isfinite(result.value)
    assert "lost" in str(result)
    with pytest.raises(dm.LostError, match=r"host 1 was lost 2 times before round 1") as caught:
        market().solve(engine=Silent(lambda _: True), online=dm.Unanswered())
    assert caught.value.result is None


def test_a_stale_answer_never_passes_for_an_optimum() -> None:
    model = market()
    found = model.solve(
        engine=Silent(lambda at: at >= 3), online=dm.Unanswered(), max_rounds=60, eps_dual=1e-3
    )
    assert not found.status.has_answer


@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
def test_what_means_nothing_is_refused(value: Any) -> None:
    with pytest.raises(dm.OptionError, match=r"Unanswered: given leave_after=.*expected a whole"):
        dm.Unanswered(leave_after=value)
