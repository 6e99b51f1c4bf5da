"""Polyhedral against closed forms, HiGHS and the certificates of the cone program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Session, Solver, Turn
from dald_model.solvers.exact import daqp_program
from dald_model.solvers.exact.polyhedral import LARGEST, Polyhedral
from tests.duals import duals, raw
from tests.expect import error

TOLERANCE = 1e-6
"""What `ask` asks for."""


def client(objective: Any, constraints: Sequence[Any], variable: cp.Variable) -> Subproblem:
    """Its one edge has the side x, so the augmented terms are mu'x + |rho (x - z)|^2."""
    other = cp.Variable(variable.shape)
    model = dm.Model("two")
    model.client("client", objective, list(constraints))
    model.client("other", cp.sum_squares(other))
    model.consensus(variable == other)
    return model.compile()["client"]


def ask(
    session: Session, mu: Any, rho: Any, neighbours: Any = 0.0, which: Sequence[int] = (0,)
) -> Answers:
    mu = np.atleast_1d(np.asarray(mu, dtype=float))
    rho, neighbours = (
        np.broadcast_to(np.asarray(v, float), mu.shape).copy() for v in (rho, neighbours)
    )
    return session.minimise(Turn(np.array(which), mu, rho, neighbours), 1e-6)


@pytest.mark.parametrize(
    "rules",
    [
        lambda x: [],
        lambda x: [np.zeros((0, 2)) @ x <= np.zeros(0)],
        lambda x: [cp.Constant(0) <= 1],
    ],
    ids=["none", "empty", "constant"],
)
def test_a_client_without_rows_is_refused_in_words(rules: Any) -> None:
    x = cp.Variable(2)
    sub = client(cp.sum_squares(x), rules(x), x)
    assert Polyhedral().refuses(sub) == "it has no rows"
    with pytest.raises(dm.OptionError, match="'polyhedral' cannot take client 'a': it has no rows"):
        model_of(cp.sum_squares(x), rules(x), x).solve(solver="polyhedral")


def model_of(objective: Any, rules: list[Any], x: cp.Variable) -> dm.Model:
    model = dm.Model()
    model.client("a", objective, rules)
    model.client("b", cp.norm1(x), [x <= 5])
    return model


def test_a_bound_far_away_beside_a_small_step_says_nothing() -> None:
    """Model predictive control in four pieces; warnings are errors here. AIO is the judge."""
    A, B = np.array([[1, 0.2], [0, 1]]), np.array([[0.02], [0.2]])
    states = [cp.Variable((2, 7)) for _ in range(4)]
    inputs = [cp.Variable((1, 6)) for _ in range(4)]
    model = dm.Model("mpc")
    for s, (x, u) in enumerate(zip(states, inputs, strict=True)):
        rules: list[Any] = [x[:, 1:] == A @ x[:, :-1] + B @ u, cp.abs(u) <= 1, x[1] >= -1.2]
        rules += [x[:, 0] == np.array([3.0, 0.0])] if s == 0 else []
        model.client(s, cp.sum_squares(x[:, 1:]) + 0.1 * cp.sum_squares(u), rules)
    model.consensus(*[states[s][:, -1] == states[s + 1][:, 0] for s in range(3)])
    optimum: Any = model.monolithic().solve(solver=cp.CLARABEL)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(optimum, rel=1e-4)


def certify(
    sub: Subproblem, mu: np.ndarray, rho: Any, answers: Answers, z: np.ndarray, within: float = 1e-8
) -> None:
    """Dual feasibility, and no gap between f(x) + mu'x + |rho x|^2 and the dual objective.

    With neighbours of zero. A point that is feasible and has no gap is the minimiser.
    """
    form, x = sub.form, answers.points
    assert form is not None
    cone, m = form.cone, form.size
    bend = 2 * np.broadcast_to(rho, (m,)) ** 2
    heights = [height for _, height in cone.cones]
    free = np.repeat([kind == "ZeroConeT" for kind, _ in cone.cones], heights)
    assert z.shape == cone.rhs.shape
    assert z[~free].min(initial=0.0) >= 0
    # The client's own P may be singular in y, so the gradient's part in y must vanish with P v
    # being zero there, as it is for all of these clients.
    P = cone.matrix.toarray()
    assert not P[m:].any()
    pull = cone.rows.T @ z + cone.linear
    pull[:m] += P[:m, :m] @ x + bend * x + mu
    units = np.abs(cone.rows.T) @ np.abs(z) + np.abs(cone.linear)
    units[:m] += np.abs(P[:m, :m]) @ np.abs(x) + bend * np.abs(x) + np.abs(mu)
    assert np.all(np.abs(pull) <= within * np.maximum(units, np.abs(mu).max()))
    square = x @ P[:m, :m] @ x + bend @ x**2
    primal = answers.objectives[0] + mu @ x + bend @ x**2 / 2
    dual = -cone.rhs @ z - square / 2 + cone.constant
    assert abs(primal - dual) <= within * max(1.0, abs(primal), np.abs(cone.rhs) @ np.abs(z))


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


X = cp.Variable(8)
PROXIMAL: dict[str, tuple[Any, Any]] = {
    "norm 1": (
        lambda x: (cp.norm1(x), []),
        lambda v, h: np.sign(v) * np.maximum(np.abs(v) - 1 / h, 0),
    ),
    "norm 1, x <= 1/2": (
        lambda x: (cp.norm1(x), [x <= 0.5]),
        lambda v, h: np.minimum(np.sign(v) * np.maximum(np.abs(v) - 1 / h, 0), 0.5),
    ),
    "norm inf": (lambda x: (cp.norm_inf(x), []), lambda v, h: v - in_l1(v, 1 / h)),
    "max": (lambda x: (cp.max(x), []), lambda v, h: v - simplex(v, 1 / h)),
    "l1 ball": (lambda x: (0, [cp.norm1(x) <= 1]), lambda v, h: in_l1(v, 1.0)),
    "linf ball": (lambda x: (0, [cp.norm_inf(x) <= 1]), lambda v, h: np.clip(v, -1, 1)),
    "hinge": (
        lambda x: (cp.sum(cp.pos(1 - x)), []),
        lambda v, h: np.where(v < 1 - 1 / h, v + 1 / h, np.maximum(v, 1)),
    ),
    "linear": (lambda x: (cp.sum(x), [x >= 0]), lambda v, h: np.maximum(v - 1 / h, 0)),
    "simplex": (lambda x: (0, [x >= 0, cp.sum(x) == 1]), lambda v, h: simplex(v, 1.0)),
}


@pytest.mark.parametrize("name", PROXIMAL)
def test_many_warm_rounds_of_other_slopes_and_penalties(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, truth = PROXIMAL[name]
    x = cp.Variable(8)
    sub = client(*make(x), variable=x)
    assert Polyhedral().refuses(sub) == ""
    random = np.random.default_rng(0)
    session, rho = Polyhedral().open([sub]), 1.0
    for turn in range(100):
        if turn % 10 == 0:
            rho = 10 ** random.uniform(-1, 1)
        mu = random.normal(size=8) * 10 ** random.uniform(-1, 1)
        answers = ask(session, mu, rho)
        assert answers.statuses == ["optimal"]
        assert answers.messages == {}
        true = truth(-mu / (2 * rho**2), 2 * rho**2)
        assert error(answers.points, true) <= TOLERANCE
        certify(sub, mu, rho, answers, raw(answers.multipliers))


@pytest.mark.parametrize("share", [0.5, 0.1, 0.9])
def test_the_quantile_of_numbers(share: float) -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=41) * 10
    x = cp.Variable(1)
    gap = values - np.ones((41, 1)) @ x
    session = Polyhedral().open([client(cp.sum(cp.maximum(share * gap, (share - 1) * gap)), [], x)])
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


def regression(
    m: int, N: int, scales: np.ndarray | None = None, seed: int = 2
) -> tuple[Subproblem, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    scales = np.ones(m) if scales is None else scales
    features = random.normal(size=(N, m)) * scales
    target = features @ (random.normal(size=m) / scales) + random.standard_t(3, size=N)
    x = cp.Variable(m)
    gap = features @ x - target
    return client(cp.sum(cp.maximum(0.3 * gap, -0.7 * gap)), [], x), features, target


SCALES = {
    "plain": np.ones(6),
    "large": np.full(6, 1e5),
    "small": np.full(6, 1e-4),
    "mixed": np.logspace(-4, 5, 6),
}


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("even", [True, False])
def test_quantile_regression_of_any_scale(
    scales: str, even: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = SCALES[scales]
    sub, features, target = regression(6, 60, units)
    session, random = Polyhedral().open([sub]), np.random.default_rng(3)
    for turn in range(30):
        rho = (1.0 + turn // 10) * (np.ones(6) if even else units)
        mu = random.normal(size=6) * rho
        answers = ask(session, mu, rho)
        assert answers.statuses == ["optimal"], answers.messages
        certify(sub, mu, rho, answers, raw(answers.multipliers), TOLERANCE)
        gap = features @ answers.points - target
        value = np.maximum(0.3 * gap, -0.7 * gap).sum()
        assert answers.objectives[0] == pytest.approx(value, rel=TOLERANCE)


def test_quantile_regression_agrees_with_highs() -> None:
    """With a vanishing penalty it is a linear program, whose vertex is unique here."""
    sub, features, target = regression(6, 60)
    lengths = np.ones(60)
    cost = np.concatenate([np.zeros(6), 0.3 * lengths, 0.7 * lengths])
    ties = np.hstack([features, -np.eye(60), np.eye(60)])
    bounds = [(None, None)] * 6 + [(0, None)] * 120
    best = scipy.optimize.linprog(cost, A_eq=ties, b_eq=target, bounds=bounds, method="highs")
    answers = ask(Polyhedral().open([sub]), np.zeros(6), 1e-3)
    assert answers.statuses == ["optimal"]
    assert error(answers.points, best.x[:6]) <= TOLERANCE
    assert answers.objectives[0] == pytest.approx(best.fun, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_program_agrees_with_highs(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, right, cost = random.normal(size=(30, 8)), random.random(30) + 0.1, random.normal(size=8)
    x = cp.Variable(8)
    session = Polyhedral().open([client(cost @ x, [rows @ x <= right, x >= -5, x <= 5], x)])
    best = scipy.optimize.linprog(cost, A_ub=rows, b_ub=right, bounds=(-5, 5), method="highs")
    answers = ask(session, np.zeros(8), 1e-3)
    assert answers.statuses == ["optimal"]
    assert error(answers.points, best.x) <= TOLERANCE
    assert answers.objectives[0] == pytest.approx(best.fun, rel=1e-7)


LOSSES: dict[str, Any] = {
    "l1 and rows": lambda A, b, x: (
        cp.sum_squares(A @ x - b) + 3 * cp.norm1(x),
        [x >= -0.2, cp.sum(x) == 1],
    ),
    "abs": lambda A, b, x: (cp.norm1(A @ x - b), [cp.sum(x) <= 1]),
    "largest residual": lambda A, b, x: (cp.norm_inf(A @ x - b), []),
    "largest affine": lambda A, b, x: (cp.max(A @ x - b) + cp.sum_squares(x) / 10, []),
    "hinge": lambda A, b, x: (cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x))), [x <= 1]),
    "l1 ball": lambda A, b, x: (cp.sum_squares(A @ x - b), [cp.norm1(x) <= 0.5]),
    "repeated rows": lambda A, b, x: (
        cp.norm1(A @ x - b),
        [cp.sum(x) == 1, 2 * cp.sum(x) == 2, x[0] <= 0.2, 2 * x[0] <= 0.4, x[0] <= 0.3],
    ),
    "fixed": lambda A, b, x: (cp.max(A @ x - b), [x[0] == 0.5, x[1] >= 0.1, x[1] <= 0.1]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_multipliers_prove_the_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    features, target = random.normal(size=(25, 6)), random.normal(size=25)
    x = cp.Variable(6)
    objective, constraints = LOSSES[name](features, target, x)
    sub = client(objective, constraints, x)
    assert Polyhedral().refuses(sub) == ""
    session = Polyhedral().open([sub])
    for turn in range(40):
        rho, mu = 0.5 + turn // 20, 3 * random.normal(size=6)
        answers = ask(session, mu, rho)
        assert answers.statuses == ["optimal"], answers.messages
        x.value = answers.points
        assert max([float(np.max(rule.violation())) for rule in constraints], default=0) <= 1e-9
        assert answers.objectives[0] == pytest.approx(objective.value, rel=1e-8, abs=1e-8)
        certify(sub, mu, rho, answers, raw(answers.multipliers))
        for rule, values in zip(constraints, duals(sub, answers), strict=True):
            assert len(values) == len(rule.dual_variables)


def test_duplicate_data_are_degenerate_and_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    features = np.repeat(random.integers(-2, 3, size=(10, 4)).astype(float), 4, axis=0)
    target = np.repeat(random.integers(-2, 3, size=10).astype(float), 4)
    x = cp.Variable(4)
    sub = client(cp.norm1(features @ x - target), [x >= -1, cp.norm_inf(x) <= 1], x)
    session = Polyhedral().open([sub])
    for turn in range(40):
        mu = random.integers(-3, 4, size=4).astype(float)
        answers = ask(session, mu, 1.0 + turn // 20)
        assert answers.statuses == ["optimal"], answers.messages
        certify(sub, mu, 1.0 + turn // 20, answers, raw(answers.multipliers))


def test_infeasible_is_left_to_the_fallback_and_the_others_go_on() -> None:
    x, y, u = cp.Variable(3), cp.Variable(3), cp.Variable(3)
    subs = [
        client(cp.norm1(x), [cp.sum(x) >= 1, cp.sum(x) <= 0], x),
        client(cp.norm1(y), [cp.sum(y) == 1, 2 * cp.sum(y) == 3], y),
        client(cp.norm1(u), [], u),
    ]
    session = Polyhedral().open(subs)
    for shift in (3.0, -2.0):
        answers = ask(session, np.zeros(9), 1.0, shift, which=(2, 0, 1))
        assert answers.statuses == ["optimal", "solver_error", "solver_error"]
        assert answers.messages == {
            1: "DAQP: it calls the rows infeasible",
            2: "DAQP: its rows contradict each other",
        }
        true = np.full(3, np.sign(shift) * (abs(shift) - 0.5))
        assert error(answers.points[:3], true) <= TOLERANCE
        assert np.isnan(answers.points[3:]).all()
        assert np.isnan(answers.objectives[1:]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_number_that_is_no_number_leaves_the_next_turn_right(value: float) -> None:
    make, truth = PROXIMAL["norm 1"]
    x = cp.Variable(8)
    session, v = Polyhedral().open([client(*make(x), variable=x)]), np.linspace(-1, 3, 8)
    for _ in range(3):
        assert ask(session, np.full(8, value), 1.0, v).statuses[0] in ("optimal", "solver_error")
        assert error(ask(session, np.zeros(8), 1.0, v).points, truth(v, 2.0)) <= TOLERANCE


def test_a_point_that_misses_the_conditions_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daqp_program, "MISSED", -1.0)
    x = cp.Variable(3)
    answers = ask(Polyhedral().open([client(cp.norm1(x), [], x)]), np.ones(3), 1.0)
    assert answers.statuses == ["solver_error"]
    assert "misses the conditions" in answers.messages[0]
    assert np.isnan(answers.points).all()


def test_clients_of_other_sizes_share_a_session() -> None:
    random, sizes = np.random.default_rng(6), (3, 5, 3, 1)
    variables = [cp.Variable(size) for size in sizes]
    session = Polyhedral().open([client(cp.norm1(x), [], x) for x in variables])
    for _ in range(20):
        which = random.permutation(4)[: random.integers(1, 5)]
        v = [3 * random.normal(size=sizes[at]) for at in which]
        answers = ask(session, np.zeros(sum(map(len, v))), 1.0, np.concatenate(v), which.tolist())
        true = np.concatenate([np.sign(u) * np.maximum(np.abs(u) - 0.5, 0) for u in v])
        assert error(answers.points, true) <= TOLERANCE


def test_what_polyhedral_refuses() -> None:
    assert isinstance(Polyhedral(), Solver)
    x, long = cp.Variable(4), cp.Variable(LARGEST)
    assert "SecondOrderConeT" in Polyhedral().refuses(client(cp.norm(x) + cp.max(x), [], x))
    assert "logistic" in Polyhedral().refuses(client(cp.sum(cp.logistic(x)), [], x))
    assert "columns" in Polyhedral().refuses(client(cp.norm_inf(long), [], long))
    assert "columns" in Polyhedral().refuses(client(cp.norm1(long), [], long))


def test_a_line_that_nothing_bounds_stays_where_it_is_in_other_units() -> None:
    """A sorted sum's auxiliary variables may all be others by the same; its prox is isotonic.

    Where the objective is 3e5 times larger than the rows, points went thirty times farther out on
    that line every turn, until none of their digits was left.
    """
    weights, scale, curvature = np.array([0.9, 0.75, 0.33, 0.83]), 3e5, 1.35
    x, random = cp.Variable(4), np.random.default_rng(0)
    cost = scale * (curvature * cp.sum_squares(x) + cp.dotsort(x, weights))
    session = Polyhedral().open([client(cost, [], x)])
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


def test_a_predictive_controller_overflows_nowhere() -> None:
    """Numbers beyond DAQP's bounds count as none, without a warning, and nobody has any left."""
    a, b = np.array([[1, 0.2], [0, 1]]), np.array([[0.02], [0.2]])
    states = [cp.Variable((2, 7)) for _ in range(4)]
    inputs = [cp.Variable((1, 6)) for _ in range(4)]
    model, rules, cost = dm.Model("mpc"), [], 0.0
    for at, (x, u) in enumerate(zip(states, inputs, strict=True)):
        own = [x[:, 1:] == a @ x[:, :-1] + b @ u, cp.abs(u) <= 1, x[1] >= -1.2]
        own += [x[:, 0] == [3.0, 0.0]] if at == 0 else []
        paid = cp.sum_squares(x[:, 1:]) + 0.1 * cp.sum_squares(u)
        model.client(at, paid, own)
        cost, rules = cost + paid, [*rules, *own]
    joints = [one[:, -1] == two[:, 0] for one, two in itertools.pairwise(states)]
    model.consensus(*joints)
    result = model.solve()  # with every warning an error
    assert result.status == "optimal"
    whole = cp.Problem(cp.Minimize(cost), rules + joints).solve(solver=cp.OSQP, eps_abs=1e-9)
    assert result.value == pytest.approx(whole, rel=1e-6)
