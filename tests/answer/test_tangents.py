"""The proof of an exact method in a few products of arrays: what is wrong is never proved by it."""

from collections.abc import Callable
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.tangents import is_right_by_tangents
from dald_model.coordinate.state import State
from dald_model.solvers.base import Tangents
from dald_model.solvers.interior.joint import Joint
from tests.benchmarks import held_paths
from tests.front.resolving import Resolving, predictive_control, regularisation_path, rolling_budget

ALLOWED = 1e-4
MAKERS: dict[str, Callable[[], Resolving]] = {
    "lasso": regularisation_path,
    "tanks": lambda: predictive_control(steps=5),
    "budget": rolling_budget,
    "portfolio": held_paths.portfolio,
    "network lasso": held_paths.network_lasso,
    "elastic net": held_paths.elastic_net,
}
SMOOTH: dict[str, Callable[[], Resolving]] = {
    "ridge": lambda: regularisation_path("ridge"),
    "logistic": lambda: regularisation_path("logistic"),
}
"""Of which a first step of Newton's may be the answer."""


def _solved(name: str) -> tuple[Resolving, State]:
    given = (MAKERS | SMOOTH)[name]()
    given.step(0)
    result = given.model.solve(disclose="curvature")
    assert result.state is not None
    return given, result.state


def _claimed(given: Resolving, state: State, joint: Joint) -> State:
    tangents, _, mu = joint.answer()
    sides = given.model.compile().stacked.at(tangents.points)
    return replace(state, tangents=tangents, points=tangents.points, mu=mu, sides=sides)


@pytest.mark.parametrize("name", MAKERS)
def test_iterates_are_proved_once_their_gap_is_small_and_not_before(name: str) -> None:
    given, state = _solved(name)
    compiled = given.model.compile()
    given.problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-12)
    best = float(np.real(np.asarray(given.problem.value)))
    joint, proved = Joint(compiled), []
    for _ in range(20):
        with np.errstate(all="ignore"):
            joint.coordinator.iterate()
            found = joint.coordinator.found
            claimed = _claimed(given, state, joint)
            proved.append(is_right_by_tangents(compiled, claimed, ALLOWED))
        if proved[-1]:
            # What is proved is a share of 1e-7 of objectives, which are no larger than their sum
            size = sum(abs(float(one.value)) for one in given.costs)
            assert abs(found.value - best) <= 2e-7 * size
            break
    assert proved[-1]
    assert not any(proved[:3])


@pytest.mark.parametrize("name", ["lasso", "tanks", "budget", "network lasso", "ridge", "logistic"])
def test_wrong_prices_slopes_and_points_are_not_proved(name: str) -> None:
    given, state = _solved(name)
    compiled, told = given.model.compile(), state.tangents
    assert told is not None
    assert is_right_by_tangents(compiled, state, ALLOWED)
    elsewhere, lost = 1.001 * told.points, 1e-3 * abs(float(given.costs[0].value))
    wrong = [
        replace(state, mu=1.01 * state.mu),
        replace(state, tangents=told._replace(slopes=1.01 * told.slopes)),
        replace(state, tangents=told._replace(losses=told.losses + lost)),
        replace(state, tangents=told._replace(losses=told.losses - lost)),
        replace(state, points=elsewhere),  # what was told is of other points
        replace(state, sides=state.sides * [[1 + 1e-6], [1.0]]),  # copies are apart
        replace(state, tangents=None),
    ]
    assert not any(is_right_by_tangents(compiled, one, ALLOWED) for one in wrong)


@pytest.mark.parametrize("slope", [0.0, 1e-7])
def test_smooth_clients_that_fall_along_a_valley_are_not_proved(slope: float) -> None:
    """(x + y - 102)^2 / 2 and (x + y + 98)^2 / 2, and 1e-13 (x - y)^2 / 2 - s (x - y) beside them.

    With s = 0 the point (2, 0) is a minimiser but for 2e-13. With s = 1e-7 it gains 0.05 at
    x - y = 1e6, beside objectives that change by 400 in its length: a gap of 4e-5 is allowed, and
    ten times that in a thousand lengths, where slopes say 2e-4.
    """
    x = cp.Variable(2)
    model, far = dm.Model(), x[0] - x[1]
    model.client("low", cp.square(x[0] + x[1] - 102) / 2)
    model.client("high", cp.square(x[0] + x[1] + 98) / 2)
    model.client("flat", 1e-13 * cp.square(far) / 2 - slope * far)
    result, compiled = model.solve(disclose="curvature"), model.compile()
    assert result.state is not None
    at = np.concatenate([[2.0, 0.0] for _ in compiled.layout])
    slopes: dict[object, list[float]] = {
        "low": [-100.0, -100.0],
        "high": [100.0, 100.0],
        "flat": [2e-13 - slope] * 2,
    }
    slopes["flat"][1] *= -1
    told = np.concatenate([slopes.get(name, [0.0, 0.0]) for name in compiled.layout])
    nothing = np.zeros((2, len(compiled)))
    across = compiled.stacked.across.toarray()
    half = across.shape[1] // 2
    mu = np.linalg.lstsq(across[:, :half] - across[:, half:], -told)[0]
    state = replace(
        result.state,
        tangents=Tangents(at, told, *nothing),
        points=at,
        mu=mu,
        sides=compiled.stacked.at(at),
    )
    assert is_right_by_tangents(compiled, state, ALLOWED) == (slope == 0)
