"""Whatever a site replies: its name and the field are said, and the others can go on without."""

from __future__ import annotations

import re
import resource
import socket
import threading
import time
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

import dald_model as dm
from tests.engines import misbehaving, mutants
from tests.engines.messages import decode, encode
from tests.engines.misbehaving import ALL, BEFORE, IN_ROUNDS, LIES, OTHERS, federation


@pytest.mark.parametrize("case", IN_ROUNDS)
def test_a_refused_reply_is_a_lost_host_with_a_name(case: str) -> None:
    with pytest.raises(dm.LostError, match=r"engine: s3 was lost 1 time in round 3 \(") as caught:
        federation("asks", IN_ROUNDS[case]).solve(max_rounds=50)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()
    result = caught.value.result
    assert (result.status, result.rounds) == ("lost", 2)
    assert {(loss.host, loss.clients) for loss in result.losses} == {("s3", ("s3",))}


@pytest.mark.parametrize("case", list(IN_ROUNDS)[::5])  # all are lost in the same way
def test_the_others_finish_without_a_site_whose_replies_are_refused(case: str) -> None:
    found = federation("asks", IN_ROUNDS[case]).solve(online=dm.Unanswered(leave_after=2))
    assert found.status == "reduced"
    assert "'s3' left" in found.detail
    assert found["w"] == pytest.approx(OTHERS, abs=1e-6)


@pytest.mark.parametrize("case", BEFORE)
def test_a_refused_introduction_names_the_site_and_the_field(case: str) -> None:
    with pytest.raises(dm.LostError, match=r"engine: s3 was asked 1 time before round 1") as caught:
        federation(*BEFORE[case], away=1000.0).solve(max_rounds=50)
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("away", [0.0, 1000.0])
@pytest.mark.parametrize("case", LIES)
def test_no_lie_before_the_first_round_moves_the_answer(case: str, away: float) -> None:
    """Who tells it is named, or it costs rounds at most."""
    found, accused = None, ""
    try:
        found = federation(*LIES[case], away=away).solve()
    except dm.LostError as error:
        accused = str(error)
    if found is None:
        assert set(re.findall(r"\bs[0-3]\b", accused)) == {"s3"}
    else:
        assert found.status == "optimal"
        assert found["w"] == pytest.approx(ALL + away, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"name": "s0"}, "federation: s3 introduces itself as 's0', as another site does"),
        ({"shared": [["w", [3, 3]]]}, "site 's3' shares 'w' of shape (3, 3), expected (3,)"),
        ({"shared": [["v", [3]]]}, "client 's3' has no coupling: none of its variables (v)"),
    ],
)
def test_an_introduction_that_does_not_fit_the_others_names_its_site(
    words: dict[str, object], said: str
) -> None:
    with pytest.raises(dm.DeclarationError) as caught:
        federation("introduce", misbehaving.says(**words)).solve()
    assert said in str(caught.value)


def test_a_reply_that_is_refused_once_is_asked_for_again() -> None:
    calls = []

    def once(said: dict[str, object], arrays: dict[str, np.ndarray]) -> bytes:
        calls.append(1)
        broken = {"0.points": np.full(3, np.nan)} if len(calls) == 1 else {}
        return encode(said, arrays | broken)

    whole = federation("asks", once)
    engine: object = whole.engine
    vars(engine)["retries"] = 1
    found = whole.solve()
    assert found.status == "optimal"
    assert [loss.host for loss in found.losses] == ["s3"]
    assert "0.points[0] is nan" in found.losses[0].message


def test_a_status_that_means_something_is_an_honest_end() -> None:
    for status in ("infeasible", "unbounded", "solver_error"):
        found = federation("asks", misbehaving.answered([0, status])).solve(max_rounds=50)
        assert found.status == "solver_error"
        assert found.culprit == "s3"


def test_a_claimed_size_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for shape in ([10**8], [2**40], [10**5, 10**5]):
        with pytest.raises(dm.LostError):
            federation("asks", misbehaving.said_to_be(shape)).solve(max_rounds=5)
        shared = misbehaving.says(shared=[["w", [3]], ["q", shape]])
        with pytest.raises(dm.LostError):
            federation("introduce", shared)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize("name", mutants.targets())
def test_mutants_are_read_or_refused(name: str) -> None:
    """By an error of this package; ``python -m tests.engines.mutants`` tries more."""
    assert mutants.tried(name, 1000)["refused"] > 100


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")
def test_a_served_site_outlives_malformed_messages(tmp_path: Path) -> None:
    site, address = misbehaving.site(0), str(tmp_path / "socket")
    threading.Thread(target=site.serve, args=(address,), daemon=True).start()
    end = time.monotonic() + 30.0
    while not Path(address).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    for payload in (
        b"garbage",
        encode({"x": 1}, {}),
        encode({"number": [1]}, {}),
        encode({"number": 5, "question": "hold"}, {}),
        encode({"number": 6, "question": "zzz"}, {}),
        encode({"number": 7, "question": "hold"}, {"told": np.zeros(9)}),
        encode({"number": 8, "question": "answer"}, {"told": np.zeros((3, 3))}),
    ):
        with Client(address, "AF_UNIX") as caller:
            caller.send_bytes(payload)
            assert "error" in decode(caller.recv_bytes()).said
    with Client(address, "AF_UNIX") as caller:
        caller.send_bytes(encode({"number": 9, "question": "introduce"}, {}))
        assert decode(caller.recv_bytes()).said["name"] == "s0"
