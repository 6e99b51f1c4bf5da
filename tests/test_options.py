"""The options of ``solve``: what each does, and what each refuses."""

import contextlib
import io
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.stopping import Accuracy
from dald_model.schedule.moment import Residuals
from dald_model.solvers import NAMED, Answers, Average, Conic, Factor, Reference, Solver, Step, Turn
from dald_model.solvers.exact.one_by_one import SequentialSession

NEAR = 1e-5
"""How far a point may be from the known one: ten times the default tolerances of ``solve``."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def says(error: BaseException, *parts: str) -> None:
    for part in parts:
        assert part in str(error), f"{part!r} is not in: {error}"


def _any(value: Any) -> Any:
    """What no type checker would let through."""
    return value


TARGETS = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 2.0]])


def chain() -> tuple[dm.Model, list[cp.Variable]]:
    """Clients a - b - c, each at a point of the plane; the mean wins."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    model = dm.Model("chain")
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x


ONE = dm.FixedBudget(v_max=1)


def by_hand(rho: Any, rounds: int, v_max: int = 1, step: float = 1.0) -> list[np.ndarray]:
    """The paper's recursion (20)-(22) for ``chain`` in the order (a, c), b: closed forms."""
    rho = np.broadcast_to(np.asarray(rho, float), (2, 2))  # edges ab and bc, entry by entry
    weight = 2 * rho**2
    x, mu, found = np.zeros((3, 2)), np.zeros((2, 2)), []
    for round_ in range(1, rounds + 1):
        x[0] = (2 * TARGETS[0] - mu[0] + weight[0] * x[1]) / (2 + weight[0])
        x[2] = (2 * TARGETS[2] + mu[1] + weight[1] * x[1]) / (2 + weight[1])
        pull = mu[0] - mu[1] + weight[0] * x[0] + weight[1] * x[2]
        x[1] = (2 * TARGETS[1] + pull) / (2 + weight[0] + weight[1])
        if round_ % v_max == 0:
            mu = mu + step * weight * np.array([x[0] - x[1], x[1] - x[2]])
        found.append(x.copy())
    return found


def follows(expected: list[np.ndarray], **options: Any) -> None:
    """Each round's objective and residuals, and the last point, are those of the recursion."""
    model, x = chain()
    options = {"stopping": ONE} | options
    result = model.solve(max_rounds=len(expected), eps_pri=0, eps_dual=0, **options)
    history = result.history
    for at, points in enumerate(expected):
        row = history.iloc[at]
        assert row.objective == near(np.sum((points - TARGETS) ** 2))
        assert row.primal == near(np.abs(np.diff(points, axis=0)).max())
        moved = points[1] - (expected[at - 1][1] if at else 0)
        assert row.dual == near(np.abs(moved).max())
    assert np.array([result[v] for v in x]) == near(expected[-1])


# --- rho ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rho"),
    [
        (1.0, 1.0),
        (2, 2.0),
        (np.float64(0.5), 0.5),
        (dm.Fixed(0.7), 0.7),
        (np.array([1.0, 2.0, 3.0, 4.0]), [[1, 2], [3, 4]]),
        ([1, 2, 3, 4], [[1, 2], [3, 4]]),
        ({"a": 0.5, "b": 2.0, "c": 2.0}, [[1.0, 1.0], [2.0, 2.0]]),  # geometric mean of the ends
        ({"a": 3.0, "c": 0.5}, [[3.0, 3.0], [0.5, 0.5]]),
        ({"b": 3.0}, 3.0),
        ({("a", "b"): 2.0, ("c", "b"): 0.5}, [[2.0, 2.0], [0.5, 0.5]]),
        ({("b", "a"): [1.0, 2.0], "c": 3.0}, [[1.0, 2.0], [3.0, 3.0]]),
        ({("a", "b"): 2.0, "a": 9.0, "b": 1.0}, [[2.0, 2.0], [1.0, 1.0]]),  # the pair goes first
    ],
    ids=[
        "float",
        "int",
        "numpy",
        "rule",
        "array",
        "list",
        "clients",
        "ends",
        "middle",
        "pairs",
        "pair and client",
        "pair first",
    ],
)
def test_rho_in_every_form_enters_as_its_square_without_one_half(given: Any, rho: Any) -> None:
    follows(by_hand(rho, 6), rho=given)


def test_the_history_tells_the_geometric_mean_of_rho() -> None:
    model, _ = chain()
    result = model.solve(rho=[1, 2, 4, 8], max_rounds=2)
    assert list(result.history.rho) == pytest.approx([2**1.5] * 2)


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, [1, 2, 3, -4], {"a": 0, "b": 1, "c": 1}])
def test_rho_must_be_positive_and_finite(bad: Any) -> None:
    model, _ = chain()
    for act in (lambda: model.solve(rho=bad), lambda: model.compile(rho=bad)):
        with pytest.raises(dm.OptionError) as caught:
            act()
        says(caught.value, "rho", "given", "expected positive finite numbers", "squ")


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        ("one", ["rho: given 'one'", "a positive number or an array of 4 of them"]),
        ([1, 2], ["rho: given [1, 2]", "an array of 4"]),
        ({("a", "b"): [1, 2, 3], "c": 1}, ["rho[('a', 'b')]", "an array of 2"]),
        ({}, ["the edge ('a', 'b') has no penalty", "add 'a', 'b' or ('a', 'b')"]),
        ({"c": 1}, ["the edge ('a', 'b') has no penalty"]),
        ({"z": 1}, ["'z' is neither a client nor a pair", "'a', 'b', 'c'", "('a', 'b')"]),
        ({("a", "c"): 1}, ["('a', 'c') is neither a client nor a pair of neighbours"]),
        ({("a", "b", "c"): 1}, ["('a', 'b', 'c') is neither a client nor a pair"]),
        ({(): 1}, ["() is neither a client nor a pair"]),
        (dm.Fixed, ["rho: given <class", "a positive number"]),
    ],
    ids=[
        "text",
        "short",
        "long",
        "empty",
        "half",
        "stranger",
        "no neighbours",
        "three",
        "nobody",
        "class",
    ],
)
def test_rho_that_fits_no_edge(bad: Any, parts: list[str]) -> None:
    model, _ = chain()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(rho=bad)
    says(caught.value, *parts)


def test_residual_balancing_moves_a_bad_start_and_a_fixed_rho_stays() -> None:
    model, _ = chain()
    for start in (0.01, 100.0):
        fixed = model.solve(rho=start, max_rounds=60)
        assert fixed.status == "round_limit"
        assert fixed.history.rho.nunique() == 1
        moved = model.solve(rho=dm.ResidualBalancing(start=start), max_rounds=200, stopping=ONE)
        assert moved.status == "optimal"
        assert moved.history.rho.iloc[0] == pytest.approx(start)
        assert 0.02 < moved.history.rho.iloc[-1] < 50


def test_residual_balancing_keeps_its_period_and_its_number_of_changes() -> None:
    model, _ = chain()
    rule = dm.ResidualBalancing(start=100.0, period=7, changes=2)
    rho = model.solve(rho=rule, max_rounds=60, stopping=ONE).history.rho.to_numpy()
    changed = 1 + np.flatnonzero(np.diff(rho))  # the last round under the old penalty
    assert list(changed) == [7, 14]


@pytest.mark.parametrize("bad", [{"period": 0}, {"threshold": 0.5}, {"changes": -1}])
def test_residual_balancing_refuses_what_means_nothing(bad: dict[str, Any]) -> None:
    with pytest.raises(dm.OptionError) as caught:
        dm.ResidualBalancing(**bad)
    says(caught.value, "ResidualBalancing: given", "expected period >= 1, threshold >= 1")


def test_a_rule_of_ones_own() -> None:
    class Doubling:
        def init(self, compiled: dm.Compiled) -> np.ndarray:
            return np.ones(compiled.size)

        def update(self, state: Any, outer: int) -> np.ndarray:
            return 2 * state.rho

    model, _ = chain()
    result = model.solve(rho=Doubling(), max_rounds=4)
    assert list(result.history.rho) == pytest.approx([1, 2, 4, 8])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_default_penalty_is_indifferent_to_the_units_of_the_objective(scale: float) -> None:
    model = dm.Model()
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for i in range(3):
        model.client(i, scale * cp.sum_squares(x[i] - TARGETS[i]))
    model.consensus(x[0] == x[1], x[1] == x[2])
    result = model.solve()
    assert result.status == "optimal"
    # The penalty of the paper's augmented Lagrangian is scale^1/2 times that of scale 1.
    assert result.history.rho.iloc[0] == pytest.approx(np.sqrt(scale), rel=1e-4)
    assert result[x[1]] == near(TARGETS.mean(axis=0))


# --- stopping, algorithm, tolerances --------------------------------------------------------------


@pytest.mark.parametrize("v_max", [1, 2, 3])
def test_a_fixed_budget_updates_the_multipliers_every_v_max_rounds(v_max: int) -> None:
    follows(by_hand(1.0, 7, v_max=v_max), rho=1.0, stopping=dm.FixedBudget(v_max=v_max))


@pytest.mark.parametrize("step", [0.5, 1.0, 1.6])
def test_the_dual_step(step: float) -> None:
    follows(by_hand(1.0, 6, step=step), rho=1.0, algorithm=dm.DALD(dual_step=step))


def test_when_each_condition_ends_an_inner_loop() -> None:
    """(B1) to (B4) as a function of the outer loop, the inner loop and the dual residual."""
    eps = 1e-6
    b1, b2 = dm.FixedTolerance(), dm.ShrinkingTolerance(start=0.1, factor=0.5)
    b3, b4 = dm.GrowingBudget(start=1, growth=2.0), dm.FixedBudget(v_max=3)
    for outer in (1, 2, 5, 40):
        for inner in (1, 2, 3, 4, 16, 17):
            for dual in (1.0, 0.06, 0.04, 1e-3, 1e-6, 1e-9):
                at = outer, inner, dual, eps
                assert b1.ends(*at) == (dual <= eps)
                assert b2.ends(*at) == (dual <= max(eps, 0.1 * 0.5 ** (outer - 1)))
                assert b3.ends(*at) == (dual <= eps or inner >= math.ceil(2.0 ** (outer - 1)))
                assert b4.ends(*at) == (dual <= eps or inner >= 3)


@pytest.mark.parametrize(
    "stopping",
    [
        dm.FixedTolerance(),
        dm.ShrinkingTolerance(),
        dm.ShrinkingTolerance(start=1.0, factor=0.5),
        dm.GrowingBudget(),
        dm.GrowingBudget(start=2, growth=1.5),
        dm.FixedBudget(v_max=1),
        dm.FixedBudget(v_max=5),
    ],
    ids=str,
)
def test_every_condition_gets_there_on_a_chain_and_on_a_triangle(stopping: Any) -> None:
    chained, _ = chain()
    closed, x = chain()
    closed.consensus(x[2] == x[0])
    for model in (chained, closed):
        result = model.solve(stopping=stopping)
        assert result.status == "optimal"
        assert result.value == near(np.sum((TARGETS - TARGETS.mean(axis=0)) ** 2))
        inner = result.history.groupby("outer").inner
        assert (inner.min() == 1).all()
        assert (inner.count() == inner.max()).all()


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: dm.FixedBudget(v_max=0), ["FixedBudget: given v_max=0", "from 1"]),
        (lambda: dm.FixedBudget(v_max=_any(2.5)), ["FixedBudget: given v_max=2.5", "int from 1"]),
        (lambda: dm.GrowingBudget(start=0), ["given start=0, growth=1.1", "start >= 1"]),
        (lambda: dm.GrowingBudget(growth=1.0), ["growth=1.0", "growth > 1", "grows without"]),
        (lambda: dm.ShrinkingTolerance(start=0.0), ["given start=0.0", "start > 0"]),
        (lambda: dm.ShrinkingTolerance(factor=1.0), ["factor=1.0", "factor < 1", "shrinks"]),
        (lambda: dm.ShrinkingTolerance(factor=0.0), ["factor=0.0", "0 < factor"]),
        (lambda: dm.DALD(dual_step=0.0), ["DALD: given dual_step=0.0", "positive number"]),
        (lambda: dm.DALD(dual_step=-1.0), ["dual_step=-1.0", "(1 is the paper's)"]),
        (lambda: dm.DALD(dual_step=math.nan), ["dual_step=nan", "positive"]),
        (lambda: dm.DALD(dual_step=math.inf), ["dual_step=inf", "positive"]),
        (lambda: dm.DALD(dual_step=_any("1")), ["dual_step='1'", "positive"]),
    ],
    ids=[f"case {i}" for i in range(12)],
)
def test_parts_that_mean_nothing_are_refused_when_they_are_made(make: Any, parts: Any) -> None:
    with pytest.raises(dm.OptionError) as caught:
        make()
    says(caught.value, *parts)


@pytest.mark.parametrize(
    ("option", "bad", "parts"),
    [
        ("eps_pri", -1e-9, ["eps_pri: given -1e-09", "finite number from 0"]),
        ("eps_dual", math.inf, ["eps_dual: given inf", "finite number from 0"]),
        ("eps_pri", math.nan, ["eps_pri: given nan"]),
        ("eps_dual", "small", ["eps_dual: given 'small'"]),
        ("eps_pri", None, ["eps_pri: given None"]),
        ("max_rounds", 0, ["max_rounds: given 0", "whole number from 1"]),
        ("max_rounds", 10.0, ["max_rounds: given 10.0", "whole number from 1"]),
        ("max_rounds", None, ["max_rounds: given None"]),
        ("solver", "nope", ["solver: given 'nope'", "'auto'", "'factor', ", "among CLARABEL"]),
        ("solver", 3, ["solver: given 3", "the name of a solver or an object", "('OSQP')"]),
        ("solver", Reference, ["solver: given <class", "an object of"]),
        ("solver", ["conic"], ["solver: given ['conic']", "'auto', the name of a solver"]),
        ("solver", {"a": "nope"}, ["solver: given 'nope'", "or a cvxpy solver among CLAR"]),
        ("solver", {"a": Reference}, ["solver: given <class"]),
        ("solver", {"z": "conic"}, ["'z' is no client", "keys among 'a', 'b', 'c'"]),
        ("solver", {("a", "b"): "conic"}, ["('a', 'b') is no client"]),
        ("accuracy", 0, ["accuracy: given 0", "a number between 0 and 1"]),
        ("accuracy", 1.0, ["accuracy: given 1.0", "between 0 and 1"]),
        ("accuracy", -1e-6, ["accuracy: given -1e-06"]),
        ("accuracy", math.nan, ["accuracy: given nan"]),
        ("accuracy", math.inf, ["accuracy: given inf"]),
        ("accuracy", "high", ["accuracy: given 'high'"]),
        ("accuracy", True, ["accuracy: given True"]),
        ("algorithm", "admm", ["algorithm: given 'admm'", "expected", "dm.DALD()"]),
        ("algorithm", dm.DALD, ["algorithm: given <class", "expected an object such as"]),
        ("stopping", "B4", ["stopping: given 'B4'", "dm.FixedBudget(v_max=1)"]),
        ("stopping", dm.FixedBudget, ["stopping: given <class", "an object such as"]),
        ("sequence", "random", ["sequence: given 'random'", "dm.Sequence"]),
        ("sequence", [["a"], ["b"]], ["sequence: given [['a'], ['b']]", "dm.Sequence"]),
    ],
    ids=[f"case {i}" for i in range(29)],
)
def test_options_that_mean_nothing_are_refused_before_anything_is_computed(
    option: str, bad: Any, parts: list[str]
) -> None:
    model, x = chain()
    with pytest.raises(dm.OptionError) as caught:
        model.solve(**{option: bad})
    says(caught.value, *parts)
    assert x[0].value is None


def test_an_unknown_option_is_pythons_own_error() -> None:
    model, _ = chain()
    with pytest.raises(TypeError, match="unexpected keyword argument 'penalty'"):
        model.solve(penalty=1.0)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("zero", [("eps_pri",), ("eps_dual",), ("eps_pri", "eps_dual")])
def test_zero_tolerances_run_every_round_though_nothing_moves_any_more(zero: Any) -> None:
    """Both clients agree from the first round on: residuals are exactly zero."""
    model, x = dm.Model(), [cp.Variable(name="x"), cp.Variable(name="y")]
    for name, v in zip("ab", x, strict=True):
        model.client(name, cp.square(v))
    model.consensus(x[0] == x[1])
    options: dict[str, Any] = dict.fromkeys(zero, 0.0)
    result = model.solve(max_rounds=30, **options)
    assert (result.status, result.rounds) == ("round_limit", 30)
    assert result.value == near(0.0)


def test_looser_tolerances_take_fewer_rounds_and_tighter_ones_more() -> None:
    model, x = chain()
    rounds, errors = [], []
    for eps in (1e-2, 1e-4, 1e-6, 1e-8):
        result = model.solve(eps_pri=eps, eps_dual=eps)
        last = result.history.iloc[-1]
        assert result.status == "optimal"
        assert max(last.primal_scaled, last.dual_scaled) <= eps
        rounds.append(result.rounds)
        errors.append(max(np.abs(result[v] - TARGETS.mean(axis=0)).max() for v in x))
    assert rounds == sorted(set(rounds))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-7


def test_max_rounds_may_be_a_numpy_integer() -> None:
    model, _ = chain()
    assert model.solve(max_rounds=_any(np.int64(4))).rounds == 4


def test_verbose_shows_progress_and_silence_is_the_default() -> None:
    model, _ = chain()
    for verbose in (False, True):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            result = model.solve(verbose=verbose, eps_pri=1e-3, eps_dual=1e-3)
        assert out.getvalue() == ""
        if verbose:
            assert f"{result.rounds}/1000" in err.getvalue()
            assert "primal=" in err.getvalue()
            assert "dual=" in err.getvalue()
        else:
            assert err.getvalue() == ""


# --- the solver layer -----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["CLARABEL", "clarabel", "OSQP", "SCS", Reference("OSQP")])
def test_any_installed_solver_of_cvxpy(solver: Any) -> None:
    model, x = chain()
    result = model.solve(solver=solver)
    assert result.status == "optimal"
    assert result[x[0]] == near(TARGETS.mean(axis=0))


def test_a_solvers_own_options_go_through() -> None:
    model, _ = chain()
    result = model.solve(solver=Reference("OSQP", max_iter=1))
    assert result.status in ("solver_error", "optimal_inaccurate", "stalled", "round_limit")
    assert result.status != "optimal"


def test_an_unknown_solver_of_the_reference() -> None:
    with pytest.raises(
        dm.OptionError, match=r"no solver 'ABACUS' installed; expected one of.*CLAR"
    ):
        Reference("ABACUS")


def test_a_solver_of_ones_own_gets_the_clients_and_not_the_server() -> None:
    """The minimiser in closed form, from what a turn holds; the solver is its own session."""

    class ByHand:
        name, batches = "by hand", False

        def refuses(self, subproblem: Any) -> str:
            return ""

        def open(self, subproblems: Sequence[Any]) -> Any:
            self.names = [sub.name for sub in subproblems]
            self.subproblems = subproblems
            return self

        def minimise(self, turn: Turn, tolerance: float) -> Answers:
            assert 0 < tolerance <= 1e-3
            subs = [self.subproblems[i] for i in turn.which]
            told = zip(*(np.split(part, len(subs)) for part in turn[1:4]), strict=True)
            points = [self.one(*given) for given in zip(subs, told, strict=True)]
            targets = [TARGETS["abc".index(sub.name)] for sub in subs]
            costs = np.sum((np.array(points) - targets) ** 2, axis=1)
            return Answers(np.concatenate(points), costs, ["optimal"] * len(subs), lambda i: (), {})

        def one(self, sub: Any, told: Any) -> np.ndarray:
            mu, rho, neighbours = told
            matrix, offset = sub.sides
            assert (matrix.toarray() == np.eye(2)).all()
            assert not offset.any()
            weight, t = 2 * rho**2, TARGETS["abc".index(sub.name)]
            return (2 * t - sub.signs * mu + weight * neighbours) / (2 + weight)

    w = cp.Variable(2, name="w")
    model = dm.Model()
    for name, t in zip("abc", TARGETS, strict=True):
        model.client(name, cp.sum_squares(w - t))
    solver = ByHand()
    assert isinstance(solver, Solver)
    result = model.solve(solver=solver)
    assert solver.names == list("abc")
    assert result[w] == near(TARGETS.mean(axis=0))
    assert result.verify().ok


def test_the_servers_closed_form_is_the_papers_weighted_average() -> None:
    """Equation (31), with penalties of each client's own."""
    w = cp.Variable(2, name="w")
    model = dm.Model()
    for name, t in zip("abc", TARGETS, strict=True):
        model.client(name, cp.sum_squares(w - t))
    compiled = model.compile()
    server = compiled["server"]
    assert Average().refuses(server) == ""
    assert Average().refuses(compiled["a"]) == "it is no server"
    generator = np.random.default_rng(0)
    rho, mu, told = (generator.random((3, 2)) + 0.5 for _ in range(3))
    turn = Turn(np.array([0]), mu.ravel(), rho.ravel(), told.ravel())
    answers = Average().open([server]).minimise(turn, 1e-9)
    # The server stands on the left of each edge, x_hat - x_i; the paper has x_i - x_hat.
    expected = ((rho**2 * told).sum(axis=0) - mu.sum(axis=0) / 2) / (rho**2).sum(axis=0)
    assert server.signs.tolist() == [1] * 6
    assert answers.points == pytest.approx(expected)
    server.set(mu.ravel(), rho.ravel(), told.ravel())
    server.problem.solve(solver=cp.CLARABEL)
    assert server.point() == near(expected)


def test_a_server_that_sees_maps_solves_its_normal_equations() -> None:
    generator = np.random.default_rng(1)
    maps = [generator.normal(size=(2, 3)), generator.normal(size=(3, 3))]
    v = [cp.Variable(len(A), name=f"v{i}") for i, A in enumerate(maps)]
    s = cp.Variable(3, name="s")
    model = dm.Model()
    for i in range(2):
        model.client(i, cp.sum_squares(v[i]))
    model.consensus(maps[0] @ s == v[0], v[1] == maps[1] @ s)
    sub = model.compile()["server"]
    mu, rho, told = (generator.random(5) + 0.5 for _ in range(3))
    answers = Average().open([sub]).minimise(Turn(np.array([0]), mu, rho, told), 1e-9)
    sub.set(mu, rho, told)
    sub.problem.solve(solver=cp.CLARABEL)
    assert answers.points == near(sub.point())


# --- solvers by name, by client -------------------------------------------------------------------


def capped() -> tuple[dm.Model, list[cp.Variable], Any]:
    """``chain`` with x1[0] <= 7/2, where the mean is 4: 2 (12 - 3 * 7/2) = 3 is its dual value."""
    model, x = dm.Model("capped"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    rule = x[1][0] <= 3.5
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t), [rule] if name == "b" else [])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x, rule


def shrunk() -> tuple[dm.Model, cp.Variable]:
    """Each with the 1-norm: 3 x - sum of t + 3/2 sign(x) = 0."""
    model, x = dm.Model("shrunk"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t) + cp.norm1(v))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def fenced() -> tuple[dm.Model, cp.Variable]:
    """Every client has the cap of ``capped``."""
    model, x = dm.Model("fenced"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t), [v[0] <= 3.5])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def middle() -> tuple[dm.Model, cp.Variable]:
    """The median of 0, 1 and 5, from distances of a variable that is bounded."""
    model, x = dm.Model("middle"), [cp.Variable(name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, (0.0, 1.0, 5.0), strict=True):
        model.client(name, cp.abs(v - t), [v <= 9])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def grouped() -> tuple[dm.Model, cp.Variable]:
    """Each with the 2-norm: x (1 + 1/2 / |x|) is the mean (4, 3), so x is 9/10 of it."""
    model, x = dm.Model("grouped"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t) + cp.norm(v, 2))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def curved() -> tuple[dm.Model, cp.Variable]:
    """exp(x) + 4 exp(-x) is least at log 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("curved")
    model.client("a", cp.exp(x))
    model.client("b", 4 * cp.exp(-y))
    model.consensus(x == y)
    return model, x


def plain() -> tuple[dm.Model, cp.Variable]:
    model, x = chain()
    return model, x[0]


MEAN = TARGETS.mean(axis=0)

TAKEN: dict[str, tuple[Callable[[], tuple[dm.Model, cp.Variable]], Any]] = {
    "factor": (plain, MEAN),
    "active_set": (fenced, [3.5, MEAN[1]]),
    "shrink": (shrunk, MEAN - 1 / 2),
    "polyhedral": (middle, 1.0),
    "proximal": (grouped, 0.9 * MEAN),
    "newton": (curved, math.log(2)),
}
"""Solver -> a model that it takes and is the fastest for, and where the optimum is."""


def test_every_name_is_tested_below() -> None:
    assert set(TAKEN) | {"average", "conic", "reference"} == set(NAMED)


@pytest.mark.parametrize("kind", TAKEN)
def test_every_solver_by_its_name_and_auto_gives_the_optimum(kind: str) -> None:
    make, optimum = TAKEN[kind]
    model, x = make()
    compiled = model.compile()
    for given, named in [
        (None, kind),
        ("auto", kind),
        ({}, kind),
        (kind, kind),
        (NAMED[kind], kind),
        ("conic", "conic"),
        (Conic(), "conic"),
        ("reference", "reference (CLARABEL)"),
        ("CLARABEL", "reference (CLARABEL)"),
        (dict.fromkeys(compiled, "scs"), "reference (SCS)"),
    ]:
        assert {one.solver for one in compiled.explain(given)} == {named}
        result = model.solve(solver=given)
        assert (result.status, result.fallbacks) == ("optimal", ())
        assert result[x] == near(optimum)


def test_a_dict_names_some_and_leaves_the_others_to_auto() -> None:
    model, x, rule = capped()
    given: dict[Any, Any] = {"a": "conic", "c": Reference("OSQP")}
    named = {n: one.solver for one in model.compile().explain(given) for n in one.clients}
    assert named == {"a": "conic", "b": "active_set", "c": "reference (OSQP)"}
    result = model.solve(solver=given)
    assert result.status == "optimal"
    assert result[x[2]] == near([3.5, 3.0])
    assert result.duals[rule] == near(3.0)


def test_each_client_goes_to_the_solver_it_was_given_to() -> None:
    """The fakes count: every client of theirs once a round, and nobody else."""
    model, x, _ = capped()
    spies: dict[Any, Any] = {name: Spy(NAMED["conic"]) for name in "ac"}
    result = model.solve(solver=spies)
    assert result[x[0]] == near([3.5, 3.0])
    for name, spy in spies.items():
        assert spy.turns == result.rounds * [(name,)]


class Spy:
    """A solver, which writes down whose turn it was and how exact it was to be."""

    def __init__(self, solver: Solver) -> None:
        self.name, self.batches, self.refuses = "spy", solver.batches, solver.refuses
        self.solver = solver
        self.turns: list[tuple[Any, ...]] = []
        self.tolerances: list[float] = []

    def open(self, subproblems: Sequence[Any]) -> Any:
        session = self.solver.open(subproblems)

        def minimise(turn: Turn, tolerance: float) -> Answers:
            self.turns.append(tuple(subproblems[i].name for i in turn.which))
            self.tolerances.append(tolerance)
            return session.minimise(turn, tolerance)

        return SimpleNamespace(minimise=minimise)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "factor",
            "solver: 'factor' cannot take client 'b': it has 1 row of inequalities; choose one of "
            "'active_set', 'polyhedral', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"b": NAMED["shrink"]},
            "solver: 'shrink' cannot take client 'b': it has 1 row of inequalities; choose one of "
            "'active_set', 'polyhedral', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"a": "average"},
            "solver: 'average' cannot take client 'a': it is no server; choose one of "
            "'factor', 'polyhedral', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"c": "newton"},
            "solver: 'newton' cannot take client 'c': it has no smooth term that is not quadratic; "
            "choose one of 'factor', 'polyhedral', 'conic', 'reference', or leave it to "
            "'auto'",
        ),
    ],
    ids=["all", "object", "average", "newton"],
)
def test_a_solver_that_cannot_take_its_client_says_why(given: Any, text: str) -> None:
    model, x, _ = capped()
    for act in (lambda: model.solve(solver=given), lambda: model.compile().explain(given)):
        with pytest.raises(dm.OptionError) as caught:
            act()
        assert str(caught.value) == text
    assert x[0].value is None


def test_a_solver_of_ones_own_may_refuse() -> None:
    picky = Spy(NAMED["conic"])
    picky.refuses = lambda subproblem: "not on Sundays" if subproblem.name == "c" else ""
    model, _ = chain()
    with pytest.raises(
        dm.OptionError, match="'spy' cannot take client 'c': not on Sundays; choose one of 'factor'"
    ):
        model.solve(solver=picky)
    assert model.solve(solver={"a": picky, "b": picky}).status == "optimal"
    assert set(picky.turns) == {("a",), ("b",)}


def test_a_client_that_cannot_be_written_as_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference takes it; a solver of one's own is asked itself."""
    monkeypatch.setattr(Subproblem, "lowered", property(lambda sub: None))
    model, x = chain()
    (one,) = model.compile().explain()
    assert (one.solver, one.then) == ("reference (CLARABEL)", ())
    assert one.what == "a problem that cvxpy alone understands"
    assert model.solve()[x[0]] == near(MEAN)
    for name in ("factor", "conic"):
        with pytest.raises(dm.OptionError) as caught:
            model.solve(solver=name)
        says(caught.value, f"'{name}' cannot take client 'a': cvxpy's canonical form of it could")
    own = Spy(NAMED["reference"])
    assert model.solve(solver=own)[x[0]] == near(MEAN)
    assert own.turns[:2] == [("a", "c"), ("b",)]


def test_a_server_has_its_closed_form_whatever_is_named() -> None:
    w = cp.Variable(2, name="w")
    model = dm.Model()
    for name, t in zip("abc", TARGETS, strict=True):
        model.client(name, cp.sum_squares(w - t))
    options: list[Any] = ["conic", "SCS", {"server": "average"}, {"server": "conic"}]
    for given in options:
        solvers = {n: one.solver for one in model.compile().explain(given) for n in one.clients}
        assert solvers["server"] == "average"
        assert model.solve(solver=given)[w] == near(MEAN)


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [1e-2, 1e-5, np.float64(1e-9), np.float32(1e-4)])
def test_a_given_accuracy_is_what_every_solver_is_asked_for(given: float) -> None:
    model, x = chain()
    spy = Spy(NAMED["conic"])
    result = model.solve(solver=spy, accuracy=given, max_rounds=50)
    assert set(spy.tolerances) == {given}
    if given < NEAR:
        assert result[x[0]] == near(MEAN)


@pytest.mark.parametrize("eps", [(1e-3, 1e-3), (1e-6, 1e-6), (1e-4, 1e-6), (1e-8, 1e-5)])
def test_the_default_accuracy_follows_the_residuals(eps: tuple[float, float]) -> None:
    """The formula at ``Accuracy``, from the residuals that the history tells."""
    model, _ = chain()
    spy = Spy(NAMED["conic"])
    result = model.solve(solver=spy, eps_pri=eps[0], eps_dual=eps[1])
    assert result.status == "optimal"
    turns = result.rounds * [("a", "c"), ("b",)]
    assert spy.turns == turns
    asked = np.array(spy.tolerances).reshape(-1, 2)
    assert (asked[:, 0] == asked[:, 1]).all(), "one accuracy a round"
    scaled = result.history[["primal_scaled", "dual_scaled"]].to_numpy() / np.array(eps)
    worst = min(eps) * scaled.max(axis=1)
    assert asked[0, 0] == 1e-3
    low = 1e-3 * min(eps)
    assert asked[1:, 0] == pytest.approx(np.clip(1e-2 * worst[:-1], low, 1e-3), rel=1e-12)
    assert asked[-1, 0] <= 0.1 * min(eps), "coarse answers end no run"


@pytest.mark.parametrize(
    ("eps", "primal", "dual", "delta"),
    [
        (1e-6, math.inf, math.inf, 1e-3),
        (1e-6, 1.0, 1e-9, 1e-3),
        (1e-6, 1e-9, 0.02, 2e-4),
        (1e-6, 3e-4, 1e-4, 3e-6),
        (1e-6, 1e-7, 1e-8, 1e-9),
        (1e-6, 0.0, 0.0, 1e-9),
        (1e-8, 0.0, 0.0, 1e-10),
        (0.0, 0.0, 0.0, 1e-10),
        (0.0, 1e-3, 0.0, 1e-5),
    ],
)
def test_the_formula_of_the_accuracy(eps: float, primal: float, dual: float, delta: float) -> None:
    found = Residuals(7.0, 7.0, primal, dual)  # the first two are in the units of the variables
    assert Accuracy(None, eps, eps).of(found) == pytest.approx(delta, rel=1e-12)
    assert Accuracy(0.5, eps, eps).of(found) == 0.5


def test_which_accuracy_may_end_a_run() -> None:
    automatic = Accuracy(None, 1e-6, 1e-6)
    assert [automatic.suffices(used) for used in (1e-3, 1.1e-7, 1e-7, 1e-9)] == [0, 0, 1, 1]
    assert Accuracy(None, 1e-9, 1e-9).suffices(1e-10), "no solver has more digits than that"
    assert Accuracy(0.5, 1e-6, 1e-6).suffices(0.5), "who names it means it"


@pytest.mark.parametrize("rho", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("eps", [(1e-2, 1e-8), (1e-3, 1e-6), (1e-6, 1e-3), (1e-8, 1e-2)])
def test_exact_solvers_end_where_both_residuals_allow(eps: Any, rho: float) -> None:
    """``factor`` is exact whatever it is asked for, so no other round is needed."""
    model, _ = chain()
    history = model.solve(eps_pri=eps[0], eps_dual=eps[1], rho=rho).history
    met = (history.primal_scaled <= eps[0]) & (history.dual_scaled <= eps[1])
    assert met.idxmax() == len(history)
    result = model.solve(eps_pri=eps[0], eps_dual=eps[1], rho=rho)
    assert (result.status, result.rounds) == ("optimal", len(history))


def test_the_answer_does_not_suffer_from_coarse_first_rounds() -> None:
    """A run at full accuracy throughout is the measure."""
    for make, optimum in TAKEN.values():
        model, x = make()
        exact = model.solve(solver="conic", accuracy=1e-9)
        result = model.solve(solver="conic")
        assert (result.status, exact.status) == ("optimal", "optimal")
        assert result[x] == near(optimum)
        assert result.value == near(exact.value)


# --- a solver fails -------------------------------------------------------------------------------

FACTOR = "no minimiser to working accuracy"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """Make ``Factor`` fail on one client of its session from one round on; its turns are told."""
    solve = Factor.solve

    def fail(place: int, round_: int) -> list[list[int]]:
        turns: list[list[int]] = []

        def failing(self: Factor, which: np.ndarray, *told: Any) -> Step:
            step = solve(self, which, *told)
            turns.append(which.tolist())
            seen = sum(place in turn for turn in turns)
            if place not in turns[-1] or seen < round_:
                return step
            at = which == place
            points = np.where(at[:, None], np.nan, step.points)
            return step._replace(points=points, failed=step.failed | at)

        monkeypatch.setattr(Factor, "solve", failing)
        return turns

    return fail


@pytest.mark.parametrize("solver", ["auto", "factor", {"b": "factor"}, {"b": NAMED["factor"]}])
def test_a_client_whose_solver_fails_goes_on_with_the_next(solver: Any, broken: Any) -> None:
    model, x = chain()
    known = model.solve(solver=solver)
    turns = broken(place=2, round_=4)
    result = model.solve(solver=solver)
    assert result.status == "optimal"
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert result.fallbacks == ((4, "b", "factor", "conic", FACTOR),)
    event = result.fallbacks[0]
    assert (event.round, event.client) == (4, "b")
    assert (event.failed, event.next, event.message) == ("factor", "conic", FACTOR)
    count = result.history.fallbacks.tolist()
    assert count == [0] * 3 + [1] * (result.rounds - 3)
    assert turns == 4 * [[0, 1], [2]] + (result.rounds - 4) * [[0, 1]], "b is not tried again"
    assert result.rounds == known.rounds
    assert result.history.objective.to_numpy() == near(known.history.objective.to_numpy())
    line = f"  fallbacks        1, first client 'b' in round 4: from factor to conic ({FACTOR})"
    assert line in str(result).splitlines()
    assert result.verify().ok
    assert model.solve(solver="conic").fallbacks == ()


def test_who_shares_the_session_of_a_failure_keeps_the_solver(broken: Any) -> None:
    """Clients a and c are solved side by side; c fails from the second round on."""
    model, x = chain()
    turns = broken(place=1, round_=2)
    result = model.solve()
    assert result.status == "optimal"
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert result.fallbacks == ((2, "c", "factor", "conic", FACTOR),)
    assert turns == 2 * [[0, 1], [2]] + (result.rounds - 2) * [[0], [2]]
    follows(by_hand(1.0, 6), rho=1.0)


def test_the_dual_values_are_those_of_who_took_over(
    monkeypatch: pytest.MonkeyPatch, broken: Any
) -> None:
    model, x, rule = capped()
    known = model.solve(solver={"b": "conic"})
    monkeypatch.setattr(dm.solvers.ActiveSet, "solve", _fails(dm.solvers.ActiveSet.solve, 3))
    broken(place=0, round_=5)
    result = model.solve()
    assert result.status == "optimal"
    assert [(e.round, e.client, e.failed, e.next) for e in result.fallbacks] == [
        (3, "b", "active_set", "conic"),
        (5, "a", "factor", "conic"),
    ]
    assert result.history.fallbacks.tolist() == [0, 0, 1, 1] + [2] * (result.rounds - 4)
    assert result[x[1]] == near([3.5, 3.0])
    assert result.duals[rule] == near(3.0)
    assert result.value == near(known.value)
    text = str(result)
    assert "2, first client 'b' in round 3: from active_set to conic (" in text
    assert "factor" not in text, "only the first is told"


def _fails(solve: Any, round_: int) -> Any:
    """A step method that fails from its call number ``round_`` on."""
    calls = 0

    def failing(self: Any, which: np.ndarray, *told: Any) -> Step:
        nonlocal calls
        calls += 1
        step = solve(self, which, *told)
        failed = np.full(which.size, calls >= round_)
        return step._replace(points=np.where(failed[:, None], np.nan, step.points), failed=failed)

    return failing


def test_two_solvers_fail_in_one_round(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    def nothing(self: Any, turn: Turn, tolerance: float) -> Answers:
        size, count = 2 * turn.which.size, turn.which.size
        said = dict.fromkeys(range(count), "no luck")
        return Answers(
            np.full(size, np.nan),
            np.full(count, np.nan),
            ["solver_error"] * count,
            lambda i: (),
            said,
        )

    monkeypatch.setattr(SequentialSession, "minimise", nothing)
    broken(place=2, round_=2)
    model, x = chain()
    result = model.solve()
    assert result.status == "optimal"
    assert result[x[1]] == near(MEAN)
    last = "reference (CLARABEL)"
    assert result.fallbacks == (
        (2, "b", "factor", "conic", FACTOR),
        (2, "b", "conic", last, "no luck"),
    )
    assert result.history.fallbacks.tolist() == [0] + [2] * (result.rounds - 1)


def test_after_the_last_solver_there_is_none(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    def nothing(self: Any, sub: Any, tolerance: float) -> tuple[str, str]:
        return "solver_error", "out of luck"

    model, _ = chain()
    monkeypatch.setattr(Reference, "answer", nothing)
    result = model.solve(solver="reference")
    assert (result.status, result.culprit, result.fallbacks) == ("solver_error", "a", ())
    assert model.solve().status == "optimal", "nobody needs it"
    broken(place=2, round_=3)
    assert model.solve(solver={"b": NAMED["factor"]}).status == "optimal", "conic is there still"


def test_a_solver_of_ones_own_has_no_next() -> None:
    class Half(Spy):
        def open(self, subproblems: Sequence[Any]) -> Any:
            session = super().open(subproblems)

            def minimise(turn: Turn, tolerance: float) -> Answers:
                answers = session.minimise(turn, tolerance)
                if len(self.turns) < 4:
                    return answers
                nothing = np.full(2, np.nan)
                return Answers(nothing, nothing[:1], ["solver_error"], lambda i: (), {0: "tired"})

            return SimpleNamespace(minimise=minimise)

    model, _ = chain()
    result = model.solve(solver={"b": Half(NAMED["conic"])})
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "b", 3)
    assert result.fallbacks == ()
    assert "(tired)" in result.detail


@pytest.mark.parametrize("solver", ["auto", "conic", "reference"])
def test_infeasible_is_the_word_of_the_reference(solver: str) -> None:
    """Whoever finds no point first, the next is asked, down to the reference."""
    chains = {
        "auto": [("active_set", "conic"), ("conic", "reference (CLARABEL)")],
        "conic": [("conic", "reference (CLARABEL)")],
        "reference": [],
    }
    model, x = chain()
    impossible = dm.Model()
    for name, client in model.clients.items():
        rules = [x[1] >= 1, x[1] <= 0] if name == "b" else []
        impossible.client(name, client.objective, rules)
    impossible.consensus(x[0] == x[1], x[1] == x[2])
    result = impossible.solve(solver=solver)
    assert (result.status, result.culprit, result.value) == ("infeasible", "b", math.inf)
    assert [(e.failed, e.next) for e in result.fallbacks] == chains[solver]
    assert all((e.round, e.client) == (1, "b") for e in result.fallbacks)
    assert result.history.empty


# --- dual values are those of the round -----------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "conic", "reference"])
def test_the_best_round_keeps_its_dual_values_though_others_followed(solver: str) -> None:
    """With so long a dual step the residuals sway, and the best round is not the last."""
    model, x, rule = capped()
    options: dict[str, Any] = {
        "algorithm": dm.DALD(dual_step=2.6),
        "stopping": dm.FixedBudget(1),
        "rho": 1.0,
        "solver": solver,
        "accuracy": 1e-9,
    }
    result = model.solve(max_rounds=20, **options)
    best = result.answer_round
    assert 0 < best < result.rounds
    known = model.solve(max_rounds=best, eps_pri=0.0, eps_dual=0.0, **options)
    assert known.answer_round == best
    assert result.duals[rule] == known.duals[rule]
    assert (result[x[1]] == known[x[1]]).all()
    later = model.solve(max_rounds=20, eps_pri=0.0, eps_dual=0.0, **options)
    assert later.answer_round == 20
    assert abs(later.duals[rule] - known.duals[rule]) > 1e-3, "it would be noticed"


# --- what the defaults must manage without tuning -------------------------------------------------


@pytest.mark.parametrize("rounds", [100])
@pytest.mark.parametrize(
    ("one", "other"), [(1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1e-3, 3e-3), (1e4, 3e4)]
)
def test_two_numbers_agree_within_a_hundred_rounds(one: float, other: float, rounds: int) -> None:
    """Also where the answer is zero (1 and -1) and where all agree already (1 and 1)."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x - one))
    model.client("b", cp.square(y - other))
    model.consensus(x == y)
    result = model.solve(max_rounds=rounds)
    assert result.status == "optimal"
    assert result[x] == near((one + other) / 2)


def test_flat_directions_do_not_slow_the_default_penalty_down() -> None:
    """The middle client's (u + v)^2 has no curvature along u = -v."""
    u, v = cp.Variable(name="u"), cp.Variable(name="v")
    model = dm.Model()
    model.client("a", cp.square(u - 1))
    model.client("b", cp.square(u + v))
    model.client("c", cp.square(v - 2))
    result = model.solve(max_rounds=100)
    # The normal equations: 2 u + v = 1, u + 2 v = 2.
    assert result.status == "optimal"
    assert (result[u], result[v]) == near((0.0, 1.0))


def test_many_small_rings_of_two_kinds() -> None:
    for graph in (nx.cycle_graph(4), nx.cycle_graph(3)):
        x = {n: cp.Variable(name=f"x{n}") for n in graph}
        model = dm.Model()
        for n, v in x.items():
            model.client(n, cp.square(v - n - 1))
        model.consensus(*[x[a] == x[b] for a, b in graph.edges])
        result = model.solve(max_rounds=200)
        assert result.status == "optimal"
        assert result.value == near(sum((n + 1 - (len(graph) + 1) / 2) ** 2 for n in graph))


def test_after_the_last_solver_the_others_have_their_turn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The factor fails b in round 3 only; conic has one good round, and the reference none."""
    solve, minimise = Factor.solve, SequentialSession.minimise
    rounds, answers = [0], [0]

    def once(self: Any, which: np.ndarray, slopes: np.ndarray, tolerance: float = 0.0) -> Any:
        step = solve(self, which, slopes, tolerance)
        rounds[0] += which.tolist() == [2]
        failed = np.full(which.size, rounds[0] == 3 and which.tolist() == [2])
        return step._replace(failed=failed)

    def tired(self: Any, turn: Turn, tolerance: float) -> Answers:
        answers[0] += 1
        found = minimise(self, turn, tolerance)
        return found if answers[0] == 1 else found._replace(statuses=["solver_error"])

    monkeypatch.setattr(Factor, "solve", once)
    monkeypatch.setattr(SequentialSession, "minimise", tired)
    monkeypatch.setattr(Reference, "answer", lambda self, sub, eps: ("solver_error", "no luck"))
    model, x = chain()
    result = model.solve()
    assert result.status == "optimal", str(result)
    assert [result[v] for v in x] == [near(MEAN)] * 3
    assert [(e.round, e.client, e.failed, e.next) for e in result.fallbacks] == [
        (3, "b", "factor", "conic"),
        (4, "b", "conic", "reference (CLARABEL)"),
        (4, "b", "reference (CLARABEL)", "factor"),
    ]
