"""An ordinary problem becomes a model, and ``method="dald"`` swaps in and out.

The oracle is plain cvxpy on the same problem object: value, status, variables and the dual value
of every constraint, on problems whose primal and dual optimum is unique.
"""

import copy
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import says

NEAR = 1e-4
"""How far a result may be from the known one: what ``verify`` allows, relative and absolute."""

EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
"""Clarabel at its default accuracy is itself wrong by up to 3e-5 in some of these problems."""


X_OTHER = cp.Variable(name="other")


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def variables(count: int, *shape: int) -> list[cp.Variable]:
    return [cp.Variable(shape, name=f"x{i}") for i in range(count)]


def pulled(x: list[cp.Variable], scale: float = 1.0) -> list[cp.Expression]:
    """Squares with their minima at 0, 1, 2, ...; plus one more so that no optimum is at zero."""
    return [scale * cp.sum_squares(v - i - 1) for i, v in enumerate(x)]


def stated(objective: Any, rules: list[Any]) -> cp.Problem:
    """A problem; ``cp.Problem`` also takes booleans, which its annotations do not know."""
    return cp.Problem(objective, rules)


def state(problem: cp.Problem) -> tuple[Any, ...]:
    """What a solve leaves behind, as plain numbers."""
    duals = []
    for rule in problem.constraints:
        given = rule.dual_value
        duals += [np.array(part) for part in (given if isinstance(given, list) else [given])]
    points = [np.array(v.value) for v in problem.variables()]
    return problem.status, problem.value, points, duals


def swaps(problem: cp.Problem) -> dm.Model:
    """Solve by plain cvxpy, then by ours: the same state of the same objects."""
    problem.solve(solver=cp.CLARABEL, **EXACT)
    status, value, points, duals = state(problem)
    returned = problem.solve(method="dald")
    found = state(problem)
    assert found[0] == status == "optimal"
    assert returned == problem.value
    assert found[1] == near(value)
    for ours, theirs in zip((*found[2], *found[3]), (*points, *duals), strict=True):
        assert ours.shape == theirs.shape
        assert ours == near(theirs)
    problem.solve(solver=cp.CLARABEL)
    for again, theirs in zip(state(problem)[3], duals, strict=True):
        assert again == near(theirs), "and out again"
    return dm.decompose(problem)


def owned(model: dm.Model) -> list[list[str]]:
    return [[v.name() for v in client.variables] for client in model.clients.values()]


# --- J2 -------------------------------------------------------------------------------------------


def test_clients_are_what_remains_connected_without_the_equalities() -> None:
    x = variables(3, 2)
    problem = cp.Problem(
        cp.Minimize(sum(pulled(x))), [x[0] == x[1], x[1] == x[2], x[0] >= 2.5, x[2] <= 4]
    )
    model = swaps(problem)
    assert owned(model) == [["x0"], ["x1"], ["x2"]]
    assert [str(a) for a in model.agreements] == ["x0 == x1", "x1 == x2"]
    assert [len(c.constraints) for c in model.clients.values()] == [1, 0, 1]
    assert model.shared == []


@pytest.mark.parametrize("name", ["problem", "mine"])
def test_the_model_can_be_named_and_used_as_any_other(name: str) -> None:
    x = variables(2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] == x[1]])
    model = dm.decompose(problem, name) if name == "mine" else dm.decompose(problem)
    result = model.solve()
    assert model.name == name
    assert result.value == near(0.5)
    assert result["client 1"] == {x[1]: near(1.5)}
    assert result.verify().ok


EQUALITIES: dict[str, Callable[[cp.Variable, cp.Variable], Any]] = {
    "sides": lambda a, b: a == b,
    "one-sided": lambda a, b: a - b == 0,
    "zero first": lambda a, b: 0 == a - b,  # noqa: SIM300 - what is tested
    "with constants": lambda a, b: a - 2 * b - 1 == 4,
    "constants on both sides": lambda a, b: a + 1 == 2 - b,
    "sum": lambda a, b: a + b == 2,
    "zero cone": lambda a, b: cp.Zero(a - b),
    "scaled": lambda a, b: 2 * (a - b) == 2,
    "reduced": lambda a, b: cp.sum(a) - cp.sum(b) == 2,
    "matrix": lambda a, b: np.array([[1, 2], [3, 4.0]]) @ a == b,
    "slices": lambda a, b: a[:1] == b[1:],
    "split in terms": lambda a, b: a[0] - b[0] + a[1] == 3 - b[1],
}


@pytest.mark.parametrize("kind", EQUALITIES)
def test_equalities_written_in_every_way(kind: str) -> None:
    a, b = variables(2, 2)
    swaps(cp.Problem(cp.Minimize(sum(pulled([a, b]))), [EQUALITIES[kind](a, b), a <= 9]))


def test_an_equality_broadcasts_as_cvxpy_does() -> None:
    scalar, vector = cp.Variable(name="s"), cp.Variable(3, name="v")
    cost = cp.square(scalar - 1) + cp.sum_squares(vector - np.arange(3) - 1)
    for rule in (
        scalar == vector,
        vector == scalar,
        vector - scalar == 0,
        2 * scalar == vector + 1,
    ):
        swaps(cp.Problem(cp.Minimize(cost), [rule]))


OBJECTIVES: dict[str, Callable[..., Any]] = {
    "sum": lambda f, g, h: cp.Minimize(f + g + h),
    "nested": lambda f, g, h: cp.Minimize((f + g) + (h + 3)),
    "scaled": lambda f, g, h: cp.Minimize(0.5 * (f + g + h)),
    "divided": lambda f, g, h: cp.Minimize((f + g) / 4 + h),
    "maximised": lambda f, g, h: cp.Maximize(-f - g - h + 5),
    "negated": lambda f, g, h: cp.Minimize(-(-f - (g + h))),
    "added": lambda f, g, h: cp.Minimize(f) + cp.Minimize(g) + cp.Minimize(h),
    "mixed": lambda f, g, h: cp.Minimize(f) - cp.Maximize(-g) + 2 * cp.Minimize(h),
}


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("coupling", ["equalities", "shared"])
def test_objectives_written_in_every_way(kind: str, coupling: str) -> None:
    x = variables(3, 2) if coupling == "equalities" else variables(1, 2) * 3
    goal = OBJECTIVES[kind](*pulled(x))
    edges = [x[0] == x[1], x[1] == x[2]] if coupling == "equalities" else []
    model = swaps(cp.Problem(goal, [*edges, x[0] >= 2.7]))
    assert len(model.clients) == 3
    assert all(type(c.objective) is type(goal) for c in model.clients.values())


def test_a_problem_in_one_variable_is_split_by_summands() -> None:
    x = cp.Variable(2, name="x")
    problem = stated(
        cp.Minimize(cp.sum_squares(x - 1) + 4 + cp.sum(cp.exp(x)) + cp.norm1(x - 5)),
        [x >= 2, cp.sum(x) == 5],
    )
    model = swaps(problem)
    assert owned(model) == [["x"]] * 3
    assert [v.name() for v in model.shared] == ["x"]
    # The first summand that holds all its variables takes a constraint; constants go to the first.
    assert [len(c.constraints) for c in model.clients.values()] == [2, 0, 0]
    assert sum(c.objective.expr.value for c in model.clients.values()) == near(problem.value)


def test_a_constraint_between_summands_is_a_coupling() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    rule = x + y >= np.array([2, 3])
    model = swaps(cp.Problem(cp.Minimize(cp.sum_squares(x) + 2 * cp.sum_squares(y - 0.1)), [rule]))
    assert owned(model) == [["x"], ["y"]]
    assert model.couplings["coupling"].constraints == (rule,)


def test_a_constraint_that_no_summand_of_a_chain_holds_is_a_client() -> None:
    x = variables(3)
    rule = x[0] + x[2] >= 9
    cost = cp.square(x[0] - x[1]) + cp.square(x[1] - x[2]) + cp.square(x[2])
    model = swaps(cp.Problem(cp.Minimize(cost), [rule]))
    assert owned(model) == [["x0", "x1"], ["x1", "x2"], ["x2"], ["x0", "x2"]]
    assert model.clients["client 3"].constraints == (rule,)
    assert model.clients["client 3"].objective.expr.value == 0


def test_an_equality_within_a_client_stays_there() -> None:
    a, b = variables(2, 2)
    model = swaps(cp.Problem(cp.Minimize(sum(pulled([a, b]))), [a == b, a[0] == 2 * a[1]]))
    assert [str(a) for a in model.agreements] == ["x0 == x1"]
    assert [len(c.constraints) for c in model.clients.values()] == [1, 0]


def test_an_equality_of_three_is_a_coupling() -> None:
    x = variables(4, 2)
    problem = cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] + x[1] + x[2] == 3, x[2] == x[3]])
    model = swaps(problem)
    assert owned(model) == [["x0"], ["x1"], ["x2"], ["x3"]]
    assert list(model.couplings) == ["coupling"]


def test_an_equality_of_two_sides_may_hold_several_variables_of_a_client() -> None:
    x = variables(3, 2)
    model = swaps(cp.Problem(cp.Minimize(sum(pulled(x))), [x[0] + x[1] == x[2]]))
    assert owned(model) == [["x0", "x1"], ["x2"]]


def test_a_variable_that_stands_in_consensus_alone_is_a_server() -> None:
    x = variables(3, 2)
    z = cp.Variable(2, name="z")
    model = swaps(cp.Problem(cp.Minimize(sum(pulled(x))), [v == z for v in x]))
    assert owned(model) == [["x0"], ["x1"], ["x2"]]
    assert model.compile().servers == ("server",)


def test_constraints_without_variables() -> None:
    x = variables(2, 2)
    cost = cp.Minimize(sum(pulled(x)))
    model = swaps(stated(cost, [x[0] == x[1], True]))
    assert owned(model) == [["x0"], ["x1"]]
    for impossible in (False, cp.Constant(3) <= 2):
        problem = stated(cost, [x[0] == x[1], impossible])
        assert problem.solve(method="dald") == np.inf
        assert problem.status == "infeasible"


@pytest.mark.parametrize(
    "rules",
    [lambda a, b: [a >= 1, b <= 1], lambda a, b: [cp.sum(a) == 2, b >= 1]],
    ids=["bounds", "sum"],
)
def test_a_problem_without_objective(rules: Callable) -> None:
    """Each has the single feasible point (1, 1)."""
    a, b = variables(2, 2)
    problem = cp.Problem(cp.Minimize(0), [a == b, *rules(a, b)])
    assert problem.solve(method="dald") == 0
    assert a.value == near([1.0, 1.0])
    assert b.value == near([1.0, 1.0])


# --- duals of every cone --------------------------------------------------------------------------


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


# --- statuses, re-solves, options -----------------------------------------------------------------


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
    module = __import__("sys").modules["dald_model.decompose"]
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
    with pytest.raises(dm.OptionError, match="method 'dald': given the option 'warm', expected"):
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


# --- clients by name, number and function ---------------------------------------------------------


def market(count: int) -> tuple[cp.Problem, list[cp.Variable], cp.Variable]:
    """A market with a peak price; without names of clients its objective has them all apart."""
    x = variables(count, 2)
    peak = cp.Variable(name="peak")
    rules: list[Any] = [cp.sum(sum(x)) == 9 * count, *(v <= peak for v in x), x[0] >= 1]
    return cp.Problem(cp.Minimize(sum(pulled(x)) + 3 * peak), rules), x, peak


@pytest.mark.parametrize(
    "clients",
    [
        lambda x, rules: {"left": x[:2], "right": x[2:]},
        lambda x, rules: {"one": x[0], ("two", 2): [x[1], x[2]], 3: x[3]},
        lambda x, rules: {"left": [rules[5], x[1]], "right": x[2:]},  # x[0] >= 1 says whose x[0] is
        lambda x, rules: 2,
        lambda x, rules: 3,
        lambda x, rules: lambda v: {"x0": "a", "x1": "a", "x2": "b", "x3": "b"}.get(v.name()),
        lambda x, rules: None,
    ],
    ids=["dict", "single", "constraint", "two", "three", "function", "none"],
)
def test_clients_are_who_they_are_said_to_be(clients: Any) -> None:
    problem, x, _ = market(4)
    problem.solve(solver=cp.CLARABEL, **EXACT)
    known = state(problem)
    given = clients(x, problem.constraints)
    model = dm.decompose(problem, clients=given)
    if isinstance(given, dict):
        assert list(model.clients) == list(given)
    if isinstance(given, int):
        sizes = [len(names) for names in owned(model)]
        assert len(sizes) == given
        assert max(sizes) <= 2 * min(sizes)
    result = model.solve()
    assert result.value == near(known[1])
    for ours, theirs in zip(state(problem)[2], known[2], strict=True):
        assert ours == near(theirs)
    assert problem.constraints[0].dual_value == near(known[3][0])
    assert result.verify().ok


@pytest.mark.parametrize(("count", "length"), [(2, 20), (3, 30), (5, 40)])
def test_a_chain_is_cut_where_a_chain_can_be_cut(count: int, length: int) -> None:
    """A chain in so many pieces has one link less between them, and no fewer."""
    x = variables(length)
    links: list[cp.Constraint] = [one - two <= 1 for one, two in pairwise(x)]
    problem = cp.Problem(cp.Minimize(sum(cp.square(v - at) for at, v in enumerate(x))), links)
    model = dm.decompose(problem, clients=count)
    sizes = [len(names) for names in owned(model)]
    assert len(sizes) == count
    assert max(sizes) <= 1.3 * length / count + 1
    between = [rule for one in model.couplings.values() for rule in one.constraints]
    assert len(between) == count - 1


def test_who_has_no_metis_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    problem, x, _ = market(4)
    with pytest.raises(dm.DecompositionError) as caught:
        dm.decompose(problem, clients=3)
    says(str(caught.value), "clients=3", "pip install pymetis", 'clients={"a": [x], "b": [y]}')
    assert len(dm.decompose(problem, clients={"a": x[:2], "b": x[2:]}).clients) == 2


@pytest.mark.parametrize("names", ["xu yv", "xy uv", "xyu v"])
def test_owners_over_independent_parts(names: str) -> None:
    x, y, u, v = given = [cp.Variable(name=name) for name in "xyuv"]
    goal = cp.Minimize(sum(cp.square(one - at) for at, one in enumerate(given)))
    problem = cp.Problem(goal, [x == y, u == v])
    whose = {part: [one for one in given if one.name() in part] for part in names.split()}
    model = dm.decompose(problem, clients=whose)
    assert list(model.clients) == names.split()
    assert model.solve().value == near(1.0)
    assert [x.value, v.value] == near([0.5, 2.5])


def test_a_client_may_have_nothing_but_its_part_in_couplings() -> None:
    x, y = variables(2)
    rule: Any = x + y == 3
    problem = cp.Problem(cp.Minimize(cp.square(x - 1) + cp.square(x + y - 5)), [rule])
    dm.decompose(problem, clients={"a": x, "b": y}).solve()
    assert [x.value, y.value, rule.dual_value] == near([1.0, 2.0, 4.0])


def test_a_maximum_with_parameters_and_attributes() -> None:
    x = [cp.Variable(2, name=f"x{i}", nonneg=True) for i in range(3)]
    limit = cp.Parameter(name="limit", value=2.0)
    gain = sum(cp.sum(cp.sqrt(v + i)) for i, v in enumerate(x)) - 1
    model = swaps(cp.Problem(cp.Maximize(gain), [cp.sum(cp.hstack(x)) <= limit]))
    assert owned(model) == [["x0"], ["x1"], ["x2"]]


def test_sums_of_stacked_summands_split() -> None:
    x = variables(3)
    cost = 2 * cp.sum(cp.hstack(pulled(x))) + cp.sum(cp.vstack([cp.abs(x[0]), cp.abs(x[1])]))
    model = swaps(stated(cp.Minimize(cost), [sum(x) <= 1]))
    assert owned(model) == [["x0"], ["x1"], ["x2"]]


@pytest.mark.parametrize(
    ("clients", "parts"),
    [
        ("a", ["clients='a' of type str", "a dict from owners"]),
        (1, ["clients=1", "at least 2 and at most the number of variables, 3"]),
        (True, ["clients=True of type bool"]),
        ({"a": [X_OTHER], "b": []}, ["'a' is given other", "of this problem"]),
        ({"a": 5}, ["'a' is given 5 of type int"]),
        (lambda x: {"a": x, "b": x[0]}, ["'x0' is given to 'a' and to 'b'", "one owner"]),
        (lambda x: {"a": x}, ["'a' owns all variables", "say of one more whose it is"]),
        (lambda x: lambda v: None, ["nobody owns all variables"]),
        (4, ["one for each row of a matrix", "cp.vstack or cp.hstack"]),
    ],
)
def test_clients_that_are_none(clients: Any, parts: list[str]) -> None:
    problem, x, _ = market(2)
    given = clients(x) if callable(clients) else clients
    with pytest.raises(dm.DecompositionError) as caught:
        dm.decompose(problem, clients=given)
    says(str(caught.value), "decompose", *parts)


def test_who_has_more_leaves_a_variable_to_those_that_need_it() -> None:
    """All that is said of s is said of x as well, which is a's."""
    (x, y), s = variables(2), cp.Variable(name="s")
    rules: list[Any] = [x + s >= 2, cp.abs(x - s) <= 1, x + y >= 3]
    problem = cp.Problem(cp.Minimize(cp.square(x) + 2 * cp.square(y)), rules)
    model = dm.decompose(problem, clients={"a": x, "b": [y, s]})
    assert owned(model) == [["x0", "s"], ["x1"]]
    # x + y = 3 at the price 2 x = 4 y
    assert model.solve().verify().ok
    assert [x.value, y.value, rules[2].dual_value] == near([2.0, 1.0, 4.0])


# --- what cannot be taken apart -------------------------------------------------------------------

X = cp.Variable(name="x")


@pytest.mark.parametrize(
    ("problem", "parts"),
    [
        (3, ["given int", "expected a cp.Problem"]),
        (cp.Minimize(X), ["given Minimize", "expected a cp.Problem"]),
        (cp.Problem(cp.Minimize(cp.exp(X))), ["one piece", "one summand, exp(x)", "x1 == x2"]),
        (cp.Problem(cp.Minimize(cp.exp(X)), [X >= 1]), ["one summand", "f1 + f2 + ..."]),
        (cp.Problem(cp.Minimize(cp.exp(X) + 3)), ["one piece", "a sum f1 + f2 + ..."]),
        (cp.Problem(cp.Minimize(cp.exp(X))), ["x as one variable an owner", "x = cp.hstack"]),
        (cp.Problem(cp.Minimize(cp.exp(X - X_OTHER))), ['clients={"a": [x], "b": [y]}']),
        (cp.Problem(cp.Minimize(0)), ["one piece", "one summand, 0"]),
    ],
    ids=["number", "objective", "free", "constrained", "constant", "one", "two", "nothing"],
)
def test_one_piece_with_one_summand(problem: Any, parts: list[str]) -> None:
    with pytest.raises(dm.DecompositionError) as caught:
        dm.decompose(problem)
    says(str(caught.value), "decompose", *parts)


def test_pieces_obey_the_rules_of_clients() -> None:
    y, z = cp.Variable(name="y", boolean=True), cp.Variable(name="z")
    for problem, parts in [
        (cp.Problem(cp.Minimize(cp.square(X) + y), [y == X]), ["'client 1'", "'y' is boolean"]),
        (cp.Problem(cp.Minimize(cp.sqrt(X) + z), [z == X]), ["'client 0'", "is concave"]),
        (cp.Problem(cp.Minimize(X + z), [z == X, cp.sqrt(z) <= 1]), ["'client 1'", "DCP"]),
        (cp.Problem(cp.Minimize(X + z), [z == X, z >= np.nan]), ["'client 1'", "1 NaN"]),
    ]:
        with pytest.raises(dm.DeclarationError) as caught:
            problem.solve(method="dald")
        says(str(caught.value), *parts)


# --- parts that nothing connects ------------------------------------------------------------------


def test_independent_parts_are_solved_by_themselves_and_said_so() -> None:
    x, y, z, u, v = (cp.Variable(2, name=name) for name in "xyzuv")
    meet, least = x == y, z >= 3
    costs = [cp.sum_squares(x - 1), cp.sum_squares(y), cp.norm(z - 2), cp.sum_squares(u + v)]
    problem = cp.Problem(cp.Minimize(sum(costs) + cp.norm1(v - 4) + 5), [meet, least])
    value = problem.solve(method="dald")
    assert problem.status == "optimal"
    assert value == near(1 + np.sqrt(2) + 5)
    found = np.concatenate([np.asarray(one.value) for one in (x, z, v, u)])
    assert found == near(np.repeat([0.5, 3, 4, -4], 2))
    # The gradient of sum_squares(x - 1) at 1/2 is -1
    assert meet.dual_value == near([1, 1])
    assert least.dual_value == near(np.sqrt([0.5, 0.5]))
    model = dm.decompose(problem)
    assert model.parts == [["client 0", "client 1"], ["client 2"], ["client 3", "client 4"]]
    assert str(model).endswith(
        "\n  3 independent parts: {'client 0', 'client 1'}; {'client 2'}; {'client 3', 'client 4'}"
    )
    result = model.solve()
    assert result.verify().ok
    assert result.certificate().ok


PARTS: dict[str, Callable[[cp.Variable], tuple[Any, list[Any]]]] = {
    "linear program": lambda z: (np.arange(1, 5) @ z, [cp.sum(z) == 2, z >= 0, z <= 1]),
    "a point among many": lambda z: (cp.sum_squares(np.ones((2, 4)) @ z - 1), []),
    "feasibility": lambda z: (0 * cp.sum(z), [z >= 1, cp.sum(z) <= 4]),
    "barrier": lambda z: (-cp.sum(cp.log(z)), [cp.sum(z) <= 8]),
    "cone": lambda z: (cp.sum(z), [cp.norm(z - 3) <= 2]),
}
VALUES = {
    "linear program": 3.0,
    "a point among many": 0.0,
    "feasibility": 0.0,
    "barrier": -4 * np.log(2),
    "cone": 8.0,
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_one_client_is_solved_beside_the_others(kind: str) -> None:
    (x, y), z = variables(2, 2), cp.Variable(4, name="z")
    cost, rules = PARTS[kind](z)
    problem = cp.Problem(cp.Minimize(sum(pulled([x, y])) + cost), [x == y, *rules])
    assert problem.solve(method="dald") == near(1 + VALUES[kind])
    assert x.value == near([1.5, 1.5])
    result: Any = problem.solver_stats.extra_stats["result"]
    assert result.verify().ok


def test_a_problem_of_single_clients_is_a_model_too() -> None:
    x = variables(3, 2)
    model = swaps(cp.Problem(cp.Minimize(sum(pulled(x))), [v >= 1.5 for v in x]))
    assert model.parts == [["client 0"], ["client 1"], ["client 2"]]


def test_an_infeasible_part_makes_the_whole_infeasible() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    problem = cp.Problem(cp.Maximize(-cp.square(x) - cp.square(y)), [y >= 1, y <= 0])
    assert problem.solve(method="dald") == -np.inf
    assert problem.status == "infeasible"
    assert y.value is None


# --- refusals with a way out ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("integer", "client 'client 0': variable 'k' is integer, expected real and continuous; "
         "relax it"),
        ("boolean", "client 'client 0': variable 'k' is boolean, expected real and continuous; "
         "relax it"),
    ],
)  # fmt: skip
def test_integers_are_refused_with_a_way_out(kind: str, said: str) -> None:
    x, k = cp.Variable(name="x"), cp.Variable(name="k", **{kind: True})
    problem = cp.Problem(cp.Minimize(cp.square(x - k) + cp.square(k - 0.3)))
    with pytest.raises(dm.DeclarationError) as caught:
        problem.solve(method="dald")
    assert str(caught.value).startswith(said)
    says(caught.value, "bounds instead of boolean")


def test_a_coupling_that_is_not_dcp_is_refused_with_a_way_out() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    with pytest.raises(dm.DeclarationError) as caught:
        model.couple(cp.norm(x - y) >= 1, name="apart")
    assert str(caught.value) == (
        "coupling 'apart': constraint 0, 1.0 <= PnormApprox(x + -y, 2), does not follow cvxpy's "
        "DCP rules; write it as convex <= concave or affine == affine"
    )


def test_a_coupling_without_end_says_what_to_add() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x))
    model.client("b", 0 * y, [y >= 0])
    model.couple(objective=-y - x, name="gain")
    result = model.solve()
    assert result.status == "unbounded"
    assert result.culprit == "gain"
    assert result.detail == (
        "the objective falls without bound along a direction on which all clients agree; it falls "
        "fastest at client 'gain'; add a constraint or a regulariser"
    )
