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
from dald_model.answer.smooth_clients import smooth_groups
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
