"""Better points along valleys, against closed forms.

On x + y = 0 all of these fall by t - t^2 / 2 at x = -y = 1e5 t / 2, by 1/2 at most. Of multiples
that are four times each other one at least is within 0.6 of the best, where a parabola has 0.64 of
it.
"""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.answer.bound import Parts
from dald_model.answer.cone_clients import ConeClient
from dald_model.answer.smooth_clients import SmoothClients, smooth_groups
from dald_model.answer.valley import fall_along_valley

Client = tuple[cp.Expression | float, list[cp.Constraint]]
LEAST, MOST = 0.64 * 0.5, 0.5


def _fall(model: dm.Model, at: np.ndarray, enough: float = 1e-4) -> float:
    compiled = model.compile()
    groups, others = smooth_groups(compiled, compiled.layout)
    cones = {name: ConeClient(compiled[name], at[compiled.columns[name]]) for name in others}
    return fall_along_valley(compiled, Parts(groups, cones), at, np.ones(at.size), enough)


def _valley(across: Callable[[cp.Variable], Client], unit: float = 1.0) -> dm.Model:
    """A client that says what happens off x + y = 0, and one that falls along it by itself."""
    x, y = cp.Variable(2), cp.Variable(2)
    model, far = dm.Model(), unit * (y[0] - y[1])
    cost, rules = across(x)
    model.client("steep", cost, rules)
    model.client("flat", 1e-10 * cp.square(far) / 2 - 1e-5 * far)
    model.consensus(x == unit * y)
    return model


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    "across",
    [
        lambda x: (1 + cp.square(x[0] + x[1]) / 2, []),
        lambda x: (1.0, [x[0] + x[1] == 0]),
        lambda x: (1 + x[0] + x[1], [x[0] + x[1] >= 0]),
        lambda x: (3 * cp.abs(x[0] + x[1]), []),
        lambda x: (cp.norm(cp.hstack([x[0] + x[1], 2 * (x[0] + x[1])])), []),
        lambda x: (0.0, [x[0] + x[1] == 0, x[0] + x[1] <= 0, 2 * x[0] == -2 * x[1]]),
    ],
    ids=["squares", "equality", "inequality", "kink", "norm", "redundant"],
)
def test_a_better_point_far_along_a_valley_is_found(
    across: Callable[[cp.Variable], Client], unit: float
) -> None:
    """The other client's copy counts in other units, and no client moves alone."""
    model = _valley(across, unit)
    assert LEAST <= _fall(model, np.zeros(4)) <= MOST
    assert _fall(model, np.array([5e4, -5e4, 5e4 / unit, -5e4 / unit])) == 0


def test_no_better_point_is_beyond_a_constraint() -> None:
    """Of x - y <= 2.5e4, 1/4 - 1/32 is left, and of a ball of radius 1e4 no more than is inside."""
    model = _valley(lambda x: (0.0, [x[0] + x[1] == 0, x[0] - x[1] <= 2.5e4]))
    assert _fall(model, np.zeros(4)) == pytest.approx(0.25 - 0.25**2 / 2, rel=1e-9)
    model = _valley(lambda x: (cp.square(x[0] + x[1]), [cp.norm(x) <= 1e4]))
    inside = np.sqrt(2) * 1e4 / 1e5
    assert inside / 8 <= _fall(model, np.zeros(4)) <= inside - inside**2 / 2


def test_kinks_away_from_zero_have_slopes() -> None:
    """One that costs 1e-5 / 2 of every x - y from -1 on leaves half the slope: 1/8 at t = 1/2."""
    model = _valley(lambda x: (5e-6 * cp.abs(x[0] - x[1] + 1), [x[0] + x[1] == 0]))
    assert 0.64 / 8 <= _fall(model, np.zeros(4)) <= 1 / 8


def test_what_is_not_in_arrays_says_nothing() -> None:
    """A cone that no kind describes: there may be a better point, and none is claimed."""
    model = _valley(lambda x: (0.0, [x[0] + x[1] == 0, cp.norm(x, 3) <= 1e9]))
    assert _fall(model, np.zeros(4)) == 0


@pytest.mark.parametrize("size", [1, 3])
def test_no_better_point_breaks_an_edge(size: int) -> None:
    """Two clients and x + y = 0: at zero neither may follow its slope."""
    x, y = cp.Variable(size), cp.Variable(size)
    model = dm.Model()
    model.client("one", cp.sum_squares(x - 1))
    model.client("other", cp.sum_squares(y - 1))
    model.consensus(x == -y)
    assert _fall(model, np.zeros(2 * size)) == 0


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
