"""A federation has the iterates of a model declared in one place; its sites keep their data."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.datasets import Dataset, load_hospitals, standardised_together
from dald_model.models import hospitals
from tests.engines.messages import decode, encode
from tests.engines.test_engines import rounds

ROWS, SIZE, ROWS_ASKED = 90, 4, 3
"""Records of a site, entries that it shares, and answers that one message asks for at most."""
KINDS = ["least squares", "logistic", "separable", "hinge", "quantile", "lasso", "rows", "log"]


def client(kind: str, at: int, w: cp.Variable) -> tuple[cp.Expression, list[Any]]:
    """Rows of data about a shared w and a private intercept."""
    rng, own = np.random.default_rng(at), cp.Variable(name=f"own {at}")
    A = rng.normal(size=(ROWS, SIZE))
    b = A @ np.arange(SIZE) + at + rng.normal(size=ROWS)
    fitted = A @ w + own
    margin = cp.multiply(np.sign(b - b.mean()), fitted)
    if kind == "separable":
        margin = cp.multiply(rng.choice([-1.0, 1.0], size=5), A[:5] @ w + own)
    ridge = cp.sum_squares(w) + cp.square(own)
    loss, rules = {
        "least squares": (cp.sum_squares(fitted - b), []),
        "logistic": (cp.sum(cp.logistic(-margin)), [w >= 0, cp.sum(w) <= 1]),
        "separable": (cp.sum(cp.logistic(-margin)), []),
        "hinge": (cp.sum(cp.pos(1 - margin)) + ridge, []),
        "quantile": (cp.sum(0.3 * cp.pos(fitted - b) + 0.7 * cp.pos(b - fitted)), []),
        "lasso": (cp.sum_squares(fitted - b) + 50 * cp.norm1(w), []),
        "rows": (cp.sum_squares(w - at) + cp.square(own), [A @ w + own <= 1]),
        "log": (-cp.sum(cp.log(cp.abs(A[:5]).value @ w + 1)) + cp.sum_squares(w - at) + ridge, []),
    }[kind]
    return loss, rules


def at_sites(kind: str, discloses: str = "answers", count: int = 3) -> list[dm.Site]:
    found = []
    for at in range(count):
        w = cp.Variable(SIZE, name="w")
        loss, rules = client(kind, at, w)
        found.append(dm.Site(f"site {at}", loss, rules, shared=[w], disclose=discloses))
    return found


def in_one_place(kind: str, count: int = 3) -> dm.Model:
    w, model = cp.Variable(SIZE, name="w"), dm.Model(kind)
    for at in range(count):
        model.client(f"site {at}", *client(kind, at, w))
    return model


@pytest.mark.parametrize("kind", ["least squares", "lasso", "rows"])
def test_the_iterates_are_those_of_one_place(kind: str) -> None:
    """With exact solvers, and nothing that makes much of rounding errors, as acceleration does."""
    options: dict[str, Any] = {"acceleration": None, "rho": 1.0, "max_rounds": 12}
    options["accuracy"] = 1e-12  # kinked clients are as exact as they are asked to be
    found = dm.Federation(dm.engines.Sites(at_sites(kind))).solve(**options)
    wanted = in_one_place(kind).solve(engine=dm.engines.InProcess(hosts=3), **options)
    numbers = ["primal", "dual", "objective", "rho"]  # others are in units measured to 1e-9
    mine, other = (rounds(one)[numbers].to_numpy() for one in (found, wanted))
    assert len(mine) == len(other) >= 10
    np.testing.assert_allclose(mine / other[0], other / other[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_that_of_the_all_in_one_problem(kind: str) -> None:
    found = dm.Federation(dm.engines.Sites(at_sites(kind))).solve()
    assert found.status == "optimal"
    wanted = in_one_place(kind).monolithic().solve()
    assert found.value == pytest.approx(wanted, rel=1e-4)  # what verify() allows


def hospital_sites(data: dict[str, Dataset]) -> list[dm.Site]:
    found = []
    for name, rows in data.items():
        w, intercept = cp.Variable(11, name="w"), cp.Variable(name="intercept")
        margin = cp.multiply(rows.target, rows.features @ w + intercept)
        rules = [w >= 0, cp.sum(w) <= 1]
        found.append(dm.Site(name, cp.sum(cp.logistic(-margin)), rules, shared=[w]))
    return found


def test_an_optimum_by_residuals_alone_says_so() -> None:
    found = dm.Federation(dm.engines.Sites(at_sites("least squares"))).solve()
    said = (
        "by the residuals alone: the objectives of 'site 0', 'site 1', 'site 2' are at their sites"
    )
    assert (found.status, found.detail) == ("optimal", said)
    assert said in str(found).replace("\n", " ")


def test_four_hospitals_have_the_answer_of_one_place() -> None:
    """With a private intercept each; the value is scipy's."""
    data = standardised_together(load_hospitals())
    found = dm.Federation(dm.engines.Sites(hospital_sites(data))).solve()
    wanted = hospitals.model().solve()
    assert found.status == "optimal"
    np.testing.assert_allclose(found["w"], wanted["w"], atol=1e-5)
    assert found.value == pytest.approx(hospitals.REFERENCE, rel=1e-6)


def test_a_chain_of_sites_agrees_peer_to_peer() -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("least squares")))
    federation.topology(nx.path_graph([f"site {at}" for at in range(3)]))
    found = federation.solve()
    wanted = in_one_place("least squares").monolithic()
    assert found.status == "optimal"
    assert found.value == pytest.approx(wanted.solve(), rel=1e-6)


class SiteHost:
    """A site in this process, as the user of an engine of one's own would reach it."""

    def __init__(self, site: dm.Site) -> None:
        self.name, self._answering = site.name, site

    def send(self, message: bytes) -> Future[bytes]:
        reply: Future[bytes] = Future()
        reply.set_result(self._answering.handle(message))
        return reply

    def restart(self) -> None:
        """It keeps what it holds."""


class Listening(SiteHost):
    """A host that keeps what passes."""

    def __init__(self, site: dm.Site) -> None:
        super().__init__(site)
        self.passed: list[bytes] = []

    def send(self, message: bytes) -> Future[bytes]:
        reply = super().send(message)
        self.passed += [message, reply.result()]
        return reply


@pytest.mark.parametrize("kind", KINDS)
def test_no_array_of_the_size_of_data_passes_nor_a_private_one(kind: str) -> None:
    sites = at_sites(kind)
    engine: Any = dm.engines.Sites(sites)
    engine._hosts = hosts = [Listening(site) for site in sites]
    federation = dm.Federation(engine)
    federation.solve()
    for host in hosts:
        assert host.passed
        for message in host.passed:
            for name, array in decode(message).arrays.items():
                packed = name.startswith("client ")  # the edges, as bytes
                arrays = decode(array.tobytes()).arrays.values() if packed else [array]
                assert all(one.size <= ROWS_ASKED * SIZE for one in arrays), name
    text = b"".join(b"".join(host.passed) for host in hosts)
    assert b"own 0" not in text  # what a site keeps has no name elsewhere


def test_what_is_printed_of_a_federation() -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("least squares")))
    compiled = federation.compile()
    assert "site 0  at its site  w[4]*" in str(federation)
    (reason, server) = compiled.explain()
    assert (reason.solver, reason.clients) == ("site", ("site 0", "site 1", "site 2"))
    assert (reason.what, server.solver) == ("a client at its site", "average")
    listed = dm.engines.sent(compiled)
    assert listed["size"].max() == listed[listed["name"] == "client"]["size"].max()
    assert listed[listed["name"] != "client"]["size"].max() == (1 + ROWS_ASKED) * SIZE
    said = "Site 'site 0': shares w[4], keeps 1 private variable, discloses answers, "
    said += "records not counted"
    assert repr(at_sites("least squares")[0]) == said


def test_an_introduction_has_words_alone() -> None:
    said, arrays = decode(
        at_sites("logistic")[0].handle(encode({"number": 1, "question": "introduce"}, {}))
    )
    assert set(said) == {"number", "name", "shared", "disclose", "is_exact", "is_angular"}
    assert said["shared"] == [["w", [SIZE]]]
    assert not arrays


def test_a_second_coordinator_begins_anew() -> None:
    sites = at_sites("logistic")
    one = dm.Federation(dm.engines.Sites(sites)).solve()
    two = dm.Federation(dm.engines.Sites(sites)).solve()
    assert rounds(one).equals(rounds(two))


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")
def test_a_site_serves_whoever_may_open_its_socket(tmp_path: Path) -> None:
    """One message a caller, and a caller that leaves does not end it."""
    (site,), address = at_sites("least squares", count=1), str(tmp_path / "socket")
    threading.Thread(target=site.serve, args=(address,), daemon=True).start()
    end = time.monotonic() + 30.0
    while not Path(address).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    Client(address, "AF_UNIX").close()
    for number in (1, 2):
        with Client(address, "AF_UNIX") as caller:
            caller.send_bytes(encode({"number": number, "question": "introduce"}, {}))
            assert decode(caller.recv_bytes()).said["name"] == "site 0"


def test_a_site_serves_at_a_port_whoever_has_its_key() -> None:
    """A caller without it gets nothing and ends nothing."""
    (site,) = at_sites("least squares", count=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    threading.Thread(target=site.serve, args=(address, b"right"), daemon=True).start()
    end = time.monotonic() + 30.0
    while True:
        try:
            with pytest.raises(AuthenticationError):
                Client(address, "AF_INET", authkey=b"wrong")
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
    with Client(address, "AF_INET", authkey=b"right") as caller:
        caller.send_bytes(encode({"number": 1, "question": "introduce"}, {}))
        assert decode(caller.recv_bytes()).said["name"] == "site 0"


def test_a_port_without_a_key_is_refused() -> None:
    (site,) = at_sites("least squares", count=1)
    with pytest.raises(
        dm.OptionError, match=r"site 'site 0': serve at \('127\.0\.0\.1', 9000\) needs a"
    ):
        site.serve(("127.0.0.1", 9000))


def test_a_federation_is_solved_again_from_its_result_and_from_a_file(tmp_path: Path) -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("logistic")))
    first = federation.solve(max_rounds=4)
    assert first.status == "round_limit"
    assert federation.solve(start=first).status == "optimal"
    file = tmp_path / "run.npz"
    whole = federation.solve(checkpoint=file, every=3)
    assert whole.status == "optimal"
    again = dm.resume(file, federation, engine=federation.engine)
    assert (again.status, again.rounds) == ("optimal", whole.rounds)
    assert whole["w"] == pytest.approx(in_one_place("logistic").solve()["w"], abs=1e-5)


class Failing(SiteHost):
    """A site whose process ends before it answers one message, and is started anew."""

    def __init__(self, site: dm.Site, again: dm.Site, at: int) -> None:
        super().__init__(site)
        self._again, self._left = again, at

    def send(self, message: bytes) -> Future[bytes]:
        self._left -= 1
        if self._left == 0:
            reply: Future[bytes] = Future()
            reply.set_exception(dm.engines.HostLostError("the process ended"))
            return reply
        return super().send(message)

    def restart(self) -> None:
        self._answering = self._again


class Replaced(Failing):
    """A site whose process is started anew between two messages, which nobody tells."""

    def send(self, message: bytes) -> Future[bytes]:
        self._left -= 1
        if self._left == 0:
            self._answering = self._again
        return SiteHost.send(self, message)


@pytest.mark.parametrize("at", [1, 2, 4, 6, 9])
@pytest.mark.parametrize("how", [Failing, Replaced])
def test_a_site_that_is_started_anew_is_asked_again(how: type[Failing], at: int) -> None:
    """Whether it ended before, between or in the rounds."""
    sites, again = (at_sites("logistic") for _ in range(2))
    engine: Any = dm.engines.Sites(sites)
    engine.retries = 1
    engine._hosts[1] = how(sites[1], again[1], at)
    found = dm.Federation(engine).solve()
    wanted = dm.Federation(dm.engines.Sites(at_sites("logistic"))).solve()
    assert found.status == "optimal"
    assert found["w"] == pytest.approx(wanted["w"], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": dm.engines.InProcess()}, "the federation has its own"),
        ({"solver": "conic"}, "each site chooses its own"),
        ({"gap": 1e-3}, "a certificate needs the objectives"),
        ({"algorithm": dm.FedAvg(step=0.1)}, "alone needs nothing of a client but its answers"),
    ],
)
def test_options_that_need_the_objectives_are_refused(options: Any, said: str) -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("least squares", count=2)))
    with pytest.raises(dm.OptionError, match=said):
        federation.solve(**options)


def test_what_needs_the_objectives_afterwards_is_refused() -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites("least squares")))
    result = federation.solve()
    for ask in (result.verify, result.certificate, lambda: result.verify(aio=False)):
        with pytest.raises(dm.ResultError, match="are at their sites"):
            ask()
    with pytest.raises(dm.DeclarationError, match="couplings of sites"):
        federation.couple(federation.variables[0] >= 0)
    with pytest.raises(dm.OptionError, match="leave engine out"):
        dm.Model.solve(federation)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda w: dm.Site("a", cp.sum_squares(w), shared=[]), "shares no variable"),
        (lambda w: dm.Site("a", cp.sum_squares(w), shared=[w[0]]), "expected cvxpy Variables"),
        (lambda w: dm.Site("a", cp.sum_squares(w), shared=[cp.Variable()]), "neither in its"),
        (lambda w: dm.Site("a", cp.sum_squares(w), shared=[w, w]), "two variables of one name"),
        (lambda w: dm.Site("a", cp.sum_squares(v := cp.Variable()), shared=[v]), "without a name"),
        (lambda w: dm.Site("a", -cp.sum_squares(w), shared=[w]), "convex"),
    ],
)
def test_a_site_that_means_nothing_is_refused(make: Any, said: str) -> None:
    with pytest.raises(dm.DeclarationError, match=said):
        make(cp.Variable(2, name="w"))


def test_sites_that_do_not_fit_are_refused() -> None:
    w, v = cp.Variable(2, name="w"), cp.Variable(3, name="w")
    one, two = (dm.Site(f"{x.size}", cp.sum_squares(x), shared=[x]) for x in (w, v))
    with pytest.raises(dm.DeclarationError, match=r"of shape \(3,\), expected \(2,\)"):
        dm.Federation(dm.engines.Sites([one, two]))
    with pytest.raises(dm.DeclarationError, match="2 introduces itself as '2'"):
        dm.Federation(dm.engines.Sites([one, one]))
    with pytest.raises(dm.OptionError, match="given none"):
        dm.engines.Sites([])
    nobody: Any = "hospitals"
    with pytest.raises(dm.OptionError, match="given 'hospitals', expected an engine whose hosts"):
        dm.Federation(nobody)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": np.array([0, 99])},
        {"columns": np.array([-1, 0])},
        {"values": np.array([np.nan, 1.0])},
        {"signs": np.array([2.0, 1.0])},
        {"offset": np.zeros(1)},
    ],
)
def test_edges_from_anywhere_are_checked_by_the_site(change: dict[str, np.ndarray]) -> None:
    w = cp.Variable(2, name="w")
    site = dm.Site("a", cp.sum_squares(w - 1), shared=[w])
    arrays = {
        "rows": np.arange(2),
        "columns": np.arange(2),
        "values": np.ones(2),
        "offset": np.zeros(2),
        "signs": np.ones(2),
    }
    edges = np.frombuffer(encode({"size": 2}, arrays | change), dtype=np.uint8)
    place = [{"session": 1, "solver": "site", "clients": [7]}]
    message = {"number": 1, "place": place, "asks": [], "tolerance": 1.0}
    said, _ = decode(site.handle(encode(message, {"client 7": edges})))
    assert "OptionError: site: what came are no edges of 2 shared entries" in said["error"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"records": 2}, "is made of 2 records, expected at least 3, as fewer can be"),
        ({"records": 40, "least_records": 50}, "is made of 40 records, expected at least 50"),
        ({"records": 0}, "is made of 0 records"),
        ({"records": -1}, "site 'clinic': records: given -1, expected a whole number from 0"),
        ({"records": 2.5}, "records: given 2.5, expected a whole number"),
        ({"records": 3, "least_records": 0}, "least_records: given 0, expected a whole number"),
        ({"least_records": 5}, "given 5 without the number of records, expected both"),
    ],
)
def test_a_site_of_too_few_records_refuses_by_name(options: dict[str, Any], said: str) -> None:
    w = cp.Variable(2, name="w")
    with pytest.raises(dm.DaldError, match=said) as caught:
        dm.Site("clinic", cp.sum_squares(w), shared=[w], **options)
    assert "'clinic'" in str(caught.value)


def test_a_site_of_enough_records_takes_part_and_tells_nobody_how_many() -> None:
    w = cp.Variable(2, name="w")
    enough: list[dict[str, Any]] = [{"records": 3}, {"records": 1, "least_records": 1}]
    for options in enough:
        site = dm.Site("clinic", cp.sum_squares(w), shared=[w], **options)
        assert "records" not in site.introduction()


class Threaded(SiteHost):
    """A site in a thread of this process, that is declared anew there before one message."""

    def __init__(self, site: dm.Site, again: Callable[[], dm.Site], at: int) -> None:
        super().__init__(site)
        self._again, self._left = again, at
        self._thread = ThreadPoolExecutor(max_workers=1)

    def send(self, message: bytes) -> Future[bytes]:
        return self._thread.submit(self._answered, message)

    def _answered(self, message: bytes) -> bytes:
        self._left -= 1
        if self._left == 0:
            self._answering = self._again()
        return self._answering.handle(message)


@pytest.mark.parametrize("at", [1, 5])
def test_a_site_may_be_declared_in_a_thread_while_its_coordinator_waits(at: int) -> None:
    """Which holds the turn of this process, and gives it up."""
    engine: Any = dm.engines.Sites(at_sites("logistic"))
    engine.deadline, engine.retries = 60.0, 1
    sites = enumerate(at_sites("logistic"))
    engine._hosts = [Threaded(site, lambda i=i: at_sites("logistic")[i], at) for i, site in sites]
    assert dm.Federation(engine).solve().status == "optimal"
