"""An interior point by messages: its iterates, what is sent, who consents, and who is lost."""

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.engines import Residents
from tests.adding import Adding
from tests.algorithms.test_interior_point import KINDS, drawn
from tests.answer.families import redrawn
from tests.engines.messages import decode
from tests.engines.test_sites import at_sites, in_one_place

ALONE = dm.InteriorPoint(aggregator=Adding())
"""Each client a participant of its own, in one process."""


def values_by_round(model: dm.Model, **options: Any) -> tuple[dm.Result, np.ndarray]:
    """The result, and of each round the value of w."""
    (w,) = {v for one in model.clients.values() for v in one.variables if v.name() == "w"}
    seen: list[np.ndarray] = []
    found = model.solve(callback=lambda at: seen.append(np.array(at[w])), **options)
    return found, np.array(seen)


def in_rounds(replies: Sequence[bytes], messages: Sequence[bytes]) -> int:
    """Bytes of the numbers that clients tell in rounds, of messages and their replies."""
    asked = [decode(message).said.get("calls", ["norms"])[0] for message in messages]
    told = [reply for reply, call in zip(replies, asked, strict=True) if call in IN_ROUNDS]
    return sum(one.nbytes for reply in told for one in decode(reply).arrays.values())


@pytest.mark.parametrize("kind", KINDS)
def test_engines_have_the_iterates_of_one_process(kind: str) -> None:
    model = drawn(4, kind)[0]
    wanted, theirs = values_by_round(model, algorithm=ALONE)
    found, ours = values_by_round(model, disclose="curvature", engine=dm.engines.InProcess(2))
    assert (found.status, len(ours)) == ("optimal", len(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    for edge, mu in wanted.multipliers.items():
        np.testing.assert_allclose(found.multipliers[edge], mu, rtol=1e-10, atol=1e-10)
    assert found.verify().ok


def test_processes_have_them_too() -> None:
    model = drawn(4, "logistic")[0]
    theirs = values_by_round(model, algorithm=ALONE)[1]
    with dm.engines.Processes(workers=2) as engine:
        ours = values_by_round(model, disclose="curvature", engine=engine)[1]
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["least squares", "separable", "hinge", "quantile", "lasso"])
def test_sites_have_the_iterates_of_one_place(kind: str) -> None:
    federation = dm.Federation(dm.engines.Sites(at_sites(kind, "curvature")))
    model = in_one_place(kind)
    found, ours = values_by_round(federation, disclose="curvature")
    wanted, theirs = values_by_round(model, algorithm=ALONE)
    assert (found.status, found.rounds) == ("optimal", wanted.rounds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    assert found.value == pytest.approx(wanted.value, rel=1e-9)


def test_a_federation_is_refused_by_the_name_of_who_does_not_consent() -> None:
    sites = [*at_sites("lasso", "curvature")[:2], at_sites("lasso")[2]]
    federation = dm.Federation(dm.engines.Sites(sites))
    with pytest.raises(dm.OptionError, match="but site 'site 2' shows answers only; leave"):
        federation.solve(disclose="curvature")
    with pytest.raises(dm.OptionError, match="but site 'site 2' shows answers only; leave"):
        federation.solve(algorithm=dm.InteriorPoint())
    w = cp.Variable(name="w")
    with pytest.raises(dm.OptionError, match="site 'a': disclose: given 'all', expected"):
        dm.Site("a", cp.square(w), shared=[w], disclose="all")


def test_a_site_refuses_curvature_whoever_asks() -> None:
    """A coordinator that does not ask for consent gets none."""
    sites = at_sites("lasso")
    federation = dm.Federation(dm.engines.Sites(sites))
    model: Any = super(dm.Federation, federation)
    with pytest.raises(dm.LostError, match="site 'site 0' shows answers only, no"):
        model.solve(engine=federation.engine, disclose="curvature")


class Wire:
    """A host that counts, and may be lost: its reply does not come, and it has nobody any more."""

    def __init__(self, name: str, loses: tuple[int, ...] = (), is_dead: bool = False) -> None:
        self.name, self.loses, self.is_dead = name, loses, is_dead
        self.messages, self.numbers = 0, 0
        self._residents = Residents()

    def send(self, message: bytes) -> Future[bytes]:
        reply: Future[bytes] = Future()
        self.messages += 1
        if self.messages in self.loses or (self.is_dead and self.messages >= self.loses[0]):
            self._residents = Residents()
            reply.set_exception(dm.engines.HostLostError("it is gone"))
            return reply
        answer = self._residents.handle(message)
        self.numbers += in_rounds([answer], [message])
        reply.set_result(answer)
        return reply

    def restart(self) -> None:
        self._residents = Residents()


IN_ROUNDS = ("curvature", "hear_constant", "combine", "corrected", "hear_step", "defined", "go")
IN_ROUNDS += ("answer", "predicted")


class Wired:
    """An engine of such hosts."""

    interchangeable, deadline = False, None

    def __init__(self, *hosts: Wire, retries: int = 1) -> None:
        self._hosts, self.retries = hosts, retries

    def hosts(self) -> tuple[Wire, ...]:
        return self._hosts


def test_bytes_are_as_stated() -> None:
    model, w = dm.Model("two"), cp.Variable(3, name="w")
    rng = np.random.default_rng(0)
    for at in range(2):
        model.client(at, cp.sum(cp.logistic(rng.normal(size=(20, 3)) @ w)) + cp.sum_squares(w - at))
    hosts = Wire("a"), Wire("b")
    found = model.solve(disclose="curvature", engine=Wired(*hosts))
    said = 8 * (3 * 4 // 2 + 4 * 3 + 26 + 2 * 3)
    assert set(found.shown.values()) == {said}
    assert f"at most {said:,} bytes per client and round" in str(found)
    assert [one.numbers for one in hosts] == [said * found.rounds] * 2


@pytest.mark.parametrize("loses", [(1,), (5,), (20, 31)])
def test_a_host_that_is_lost_is_told_again_and_goes_on(loses: tuple[int, ...]) -> None:
    model = drawn(4, "logistic")[0]
    theirs = values_by_round(model, algorithm=ALONE)[1]
    engine = Wired(Wire("a", loses), Wire("b"))
    found, ours = values_by_round(model, disclose="curvature", engine=engine)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    assert len(found.losses) >= 1


def test_who_never_answers_ends_the_run_with_the_rounds_before() -> None:
    model = drawn(4, "logistic")[0]
    engine = Wired(Wire("a", (25,), is_dead=True), Wire("b"))
    with pytest.raises(dm.LostError, match="a was lost 2 times in round") as caught:
        model.solve(disclose="curvature", engine=engine)
    assert caught.value.result.rounds >= 1


def test_all_wait_for_who_is_away_as_unanswered_says() -> None:
    """Sums lack nobody, so that nobody is left out: asked again, up to so many times."""
    model = drawn(4, "logistic")[0]
    engine = Wired(Wire("a", (25, 26, 27, 28)), Wire("b"), retries=0)
    found = model.solve(disclose="curvature", engine=engine, online=dm.Unanswered(leave_after=10))
    assert found.status == "optimal"
    assert len(found.losses) >= 2
    first, second = (Wired(Wire("a", (25,), is_dead=True), Wire("b"), retries=0) for _ in "ab")
    with pytest.raises(dm.LostError):
        model.solve(disclose="curvature", engine=first, online=dm.Unanswered(leave_after=2))
    late = model.solve(disclose="curvature", engine=second, online=dm.Unanswered(), time_limit=1.0)
    assert late.status == "time_limit"


@pytest.mark.parametrize("engine", [None, dm.engines.InProcess(2)])
def test_a_checkpoint_goes_on_with_the_same_iterates(tmp_path: Path, engine: Any) -> None:
    model, path = drawn(4, "logistic")[0], tmp_path / "run.npz"
    whole = model.solve(disclose="curvature", engine=engine)
    cut = model.solve(
        disclose="curvature",
        engine=engine,
        checkpoint=path,
        every=1,
        max_rounds=3,
    )
    assert cut.status == "round_limit"
    found = dm.resume(path, model, engine=engine, max_rounds=100)
    assert (found.status, found.rounds) == ("optimal", whole.rounds)
    for edge, mu in whole.multipliers.items():
        np.testing.assert_allclose(found.multipliers[edge], mu, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "seed"), [("ordinary", 271126000054), ("collinear", 271126000013)]
)
def test_a_checkpoint_of_newton_s_steps_or_of_rounding_ends_as_the_whole_run(
    family: str, seed: int, tmp_path: Path
) -> None:
    """Programs without cones: logistic losses, and squares whose residuals rounding keeps."""
    drawn_model = redrawn(family, seed)
    assert drawn_model is not None
    model = drawn_model.build()
    whole = model.solve(disclose="curvature")
    cut = model.solve(
        disclose="curvature", checkpoint=tmp_path / "run", every=1, max_rounds=whole.rounds - 3
    )
    assert cut.status == "round_limit"
    found = dm.resume(tmp_path / "run", model, max_rounds=100)
    assert (found.status, found.rounds) == (whole.status, whole.rounds)
    assert found.value == pytest.approx(whole.value, rel=1e-12)
