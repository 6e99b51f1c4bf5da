"""Lower bounds of smooth clients against minima known otherwise, and against those by cones."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.special
from scipy.optimize import minimize

import dald_model as dm
from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.lower_bound import bounded
from dald_model.solvers.exact.smooth_bound import least_within
from tests.solvers.known import make_sub


def form_of(cost: Any, rules=()):
    """The form of a client with this objective, beside one that it must agree with."""
    model, x = dm.Model(), cost.variables()[0]
    y = cp.Variable(x.size, name="y")
    model.client("a", cost, list(rules))
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    form = model.compile()["a"].form
    assert form is not None
    return form


def losses():
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(30, 4)), rng.normal(size=30)
    x = cp.Variable(4, name="x")
    yield "least squares", cp.sum_squares(A @ x - b), lambda z: np.sum((A @ z - b) ** 2)
    first = A[:, :1]
    yield "flat", cp.sum_squares(first @ x[:1] - b), lambda z: np.sum((first @ z[:1] - b) ** 2)
    yield (
        "logistic",
        cp.sum(cp.logistic(A @ x)) + 0.01 * cp.sum_squares(x),
        lambda z: np.logaddexp(0, A @ z).sum() + 0.01 * z @ z,
    )
    yield (
        "huber",
        cp.sum(cp.huber(A @ x - b)) + 0.1 * cp.sum_squares(x),
        lambda z: 2 * scipy.special.huber(1, A @ z - b).sum() + 0.1 * z @ z,
    )
    yield (
        "logarithm",
        cp.sum_squares(x) - cp.sum(cp.log(x + 3)),
        lambda z: z @ z - np.log(z + 3).sum() if (z > -3).all() else np.inf,
    )


@pytest.mark.parametrize(("name", "cost", "plain"), list(losses()), ids=lambda one: str(one)[:12])
def test_the_bound_is_below_the_least_in_the_box_and_near_it(name, cost, plain):
    form, rng = form_of(cost), np.random.default_rng(1)
    price = rng.normal(size=4) if name != "flat" else np.array([0.7, 0.0, 0.0, 0.0])

    def whole(at):
        return plain(at) + price @ at

    best = minimize(whole, np.zeros(4), method="Nelder-Mead", options={"fatol": 1e-12})
    best = minimize(whole, best.x, method="BFGS", options={"gtol": 1e-9})
    centre, reach = best.x + 1e-3 * rng.normal(size=4), np.ones(4)
    if name == "flat":
        centre[1:] = 0.0
    found = least_within(form, price, centre, reach).value
    size = max(1.0, abs(best.fun))
    assert found <= best.fun + 1e-12 * size
    assert found >= best.fun - 1e-7 * size
    by_cones = bounded(form.cone, price, centre, reach).value
    assert by_cones <= best.fun + 1e-9 * size
    assert found >= by_cones - 1e-8 * size


def test_far_from_its_minimum_a_client_is_asked_by_cones():
    x = cp.Variable(1, name="x")
    form = form_of(cp.sum_squares(x))
    # x^2 - 10 x within 1 of 0 is least at 1, and not at 5 where it has no slope
    found = least_within(form, np.array([-10.0]), np.zeros(1), np.ones(1)).value
    assert found == pytest.approx(1 - 10, abs=1e-6)
    assert found <= 1 - 10 + 1e-9


@pytest.mark.parametrize("kind", ["kink", "row", "line"])
def test_a_client_that_is_not_smooth_or_not_curved(kind):
    x = cp.Variable(2, name="x")
    cost, rules = {
        "kink": (cp.sum_squares(x) + cp.norm1(x), []),
        "row": (cp.sum_squares(x), [x >= 1]),
        "line": (cp.sum(x), []),
    }[kind]
    found = least_within(form_of(cost, rules), np.array([-0.5, -0.5]), np.ones(2), np.ones(2)).value
    least = {"kink": 0.0, "row": 2 - 1.0, "line": 0.0}[kind]
    assert found == pytest.approx(least, abs=1e-6)
    assert found <= least + 1e-9


WEIGHT, PRICE = 2e-3, 8.28e-7
HELD = [
    # w / x + p x is least at sqrt(w / p), with 2 sqrt(w p)
    ("reciprocal", lambda x: 1e6 * cp.sum(cp.inv_pos(x)), 1e6, lambda p: 2 * np.sqrt(1e6 * p)),
    # p x - w sqrt(x) is least at (w / 2 p)^2, with -w^2 / 4 p
    ("root", lambda x: -WEIGHT * cp.sum(cp.sqrt(x)), 1.46e6, lambda p: -(WEIGHT**2) / (4 * p)),
    # p x - log(x) is least at 1 / p, with 1 + log(p)
    ("logarithm", lambda x: -cp.sum(cp.log(x)), 1.2e6, lambda p: 1 + np.log(p)),
]


@pytest.mark.parametrize(("name", "cost", "centre", "least"), HELD, ids=lambda one: str(one)[:12])
def test_a_box_a_hundred_times_as_wide_as_the_answer_costs_no_digits(name, cost, centre, least):
    """Rates of some 1e6 between 1e3 and 5e7 over boxes of 1e8: cones alone lost 1e2 of 1."""
    x = cp.Variable(1, name="x")
    form = form_of(cost(x), [x >= 1e3, x <= 5e7])
    found = least_within(form, np.array([PRICE]), np.array([centre]), np.array([1e8])).value
    true = least(PRICE)
    assert found <= true + 1e-12
    assert found == pytest.approx(true, abs=1e-4 * max(1.0, abs(true)))


def test_flows_that_must_add_up_are_bounded_by_their_tangents():
    """Pipes side by side share a flow F so that r q^2 is the same: q_i as 1 / sqrt(r_i)."""
    r, flow, box = np.array([0.002, 0.005, 0.02]), 100.0, 800.0
    x = cp.Variable(3, name="x")
    form = form_of(
        cp.sum(cp.multiply(r / 3, cp.power(cp.abs(x), 3))), [cp.sum(x) == flow, x <= 1e3]
    )
    shares = 1 / np.sqrt(r) / np.sum(1 / np.sqrt(r))
    true = r / 3 @ (flow * shares) ** 3
    for away in (np.zeros(3), np.array([3.0, -2.0, -1.0]), np.array([40.0, -40.0, 5.0])):
        found = least_within(form, np.zeros(3), flow * shares + away, np.full(3, box)).value
        assert found <= true * (1 + 1e-12)
        assert found == pytest.approx(true, rel=1e-6)
    price = r * (flow * shares) ** 2 - 7.0  # all of one height: what the row carries
    found = least_within(form, -price, flow * shares, np.full(3, box)).value
    assert found == pytest.approx(true - price @ (flow * shares), rel=1e-7)


def test_bounds_hold_wherever_they_are_sought():
    """Whatever the prices, the rows and the box: never above the least of a fine grid."""
    rng = np.random.default_rng(4)
    x = cp.Variable(1, name="x")
    for cost, plain in (
        (cp.sum(cp.power(cp.abs(x - 1), 3)), lambda z: np.abs(z - 1) ** 3),
        (-cp.sum(cp.sqrt(x + 3)), lambda z: -np.sqrt(z + 3)),
        (-cp.sum(cp.log(x + 3)) + 0.1 * cp.sum_squares(x), lambda z: -np.log(z + 3) + 0.1 * z**2),
    ):
        form = form_of(cost, [x >= -2.5, x <= 6])
        for _ in range(20):
            price, centre, reach = rng.normal(0, 5), rng.uniform(-2, 5), rng.uniform(0.01, 20)
            grid = np.linspace(max(-2.5, centre - reach), min(6, centre + reach), 4001)
            best = float((plain(grid) + price * grid).min())
            found = least_within(
                form, np.array([price]), np.array([centre]), np.array([reach])
            ).value
            assert found <= best + 1e-9
            assert found == pytest.approx(best, abs=1e-3)


def quadratic() -> ConeProgram:
    """x^2 - 4 x + y with y >= 1, which is -3 at x = 2."""
    matrix: Any = sp.csc_array(np.diag([2.0, 0.0]))
    rows: Any = sp.csc_array(np.array([[0.0, -1.0]]))
    cones = (("NonnegativeConeT", 1),)
    return ConeProgram(matrix, np.array([-4.0, 1.0]), 0.0, rows, np.array([-1.0]), cones)


@pytest.mark.parametrize(("centre", "reach"), [(2.0, 1.0), (0.0, 5.0), (100.0, 1000.0)])
def test_a_bound_is_the_minimum_where_the_box_has_it(centre: float, reach: float) -> None:
    found = bounded(quadratic(), np.zeros(1), np.array([centre]), np.array([reach])).value
    assert found <= -3.0 + 1e-12
    assert found == pytest.approx(-3.0, abs=1e-6 * reach**2)


def test_a_bound_is_that_of_the_box_where_the_minimum_is_elsewhere() -> None:
    found = bounded(quadratic(), np.array([1.0]), np.zeros(1), np.ones(1)).value
    assert found == pytest.approx(1.0 - 4.0 + 1.0 + 1.0, abs=1e-6)
    assert found <= -1.0


@pytest.mark.parametrize("radius", [1.0, 1e2, 1e4, 1e6])
def test_a_bound_in_a_ball_of_any_radius_is_its_radius_times_the_slope(radius: float) -> None:
    """A square becomes t <= r^2 and a cone of 1 + t and 1 - t, in which doubles lose the 1."""
    x = cp.Variable(2)
    sub = make_sub(0.0 * cp.sum(x), rules=[cp.sum_squares(x) <= radius**2])
    assert sub.form is not None
    slope, reach = np.array([3.0, -4.0]), np.full(2, 10 * radius)
    found = bounded(sub.form.cone, slope, np.zeros(2), reach).value
    assert found == pytest.approx(-5 * radius, rel=1e-6)
    assert found <= -5 * radius * (1 - 1e-12)


@pytest.mark.parametrize("seed", [3, 10])
def test_a_bound_is_sought_again_where_the_solvers_error_is_all_that_lacks(seed: int) -> None:
    """Charged the slope at a point, a client is least there: by the p-norm's own gradient.

    Of these draws the solver's first answer proves 8e-7 less.
    """
    rng = np.random.default_rng(seed)
    A, b, at = rng.normal(size=(23, 3)), rng.normal(size=23), rng.normal(size=3)
    form = form_of(cp.pnorm(A @ cp.Variable(3, name="x") - b, 3))
    left = A @ at - b
    value = np.sum(np.abs(left) ** 3) ** (1 / 3)
    slope = A.T @ (np.sign(left) * left**2) / value**2
    least, reach = value - slope @ at, np.full(3, 1e-3)
    plain = bounded(form.cone, -slope, at, reach).value
    assert plain < least - 1e-7
    assert least - 1e-9 <= bounded(form.cone, -slope, at, reach, least - 1e-9).value <= least
    # But not where more lacks than the solver's error
    assert bounded(form.cone, -slope, at, reach, least + 1e-3).value == plain
