"""The cost of consensus against closed forms and the clients' own minima by cvxpy."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm


def _paid(shares: list[Any], rules: list[list[Any]] | None = None) -> tuple[float, float]:
    """What is reported, and what cvxpy says that each would gain alone."""
    model, gained = dm.Model(), 0.0
    rules = rules or [[] for _ in shares]
    for i, (share, own) in enumerate(zip(shares, rules, strict=True)):
        model.client(i, share, own)
    found = model.solve().certificate()
    assert found.ok, str(found)
    for share, own in zip(shares, rules, strict=True):
        at = float(np.asarray(share.value))
        values = [(v, v.value) for v in share.variables()]
        alone: Any = cp.Problem(cp.Minimize(share), own)
        gained += at - float(alone.solve(solver=cp.CLARABEL))
        for v, value in values:
            v.value = value
    return found.paid, gained


def test_of_least_squares_it_is_exact() -> None:
    """Six owners want 0 to 5: the mean 2.5 costs them the sum of squares around it, 17.5."""
    x = cp.Variable(name="x")
    paid, gained = _paid([cp.square(x - i) for i in range(6)])
    assert paid == pytest.approx(17.5, rel=1e-9)
    assert gained == pytest.approx(17.5, rel=1e-6)


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "logistic": lambda A, b, x: (
        cp.sum(cp.logistic(cp.multiply(np.sign(b), A @ x))) + 0.1 * cp.sum_squares(x)
    ),
    "absolute": lambda A, b, x: cp.norm1(A @ x - b),
    "hinge": lambda A, b, x: cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x))) + cp.sum_squares(x),
    "lasso": lambda A, b, x: cp.sum_squares(A @ x - b) + 3 * cp.norm1(x),
    "groups": lambda A, b, x: cp.sum_squares(A @ x - b) + 9 * cp.norm(x[:2]) + cp.norm(x[2:]),
    "huber": lambda A, b, x: cp.sum(cp.huber(2 * A @ x - 6 * b, 1)),
}


@pytest.mark.parametrize("units", [np.ones(4), np.array([1e-3, 1.0, 1.0, 1e3])])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["free", "bounded", "simplex"])
def test_it_is_a_lower_bound_and_no_small_part(loss: str, kind: str, units: Any) -> None:
    rng = np.random.default_rng(3)
    x = cp.Variable(4, name="x")
    rules = {"free": [], "bounded": [x >= 0], "simplex": [units @ x == 1, x >= 0]}[kind]
    shares = [
        LOSSES[loss](rng.normal(size=(12, 4)) * units, rng.normal(size=12) + i, x) for i in range(3)
    ]
    paid, gained = _paid(shares, [rules] * 3)
    assert 0.1 * gained <= paid <= (1 + 1e-6) * gained


def test_what_falls_for_ever_counts_as_far_as_x_is_from_zero() -> None:
    """Logarithms with one budget: twice as much of 2 w / sum(w) is worth w log 2."""
    weights = np.array([1.0, 2.0, 5.0])
    x = cp.Variable(3, name="x", nonneg=True)
    model = dm.Model()
    for i, weight in enumerate(weights):
        model.client(i, cp.Maximize(weight * cp.log(x[i])))
    model.couple(cp.sum(x) <= 2)
    found = model.solve().certificate()
    assert found.ok, str(found)
    assert found.paid == pytest.approx(8 * np.log(2), rel=1e-4)


@pytest.mark.parametrize("away", [0.0, -500.0, 5e4, 1e6])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_rounding_far_away_is_no_fall(weight: float, away: float) -> None:
    """One owner wants a, the other w for each up to one: so each is at t = min(a + w / 2, 1).

    How far an owner goes is tried up to 4^45 sizes away, where what it adds up is 1e27.
    """
    wanted = np.array([0.0, 0.2, -0.3])
    x = cp.Variable(3, name="x")
    model = dm.Model()
    model.client("near", cp.sum_squares(x - away - wanted))
    model.client("capped", cp.Maximize(weight * cp.sum(cp.minimum(x - away, 1))), [x - away >= -2])
    found = model.solve().certificate()
    assert found.ok, str(found)
    at = np.minimum(wanted + weight / 2, 1)
    assert found.paid == pytest.approx(sum((at - wanted) ** 2 + weight * (1 - at)), rel=1e-6)
