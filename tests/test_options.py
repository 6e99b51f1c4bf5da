"""The options of ``solve``: what each does, and what each refuses."""

import contextlib
import io
import math
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import Answer, Average, Reference, Solver

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
        moved = model.solve(rho=dm.ResidualBalancing(start=start), max_rounds=200)
        assert moved.status == "optimal"
        assert moved.history.rho.iloc[0] == pytest.approx(start)
        assert 0.02 < moved.history.rho.iloc[-1] < 50


def test_residual_balancing_keeps_its_period_and_its_number_of_changes() -> None:
    model, _ = chain()
    rule = dm.ResidualBalancing(start=100.0, period=7, changes=2)
    rho = model.solve(rho=rule, max_rounds=60).history.rho.to_numpy()
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
        ("solver", "nope", ["no solver 'nope' installed; expected one of", "CLARABEL"]),
        ("solver", 3, ["solver: given 3", "the name of a cvxpy solver", "Reference('OSQP')"]),
        ("solver", Reference, ["solver: given <class", "an object of"]),
        ("algorithm", "admm", ["algorithm: given 'admm'", "expected", "dm.DALD()"]),
        ("algorithm", dm.DALD, ["algorithm: given <class", "expected an object such as"]),
        ("stopping", "B4", ["stopping: given 'B4'", "dm.FixedBudget(v_max=1)"]),
        ("stopping", dm.FixedBudget, ["stopping: given <class", "an object such as"]),
        ("sequence", "random", ["sequence: given 'random'", "dm.Sequence"]),
        ("sequence", [["a"], ["b"]], ["sequence: given [['a'], ['b']]", "dm.Sequence"]),
    ],
    ids=[f"case {i}" for i in range(17)],
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
    """The minimiser in closed form, from what a request holds."""

    class ByHand:
        names: set[Any] = set()  # noqa: RUF012 - read after the run

        def minimise(self, requests: Any, tolerance: float) -> list[Answer]:
            assert 0 < tolerance <= 1e-6
            return [self.one(*request) for request in requests]

        def one(self, sub: Any, mu: Any, rho: Any, told: Any) -> Answer:
            self.names.add(sub.name)
            t = TARGETS["abc".index(sub.name)]
            matrix, offset = sub.sides
            assert (matrix.toarray() == np.eye(2)).all()
            assert not offset.any()
            weight = 2 * rho**2
            point = (2 * t - sub.signs * mu + weight * told) / (2 + weight)
            return Answer("optimal", point, float(np.sum((point - t) ** 2)))

    w = cp.Variable(2, name="w")
    model = dm.Model()
    for name, t in zip("abc", TARGETS, strict=True):
        model.client(name, cp.sum_squares(w - t))
    assert isinstance(ByHand(), Solver)
    result = model.solve(solver=ByHand())
    assert ByHand.names == set("abc")
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
    assert Average.takes(server)
    assert not Average.takes(compiled["a"])
    generator = np.random.default_rng(0)
    rho, mu, told = (generator.random((3, 2)) + 0.5 for _ in range(3))
    request = dm.solvers.Request(server, mu.ravel(), rho.ravel(), told.ravel())
    (answer,) = Average().minimise([request], 1e-9)
    # The server stands on the left of each edge, x_hat - x_i; the paper has x_i - x_hat.
    expected = ((rho**2 * told).sum(axis=0) - mu.sum(axis=0) / 2) / (rho**2).sum(axis=0)
    assert server.signs.tolist() == [1] * 6
    assert answer.point == pytest.approx(expected)
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
    (answer,) = Average().minimise([dm.solvers.Request(sub, mu, rho, told)], 1e-9)
    sub.set(mu, rho, told)
    sub.problem.solve(solver=cp.CLARABEL)
    assert answer.point == near(sub.point())


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
