"""What a first-order point may be off by: 1e-4 and 1e-5 of 1 + |F|, see the manual's page."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from dald_model.answer.stationarity import conditions

SCALE = 101.0
"""1 + |F| where F is 100."""


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (1.1, False)])
def test_the_gradient_is_at_most_1e_4_of_the_scale(share: float, holds: bool) -> None:
    """F = 100 + (x - 2)^2, whose gradient 2 (x - 2) is the residual."""
    x = cp.Variable(name="x")
    problem = cp.Problem(cp.Minimize(100 + cp.square(x - 2)))
    gradient = share * 1e-4 * SCALE
    found = conditions(problem, {x.id: 2 + gradient / 2})
    assert found.residual == pytest.approx(gradient, rel=1e-6)
    assert found.hold is holds


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (1.1, False)])
def test_a_constraint_is_broken_by_at_most_1e_5_of_the_scale(share: float, holds: bool) -> None:
    """F = 91 + (x - 5)^2 under x <= 2, where F is 100 and the multiplier 6."""
    x = cp.Variable(name="x")
    problem = cp.Problem(cp.Minimize(91 + cp.square(x - 5)), [x <= 2])
    beyond = share * 1e-5 * SCALE
    found = conditions(problem, {x.id: 2 + beyond})
    assert found.violation == pytest.approx(beyond, rel=1e-6)
    assert found.residual <= 1e-6
    assert found.hold is holds


def test_a_multiplier_of_the_wrong_sign_proves_nothing() -> None:
    """F = 91 + (x + 1)^2 under x <= 2 falls inwards at 2: only x = -1 is stationary."""
    x = cp.Variable(name="x")
    problem = cp.Problem(cp.Minimize(91 + cp.square(x + 1)), [x <= 2])
    at_edge, inside = (conditions(problem, {x.id: np.array(value)}) for value in (2.0, -1.0))
    assert at_edge.residual == pytest.approx(6.0, rel=1e-6)
    assert (at_edge.hold, inside.hold) == (False, True)
