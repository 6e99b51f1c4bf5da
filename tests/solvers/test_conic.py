"""Conic against closed forms, other solvers and the certificates of the cone program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Session, Turn
from dald_model.solvers.exact import conic
from dald_model.solvers.exact.conic import Conic
from tests.duals import raw
from tests.expect import error
from tests.solvers.known import make_sub

TOLERANCE = 1e-6


def ask(
    session: Session,
    mu: Any,
    rho: Any,
    neighbours: Any = 0.0,
    tolerance: float = TOLERANCE,
    which: Sequence[int] = (0,),
) -> Answers:
    mu = np.atleast_1d(np.asarray(mu, dtype=float))
    rho = np.broadcast_to(np.asarray(rho, dtype=float), mu.shape).copy()
    neighbours = np.broadcast_to(np.asarray(neighbours, dtype=float), mu.shape).copy()
    return session.minimise(Turn(np.array(which), mu, rho, neighbours), tolerance)


X = cp.Variable(8)
CLIENTS: dict[str, Subproblem] = {
    "box": make_sub(0 * cp.sum(X), rules=[X >= -1, X <= 1]),
    "simplex": make_sub(0 * cp.sum(X), rules=[X >= 0, cp.sum(X) == 1]),
    "linear": make_sub(cp.sum(X), rules=[X >= 0]),
    "norm 1": make_sub(cp.norm1(X)),
    "norm 2": make_sub(cp.norm(X)),
    "ball": make_sub(0 * cp.sum(X), rules=[cp.norm(X) <= 1]),
    "-log": make_sub(-cp.sum(cp.log(X))),
}
AT = np.linspace(-1, 3, 8)
NEAREST = {
    "box": np.clip(AT, -1, 1),
    "linear": np.maximum(AT - 1 / 2, 0),
    "norm 2": (1 - 1 / (2 * np.linalg.norm(AT))) * AT,
    "-log": (AT + np.sqrt(AT * AT + 2)) / 2,
}
"""The minimisers of these plus the square of the distance from ``AT``."""


# --- other solvers, and the certificate of the cone program ---------------------------------------


def test_exponential_cones_agree_with_newton() -> None:
    random = np.random.default_rng(3)
    features = random.normal(size=(60, 5))
    x = cp.Variable(5)
    session = Conic().open([make_sub(cp.sum(cp.logistic(features @ x)))])
    for turn in range(30):
        rho, mu = 0.5 + turn // 10, 5 * random.normal(size=5)
        true = np.zeros(5)
        for _ in range(50):
            share = 1 / (1 + np.exp(-features @ true))
            gradient = features.T @ share + mu + 2 * rho**2 * true
            hessian = (features.T * (share * (1 - share))) @ features + 2 * rho**2 * np.eye(5)
            true = true - np.linalg.solve(hessian, gradient)
        assert error(ask(session, mu, rho).points, true) <= TOLERANCE


@pytest.mark.parametrize("seed", range(4))
def test_a_mixed_cone_program_agrees_with_scs(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = cp.Variable(6)
    features, target = random.normal(size=(2, 20, 6))[0], random.normal(size=20)
    matrix = random.normal(size=(4, 6)) * (random.random((4, 6)) < 0.5)
    objective = (
        cp.sum_squares(features @ x - target)
        + cp.norm(x[:3])
        + cp.log_sum_exp(2 * x)
        + cp.power(cp.pos(x[0]), 1.5)
        + cp.lambda_max(cp.diag(x[:3]) + np.ones((3, 3)))
    )
    constraints = [cp.sum(x) == 1, x <= 2, cp.norm(x[3:]) <= 0.7]
    session = Conic().open([make_sub(objective, [matrix @ x], constraints)])
    mu, rho, neighbours = random.normal(size=(3, 4))
    rho = np.abs(rho)
    found = ask(session, mu, rho, neighbours)

    gap = matrix @ x - neighbours
    whole = objective + mu @ gap + cp.sum_squares(cp.multiply(rho, gap))
    cp.Problem(cp.Minimize(whole), constraints).solve(
        solver=cp.SCS, eps_abs=1e-9, eps_rel=1e-9, max_iters=200_000
    )
    assert found.statuses == ["optimal"]
    assert error(found.points, np.asarray(x.value)) <= TOLERANCE
    assert found.objectives[0] == pytest.approx(objective.value, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("name", ["box", "simplex", "linear", "norm 1", "norm 2", "ball"])
def test_the_multipliers_prove_the_point(name: str) -> None:
    client = CLIENTS[name]
    assert client.form is not None
    cone, size = client.form.cone, client.size
    random = np.random.default_rng(4)
    session = Conic().open([client])
    turns = [random.normal(size=size) for _ in range(10)]
    answers = [ask(session, mu, 1.0) for mu in turns]
    for mu, answer in zip(turns, answers, strict=True):  # read after the later turns
        z, x = raw(answer.multipliers), answer.points
        own, others = (cone.rows.T @ z + cone.linear)[:size], (cone.rows.T @ z + cone.linear)[size:]
        assert np.abs(own + 2 * x + mu).max() <= TOLERANCE  # P is zero here, and K is 2 I
        assert np.abs(others).max(initial=0) <= TOLERANCE
        primal = answer.objectives[0] + mu @ x + x @ x
        assert primal == pytest.approx(-cone.rhs @ z - x @ x, abs=TOLERANCE)
        at = 0
        for kind, width in cone.cones:
            part, at = z[at : at + width], at + width
            if kind == "NonnegativeConeT":
                assert part.min() >= 0
            elif kind == "SecondOrderConeT":
                assert part[0] >= np.linalg.norm(part[1:]) * (1 - 1e-12)


# Second-order cones beside a quadratic as large as data make it: where Clarabel with its usual
# steps loses digits at the boundary and stops short.


@pytest.fixture
def large() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(6)
    features = random.normal(size=(200, 20))
    target = features @ (random.normal(size=20) * (np.arange(20) < 10)) + random.normal(size=200)
    return features.T @ features * 2, -2 * features.T @ target


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_least_squares_in_a_ball(large: tuple[np.ndarray, np.ndarray], tolerance: float) -> None:
    x = cp.Variable(20)
    objective = cp.quad_form(x, cp.psd_wrap(large[0])) / 2 + large[1] @ x
    session = Conic().open([make_sub(objective, rules=[cp.norm(x) <= 1])])
    values, vectors = np.linalg.eigh(large[0] + 2 * np.eye(20))
    for mu in np.random.default_rng(7).normal(size=(30, 20)) * 20:
        pull = vectors.T @ (large[1] + mu)
        low, high = 0.0, 1e6  # of the multiplier, by bisection: the ball is active throughout
        for _ in range(200):
            middle = (low + high) / 2
            inside = np.linalg.norm(pull / (values + middle)) <= 1
            low, high = (low, middle) if inside else (middle, high)
        assert low > 0
        answers = ask(session, mu, 1.0, tolerance=tolerance)
        assert answers.statuses == ["optimal"]
        assert error(answers.points, -vectors @ (pull / (values + low))) <= tolerance


def test_group_lasso(large: tuple[np.ndarray, np.ndarray]) -> None:
    x = cp.Variable(20)
    groups = sum((cp.norm(x[at : at + 5]) for at in range(0, 20, 5)), start=cp.Constant(0))
    objective = cp.quad_form(x, cp.psd_wrap(large[0])) / 2 + large[1] @ x + 50 * groups
    session = Conic().open([make_sub(objective)])
    hessian = large[0] + 2 * np.eye(20)
    step = 1 / np.linalg.eigvalsh(hessian)[-1]
    for mu in np.random.default_rng(8).normal(size=(30, 20)) * 20:
        true = np.zeros(20)
        for _ in range(400):  # proximal gradient; the condition number is below 5
            moved = (true - step * (hessian @ true + large[1] + mu)).reshape(4, 5)
            lengths = np.linalg.norm(moved, axis=1, keepdims=True)
            true = (np.maximum(0, 1 - 50 * step / lengths) * moved).ravel()
        answers = ask(session, mu, 1.0)
        assert answers.statuses == ["optimal"]
        assert error(answers.points, true) <= TOLERANCE


# --- failures, and the turn after -----------------------------------------------------------------


def test_an_infeasible_client_says_so_and_the_others_go_on() -> None:
    x = cp.Variable(8)
    session = Conic().open([make_sub(0 * cp.sum(x), rules=[x >= 1, x <= 0]), CLIENTS["box"]])
    for shift in (3.0, -0.5):
        answers = ask(session, np.zeros(16), 1.0, shift, which=(1, 0))
        assert answers.statuses == ["optimal", "infeasible"]
        assert answers.messages == {1: "CLARABEL: PrimalInfeasible"}
        assert error(answers.points[:8], np.full(8, np.clip(shift, -1, 1))) <= TOLERANCE
        assert np.isnan(answers.points[8:]).all()
        assert np.isnan(answers.objectives[1])


def test_an_unbounded_turn_leaves_the_next_one_right() -> None:
    client = CLIENTS["linear"]
    session = Conic().open([client])
    for _ in range(5):
        answers = ask(session, np.full(8, -2.0), 0.0)
        assert answers.statuses == ["unbounded"]
        assert answers.messages == {0: "CLARABEL: DualInfeasible"}
        same_penalty = ask(session, np.full(8, 2.0), 0.0)
        assert same_penalty.statuses == ["optimal"]
        assert error(same_penalty.points, np.zeros(8)) <= TOLERANCE
        found = ask(session, np.zeros(8), 1.0, AT).points
        assert error(found, NEAREST["linear"]) <= TOLERANCE


def test_an_unbounded_turn_leaves_an_exponential_cone_right() -> None:
    x = cp.Variable(3)
    session = Conic().open([make_sub(cp.sum(cp.exp(x)))])
    for mu in ([-1.0, -2.0, -0.5], [-0.1, -5.0, -1.0]):
        assert ask(session, [1.0, 1.0, 1.0], 0.0).statuses == ["unbounded"]
        assert error(ask(session, mu, 0.0).points, np.log(-np.array(mu))) <= TOLERANCE


@pytest.mark.parametrize("name", ["-log", "norm 2", "box"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_number_that_is_no_number_leaves_the_next_turn_right(name: str, value: float) -> None:
    client = CLIENTS[name]
    session = Conic().open([client])
    ask(session, np.zeros(8), 1.0, AT)
    for _ in range(3):
        answers = ask(session, np.full(8, value), 1.0, AT)
        assert answers.statuses[0] not in ("optimal", "optimal_inaccurate")
        assert answers.messages[0].startswith("CLARABEL: ")
        found = ask(session, np.zeros(8), 1.0, AT).points
        assert error(found, NEAREST[name]) <= TOLERANCE


def test_the_attempts_are_made_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        conic, "is_polished", lambda cones, unknowns: False
    )  # Clarabel's word alone
    client = CLIENTS["norm 2"]
    poor = {"max_iter": 1}
    for tried, status, message in (
        ([poor, poor], "solver_error", "CLARABEL: MaxIterations"),
        ([poor, {}], "optimal_inaccurate", "CLARABEL: Solved"),
        ([poor, {}, poor], "optimal", None),
    ):
        monkeypatch.setattr(conic, "attempts", lambda tolerance, tried=tried: tried)
        session = Conic().open([client])
        for _ in range(3):
            answers = ask(session, np.zeros(8), 1.0, AT)
            assert answers.statuses == [status]
            assert answers.messages.get(0) == message
            if status != "solver_error":
                assert error(answers.points, NEAREST["norm 2"]) <= TOLERANCE


@pytest.mark.parametrize("place", ["set-up", "solve"])
def test_a_panic_of_clarabel_is_a_failed_attempt(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written in Rust, and its panics are no Exceptions."""
    panic = type("PanicException", (BaseException,), {})
    client = CLIENTS["norm 2"]
    session = Conic().open([client])

    class Panics:
        def __init__(self, *_: Any) -> None:
            if place == "set-up":
                raise panic("assertion failed")

        def solve(self) -> Any:
            raise panic("assertion failed")

    with monkeypatch.context() as patch:
        patch.setattr(conic, "DefaultSolver", Panics)
        answers = ask(session, np.zeros(8), 1.0, AT)
    assert answers.statuses == ["solver_error"]
    assert answers.messages == {0: "CLARABEL: panicked (assertion failed)"}
    found = ask(session, np.zeros(8), 1.0, AT).points
    assert error(found, NEAREST["norm 2"]) <= TOLERANCE


def test_powers_and_geometric_means_are_cones() -> None:
    """The largest x with x <= sqrt(a b), a <= 1, b <= 4, is 2; with three, 4 for 1, 4 and 16."""
    x, a = cp.Variable(), cp.Variable(3)
    for cap, best in ((np.array([1.0, 4.0]), 2.0), (np.array([1.0, 4.0, 16.0]), 4.0)):
        part = a[: cap.size]
        sub = make_sub(-x, [x], [x <= cp.geo_mean(part), part <= cap])
        answers = ask(Conic().open([sub]), [0.0], 0.0)
        at = [v.id for v in sub.variables].index(x.id)
        assert answers.points[at] == pytest.approx(best, abs=TOLERANCE)


def test_a_client_that_its_edges_hold_is_never_unbounded() -> None:
    """Clarabel says so of -1e12 / x^2 between 1e3 and 5e7: a failure, and no proof."""
    model, x = dm.Model("held"), [cp.Variable(name=f"x{i}") for i in range(3)]
    for one in x:
        model.client(one.name(), cp.Maximize(-1e12 * cp.power(one, -2)), [one >= 1e3, one <= 5e7])
    total: Any = sum(x)
    model.couple(total <= 4e6)
    assert model.solve(max_rounds=60).status != "unbounded"
