"""Every solver on every client it takes: answers are optimal by the numbers of the client alone.

Each client is asked in turns as a run would ask: cold, near, far and with other penalties, and at a
loose accuracy; alone, beside others of its shape, and again in another run. What answers must
satisfy is worked out in :mod:`tests.solvers.optimality`, which shares no code with any solver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.solvers import NAMED, Turn
from tests.solvers.known import make_sub
from tests.solvers.optimality import residual, violation

SIZE = 6
ACCURACY, OFF = 1e-8, 1e-6
"""What is asked for of points, and what may be left of the conditions relative to their parts: a
point that is off by 1e-8 is off by as much times the condition of the client."""
ROUGH = 1e-3
"""Another accuracy: points are to be that close to the accurate ones."""
Rules = list[Any]
Problem = Callable[[np.random.Generator, cp.Variable], tuple[Any, Rules]]


def fit(rng: np.random.Generator, x: cp.Variable, rows: int = 9) -> Any:
    return cp.sum_squares(rng.normal(size=(rows, SIZE)) @ x - rng.normal(size=rows))


def hinges(rng: np.random.Generator, x: cp.Variable) -> Any:
    return cp.sum(cp.pos(1 - rng.normal(size=(30, SIZE)) @ x))


def logistic(rng: np.random.Generator, x: cp.Variable) -> Any:
    return cp.sum(cp.logistic(rng.normal(size=(15, SIZE)) @ x)) + cp.sum_squares(x) / 10


def loss(rng: np.random.Generator, x: cp.Variable) -> Any:
    return cp.sum_squares(rng.normal(size=(9, SIZE - 1)) @ x[1:] - rng.normal(size=9)) / 9


def precision(rng: np.random.Generator, x: cp.Variable) -> Any:
    """The likelihood of a covariance of three variables."""
    upper = [np.eye(3)[i][:, None] * np.eye(3)[j] for i in range(3) for j in range(i + 1)]
    matrix = sum(x[k] * (one + one.T) / 2 for k, one in enumerate(upper))
    rows = rng.normal(size=(7, 3))
    return cp.trace(rows.T @ rows @ matrix) - 2 * cp.log_det(matrix + 0.3 * np.eye(3))


PROBLEMS: dict[str, Problem] = {
    "least squares": lambda r, x: (fit(r, x), []),
    "few rows": lambda r, x: (fit(r, x, 2), []),
    "equalities": lambda r, x: (fit(r, x), [r.normal(size=(2, SIZE)) @ x == [1, 2]]),
    "bounds": lambda r, x: (fit(r, x), [x >= -0.1, x <= 0.3]),
    "simplex": lambda r, x: (fit(r, x), [x >= 0, cp.sum(x) == 1]),
    "rows": lambda r, x: (fit(r, x), [r.normal(size=(8, SIZE)) @ x <= 1]),
    "linear cost": lambda r, x: (r.normal(size=SIZE) @ x, [x >= -1, x <= 2]),
    "lasso": lambda r, x: (fit(r, x) + 3 * cp.norm1(x), []),
    "lasso in a box": lambda r, x: (fit(r, x) + cp.norm1(x), [x >= -0.2, x <= 0.2]),
    "fused": lambda r, x: (fit(r, x) + 2 * cp.norm1(cp.diff(x)), []),
    "absolute loss": lambda r, x: (cp.norm1(r.normal(size=(20, SIZE)) @ x - r.normal(size=20)), []),
    "quantile loss": lambda r, x: (
        cp.sum(cp.maximum(0.3 * (e := r.normal(size=(20, SIZE)) @ x - 1), -0.7 * e)),
        [],
    ),
    "support vectors": lambda r, x: (hinges(r, x) + cp.sum_squares(x), []),
    "support vectors with rows": lambda r, x: (hinges(r, x), [cp.sum(x) == 1, x <= 2]),
    "largest": lambda r, x: (cp.max(r.normal(size=(7, SIZE)) @ x), []),
    "group lasso": lambda r, x: (fit(r, x) + 4 * (cp.norm(x[:3]) + cp.norm(x[3:])), []),
    "group and l1": lambda r, x: (fit(r, x) + 2 * cp.norm(x[:3]) + cp.norm1(x[3:]), []),
    "sparse group": lambda r, x: (fit(r, x) + 2 * cp.norm(x[:3]) + cp.norm1(x), []),
    "norm of a difference": lambda r, x: (fit(r, x) + 3 * cp.norm(x[:3] - x[3:]), []),
    "norm of a residual": lambda r, x: (cp.norm(r.normal(size=(9, SIZE)) @ x - 1), []),
    "ball": lambda r, x: (fit(r, x), [cp.norm(x) <= 0.3]),
    "square ball": lambda r, x: (fit(r, x), [cp.sum_squares(x) <= 0.1]),
    "two balls": lambda r, x: (fit(r, x), [cp.norm(x[:3]) <= 0.2, cp.norm(x[3:] - 1) <= 0.5]),
    "ball of a map": lambda r, x: (fit(r, x), [cp.norm(r.normal(size=(4, SIZE)) @ x) <= 0.5]),
    "ball and box": lambda r, x: (fit(r, x), [cp.norm(x) <= 0.4, x >= 0]),
    "norm and rows": lambda r, x: (fit(r, x) + 3 * cp.norm(x), [cp.sum(x) == 1, x >= -1]),
    "logistic": lambda r, x: (logistic(r, x), []),
    "logistic and l1": lambda r, x: (logistic(r, x) + cp.norm1(x), []),
    "logistic in a box": lambda r, x: (logistic(r, x), [x >= -0.1, x <= 0.1, cp.sum(x) == 0]),
    "logistic and groups": lambda r, x: (logistic(r, x) + cp.norm(x[:3]) + cp.norm(x[3:]), []),
    "logistic in a ball": lambda r, x: (logistic(r, x), [cp.norm(x) <= 0.3]),
    "huber and hinges": lambda r, x: (cp.sum(cp.huber(x - 1)) + hinges(r, x), []),
    "poisson": lambda r, x: (cp.sum(cp.exp(r.normal(size=(9, SIZE)) @ x)) - cp.sum(x), []),
    "entropy": lambda r, x: (-cp.sum(cp.entr(x)) + r.normal(size=SIZE) @ x, [cp.sum(x) == 1]),
    "logarithm": lambda r, x: (-cp.sum(cp.log(x)) + r.uniform(1, 3, SIZE) @ x, []),
    "log det": lambda r, x: (precision(r, x), []),
    "log det and l1": lambda r, x: (precision(r, x) + cp.norm1(x), []),
    "log det in a box": lambda r, x: (precision(r, x), [x >= -0.1, x <= 0.2]),
    "loss below a variable": lambda r, x: (x[0] + x[1] / 5, [loss(r, x) <= x[0]]),
    "losses below each other": lambda r, x: (
        x[0] + cp.sum_squares(x),
        [loss(r, x) <= x[0], loss(r, x) / 3 <= x[0] - x[1], cp.sum(x) == 2, x[2:] >= -0.1],
    ),
    "logistic below a variable": lambda r, x: (
        x[0] + cp.sum(cp.exp(x[1:3])) / 4,
        [cp.sum(cp.logistic(r.normal(size=(15, SIZE - 1)) @ x[1:])) <= x[0] + 8],
    ),
    "quantiles of variables": lambda r, x: (
        fit(r, x) + cp.sum(cp.maximum(3 * (x - 0.1), 0.1 - x)) + cp.norm1(x + 0.2),
        [x[0] == 0.3],
    ),
    "norms of scaled arguments": lambda r, x: (
        fit(r, x) + 0.3 * cp.norm(2 * x[[5, 0]] - 2) + 2 * cp.norm(x[[3, 1]] / 2 + 1),
        [],
    ),
    "ball, norm and l1": lambda r, x: (
        fit(r, x) + 0.7 * cp.norm(2 * x[1:3]) + cp.sum(cp.abs(x[[0, 3]] - 1)),
        [cp.norm(x[4:] - np.array([0.3, -0.3])) <= 0.4],
    ),
    "many weighted absolute values": lambda r, x: (
        r.uniform(0, 2, 90) @ cp.abs(r.normal(size=(90, SIZE)) @ x + 3 * r.normal(size=90)),
        [x >= 0, cp.sum(x) <= 1],
    ),
    "nuclear norm": lambda r, x: (
        fit(r, x) + 3 * cp.normNuc(cp.reshape(x, (3, 2), order="F")) + cp.sum(x),
        [],
    ),
}


@cache
def client(name: str, seed: int = 0) -> dm.Subproblem:
    rng = np.random.default_rng([list(PROBLEMS).index(name), seed])
    x = cp.Variable(SIZE)
    cost, rules = PROBLEMS[name](rng, x)
    return make_sub(cost, [x, x[:2] - x[2:4]], rules)


def augmented(sub: dm.Subproblem, turn: Turn) -> tuple[np.ndarray, np.ndarray]:
    """K and c of a turn, equations (12) and (20)."""
    G, g = sub.sides
    G, weight = G.toarray(), 2 * turn.rho**2
    return G.T @ (weight[:, None] * G), G.T @ (sub.signs * turn.mu + weight * (g - turn.neighbours))


def turns(sub: dm.Subproblem) -> list[Turn]:
    """What a run asks: cold, near, far, and with other penalties."""
    rng, size = np.random.default_rng(0), sub.signs.size
    mu, z, rho = rng.normal(size=size), rng.normal(size=size), np.full(size, 0.7)
    asked = [
        (mu, rho, z),
        (mu + 1e-3 * rng.normal(size=size), rho, z),
        (5 * rng.normal(size=size), rho, 3 * z),
        (mu, rho * rng.uniform(0.2, 3, size), z),
    ]
    return [Turn(np.zeros(1, int), *one) for one in asked]


CHOSEN = [name for name in NAMED if name != "nonlinear"]
"""What "auto" chooses from: others have an accuracy of their own."""
PAIRS = [
    (solver, problem)
    for problem in PROBLEMS
    for solver in CHOSEN
    if not NAMED[solver].refuses(client(problem))
    and not ("log det" in problem and solver in ("conic", "reference"))  # see the next test
]


@pytest.mark.parametrize(("solver", "problem"), PAIRS)
def test_answers_are_optimal(solver: str, problem: str) -> None:
    sub = client(problem)
    assert sub.form is not None
    session = NAMED[solver].open([sub])
    for turn in turns(sub):
        found = session.minimise(turn, ACCURACY)
        assert found.statuses[0] == "optimal", found.messages
        if sub.form.complete and not sub.form.extra:
            assert violation(sub.form, found.points) <= OFF
            assert residual(sub.form, *augmented(sub, turn), found.points) <= OFF
            value = sub.form.objective(found.points)
            assert found.objectives[0] == pytest.approx(value, rel=1e-9, abs=1e-9)
        rough = NAMED[solver].open([sub]).minimise(turn, ROUGH).points
        assert np.abs(rough - found.points).max() <= ROUGH


@pytest.mark.parametrize("problem", [one for one in PROBLEMS if "log det" in one])
def test_points_by_definite_cones_are_no_better(problem: str) -> None:
    """Clarabel's are off by up to 1e-4 there, as its gap is the square of that."""
    sub = client(problem)
    form = sub.form
    assert form is not None
    sessions = [NAMED[name].open([sub]) for name in ("newton", "reference")]
    for turn in turns(sub):
        own, cvxpys = (one.minimise(turn, ACCURACY).points for one in sessions)
        np.testing.assert_allclose(own, cvxpys, rtol=0, atol=1e-4)
        K, c = augmented(sub, turn)
        one, other = (form.objective(x) + x @ K @ x / 2 + c @ x for x in (own, cvxpys))
        assert one <= other + 1e-10 * abs(other) or form.violation(cvxpys) > 0


@pytest.mark.parametrize("problem", [one for one in PROBLEMS if " below " in one])
@pytest.mark.parametrize("seed", range(4))
def test_limits_are_met_as_by_cones(problem: str, seed: int) -> None:
    """Points; dual values of limits, rows and equalities balance cvxpy's gradients there."""
    sub = client(problem, seed)
    sessions = [NAMED[name].open([sub]) for name in ("barrier", "conic")]
    (x,) = sub.variables
    for turn in turns(sub):
        own, cones = (one.minimise(turn, ACCURACY) for one in sessions)
        assert own.statuses == ["optimal"]
        np.testing.assert_allclose(own.points, cones.points, rtol=0, atol=OFF)
        K, c = augmented(sub, turn)
        x.value = own.points
        forces = [gradient(sub.client.cost, x)[:, 0], K @ own.points, c]
        duals = sub.cone_duals(own.multipliers.values)
        for rule, (dual,) in zip(sub.client.constraints, duals, strict=True):
            value, held = np.ravel(rule.expr.value), np.ravel(dual)
            forces += [*(gradient(rule.expr, x) * held).T]
            if type(rule).__name__ == "Inequality":
                assert held.min() >= 0
                assert np.abs(value * held).max() <= OFF * (1 + held.max())
        size = np.abs(forces).sum(axis=0).max()
        assert np.abs(np.sum(forces, axis=0)).max() <= OFF * size


def gradient(expression: Any, x: cp.Variable) -> np.ndarray:
    """By cvxpy, (m, entries)."""
    found = expression.grad[x]
    return found.toarray() if sp.issparse(found) else np.reshape(found, (x.size, -1))


BATCHES = [pair for pair in PAIRS if NAMED[pair[0]].batches]


def joined(turns_of: list[Turn], which: list[int]) -> Turn:
    """A turn of some clients of a session, each asked what its own says."""
    parts = [np.concatenate(one) for one in zip(*(t[1:4] for t in turns_of), strict=True)]
    return Turn(np.array(which), *parts)


@pytest.mark.parametrize(("solver", "problem"), BATCHES)
def test_clients_together_are_as_alone_whoever_is_asked(solver: str, problem: str) -> None:
    subs = [client(problem, seed) for seed in range(4)]
    together = NAMED[solver].open(subs)
    alone = [NAMED[solver].open([sub]) for sub in subs]
    for nth, which in enumerate(([0, 1, 2, 3], [1, 3], [3, 0, 2], [2], [0, 1, 2, 3])):
        asked = [turns(subs[at])[nth % 4] for at in which]
        given = [
            turn._replace(mu=turn.mu * (1 + at)) for turn, at in zip(asked, which, strict=True)
        ]
        kept = [part.copy() for part in joined(given, which)]
        found = together.minimise(joined(given, which), ACCURACY)
        assert set(found.statuses) == {"optimal"}, found.messages
        for part, before in zip(joined(given, which), kept, strict=True):
            np.testing.assert_array_equal(part, before)
        own = [alone[at].minimise(turn, ACCURACY) for at, turn in zip(which, given, strict=True)]
        expected = np.concatenate([one.points for one in own])
        np.testing.assert_allclose(found.points, expected, rtol=0, atol=2 * ACCURACY)
        values = np.concatenate([one.objectives for one in own])
        np.testing.assert_allclose(found.objectives, values, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("solver", "problem"), PAIRS)
def test_a_session_that_serves_another_run_knows_nothing_of_the_last(
    solver: str, problem: str
) -> None:
    sub = client(problem)
    session = NAMED[solver].open([sub])
    first = [session.minimise(turn, ACCURACY) for turn in turns(sub)]
    begin_again = getattr(session, "begin_again", None)
    if begin_again is None or not begin_again([sub]):
        return
    for turn, before in zip(turns(sub), first, strict=True):
        again = session.minimise(turn, ACCURACY)
        np.testing.assert_array_equal(again.points, before.points)
        np.testing.assert_array_equal(again.multipliers.values, before.multipliers.values)


@pytest.mark.parametrize(("solver", "problem"), [p for p in PAIRS if p[0] != "reference"])
def test_numbers_that_are_none_leave_the_next_turn_right(solver: str, problem: str) -> None:
    sub = client(problem)
    session, turn = NAMED[solver].open([sub]), turns(sub)[0]
    right = NAMED[solver].open([sub]).minimise(turn, ACCURACY).points
    with np.errstate(all="ignore"):
        broken = session.minimise(turn._replace(mu=np.full(turn.mu.size, np.nan)), ACCURACY)
    is_found = broken.statuses[0] in ("optimal", "optimal_inaccurate")
    assert not is_found or np.isnan(broken.points).any()
    found = session.minimise(turn, ACCURACY)
    assert found.statuses[0] == "optimal"
    np.testing.assert_allclose(found.points, right, rtol=0, atol=2 * ACCURACY)


OTHERS = {"average", "low_rank"}
"""What takes servers and wide clients has suites of its own."""


def test_every_exact_solver_is_asked() -> None:
    assert {solver for solver, _ in PAIRS} >= set(CHOSEN) - OTHERS
