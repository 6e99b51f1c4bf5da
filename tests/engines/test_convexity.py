"""Answers that no convex function has are refused by name; inexact and honest ones are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import dald_model as dm
from tests.engines.messages import encode
from tests.engines.misbehaving import OTHERS, federation, with_array

Arrays = dict[str, np.ndarray]


def changed(change: Callable[[Arrays, list[Arrays]], Arrays]) -> Any:
    """A reply whose arrays are made of the honest ones and of all honest ones so far."""
    known: list[Arrays] = []

    def reply(said: dict[str, Any], arrays: Arrays) -> bytes:
        known.append(arrays)
        return encode(said, arrays | change(arrays, known))

    return reply


def noisy(size: float) -> Any:
    rng = np.random.default_rng(0)
    return with_array("0.points", lambda x: x + size * rng.normal(size=x.shape))


FAULTY: dict[str, Callable[[], Any]] = {
    "a jump": lambda: with_array("0.points", lambda x: x + 10.0),
    "far away": lambda: with_array("0.points", lambda x: np.full(x.shape, 1e6)),
    "noise": lambda: noisy(1.0),
    "small noise": lambda: noisy(1e-3),
    "drawn towards zero": lambda: with_array("0.points", lambda x: 0.9 * x),
    "of a concave function": lambda: changed(
        lambda x, known: {"0.points": 2 * known[0]["0.points"] - x["0.points"]}
    ),
    "one round late": lambda: changed(lambda _, known: known[-2 if len(known) > 1 else -1]),
    "no objective at all": lambda: with_array("0.objectives", lambda f: 0 * f),
    "an objective twice as large": lambda: with_array("0.objectives", lambda f: 2 * f),
    "an objective that is 5 lower once": lambda: changed(
        lambda x, known: {"0.objectives": x["0.objectives"] - 5.0 * (len(known) == 2)}
    ),
}


@pytest.mark.parametrize("case", FAULTY)
def test_who_contradicts_itself_is_named(case: str) -> None:
    said = "engine: s3 was lost 1 time in round .* not those of one convex function"
    with pytest.raises(dm.LostError, match=said) as caught:
        federation("asks", FAULTY[case]()).solve(max_rounds=50)
    assert caught.value.result.losses[0].clients == ("s3",)


@pytest.mark.parametrize("case", [case for case in FAULTY if not case.endswith("once")])
def test_the_others_finish_without_who_contradicts_itself(case: str) -> None:
    found = federation("asks", FAULTY[case]()).solve(online=dm.Unanswered(leave_after=2))
    assert found.status == "reduced"
    assert found["w"] == pytest.approx(OTHERS, abs=1e-6)


@pytest.mark.parametrize(
    "reply",
    [
        lambda: with_array("0.objectives", lambda f: f + 5.0),
        lambda: changed(lambda _, known: known[0]),
    ],
    ids=["a constant", "one that never moves"],
)
def test_the_answers_of_another_convex_function_are_not_seen(reply: Any) -> None:
    """As the manual says: they are what an honest site of other data answers."""
    assert federation("asks", reply(), first=1).solve().status == "optimal"


def test_who_stays_at_an_old_answer_is_a_client_that_can_be_nowhere_else() -> None:
    """The federation ends at the optimum with that, and says what it proves."""
    kept: list[Arrays] = []

    def stale(said: dict[str, Any], arrays: Arrays) -> bytes:
        kept.append(arrays)
        return encode(said, kept[0])

    found = federation("asks", stale).solve()
    assert (found.status, found["w"]) == ("optimal", pytest.approx(kept[0]["0.points"], abs=1e-6))
    assert found.detail.startswith("by the residuals alone: ")


SHARING = "elastic_net graphical_lasso group_lasso hospitals huber isotonic kernel_svm lasso"
SHARING += " logistic loss_guarantees mean minmax_fairness multinomial personalised power_flow"
SHARING += " predictive_control quantile ridge robust_regression shared_private signed_regression"
SHARING += " state_estimation svm"
"""Models of the gallery whose clients have nothing in common but variables."""


@pytest.mark.parametrize("name", SHARING.split())
def test_no_honest_site_is_accused(name: str) -> None:
    """The value is the reference of the gallery, found by other solvers.

    Scales come from answers alone; they cost at most twice the rounds of one process, and three
    rounds where that takes few.
    """
    gallery = import_module(f"dald_model.models.{name}")
    model, users = gallery.model(), Counter[int]()
    for client in model.clients.values():
        users.update(v.id for v in client.variables)
    sites = []
    for at, client in enumerate(model.clients.values()):
        shared = [v for v in client.variables if users[v.id] > 1]
        sites.append(dm.Site(f"{at}", client.objective, client.constraints, shared=shared))
    found = dm.Federation(dm.engines.Sites(sites)).solve()
    assert found.status == "optimal"
    assert found.value == pytest.approx(gallery.REFERENCE, rel=1e-4)  # as verify() asks
    if name == "graphical_lasso":  # no site shows the function that all have in common
        model.topology("server")
    if name != "isotonic":  # 19 rounds for 5
        assert found.rounds <= max(2 * model.solve().rounds, 5)
