"""Clients whose minimisers have closed forms, by the solver chosen for them and by cones."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

import dald_model as dm
from dald_model.solvers import Answers, Choice, Session, Turn
from tests.expect import error

TOLERANCE = 1e-6
"""What `ask` asks for."""


def client(objective: Any, constraints: list[Any], variable: cp.Variable) -> dm.Subproblem:
    """Its one edge has the side x, so the augmented terms are mu'x + |rho (x - z)|^2."""
    other = cp.Variable(variable.shape)
    model = dm.Model("two")
    model.client("client", objective, constraints)
    model.client("other", cp.sum_squares(other))
    model.consensus(variable == other)
    return model.compile()["client"]


def session_of(sub: dm.Subproblem, solver: str = "auto") -> Session:
    return Choice(solver).chain(sub)[0].open([sub])


def ask(
    session: Session, mu: Any, rho: Any, neighbours: Any = 0.0, tolerance: float = TOLERANCE
) -> Answers:
    mu = np.asarray(mu, dtype=float)
    rho, neighbours = (np.full(mu.shape, value) for value in (rho, neighbours))
    return session.minimise(Turn(np.zeros(1, int), mu, rho, neighbours), tolerance)


def simplex(v: np.ndarray, total: float) -> np.ndarray:
    down = np.sort(v)[::-1]
    excess = np.cumsum(down) - total
    last = np.flatnonzero(down > excess / np.arange(1, v.size + 1))[-1]
    return np.maximum(v - excess[last] / (last + 1), 0)


def in_l1(v: np.ndarray, radius: float) -> np.ndarray:
    inside = np.abs(v).sum() <= radius
    return v if inside else np.sign(v) * simplex(np.abs(v), radius)


def quantile_near(values: np.ndarray, share: float, weight: float, center: float) -> float:
    """argmin_t sum_i max(share (b_i - t), (share - 1)(b_i - t)) + weight (t - center)^2."""
    ties = np.sort(values)
    places = np.concatenate([[-np.inf], ties, [np.inf]])
    for i in range(len(places) - 1):  # t in [places[i], places[i+1]]: i values are below
        slope = i * (1 - share) - (len(ties) - i) * share
        t = center - slope / (2 * weight)
        if t < places[i]:
            return float(places[i])
        if t <= places[i + 1]:
            return float(t)
    raise AssertionError


def nearest_psd(v: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(v.reshape(4, 4) / 2 + v.reshape(4, 4).T / 2)
    return (vectors * np.maximum(values, 0) @ vectors.T).ravel()


PROXIMAL: dict[str, tuple[Any, Any]] = {
    "norm inf": (lambda x: (cp.norm_inf(x), []), lambda v, h: v - in_l1(v, 1 / h)),
    "max": (lambda x: (cp.max(x), []), lambda v, h: v - simplex(v, 1 / h)),
    "l1 ball": (lambda x: (0, [cp.norm1(x) <= 1]), lambda v, h: in_l1(v, 1.0)),
    "-log": (
        lambda x: (-cp.sum(cp.log(x)), []),
        lambda v, h: (v + np.sqrt(v * v + 4 / h)) / 2,
    ),
    "psd": (
        lambda x: (0, [cp.reshape(x, (4, 4), order="C") >> 0, x[TURNED] == x]),
        lambda v, h: nearest_psd(v),
    ),
}
TURNED = np.arange(16).reshape(4, 4).T.ravel()


@pytest.mark.parametrize("solver", ["auto", "conic"])
@pytest.mark.parametrize("name", PROXIMAL)
def test_many_warm_rounds_of_other_slopes_and_penalties(name: str, solver: str) -> None:
    make, truth = PROXIMAL[name]
    size = 16 if name == "psd" else 8
    x, random, rho = cp.Variable(size), np.random.default_rng(0), 1.0
    session = session_of(client(*make(x), variable=x), solver)
    for turn in range(100):
        if turn % 10 == 0:
            rho = 10 ** random.uniform(-0.5, 1)
        mu, near = random.normal(size=(2, size)) * 10 ** random.uniform(-1, 1)
        answers = ask(session, mu, rho, near)
        assert answers.statuses == ["optimal"]
        assert answers.messages == {}
        assert error(answers.points, truth(near - mu / (2 * rho**2), 2 * rho**2)) <= TOLERANCE


@pytest.mark.parametrize("share", [0.5, 0.1, 0.9])
def test_the_quantile_of_numbers(share: float) -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=41) * 10
    x = cp.Variable(1)
    gap = values - np.ones((41, 1)) @ x
    session = session_of(client(cp.sum(cp.maximum(share * gap, (share - 1) * gap)), [], x))
    for rho in (1e-4, 1e-2, 1.0, 100.0):
        for center in random.normal(size=10) * 10:
            answers = ask(session, [0.0], rho, [center])
            true = quantile_near(values, share, rho**2, center)
            assert answers.statuses == ["optimal"]
            assert error(answers.points, np.array([true])) <= TOLERANCE
            gaps = values - true
            value = np.maximum(share * gaps, (share - 1) * gaps).sum()
            assert answers.objectives[0] == pytest.approx(value, rel=1e-7)
            if rho == 1e-4:  # too weak to move it off the sample's quantile
                assert abs(true - np.quantile(values, share, method="inverted_cdf")) <= 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_program_agrees_with_highs(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, right, cost = random.normal(size=(30, 8)), random.random(30) + 0.1, random.normal(size=8)
    x = cp.Variable(8)
    session = session_of(client(cost @ x, [rows @ x <= right, x >= -5, x <= 5], x))
    best = scipy.optimize.linprog(cost, A_ub=rows, b_ub=right, bounds=(-5, 5), method="highs")
    answers = ask(session, np.zeros(8), 1e-3)
    assert answers.statuses == ["optimal"]
    assert error(answers.points, best.x) <= TOLERANCE
    assert answers.objectives[0] == pytest.approx(best.fun, rel=1e-7)


def test_a_line_that_nothing_bounds_stays_where_it_is_in_other_units() -> None:
    """A sorted sum's auxiliary variables may all be others by the same; its prox is isotonic."""
    weights, scale, curvature = np.array([0.9, 0.75, 0.33, 0.83]), 3e5, 1.35
    x, random = cp.Variable(4), np.random.default_rng(0)
    cost = scale * (curvature * cp.sum_squares(x) + cp.dotsort(x, weights))
    session = session_of(client(cost, [], x))
    rho = np.full(4, np.sqrt(scale / 2))
    for _ in range(20):
        at = random.normal(size=4)
        answers = ask(session, np.zeros(4), rho, at)
        assert answers.statuses == ["optimal"]
        # min curvature |x|^2 + sum w_[k] x_[k] + |x - at|^2 / 2, sorted: project onto falling ones
        bend, order = 2 * curvature + 1, np.argsort(-at)
        target = (at[order] - np.sort(weights)[::-1]) / bend
        true = np.empty(4)
        true[order] = scipy.optimize.isotonic_regression(target, increasing=False).x
        assert error(answers.points, true) <= TOLERANCE


def test_wide_rows_of_few_entries_meet_no_square_matrix() -> None:
    """Forty simplices of ten variables each, by cones, which make no 400 x 400."""
    rng, x = np.random.default_rng(3), cp.Variable(400)
    price, near = rng.normal(size=(2, 400))
    sums = np.kron(np.eye(40), np.ones(10))
    sub = client(price @ x, [x >= 0, sums @ x == 1], x)
    assert Choice("auto").chain(sub)[0].name == "conic"
    found = ask(session_of(sub), np.zeros(400), 1.0, near).points
    expected = [simplex(one, 1.0) for one in (near - price / 2).reshape(40, 10)]
    np.testing.assert_allclose(found, np.concatenate(expected), atol=TOLERANCE)
