"""What is on the wire is what the list says, and no array of a round is as large as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import Processes, sent
from tests.engines.messages import decode

ROWS, SIZE = 700, 4


def model(kind: str, count: int = 4) -> dm.Model:
    """Clients with far more rows of data than variables, in a chain."""
    found, x = dm.Model(kind), [cp.Variable(SIZE, name=f"x{i}") for i in range(count)]
    for i in range(count):
        rng = np.random.default_rng(i)
        A = rng.normal(size=(ROWS, SIZE))
        margin = cp.multiply(np.sign(A @ np.ones(SIZE) + rng.normal(size=ROWS)), A @ x[i])
        objective, rules = cp.sum_squares(x[i]), []
        if kind == "logistic":
            objective += cp.sum(cp.logistic(-margin))
        if kind == "hinge":
            objective += cp.sum(cp.pos(1 - margin))
        if kind == "rows":
            objective, rules = cp.sum_squares(x[i] - 1), [A @ x[i] <= 1]
        found.client(i, objective, rules)
    found.consensus(*(x[i] == x[i + 1] for i in range(count - 1)))
    return found


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(workers=1) as engine:
        yield engine


@pytest.mark.parametrize("kind", ["logistic", "hinge", "rows"])
def test_what_passes_in_a_round_is_what_the_list_says(
    kind: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[tuple[bytes, Future[bytes]]] = []
    worker: Any = type(processes.hosts()[0])
    send = worker.send

    def listen(self: Any, message: bytes) -> Future[bytes]:
        messages.append((message, send(self, message)))
        return messages[-1][1]

    monkeypatch.setattr(worker, "send", listen)
    declared = model(kind)
    listed = sent(declared.compile())
    result = declared.solve(engine=processes)
    assert result.status == "optimal"
    last: Counter[str] = Counter()
    for message, reply in messages:
        said, arrays = decode(message)
        answered = decode(reply.result(timeout=60.0)).arrays
        if "collect" in said:
            end = listed[listed.when == "at the end"]
            assert answered["values"].size == end["size"].sum()
            continue
        told = {name: array for name, array in arrays.items() if not name.startswith("client ")}
        assert len(arrays) - len(told) in (0, 4)  # they come once, or around another point
        for name, array in (told | answered).items():
            assert array.size < ROWS, name
            last[name.split(".")[1]] = max(last[name.split(".")[1]], array.size)
    most = listed[listed.when != "at the end"].groupby("name")["size"].sum()
    del last["which"]
    assert set(last) <= set(most.index) - {"client"}
    assert {"mu", "neighbours", "points", "objectives"} <= set(last)
    for name, size in last.items():
        assert size <= most[name]


def test_a_round_that_changes_little_sends_little(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one penalty and no acceleration: multipliers and neighbours' values, byte by byte."""
    seen: list[tuple[dict[str, Any], Future[bytes]]] = []
    worker: Any = type(processes.hosts()[0])
    send = worker.send

    def listen(self: Any, message: bytes) -> Future[bytes]:
        reply = send(self, message)
        seen.append((decode(message).arrays, reply))
        return reply

    monkeypatch.setattr(worker, "send", listen)
    declared = model("logistic")
    listed = sent(declared.compile())
    options: dict[str, Any] = {"acceleration": None, "rho": 1.0, "eps_pri": 0.0, "max_rounds": 9}
    declared.solve(engine=processes, **options)
    rounds = [pair for pair in seen if any("mu" in name for name in pair[0])][-2:]
    each = listed[listed.when == "each round"].groupby("way")["bytes"].sum()
    there = sum(a.nbytes for arrays, _ in rounds for n, a in arrays.items() if "which" not in n)
    back = sum(
        a.nbytes for _, reply in rounds for a in decode(reply.result(timeout=60.0)).arrays.values()
    )
    assert (there, back) == (each["to the client"], each["from the client"])


def test_who_stays_here_sends_nothing_and_the_list_is_by_edge() -> None:
    x, demand = [cp.Variable(2, name=f"x{i}") for i in range(3)], 4.0
    market = dm.Model("market")
    for i in range(3):
        market.client(f"area {i}", cp.sum_squares(x[i] - i), [x[i] >= 0])
    market.couple(cp.sum(sum(x)) == demand, name="balance")
    listed = sent(market.compile())
    assert set(listed["client"]) == {"area 0", "area 1", "area 2"}
    of_one = listed[listed["client"] == "area 1"]
    assert of_one[of_one["edge"] == "balance"]["size"].tolist() == [1, 1, 1]
    rows = of_one[of_one["name"] == "multipliers"]
    assert rows[["size", "bytes", "when"]].values.tolist() == [[2, 16, "at the end"]]
    packed = of_one[of_one["name"] == "client"]["bytes"].item()
    assert packed == len(dm.pack(market.compile()["area 1"]))
