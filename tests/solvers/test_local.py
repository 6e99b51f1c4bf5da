r"""Local steps and the smooth parts they need, against plain numpy written by hand.

Every client here is known twice: to cvxpy, and as functions of numpy for its value, its gradient
and its Hessian. A step of the solvers must be that of equations (60) to (66) with these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.errors import OptionError
from dald_model.solvers import GradientSteps, NewtonSteps, ProximalGradientSteps, Solver
from tests.duals import duals
from tests.solvers.known import (
    Known,
    everything,
    least_squares,
    logistic,
    make_sub,
    make_turn,
    orders,
    pulled,
    quartic,
)

EXACT = 1e-12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_gradient_steps_are_those_of_numpy(rng: np.random.Generator):
    known = [*everything(rng), quartic()]
    for count in (1, 3):
        session = GradientSteps(0.01, count).open([one.sub for one in known])
        for which in orders(len(known), rng):
            turn, parts = make_turn(known, which, rng)
            answers = session.minimise(turn, 1e-6)
            points, slack, values = [], [], []
            for at, part in zip(which, parts, strict=True):
                one, x = known[at], part["points"]
                g = x
                for _ in range(count):
                    g = one.gradient(x) + pulled(one, x, part)
                    x = x - 0.01 * g
                points.append(x)
                slack.append(np.abs(g).max())
                values.append(one.value(x))
            assert answers.points == pytest.approx(np.concatenate(points), abs=EXACT * 10)
            assert answers.slack == pytest.approx(np.array(slack), rel=1e-10)
            assert answers.objectives == pytest.approx(np.array(values), rel=1e-11)
            assert list(answers.statuses) == ["optimal"] * which.size
            assert not answers.messages
            assert not answers.multipliers.values.size


def test_proximal_gradient_steps_are_those_of_numpy(rng: np.random.Generator):
    known = [*everything(rng), quartic()]
    known += [logistic(rng, rows, 30, weight=0.05, density=0.2) for rows in (7, 9, 8)]
    A, b = rng.normal(size=(5, 4)), rng.normal(size=5)
    x = cp.Variable(4)
    known.append(
        Known(
            make_sub(cp.sum_squares(A @ x - b), [2 * x], [x >= 0, x <= 0.5]),
            lambda x: ((A @ x - b) ** 2).sum(),
            lambda x: 2 * A.T @ (A @ x - b),
            prox=lambda v, alpha: v.clip(0, 0.5),
        )
    )
    y = cp.Variable(3)
    known.append(
        Known(
            make_sub(cp.sum(cp.power(y, 4)), rules=[cp.norm(y) <= 1]),
            lambda x: (x**4).sum(),
            lambda x: 4 * x**3,
            prox=lambda v, alpha: v * min(1, 1 / np.linalg.norm(v)),
        )
    )
    alpha = 0.02
    for count in (1, 4):
        solver = ProximalGradientSteps(alpha, count)
        assert not any(solver.refuses(one.sub) for one in known)
        session = solver.open([one.sub for one in known])
        for which in orders(len(known), rng):
            turn, parts = make_turn(known, which, rng)
            answers = session.minimise(turn, 1e-6)
            points, slack, values = [], [], []
            for at, part in zip(which, parts, strict=True):
                one, point = known[at], part["points"]
                before = point
                for _ in range(count):
                    g = one.gradient(point) + pulled(one, point, part)
                    before, point = point, one.prox(point - alpha * g, alpha)
                points.append(point)
                slack.append(np.abs(before - point).max() / alpha)
                values.append(one.value(point) + one.rough(point))
            assert answers.points == pytest.approx(np.concatenate(points), abs=EXACT * 10)
            assert answers.slack == pytest.approx(np.array(slack), rel=1e-8, abs=1e-9)
            assert answers.objectives == pytest.approx(np.array(values), rel=1e-10, abs=1e-12)


def test_proximal_steps_end_at_the_minimiser_with_its_dual_values(rng: np.random.Generator):
    A, b = rng.normal(size=(5, 4)), rng.normal(size=5)
    x = cp.Variable(4)
    rules = [x >= 0, cp.sum(x) == 1]
    sub = make_sub(cp.sum_squares(A @ x - b) + cp.sum_squares(x), rules=rules)
    known = [Known(sub, lambda x: 0.0, lambda x: 0.0)]
    turn, (part,) = make_turn(known, np.zeros(1, int), rng)
    session = ProximalGradientSteps(0.02, 3000).open([sub])
    answers = session.minimise(turn, 1e-6)
    sub.set(part["mu"], part["rho"], part["neighbours"])
    sub.problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert answers.points == pytest.approx(x.value, abs=1e-7)
    assert answers.slack == pytest.approx(0, abs=1e-10)
    assert [len(one) for one in duals(sub, answers)] == [1, 1]
    assert duals(sub, answers)[0][0] == pytest.approx(rules[0].dual_value, abs=1e-6)
    assert duals(sub, answers)[1][0] == pytest.approx(rules[1].dual_value, abs=1e-6)


def test_a_step_that_is_too_large_is_named_and_the_others_go_on(rng: np.random.Generator):
    x, y = cp.Variable(2), cp.Variable(2)
    # The first has a domain, which a step of 2 leaves; the third grows beyond all numbers
    subs = [
        make_sub(-cp.sum(cp.log(x))),
        make_sub(0.1 * cp.sum_squares(y)),
        make_sub(cp.sum(cp.exp(cp.multiply(1000, y)))),
    ]
    known = [Known(sub, lambda x: 0.0, lambda x: 0.0) for sub in subs]
    turn, _ = make_turn(known, np.arange(3), rng)
    turn = turn._replace(mu=0 * turn.mu, rho=0 * turn.rho + 3, points=np.ones(6))
    turn = turn._replace(
        neighbours=np.repeat([-2.0, 2.0], [4, 2]), points=np.r_[np.ones(4), -np.ones(2)]
    )
    for solver in (GradientSteps(0.5), ProximalGradientSteps(0.5)):
        answers = solver.open(subs).minimise(turn, 1e-6)
        assert list(answers.statuses) == ["solver_error", "optimal", "solver_error"]
        assert answers.messages == {
            0: "the step 0.5 is too large: the iterate left the domain of its objective",
            2: "the step 0.5 is too large: the iterate left the domain of its objective",
        }
        assert np.isnan(answers.points[:2]).all()
        assert np.isfinite(answers.points[2:4]).all()
        assert np.isnan(answers.objectives[[0, 2]]).all()
    far = turn._replace(points=np.r_[-np.ones(2), np.ones(4)])
    answers = GradientSteps(1e-3).open(subs).minimise(far, 1e-6)
    assert answers.messages[0] == "its point is outside of the domain of its objective"


@pytest.mark.slow
def test_steps_that_run_away_end_in_a_message_whoever_knows_the_gradient(
    rng: np.random.Generator,
):
    known = [quartic(), least_squares(rng, 5, 3)]
    turn, _ = make_turn(known, np.arange(2), rng)
    for solver in (GradientSteps(1e3, 200), ProximalGradientSteps(1e3, 200)):
        answers = solver.open([one.sub for one in known]).minimise(turn, 1e-6)
        assert list(answers.statuses) == ["solver_error"] * 2
        said = "the step 1000 is too large: the iterate left the finite numbers"
        assert answers.messages == {0: said, 1: said}


def test_a_client_without_a_point_is_infeasible(rng: np.random.Generator):
    x = cp.Variable(2)
    sub = make_sub(cp.sum_squares(x), rules=[x >= 1, x <= 0])
    known = [Known(sub, lambda x: 0.0, lambda x: 0.0)]
    answers = (
        ProximalGradientSteps(0.1)
        .open([sub])
        .minimise(make_turn(known, np.zeros(1, int), rng)[0], 1e-6)
    )
    assert list(answers.statuses) == ["infeasible"]
    assert answers.messages == {0: "CLARABEL: PrimalInfeasible"}
    assert np.isnan(answers.points).all()


def test_a_singular_hessian_is_a_failure_of_that_client_alone(rng: np.random.Generator):
    x, y = cp.Variable(2), cp.Variable(2)
    subs = [make_sub(cp.square(x[0] + x[1]), [x[0] + x[1]]), make_sub(cp.sum_squares(y))]
    known = [Known(sub, lambda x: 0.0, lambda x: 0.0) for sub in subs]
    turn, _ = make_turn(known, np.arange(2), rng)
    answers = NewtonSteps().open(subs).minimise(turn, 1e-6)
    assert list(answers.statuses) == ["solver_error", "optimal"]
    assert answers.messages == {
        0: "the Hessian is singular or the full step is too large: the iterate left the finite "
        "numbers"
    }


def refusals() -> list[tuple[Solver, dm.Subproblem, str]]:
    x, z = cp.Variable(2), cp.Variable(3)
    plain, bound = make_sub(cp.sum_squares(x)), make_sub(cp.sum_squares(x), rules=[x >= 0])
    attribute = make_sub(cp.sum_squares(cp.Variable(2, nonneg=True)))
    kinked = make_sub(cp.sum_squares(x) + cp.norm1(x) + cp.norm(x - 1))
    foreign = make_sub(cp.square(cp.sum_squares(x)))
    largest = make_sub(cp.max(z) + cp.sum_squares(z))
    free = make_sub(cp.square(cp.sum_squares(x)), rules=[x <= 1])
    twice, other = make_sub(cp.sum_squares(x), [x, x]), make_sub(cp.sum_squares(x), [2 * x])
    steps, newton, proximal = GradientSteps(0.1), NewtonSteps(), ProximalGradientSteps(0.1)
    home = GradientSteps(0.1, from_neighbour=True)
    landing = ProximalGradientSteps(0.1, from_neighbour=True)
    unknown = "its objective has parts that are no quadratic and no known function"
    kinks = "its objective has abs and norm terms: use ProximalGradientSteps"
    return [
        (steps, plain, ""),
        (newton, plain, ""),
        (proximal, plain, ""),
        (home, plain, ""),
        (steps, bound, "it has constraints: use ProximalGradientSteps"),
        (steps, attribute, "it has constraints: use ProximalGradientSteps"),
        (newton, bound, "it has constraints: use ProximalGradientSteps"),
        (proximal, bound, ""),
        (proximal, attribute, ""),
        (steps, free, "it has constraints: use ProximalGradientSteps"),
        (proximal, free, ""),
        (steps, kinked, kinks),
        (newton, kinked, kinks),
        (proximal, kinked, ""),
        (steps, foreign, ""),
        (newton, foreign, "its objective is known to cvxpy only, which gives no Hessians"),
        (proximal, foreign, ""),
        (steps, largest, unknown),
        (newton, largest, unknown),
        (proximal, largest, unknown),
        (landing, kinked, ""),
        (landing, largest, unknown),
        (landing, twice, "it has 2 neighbours: from_neighbour needs a single one, its server"),
        (home, twice, "it has 2 neighbours: from_neighbour needs a single one, its server"),
        (home, other, "its sides are not just its variables: from_neighbour needs x == server"),
    ]


def test_refusals_say_why():
    for solver, sub, reason in refusals():
        assert solver.refuses(sub) == reason


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: GradientSteps(0.0),
            "GradientSteps: step is 0.0, expected a positive finite number such as 1e-3",
        ),
        (
            lambda: GradientSteps(True),
            "GradientSteps: step is True, expected a positive finite number such as 1e-3",
        ),
        (
            lambda: ProximalGradientSteps(np.inf),
            "ProximalGradientSteps: step is inf, expected a positive finite number such as 1e-3",
        ),
        (
            lambda: ProximalGradientSteps("fast"),  # pyright: ignore[reportArgumentType]
            "ProximalGradientSteps: step is 'fast', expected a positive finite number such as 1e-3",
        ),
        (
            lambda: NewtonSteps(damping=-1.0),
            "NewtonSteps: damping is -1.0, expected a positive finite number such as 1.0",
        ),
        (
            lambda: NewtonSteps(0),
            "NewtonSteps: count is 0, expected a whole number from 1; it is W, the local steps "
            "per turn",
        ),
        (
            lambda: GradientSteps(0.1, 1.5),  # pyright: ignore[reportArgumentType]
            "GradientSteps: count is 1.5, expected a whole number from 1; it is W, the local steps "
            "per turn",
        ),
        (
            lambda: GradientSteps(0.1, penalised="no"),  # pyright: ignore[reportArgumentType]
            "GradientSteps: penalised is 'no', expected True or False",
        ),
        (
            lambda: ProximalGradientSteps(0.1, from_neighbour=1),  # pyright: ignore[reportArgumentType]
            "ProximalGradientSteps: from_neighbour is 1, expected True or False",
        ),
    ],
)
def test_options_are_checked_when_they_are_given(make: Callable[[], Any], message: str):
    with pytest.raises(OptionError) as caught:
        make()
    assert str(caught.value) == message
