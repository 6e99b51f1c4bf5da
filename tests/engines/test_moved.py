"""Clients of a host that is lost for good are solved at another one, with the same iterates."""

from __future__ import annotations

import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import HostLostError, InProcess, Processes
from tests.engines.declared import market
from tests.engines.test_engines import Unreliable, rounds, same
from tests.engines.test_unanswered import Silent
from tests.zoo import GRAPHS, PROBLEMS


class Moving(Silent):
    """The last host is silent in some rounds; another one may have its clients."""

    interchangeable = True


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("graph", ["star", "chain"])
def test_the_iterates_are_those_of_one_process_from_whichever_round(graph: str, first: int) -> None:
    """Round 0 is before the first one, when clients are placed and measured."""
    model = PROBLEMS["ridge"]().on(GRAPHS[graph]()).model
    found = model.solve(engine=Moving(lambda at: at >= first))
    assert [(loss.round, loss.host) for loss in found.losses] == 2 * [(first, "host 1")]
    assert [loss.message for loss in found.losses] == [
        "it is silent",
        "it is silent; its clients are at host 0 now",
    ]
    same(model.solve(), found)


def test_multipliers_are_those_of_the_best_round_of_each_group_that_shares_a_host() -> None:
    model = market()
    here = model.solve()
    found = model.solve(engine=Moving(lambda _: True, count=3))
    assert rounds(found).drop(columns="asked again", errors="ignore").equals(rounds(here))
    assert found.verify().ok
    for mine, other in zip(found.duals.by_id.values(), here.duals.by_id.values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)


class Exchanged(Unreliable):
    """Hosts that are lost at random, and may have each other's clients."""

    retries, interchangeable = 1, True


@pytest.mark.parametrize("name", ["ridge", "lasso", "simplex"])
def test_whoever_is_lost_with_others_clients_has_them_placed_again(name: str) -> None:
    """A host of several groups is restarted for one of them; the others' clients are gone, too."""
    model = PROBLEMS[name]().on(GRAPHS["chain"]()).model
    moved = 0
    for seed in range(4):
        found = model.solve(engine=Exchanged(0.15, seed, count=3))
        assert found.status == "optimal"
        assert found.verify().ok
        moved += sum("now" in loss.message for loss in found.losses)
    assert moved > 1


def test_who_is_silent_as_well_gets_nobodys_clients() -> None:
    """Of four hosts the last two are lost at once, and each is next to the other."""
    engine, model = Moving(lambda at: at >= 4, 4), PROBLEMS["ridge"]().on(GRAPHS["star"]()).model
    engine.hosts()[2].is_silent = engine.hosts()[3].is_silent
    found = model.solve(engine=engine)
    same(model.solve(), found)
    moved = [loss.message.split("at ")[-1] for loss in found.losses if "now" in loss.message]
    assert sorted(moved) == ["host 0 now", "host 1 now"]


def test_where_nobody_is_left_the_error_names_all_that_were_tried() -> None:
    engine = Moving(lambda _: True, count=1)
    with pytest.raises(dm.LostError, match=r"engine: host 0 was lost 2 times before round 1"):
        market().solve(engine=engine)
    engine = Exchanged(1.0, seed=0)
    said = r"host 0 was lost 2 times and host 1 was lost 2 times before round 1 \(drawn\)"
    with pytest.raises(dm.LostError, match=said):
        market().solve(engine=engine)


def test_hosts_with_data_of_their_own_take_nobody_elses() -> None:
    with pytest.raises(dm.LostError, match=r"engine: host 1 was lost 2 times before round 1 \("):
        market().solve(engine=Silent(lambda _: True))


def test_a_process_that_the_machine_does_not_start_leaves_its_clients_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = market()
    with Processes(workers=2) as engine:
        first, second = engine.hosts()
        second.stop()
        monkeypatch.setattr("sys.executable", "/nowhere/python")
        with pytest.raises(HostLostError, match="no process could be started"):
            second.restart()
        found = model.solve(engine=engine)
        assert [loss.host for loss in found.losses] == ["process 1"]
        assert "No such file" in found.losses[0].message
        assert "its clients are at process 0 now" in found.losses[0].message
        assert rounds(found).equals(rounds(model.solve(engine=InProcess(2))))
        first.stop()
        with pytest.raises(dm.LostError, match=r"process 0 .* and process 1 .* before round 1"):
            model.solve(engine=engine)
