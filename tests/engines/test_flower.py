"""Flower's messages carry a federation: the same iterates, no data, and honest ends.

The grid is one in this process, with Flower's own messages, records and client apps. Its own
simulation and deployment, with TLS, keys and processes, are those of ``notebooks/hospitals``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import flower
from dald_model.errors import RunError
from tests.engines.declared import ENVIRONMENT, REPOSITORY, block
from tests.engines.flower_node import answered
from tests.engines.messages import decode
from tests.engines.test_engines import rounds
from tests.engines.test_members import ALONE, in_rounds, values_by_round
from tests.engines.test_sites import (
    ROWS,
    ROWS_ASKED,
    SIZE,
    at_sites,
    hospital_sites,
    in_one_place,
)

flwr = pytest.importorskip("flwr", reason="Flower is not installed: pip install dald_model[flower]")


@pytest.fixture(autouse=True)
def _task() -> None:
    """What Flower sets in the process of a ServerApp."""
    task = import_module("flwr.supercore.task_identity").TaskIdentity
    task.run_id, task.node_id, task.task_id = 1, 1, 1


class LocalGrid:
    """A grid whose nodes are client apps in this process, behind Flower's protobuf messages."""

    def __init__(self, sites: list[dm.Site]) -> None:
        self.sites = dict(enumerate(sites, start=100))
        self.contexts: dict[int, Any] = {}
        self.sent: list[tuple[bytes, int]] = []
        self.wire: list[bytes] = []
        self.before: Callable[[int, int], Any] = lambda node, number: None
        self._replies: dict[str, Any] = {}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.sites)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        found = []
        for message in messages:
            node, number = message.metadata.dst_node_id, len(self.sent)
            name = f"message {number}"
            message.metadata._message_id = name
            self.sent.append((message.content[flower.RECORD][flower.FIELD], node))
            ended = self.before(node, number)
            if ended == "silent":
                reply = None
            elif ended is not None:
                reply = flwr.app.Message(flwr.app.Error(code=5, reason=ended), reply_to=message)
            else:
                reply = self._answered(node, message)
            self._replies[name] = reply
            found.append(name)
        return found

    def _answered(self, node: int, message: Any) -> Any:
        config, state = {"partition-id": node - 100}, flwr.app.RecordDict()
        context = self.contexts.setdefault(
            node,
            flwr.app.Context(
                run_id=0, node_id=node, node_config=config, state=state, run_config={}
            ),
        )
        return self._passed(self.app(node)(self._passed(message), context))

    def app(self, node: int) -> Any:
        """The client app of a node."""
        return dm.engines.flower.client_app(lambda context: self.sites[node])

    def _passed(self, message: Any) -> Any:
        """The message as it comes out at the other end of the wire."""
        objects = import_module("flwr.supercore.inflatable.inflatable_object")
        inflate = import_module("flwr.supercore.inflatable.inflatable_utils")
        nested = objects.get_all_nested_objects(message)
        contents = {key: one.deflate() for key, one in nested.items()}
        self.wire += contents.values()
        return inflate.inflate_object_from_contents(message.object_id, contents)

    def pull_messages(self, numbers: Iterable[str]) -> list[Any]:
        found = [self._replies.get(number) for number in numbers]
        return [one for one in found if one is not None]


class Scattered(LocalGrid):
    """Nodes whose messages come to whichever of two processes is free, as in Flower's simulation.

    Or, if these forget, to another process each, as in its deployment.
    """

    def __init__(self, kind: str, processes: ProcessPoolExecutor, *, forgets: bool) -> None:
        super().__init__(at_sites(kind, "curvature"))
        self.kind, self.processes, self.forgets = kind, processes, forgets
        self.logs: dict[int, list[bytes]] = {}
        self.declared = 0

    def _answered(self, node: int, message: Any) -> Any:
        at, asked = node - 100, message.content[flower.RECORD][flower.FIELD]
        log = self.logs.get(at, [])
        job = self.processes.submit(answered, self.kind, at, log, asked, self.forgets)
        reply, self.logs[at], self.declared = job.result()
        record = flwr.app.ConfigRecord({flower.FIELD: reply})
        return flwr.app.Message(flwr.app.RecordDict({flower.RECORD: record}), reply_to=message)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Two that begin with nothing: forked ones would have what this process holds."""
    with ProcessPoolExecutor(2, get_context("spawn")) as found:
        yield found


@pytest.mark.parametrize(
    ("kind", "options"),
    [("logistic", {}), ("hinge", {}), ("logistic", {"disclose": "curvature"})],
)
def test_a_site_in_whatever_process_has_the_same_iterates(
    processes: ProcessPoolExecutor, kind: str, options: Any
) -> None:
    """Also of a second solve."""
    grid = Scattered(kind, processes, forgets=False)
    with dm.engines.Flower(grid, sites=3, retries=0) as engine:
        federation = dm.Federation(engine)
        found = [federation.solve(max_rounds=4, **options), federation.solve(**options)]
    same = dm.Federation(dm.engines.Sites(at_sites(kind, "curvature")))
    wanted = [same.solve(max_rounds=4, **options), same.solve(**options)]
    for one, other in zip(found, wanted, strict=True):
        assert rounds(one).equals(rounds(other))
        assert one.shown == other.shown


def test_a_site_in_another_process_for_each_message_has_the_same_iterates(
    processes: ProcessPoolExecutor,
) -> None:
    grid = Scattered("logistic", processes, forgets=True)
    before = processes.submit(len, []).result()
    with dm.engines.Flower(grid, sites=3, retries=0) as engine:
        found = dm.Federation(engine).solve(max_rounds=4)
    wanted = dm.Federation(dm.engines.Sites(at_sites("logistic"))).solve(max_rounds=4)
    assert rounds(found).equals(rounds(wanted))
    assert grid.declared > before + 10


def test_a_node_whose_declare_gives_no_site_is_said() -> None:
    app = dm.engines.flower.client_app(lambda context: "site")  # type: ignore[arg-type,return-value] - refused
    content = flwr.app.RecordDict({flower.RECORD: flwr.app.ConfigRecord({flower.FIELD: b""})})
    asked = flwr.app.Message(content, 1, "query")
    state = flwr.app.RecordDict()
    context = flwr.app.Context(run_id=1, node_id=1, node_config={}, state=state, run_config={})
    with pytest.raises(dm.DeclarationError, match=r"declare gave a str for the node config \{\}"):
        app(asked, context)


def test_a_strategy_gives_flower_s_own_record() -> None:
    seen = {}

    def shown(at: int, arrays: Any) -> Any:
        seen[at] = arrays["w"].numpy()
        return flwr.app.MetricRecord({"largest": float(seen[at].max())})

    strategy = dm.engines.flower.Strategy(sites=3, eps_pri=1e-7)
    found = strategy.start(grid=LocalGrid(at_sites("logistic")), num_rounds=300, evaluate_fn=shown)
    wanted = dm.Federation(dm.engines.Sites(at_sites("logistic"))).solve(eps_pri=1e-7)
    assert isinstance(found, flwr.serverapp.strategy.Result)
    assert strategy.result.status == "optimal"
    assert list(found.arrays) == ["w"]
    assert (found.arrays["w"].numpy() == wanted["w"]).all()
    told = [found.train_metrics_clientapp[at]["objective"] for at in sorted(seen)]
    assert told == list(wanted.history.objective)
    assert sorted(found.evaluate_metrics_serverapp) == list(range(1, wanted.rounds + 1))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"initial_arrays": 1}, "expected none: a run starts at the sites' own minimisers"),
        ({"train_config": {}}, "expected none: a site's objective is declared at the site"),
    ],
)
def test_what_means_nothing_to_a_strategy_is_refused(start: Any, said: str) -> None:
    grid = LocalGrid(at_sites("logistic"))
    with pytest.raises(dm.OptionError, match=said):
        dm.engines.flower.Strategy(sites=3).start(grid=grid, **start)
    with pytest.raises(dm.OptionError, match=r"expected it in start\(num_rounds=\.\.\.\)"):
        dm.engines.flower.Strategy(sites=3, max_rounds=3)


def test_examples_of_client_app_and_strategy_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(block(dm.engines.flower.client_app), names)
    grid = LocalGrid(at_sites("logistic"))
    grid.app = lambda node: names["app"]
    exec(block(dm.engines.flower.Strategy), names)
    names["app"], app = None, names["app"]
    exec(block(dm.engines.flower.client_app), names)
    app(grid, None)
    assert capsys.readouterr().out == "optimal ['w']\n"


def test_four_hospitals_in_flower_s_own_simulation() -> None:
    """By the Flower app of the notebooks; the value is that of the all-in-one solve."""
    pytest.importorskip(
        "ray", reason="ray is not installed: pip install dald_model[flower-simulation]"
    )
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there, for the certificate of Flower's SuperLink")
    script = REPOSITORY / "notebooks" / "hospitals" / "run.py"
    done = subprocess.run(
        [sys.executable, str(script), "simulation"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert "optimal" in done.stdout
    found = re.search(r"all-in-one: ([\d.]+), federation: ([\d.]+); ", done.stdout)
    assert found is not None
    assert float(found[1]) == pytest.approx(float(found[2]), rel=1e-6)


def test_the_iterates_are_those_of_sites_in_this_process_bit_for_bit() -> None:
    from dald_model.datasets import load_hospitals, standardised_together

    data = standardised_together(load_hospitals())
    with dm.engines.Flower(LocalGrid(hospital_sites(data)), sites=4) as engine:
        found = dm.Federation(engine).solve()
    wanted = dm.Federation(dm.engines.Sites(hospital_sites(data))).solve()
    assert found.status == "optimal"
    assert rounds(found).equals(rounds(wanted))


@pytest.mark.parametrize(("kind", "spared"), [("separable", 0), ("lasso", 7)])
def test_curvature_has_the_iterates_and_the_bytes_of_one_place(kind: str, spared: int) -> None:
    """A round with cones spares six sums, and with quadratic terms the test of the domain."""
    grid = LocalGrid(at_sites(kind, "curvature"))
    with dm.engines.Flower(grid, sites=3) as engine:
        federation = dm.Federation(engine)
        found, ours = values_by_round(federation, disclose="curvature")
    wanted, theirs = values_by_round(in_one_place(kind), algorithm=ALONE)
    assert (found.status, found.rounds) == ("optimal", wanted.rounds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    stated = (sum(found.shown.values()) - 3 * 8 * spared) * found.rounds
    sent = [r.content[flower.RECORD][flower.FIELD] for r in grid._replies.values()]
    assert in_rounds(sent, [message for message, _ in grid.sent]) == stated


@pytest.mark.parametrize("kind", ["logistic", "lasso"])
def test_no_array_of_the_size_of_data_is_in_a_message(kind: str) -> None:
    """In what is said of them, and in all bytes: none is longer than the largest array and JSON."""
    grid = LocalGrid(at_sites(kind))
    with dm.engines.Flower(grid, sites=3) as engine:
        dm.Federation(engine).solve()
    assert grid.sent
    for message, _ in grid.sent:
        for name, array in decode(message).arrays.items():
            assert name.startswith("client ") or array.size <= ROWS_ASKED * SIZE
    assert b"own 0" not in b"".join(grid.wire)
    assert max(map(len, grid.wire)) < 8 * ROWS * SIZE


def test_its_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(block(dm.engines.Flower), names)
    names["app"](LocalGrid(at_sites("least squares")), None)
    assert capsys.readouterr().out == "optimal\n"


def test_a_site_that_fails_once_is_asked_again() -> None:
    grid = LocalGrid(at_sites("least squares"))
    grid.before = lambda node, number: "the client app ended" if number == 16 else None
    with dm.engines.Flower(grid, sites=3) as engine:
        found = dm.Federation(engine).solve()
    assert found.status == "optimal"
    (loss,) = found.losses
    assert "the client app ended" in loss.message
    assert found.value == pytest.approx(
        dm.Federation(dm.engines.Sites(at_sites("least squares"))).solve().value, rel=1e-6
    )


def test_a_site_that_is_silent_ends_the_run_by_its_deadline() -> None:
    """With what was found; whatever Flower's own waiting does."""
    grid = LocalGrid(at_sites("least squares"))
    released = threading.Event()

    def stall(node: int, number: int) -> None:
        if number >= 24 and node == 101:  # some rounds after the start
            released.wait(60.0)  # as a SuperNode does that died while it sent its reply

    grid.before = stall
    with dm.engines.Flower(grid, sites=3, retries=0, deadline=3.0) as engine:
        begun = time.monotonic()
        with pytest.raises(RunError, match=r"node 101 was lost 1 time") as caught:
            dm.Federation(engine).solve()
        assert caught.value.result.rounds > 0
        released.set()
    assert time.monotonic() - begun < 30.0


def test_too_few_sites_are_said() -> None:
    engine = dm.engines.Flower(LocalGrid(at_sites("least squares")), sites=4, deadline=0.3)
    with pytest.raises(RunError, match=r"3 sites connected within 0\.3 s, expected 4"):
        dm.Federation(engine)


def test_what_is_no_grid_is_refused() -> None:
    with pytest.raises(dm.OptionError, match="expected the grid that Flower hands"):
        dm.engines.Flower("grid", sites=2)
