r"""Each constant of the safeguard's theorem is needed: without it a proposer breaks what is proved.

The theorem is that of :mod:`dald_model.coordinate.acceleration.safeguard`: kept points converge.
With a constant out of force the proposer of its test makes a run that never ends, or kept points
that wander among the minimisers. How far the kept points may move is the proof's own bound.
"""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.coordinate.acceleration import safeguard
from dald_model.coordinate.acceleration.evaluation import (
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
    length,
)
from dald_model.coordinate.acceleration.safeguard import Safeguard

ROUNDS = 600


class Proposer(Accelerator):
    """Proposes nothing; what all of this file have in common."""

    def open(self, opening: Opening) -> Proposer:
        return self

    def explain(self) -> str:
        return "proposes"

    def reveals(self, compiled: Any) -> str:
        return ""

    def added(self, compiled: Any) -> int:
        return 0

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        return None


class Staller(Proposer):
    """Proposes the point itself: nothing is lost, and nothing gained."""

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal:
        return Proposal(evaluation.before, "staller")


class Creeper(Proposer):
    """Proposes the least bit of a step: the residual falls by less than a millionth."""

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal:
        change = evaluation.after - evaluation.before
        return Proposal(evaluation.before + 1e-6 * change, "creeper")


def losses(count: int = 5) -> dm.Model:
    """Strictly convex least squares on a ring: one minimiser."""
    rng = np.random.default_rng(0)
    x, model = cp.Variable(3), dm.Model("fit")
    for i in range(count):
        model.client(i, cp.sum_squares(rng.normal(size=(6, 3)) @ x - rng.normal(size=6)))
    model.topology(nx.cycle_graph(count))
    return model


@pytest.mark.parametrize(
    ("constant", "idle", "proposer"), [("PATIENCE", 10**9, Staller()), ("PROGRESS", 1.0, Creeper())]
)
def test_a_run_ends_because_excursions_have_to_pay(
    constant: str, idle: float, proposer: Proposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"acceleration": proposer, "rho": 1.5, "max_rounds": ROUNDS}
    result = losses().solve(**options)
    assert result.status == "optimal"
    assert result.verify().ok
    monkeypatch.setattr(safeguard, constant, idle)
    assert losses().solve(**options).status in ("stalled", "round_limit")


class Drifter(Proposer):
    """Moves along what no client minds, by ``stride(evaluation, rho)`` in the last coordinate."""

    def __init__(self, stride: Any, climb: Any = None) -> None:
        self.stride, self.climb, self.back = stride, climb, None

    def open(self, opening: Opening) -> Drifter:
        return type(self)(self.stride, self.climb)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal:
        flat, bent = np.zeros_like(evaluation.after), np.zeros_like(evaluation.after)
        flat[1, 1::2], bent[1, 0::2] = 1.0, 1.0
        if self.climb is None:
            return Proposal(evaluation.after + self.stride(evaluation, rho) * flat, "drifter")
        if self.back is None:  # high up, from where a proposal may be far
            self.back = evaluation.after
            return Proposal(self.back + self.climb(evaluation, rho) * bent, "drifter")
        point, self.back = self.back + self.stride(evaluation, rho) * flat, None
        return Proposal(point, "drifter")

    def reject(self, name: str) -> None:
        self.back = None


def valley() -> dm.Model:
    """(x_1 - i)^2 on a path: any x_2 is a minimiser's, and a shift of it changes no residual."""
    x, model = cp.Variable(2), dm.Model("valley")
    for i in range(3):
        model.client(i, cp.square(x[0] - i))
    model.topology(nx.path_graph(3))
    return model


def kept_moves(
    proposer: Proposer, monkeypatch: pytest.MonkeyPatch, rounds: int = ROUNDS
) -> list[tuple[float, float]]:
    """Of each excursion that ended well: r of the kept point before, and how far it moved."""
    found: list[tuple[float, float]] = []
    honest = Safeguard.look

    def look(self: Any, state: Any) -> bool:
        before, is_plain = self._kept, self._loops == 0
        back = honest(self, state)
        if before is not None and self._kept is not before and not is_plain:
            moved = length(self._kept.after - before.after, state.rho, state.reduce)
            found.append((before.size(state.rho), moved))
        return back

    with monkeypatch.context() as patched:
        patched.setattr(Safeguard, "look", look)
        valley().solve(acceleration=proposer, rho=0.7, max_rounds=rounds, eps_pri=0.0, eps_dual=0.0)
    return found


def far(evaluation: Evaluation, rho: np.ndarray) -> float:
    return 1e5 * evaluation.size(rho)


def same(evaluation: Evaluation, rho: np.ndarray) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("constant", "proposer"),
    [
        ("FARTHEST", Drifter(same)),
        ("GROWTH", Drifter(far, climb=far)),
        ("EARLY", Drifter(far, climb=same)),
    ],
)
def test_kept_points_move_by_at_most_a_constant_times_their_residuals(
    constant: str, proposer: Proposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So moves are summable, which they are not if one of the three is infinite."""
    monkeypatch.setattr(safeguard, "EARLY", 0)  # the proof's rounds begin when those are over
    most = (safeguard.PATIENCE + 1) * (1 + safeguard.FARTHEST) * safeguard.GROWTH
    moves = kept_moves(proposer, monkeypatch)
    assert all(moved <= most * size for size, moved in moves)
    monkeypatch.setattr(safeguard, constant, math.inf)
    assert any(moved > most * size for size, moved in kept_moves(proposer, monkeypatch))


class Once(Proposer):
    """One proposal, far off, after ``at`` outer loops."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def open(self, opening: Opening) -> Once:
        return type(self)(self.at)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        self.seen += 1  # from the loop on in which the last client has answered once
        if self.seen != self.at:
            return None
        return Proposal(evaluation.after + 1e3 * evaluation.size(rho), "once")


def test_what_is_left_of_an_excursion_taken_back_is_the_plain_run_with_who_lags_behind() -> None:
    """Client 1 is told in every third loop and answers two loops later, as a straggler of three.

    The excursion is loop 6, in which it is told again. The run without that loop is the plain one,
    number by number: what client 1 was told in it is taken back with the rest.
    """
    told, waits, answers = range(3)
    plain = [told, waits, answers] * 5
    wrecked = [*plain[:5], told, *plain[5:]]

    def late(turns: list[int]) -> Any:
        def online(moment: Any) -> dm.Change:
            turn = turns[moment.round - 1]
            return dm.Change(
                absent=[1] if turn != answers else [], stale=[1] if turn != told else []
            )

        return online

    options: dict[str, Any] = {
        "rho": 1.5,
        "eps_pri": 0.0,
        "eps_dual": 0.0,
        "stopping": dm.FixedBudget(1),
    }
    given = [(plain, None), (wrecked, Once(3))]
    runs = [
        losses().solve(acceleration=by, online=late(turns), max_rounds=len(turns), **options)
        for turns, by in given
    ]
    assert runs[1].history["proposal"].str.endswith("taken back").sum() == 1
    for name in ("sides", "mu", "points"):
        left, right = (getattr(run.state, name) for run in runs)
        np.testing.assert_allclose(right, left, rtol=0, atol=1e-13)


def test_the_residual_of_a_whole_loop_is_that_of_the_fixed_point() -> None:
    r"""The later end balanced the new multiplier, the earlier one that and w D."""
    rng = np.random.default_rng(2)
    rho, before = rng.uniform(0.5, 2.0, size=7), rng.normal(size=(2, 7))
    weight, early, late = 2 * rho**2, *rng.normal(size=(2, 7))
    mu = before[0] + weight * (early - late)
    estimates = np.stack([before[0] + weight * (early - before[1]), mu])
    made = Evaluation(
        before, np.stack([mu, late]), np.stack([early, late]), estimates, np.zeros(2), np.zeros(2)
    )
    assert made.size(rho) == pytest.approx(length(made.after - before, rho), rel=1e-12)


def test_it_is_zero_where_all_agree_whenever_they_answered() -> None:
    prices, point = np.full((2, 3), 2.0), np.array([[2.0] * 3, [1.0] * 3])
    made = Evaluation(
        np.zeros((2, 3)), point, np.ones((2, 3)), prices, *np.zeros((2, 2)), is_whole=False
    )
    assert made.size(np.ones(3)) == 0.0
    prices[0, 0] = np.nan
    assert np.isnan(made.size(np.ones(3)))
