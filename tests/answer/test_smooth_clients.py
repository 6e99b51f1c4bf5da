"""How much smooth clients can lose in a box, against closed forms and drawn points."""

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.smooth_clients import SmoothClients, smooth_groups


def _group(x: cp.Variable, cost: cp.Expression) -> SmoothClients:
    other = cp.Variable(x.shape)
    model = dm.Model()
    model.client("one", cost)
    model.client("other", cp.sum_squares(other))
    model.consensus(x == other)
    (group,), others = smooth_groups(model.compile(), ["one"])
    assert not others
    return group


def _lost(group: SmoothClients, at: np.ndarray, away: np.ndarray) -> float:
    nothing = np.zeros(1)
    return float(group.losses(group.gradients(at[None]), away[None], nothing)[0])


def test_a_quadratic_loses_what_its_minimum_is_below_however_wide_the_box() -> None:
    """(x - 3)^2 + 2 (y + 1)^2 at the origin is 11, its least 0, and no box changes that."""
    x = cp.Variable(2)
    group = _group(x, cp.square(x[0] - 3) + 2 * cp.square(x[1] + 1))
    for wide in (1e2, 1e6, 1e12):
        assert _lost(group, np.zeros(2), np.full(2, wide)) == pytest.approx(11, rel=1e-9)


def test_a_narrow_box_bounds_what_a_quadratic_loses() -> None:
    """Within 1/10 of the origin by the slopes 6 and 4 less the curvatures 2 and 4."""
    x = cp.Variable(2)
    group = _group(x, cp.square(x[0] - 3) + 2 * cp.square(x[1] + 1))
    exact = (0.6 - 0.01) + (0.4 - 0.02)
    assert _lost(group, np.zeros(2), np.full(2, 0.1)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_no_point_of_the_box_loses_more(seed: int) -> None:
    """Least squares with a logistic loss, of columns whose units differ by 1e6."""
    rng = np.random.default_rng(seed)
    A, B = (rng.normal(size=(4, 3)) * 10.0 ** rng.uniform(-3, 3, 3) for _ in range(2))
    x = cp.Variable(3)
    group = _group(x, cp.sum_squares(A @ x - 1) + cp.sum(cp.logistic(B @ x)))
    at, away = (rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3, 3) for _ in range(2))
    lost = _lost(group, at, np.abs(away))
    for _ in range(200):
        to = at + rng.uniform(-1, 1, 3) * np.abs(away)
        assert group.sure_falls(at[None], to[None])[0] <= lost


def test_a_fall_is_sure_only_beyond_rounding() -> None:
    """Along x - y the objective (x + y)^2 is flat, and numbers of 1e8 leave 1 of it."""
    x = cp.Variable(2)
    group = _group(x, cp.square(x[0] + x[1]))
    at, to = np.array([[0.0, 1e-9]]), np.array([[1e8, -1e8]])
    fall, error, _ = group.falls(at, to)
    assert abs(fall[0]) <= error[0]
    assert group.sure_falls(at, to)[0] <= 0
