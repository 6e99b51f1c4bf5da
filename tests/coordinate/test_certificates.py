"""What is proved of all clients together, on problems whose truth is plain."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

UNITS = [1e-6, 1.0, 1e6]


def ended(model: dm.Model) -> str:
    """The status of a run of few rounds."""
    return str(model.solve(max_rounds=100).status)


def bounds(low: float, high: float, unit: float) -> dm.Model:
    """One number that is at most ``low`` for one client and at least ``high`` for another."""
    model, x = dm.Model(), cp.Variable(name="x")
    model.client("small", cp.square(x / unit), [x <= low * unit])
    model.client("large", cp.square(x / unit - 1), [x >= high * unit])
    return model


@pytest.mark.parametrize("unit", UNITS)
def test_bounds_without_a_common_point_are_infeasible(unit: float) -> None:
    result = bounds(1.0, 2.0, unit).solve()
    assert result.status == "infeasible"
    assert {"small", "large"} & {result.culprit, *np.ravel(result.culprit)}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("high", [1.0, 0.0])
def test_bounds_that_touch_or_overlap_are_not(high: float, unit: float) -> None:
    assert ended(bounds(1.0, high, unit)) == "optimal"


@pytest.mark.parametrize("radius", [0.9, 1.1])
def test_balls_meet_where_their_radii_reach(radius: float) -> None:
    """Two centres that are 2 apart."""
    model, x = dm.Model(), cp.Variable(2)
    model.client("left", cp.sum_squares(x), [cp.norm(x + np.array([1, 0])) <= radius])
    model.client("right", cp.sum_squares(x), [cp.norm(x - np.array([1, 0])) <= radius])
    assert ended(model) == ("infeasible" if radius < 1 else "optimal")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("scale", UNITS)
def test_slopes_that_do_not_cancel_are_unbounded(scale: float, unit: float) -> None:
    """The sum is -x; each alone has no minimum either, and who falls faster is named."""
    model, x = dm.Model(), cp.Variable(name="x")
    model.client("falls", -3 * scale * x / unit)
    model.client("rises", 2 * scale * x / unit)
    result = model.solve()
    assert (result.status, result.culprit) == ("unbounded", "falls")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "rules",
    [lambda x: [x <= 1e5], lambda x: [cp.norm(x) <= 3], lambda x: [cp.square(x) <= 1e10]],
    ids=["a bound", "a ball", "a square"],
)
def test_what_a_constraint_bounds_is_not_unbounded(rules: Any, unit: float) -> None:
    model, x = dm.Model(), cp.Variable(name="x")
    model.client("falls", -x / unit, rules(x / unit))
    model.client("other", 0.5 * x / unit)
    assert ended(model) != "unbounded"


def test_curvature_however_weak_bounds_a_slope() -> None:
    model, x = dm.Model(), cp.Variable(name="x")
    model.client("falls", -x)
    model.client("bowl", 1e-3 * cp.square(x))
    assert ended(model) == "optimal"


def test_kinks_at_zero_are_bounded() -> None:
    """Everybody wants zero to the digit: the units come from noise, and no direction falls."""
    model, x = dm.Model(), cp.Variable(2)
    model.client("nuclear", 0.7 * cp.normNuc(cp.reshape(x, (1, 2), order="F")), [x <= 4, x >= -2])
    model.client("largest", 1.1 * cp.norm_inf(x), [cp.sum(cp.huber(x)) <= 5])
    model.client("length", 1.7 * cp.norm(x, 2), [x <= 3])
    assert ended(model) != "unbounded"


def test_boxes_that_all_hold_zero_do_not_contradict_each_other() -> None:
    """Rows of 400 boxes balanced together had multipliers that passed for a proof in round 80."""
    draw, w, model = np.random.default_rng(0), cp.Variable(10, name="w"), dm.Model("boxes")
    wanted = draw.normal(size=10)
    for i in range(400):
        A = draw.normal(size=(20, 10))
        b, limit = A @ wanted + draw.normal(size=20), draw.uniform(0.5, 2, size=10)
        model.client(i, cp.sum_squares(A @ w - b), [-limit <= w, w <= limit])
    assert model.solve(max_rounds=100).status in ("optimal", "round_limit")


@pytest.mark.parametrize("both", [True, False])
def test_squares_are_not_unbounded_in_units_that_are_too_short(both: bool) -> None:
    """In a box of 1e-6 around zero they fall at a steady rate, for 1e4 of its lengths: 9 + 4."""
    w, model = cp.Variable(name="w"), dm.Model("short")
    model.client("a", cp.sum_squares(w - 3), [w**2 <= 1e-12])
    model.client("b", cp.sum_squares(w - 2), [w**2 <= 1e-12] if both else [])
    model.topology("server")
    assert model.solve(max_rounds=60).status != "unbounded"


@pytest.mark.parametrize("is_star", [True, False])
def test_a_level_that_may_be_as_high_as_needed_is_not_infeasible(is_star: bool) -> None:
    """The smallest circle around three points, min t with |u - p_i|^2 <= t: any u and a large t.

    t is 12.25 at the best, and zero at each owner's own answer, so nobody knows its size.
    """
    model, points = dm.Model("enclosed"), np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 2.0]])
    every = [cp.Variable(3, name=f"x{0 if is_star else i}") for i in range(1 if is_star else 3)]
    for i, point in enumerate(points):
        x = every[i % len(every)]
        model.client(i, x[0] / 3, [cp.sum_squares(x[1:] - point) <= x[0]])
    if not is_star:
        model.consensus(every[0] == every[1], every[1] == every[2])
    assert model.solve(max_rounds=120).status in ("optimal", "round_limit")
