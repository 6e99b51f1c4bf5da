"""``method="dald"`` swaps in and out: dual values, statuses, options."""

import copy
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.front.taken_apart import (
    near,
    pulled,
    stated,
    swaps,
    variables,
)


def cones() -> dict[str, cp.Problem]:
    t, a, b, c = (cp.Variable(name=n) for n in "tabc")
    x, y, d = cp.Variable(2, name="x"), cp.Variable(2, name="y"), cp.Variable(3, name="d")
    X, Y = cp.Variable((2, 2), name="X", symmetric=True), cp.Variable((2, 2), name="Y")
    C = np.array([[1, 0.4], [0.4, -1]])
    off = cp.sum_squares(d - np.array([1.0, 1.0, 0.2]))
    line = cp.hstack([a, b, c]) == d
    return {
        "second order": cp.Problem(
            cp.Minimize(t + cp.sum_squares(y - np.array([3, 4]))), [cp.SOC(t, x), x == y]
        ),
        "norm": cp.Problem(
            cp.Minimize(cp.sum_squares(y - 3) + t / 4), [cp.norm(x) <= t, x == y, t <= 2]
        ),
        "rows of cones": cp.Problem(
            cp.Minimize(cp.sum_squares(y - np.array([3, 4]))),
            [cp.SOC(np.array([1.0, 2.0]), cp.reshape(x, (1, 2), order="F")), x == y],
        ),
        "semidefinite": cp.Problem(
            cp.Minimize(cp.trace(X) + cp.sum_squares(Y - C)), [X >> 0, X == Y]
        ),
        "exponential": cp.Problem(cp.Minimize(c + off), [cp.ExpCone(a, b, c), line]),
        "power": cp.Problem(cp.Minimize(c + off), [cp.PowCone3D(b, c, a, 0.3), line]),
        "interval": stated(
            cp.Minimize(sum(pulled([x, y]))), [x == y, x >= -3, y <= 1, cp.sum(x) >= 1.5]
        ),
        "shared": stated(
            cp.Minimize(cp.sum_squares(x - 3) + cp.sum_squares(x + y)),
            [cp.norm(x) <= 2, y[0] >= 1, cp.sum(y) == -1],
        ),
    }


@pytest.mark.parametrize("kind", cones())
def test_the_duals_of_every_cone_have_cvxpys_signs_and_shapes(kind: str) -> None:
    swaps(cones()[kind])


@pytest.mark.parametrize("sense", [cp.Minimize, cp.Maximize])
def test_the_dual_is_the_slope_of_the_value(sense: Any) -> None:
    """For min (x - 1)^2 + (y - 3)^2 with x - y = r, x >= f: what moving r and f by little does."""
    x, y, r, f = cp.Variable(), cp.Variable(), cp.Parameter(value=0.3), cp.Parameter(value=2.5)
    cost = cp.square(x - 1) + cp.square(y - 3)
    problem = cp.Problem(sense(cost if sense is cp.Minimize else -cost), [x == y + r, x >= f])

    def value(at: tuple[float, float]) -> float:  # y is free: x = max(f, best), y = x - r
        best = (1 + 3 + at[0]) / 2
        x = max(at[1], best)
        return (x - 1) ** 2 + (x - at[0] - 3) ** 2

    problem.solve(method="dald")
    h = 1e-4
    slopes = [(value((0.3 + h, 2.5)) - value((0.3 - h, 2.5))) / (2 * h)]
    slopes += [(value((0.3, 2.5 + h)) - value((0.3, 2.5 - h))) / (2 * h)]
    # cvxpy's convention: for x - y = r the value changes by minus the dual; for x >= f by the dual.
    assert problem.constraints[0].dual_value == near(-slopes[0])
    assert problem.constraints[1].dual_value == near(slopes[1])


def hopeless() -> dict[str, tuple[cp.Problem, str, float]]:
    a, b, u = cp.Variable(name="a"), cp.Variable(name="b"), cp.Variable(name="u")
    cost = cp.square(a) + cp.square(b)
    return {
        "client": (stated(cp.Minimize(cost), [a == b, a >= 1, a <= 0]), "infeasible", np.inf),
        "consensus": (
            cp.Problem(cp.Minimize(cost), [a == b, a >= 1, b <= 0]),
            "infeasible",
            np.inf,
        ),
        "maximum": (
            cp.Problem(cp.Maximize(-cost), [a == b, a >= 1, b <= 0]),
            "infeasible",
            -np.inf,
        ),
        "shared": (
            cp.Problem(cp.Minimize(a + cost), [a >= 1, a + b <= -2, b >= -1]),
            "infeasible",
            np.inf,
        ),
        "down": (cp.Problem(cp.Minimize(a + b), [a == b, a <= 0]), "unbounded", -np.inf),
        "up": (cp.Problem(cp.Maximize(a + b), [a == b, a >= 0]), "unbounded", np.inf),
        "private": (cp.Problem(cp.Minimize(cost + u), [a == b, u <= 2 + a]), "unbounded", -np.inf),
    }


@pytest.mark.parametrize("kind", hopeless())
def test_infeasible_and_unbounded_as_cvxpy_says_it(kind: str) -> None:
    problem, status, value = hopeless()[kind]
    problem.solve(solver=cp.CLARABEL)
    assert (problem.status, problem.value) == (status, value), "the oracle"
    assert problem.solve(method="dald") == value
    assert (problem.status, problem.value) == (status, value)
    assert all(v.value is None for v in problem.variables())
    assert all(rule.dual_value is None for rule in problem.constraints)


def test_parameters_change_and_the_problem_is_taken_apart_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, (q, top) = variables(2, 2), (cp.Parameter(2, name="q"), cp.Parameter(name="top"))
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(x[0] - q) + cp.sum_squares(x[1])), [x[0] == x[1], x[1] <= top]
    )
    calls = []
    module = __import__("sys").modules["dald_model.decomposing"]
    original = module.decompose
    monkeypatch.setattr(module, "decompose", lambda p: calls.append(p) or original(p))
    with pytest.raises(dm.OptionError, match=r"'client 0'.*Parameter 'q' has no value"):
        problem.solve(method="dald")
    for given, most in [([1.0, 1.0], 9.0), ([2.0, 8.0], 9.0), ([2.0, 8.0], 3.0)]:
        q.value, top.value = given, most
        problem.solve(method="dald")
        expected = np.minimum(np.array(given) / 2, most)
        assert x[1].value == near(expected)
        assert problem.constraints[1].dual_value == near(2 * np.array(given) - 4 * expected)
    assert calls == [problem]


def test_options_go_through() -> None:
    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    problem.solve(method="dald", rho=1.0, stopping=dm.FixedBudget(2), solver=cp.OSQP)
    stats = problem.solver_stats
    assert stats.solver_name == "DALD"
    result = stats.extra_stats["result"]
    assert result.status == "optimal"
    assert stats.num_iters == result.rounds == len(result.history)
    assert stats.solve_time == result.seconds
    assert set(result.history.rho) == {1.0}
    with pytest.raises(dm.OptionError, match=r"solver: given 'nope', expected 'auto', one of"):
        problem.solve(method="dald", solver="nope")
    with pytest.raises(dm.OptionError, match="warm: solve has no such option; expected one of"):
        problem.solve(method="dald", warm=True)


def test_a_warm_start_goes_on_from_the_latest_result() -> None:
    x = variables(2)
    level = cp.Parameter(value=1.0)
    problem = cp.Problem(cp.Minimize(cp.square(x[0] - level) + cp.square(x[1])), [x[0] == x[1]])
    cold = problem.solve(method="dald", warm_start=True)  # there is nothing to go on from yet
    assert cold == pytest.approx(0.5, rel=1e-4)
    stats: Any = problem.solver_stats
    rounds = stats.num_iters
    assert problem.solve(method="dald", warm_start=True) == pytest.approx(0.5, rel=1e-4)
    stats = problem.solver_stats
    assert stats.num_iters < rounds
    problem.solve(method="dald", warm_start=False)
    assert problem.solver_stats.num_iters == rounds
    level.value = 4.0
    assert problem.solve(method="dald", warm_start=True) == pytest.approx(8.0, rel=1e-4)


@pytest.mark.parametrize("option", ["gp", "qcp", "nlp", "ignore_dpp", "requires_grad"])
def test_options_of_cvxpy_that_ask_for_what_there_is_not(option: str) -> None:
    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    plain = problem.solve(method="dald")
    assert problem.solve(method="dald", **{option: False}) == plain
    assert problem.solve(method="dald", enforce_dpp=True) == plain
    with pytest.raises(dm.OptionError) as caught:
        problem.solve(method="dald", **{option: True})
    assert str(caught.value) == (
        f"method 'dald': given {option}=True, but it solves DCP problems that are DPP in their "
        f"Parameters, without derivatives; leave {option} out, or solve without method"
    )
    with pytest.raises(dm.OptionError, match=f"given {option}=1, expected True or False"):
        problem.solve(method="dald", **{option: 1})


def test_stopping_early_warns_and_keeps_the_best_point() -> None:
    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    with pytest.warns(UserWarning, match=r"'dald' stopped without convergence: max_rounds") as told:
        problem.solve(method="dald", max_rounds=3, acceleration=None)
    assert told[0].filename == __file__
    assert problem.status == "user_limit"
    assert problem.value == pytest.approx(0.5, abs=0.1)
    assert x[0].value is not None
    assert problem.constraints[0].dual_value is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem.solve(method="dald")
    assert problem.status == "optimal"


def test_divergence_raises_as_a_failed_solver_does() -> None:
    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    one = dm.FixedBudget(v_max=1)
    with pytest.raises(
        cp.SolverError, match=r"'dald': the residuals grew without bound.*'client 0'"
    ):
        problem.solve(method="dald", algorithm=dm.DALD(dual_step=3.0), stopping=one)


def test_a_failed_solver_raises_as_cvxpy_does() -> None:
    class Broken:
        """A solver and its own session."""

        name, batches, is_exact = "broken", False, False

        def refuses(self, subproblem: Any) -> str:
            return ""

        def open(self, subproblems: Any) -> "Broken":
            return self

        def minimise(self, turn: dm.solvers.Turn, tolerance: float) -> dm.solvers.Answers:
            nothing = np.full(turn.which.size, np.nan)
            said = dict.fromkeys(range(turn.which.size), "out of luck")
            failed = ["solver_error"] * turn.which.size
            return dm.solvers.Answers(
                nothing, nothing, failed, dm.solvers.Multipliers.none(len(failed)), said
            )

    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    with pytest.raises(cp.SolverError, match=r"'dald'.*client 'client 0'.*out of luck"):
        problem.solve(method="dald", solver=Broken())


def test_a_copied_problem_is_a_problem_of_its_own() -> None:
    x = variables(2)
    one = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    two = copy.copy(one)
    assert one.solve(method="dald") == near(0.5)
    assert two.solve(method="dald") == near(0.5)
