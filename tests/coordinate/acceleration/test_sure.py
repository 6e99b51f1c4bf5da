"""Learned models in the turn of bounds: asked where they are sure, resting where they lied."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dald_model.coordinate.acceleration.evaluation import Evaluation, Proposal
from dald_model.coordinate.acceleration.secant import SecantModel
from dald_model.coordinate.acceleration.sure import NEAR, SURE, SureModel
from dald_model.models import trend_filtering

POINT = np.zeros((2, 1))
RHO = np.ones(1)


def evaluation(size: float, before: np.ndarray = POINT) -> Evaluation:
    """One of a residual as long as ``size``: sides that are apart."""
    sides = np.array([[size / np.sqrt(2.0)], [0.0]])
    return Evaluation(before, POINT, sides, np.zeros((2, 1)), np.zeros(1), np.zeros(1))


def model(error: float, reach: float) -> tuple[SureModel, Proposal]:
    found = Proposal(np.ones((2, 1)), "secant")
    secant = SimpleNamespace(error=error, reach=reach, propose=lambda evaluation, rho: found)
    return SureModel(cast(SecantModel, cast(Any, secant))), found


@pytest.mark.parametrize(
    ("error", "reach", "asks"),
    [(SURE / 2, 1.0, True), (2 * SURE, 1.0, False), (SURE / 2, 4.0, False), (0.0, 2 * NEAR, False)],
)
def test_models_are_asked_where_what_they_were_wrong_by_is_little_of_the_residual(
    error: float, reach: float, asks: bool
) -> None:
    sure, found = model(error, reach)
    said = sure.propose(evaluation(1.0), RHO)
    assert (said is not None) == asks
    if said is not None:
        assert said.name == "sure"
        assert said.point is found.point


def test_who_broke_its_promise_rests_twice_as_long_each_time_until_it_keeps_one() -> None:
    sure, found = model(0.0, 1.0)
    waited = []
    for after in (1.0, 1.0, SURE / 2, 1.0):
        rounds = 0
        while sure.propose(evaluation(1.0), RHO) is None:
            rounds += 1
        waited.append(rounds)
        sure.observe(evaluation(after, found.point), RHO)
    assert waited == [0, 1, 2, 0]


def test_a_line_with_kinks_ends_when_the_models_of_its_pieces_are_exact() -> None:
    result = trend_filtering.model().solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(trend_filtering.REFERENCE, rel=1e-6)
    assert result.rounds <= 30  # by bounds alone 43
