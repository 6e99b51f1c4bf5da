"""How a run ends: each status with its culprit, and the best iterate and the history kept."""

import re
from collections.abc import Callable, Hashable, Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Answers, Multipliers, Reference, Turn
from tests.coordinate.two import agreeing, consistent, squares
from tests.expect import near

# --- success --------------------------------------------------------------------------------------


def test_optimal() -> None:
    result = squares().solve()
    consistent(result)
    assert result.status == "optimal" == dm.Status.OPTIMAL
    assert result.status.has_answer
    assert result.value == near(4.5)
    last = result.history.iloc[-1]
    assert max(last.primal_scaled, last.dual_scaled) <= 1e-6
    assert last.objective == near(4.5)


def test_every_status_is_a_word_with_a_message() -> None:
    assert {str(s) for s in dm.Status} >= {
        "optimal",
        "optimal_inaccurate",
        "infeasible",
        "unbounded",
        "round_limit",
        "stalled",
        "diverged",
        "interrupted",
        "solver_error",
    }
    assert all(s.message and s.message != s for s in dm.Status)
    answers = ["optimal", "optimal_inaccurate", "certified", "reduced", "stationary"]
    assert [s for s in dm.Status if s.has_answer] == answers


# --- infeasible -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sense", [1, -1], ids=["minimise", "maximise"])
@pytest.mark.parametrize(
    ("rules", "culprit"),
    [
        ((lambda x: [x >= 1, x <= 0], lambda y: []), "a"),
        ((lambda x: [], lambda y: [y == 1, y == 2]), "b"),
        ((lambda x: [x >= 1, x <= 0], lambda y: [y >= 1, y <= 0]), "a"),
    ],
    ids=["first", "second", "both"],
)
def test_an_infeasible_client_is_named(sense: int, rules: Any, culprit: str) -> None:
    goal = (lambda x: cp.square(x)) if sense > 0 else (lambda x: cp.Maximize(-cp.square(x)))
    result = agreeing(goal, goal, *rules).solve()
    consistent(result)
    assert (result.status, result.culprit) == ("infeasible", culprit)
    assert result.value == sense * np.inf
    assert re.search(f"client '{culprit}' is infeasible: no point satisfies its own", result.detail)
    assert "relax one of them" in result.detail
    assert result.rounds == 0
    assert result.verify().ok, "plain cvxpy agrees"


@pytest.mark.parametrize(
    "goal",
    [
        lambda x: -cp.log(x),
        lambda x: -cp.entr(x),
        lambda x: cp.kl_div(x, 2),
        lambda x: cp.square(x) - cp.log(x),
        lambda x: cp.inv_pos(x),
        lambda x: -cp.sqrt(x),
    ],
    ids=["log", "entr", "kl_div", "square and log", "inv_pos", "sqrt"],
)
def test_the_domain_of_an_objective_counts(goal: Any) -> None:
    result = agreeing(goal, cp.square, lambda x: [x <= -1]).solve()
    assert (result.status, result.culprit, result.value) == ("infeasible", "a", np.inf)
    assert "the domain of its objective" in result.detail


@pytest.mark.parametrize(
    ("model", "culprits"),
    [
        (lambda: agreeing(cp.square, cp.square, lambda x: [x >= 1], lambda y: [y <= 0]), {"ab"}),
        (
            lambda: agreeing(
                cp.sum_squares, cp.sum_squares, lambda x: [x >= 1e-3], lambda y: [y <= 0], 3
            ),
            {"ab"},
        ),
        (
            lambda: agreeing(
                cp.sum_squares, cp.norm1, lambda x: [x >= 1e4], lambda y: [cp.sum(y) <= 0], 3
            ),
            {"ab"},
        ),
        (
            lambda: agreeing(
                cp.norm1,
                cp.sum_squares,
                lambda x: [cp.sum(x) == 5],
                lambda y: [cp.sum(y) == 6],
                3,
            ),
            {"ab"},
        ),
        (lambda: agreeing(cp.abs, cp.abs, lambda x: [x >= 1], lambda y: [y <= 0]), {"ab"}),
        (lambda: chain(lambda x: cp.square(x)), {"01", "12", "23"}),
        (lambda: chain(lambda x: cp.Maximize(-cp.abs(x))), {"01", "12", "23"}),
    ],
    ids=["issue", "close", "far", "planes", "kinks", "chain", "maximise"],
)
def test_an_infeasible_consensus_of_feasible_clients(model: Any, culprits: set[str]) -> None:
    built = model()
    result = built.solve()
    consistent(result)
    assert result.status == "infeasible"
    assert result.value == result.compiled.sense * np.inf
    assert "".join(map(str, result.culprit)) in culprits, "an edge"
    assert "every client is feasible, but they cannot agree" in result.detail
    assert str(result.culprit) in result.detail
    assert "relax a constraint" in result.detail
    assert 0 < result.rounds < 1000
    best = [result[v] for v in built.monolithic().variables()]
    assert np.isfinite(np.concatenate([np.ravel(b) for b in best])).all(), "best iterate kept"
    assert result.verify().ok, "plain cvxpy agrees"


def chain(goal: Callable) -> dm.Model:
    """Four clients in a row: the ends cannot agree."""
    x = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model()
    for i in range(4):
        model.client(i, goal(x[i]), {0: [x[0] >= 1], 3: [x[3] <= 0]}.get(i, []))
    model.consensus(x[0] == x[1], x[1] == x[2], x[2] == x[3])
    return model


def test_equalities_that_contradict_one_another() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(3)]
    model = dm.Model()
    for i in range(3):
        model.client(i, cp.square(x[i]))
    model.consensus(x[0] == x[1] + 1, x[1] == x[2] + 1, x[2] == x[0] + 1)
    result = model.solve()
    consistent(result)
    assert (result.status, result.value) == ("infeasible", np.inf)
    assert result.verify().ok


def test_a_shared_variable_that_clients_cannot_agree_on() -> None:
    w = cp.Variable(name="w")
    model = dm.Model()
    model.client("a", cp.square(w), [w >= 1])
    model.client("b", cp.square(w), [w <= 0])
    result = model.solve()
    consistent(result)
    assert result.status == "infeasible"
    assert "server" in result.culprit


def test_a_feasible_consensus_of_touching_sets_is_not_called_infeasible() -> None:
    result = agreeing(cp.square, cp.square, lambda x: [x >= 1], lambda y: [y <= 1]).solve()
    assert (result.status, result.value) == ("optimal", near(2.0))


# --- unbounded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sense", [1, -1], ids=["minimise", "maximise"])
def test_an_unbounded_client_is_named(sense: int) -> None:
    x, y, u = (cp.Variable(name=n) for n in "xyu")
    model = dm.Model()
    goal: Any = cp.Minimize if sense > 0 else cp.Maximize
    model.client("a", goal(sense * cp.square(x)))
    model.client("b", goal(sense * cp.square(y) - u))
    if sense < 0:
        model = dm.Model()
        model.client("a", cp.Maximize(-cp.square(x)))
        model.client("b", cp.Maximize(-cp.square(y) + u))
    model.consensus(x == y)
    result = model.solve()
    consistent(result)
    assert (result.status, result.culprit) == ("unbounded", "b")
    assert result.value == -sense * np.inf
    assert "client 'b' is unbounded below along a direction that no consensus" in result.detail
    assert "bound its variables or add a regulariser" in result.detail
    assert result.verify().ok, "plain cvxpy agrees"


@pytest.mark.parametrize(
    ("model", "culprit", "value"),
    [
        (lambda: agreeing(lambda x: x, lambda y: 0 * y), "a", -np.inf),
        (lambda: agreeing(lambda x: x, lambda y: 2 * y, lambda x: [x <= 3]), "b", -np.inf),
        (lambda: agreeing(lambda x: cp.exp(x), lambda y: 2 * y), "b", -np.inf),
        (
            lambda: agreeing(lambda x: cp.square(x[0]), lambda y: cp.sum(y), shape=2),
            "b",
            -np.inf,
        ),
        (
            lambda: agreeing(lambda x: cp.Maximize(x), lambda y: cp.Maximize(-y / 2)),
            "a",
            np.inf,
        ),
    ],
    ids=["line", "ray", "curved", "one direction", "maximise"],
)
def test_an_objective_that_falls_along_an_agreed_direction(
    model: Any, culprit: str, value: float
) -> None:
    result = model().solve()
    consistent(result)
    assert (result.status, result.culprit, result.value) == ("unbounded", culprit, value)
    goes = "falls" if value < 0 else "rises"
    assert f"{goes} without bound along a direction on which all clients agree" in result.detail
    assert f"client {culprit!r}" in result.detail
    assert "add a constraint or a regulariser" in result.detail
    assert 0 < result.rounds < 1000
    assert result.verify().ok, "plain cvxpy agrees"


def test_bounded_only_together_is_optimal() -> None:
    """Both fall without bound on their own; (x - 1)^2 / 2 - ... is: x - 2 y + x^2 in parts."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    model = dm.Model()
    model.client("a", cp.square(x[0]) - 2 * x[1])
    model.client("b", cp.square(y[1]) + 4 * y[0])
    model.consensus(x == y)
    result = model.solve()
    assert result.status == "optimal"
    assert result[x] == near([-2.0, 1.0])
    assert result.value == near(-5.0)


# --- divergence, round limit, interruption, failure -----------------------------------------------


def growth(step: float, rho: float) -> float:
    """By what a round multiplies the error of two squares, in the end: (mu, y) -> (mu, y).

    With c = 2 rho^2: x = (c y - mu) / (2 + c), y = (c x + mu) / (2 + c), mu += step c (x - y).
    """
    c = 2 * rho**2
    x = np.array([-1, c]) / (2 + c)
    y = (np.array([1, 0]) + c * x) / (2 + c)
    mu = np.array([1, 0]) + step * c * (x - y)
    return float(np.abs(np.linalg.eigvals([mu, y])).max())


@pytest.mark.parametrize("step", [0.5, 1.0, 1.6, 3.0, 10.0])
@pytest.mark.parametrize("rho", [0.5, 1.0, 3.0])
def test_it_diverges_where_theory_says_so(step: float, rho: float) -> None:
    factor = growth(step, rho)
    assert abs(factor - 1) > 0.01, "no borderline cases here"
    one = dm.FixedBudget(1)
    algorithm = dm.DALD(dual_step=step)
    result = squares().solve(algorithm=algorithm, rho=rho, stopping=one, max_rounds=5000)
    consistent(result)
    if factor < 1:
        assert result.status == "optimal"
        return
    assert (result.status, result.culprit) == ("diverged", ("a", "b"))
    assert "on edge ('a', 'b')" in result.detail
    assert "try a smaller dual step" in result.detail
    late = result.history.primal.iloc[-6:]
    assert float(late.iloc[-1] / late.iloc[0]) == pytest.approx(factor**5, rel=0.01)


def test_the_default_penalty_does_not_hide_divergence() -> None:
    result = squares().solve(algorithm=dm.DALD(dual_step=3.0), stopping=dm.FixedBudget(1))
    consistent(result)
    assert (result.status, result.culprit) == ("diverged", ("a", "b"))


@pytest.mark.parametrize(("rho", "step"), [(1.0, 3.0), (1.0, 10.0), (None, 10.0), (None, 3.0)])
def test_the_best_iterate_of_a_divergent_run_is_no_huge_one(rho: Any, step: float) -> None:
    """At the start both are within 3 of the optimum, and the value is below that of (0, 0)."""
    model = squares()
    one = dm.FixedBudget(1)
    result = model.solve(algorithm=dm.DALD(dual_step=step), rho=rho, stopping=one)
    assert [abs(float(result[v])) < 4 for v in model.monolithic().variables()] == [True, True]


def test_the_round_limit() -> None:
    model = squares()
    result = model.solve(acceleration=None, max_rounds=3)
    consistent(result)
    assert (result.status, result.rounds, result.culprit) == ("round_limit", 3, None)
    assert result.detail == "after 3 rounds; see result.diagnose()"
    full = model.solve(acceleration=None)
    for column in ("outer", "inner", "primal", "dual", "objective"):
        assert list(result.history[column]) == pytest.approx(list(full.history[column].iloc[:3]))
    assert result.value == pytest.approx(float(full.history.objective.iloc[2]))


def test_the_best_iterate_is_kept_and_not_the_last() -> None:
    result = squares().solve(algorithm=dm.DALD(dual_step=2.6), rho=1.0, max_rounds=21)
    merit = result.history[["primal_scaled", "dual_scaled"]].max(axis=1).to_numpy()
    best = int(merit.argmin())
    assert best < len(merit) - 1, "it sways"
    assert result.status == "round_limit"
    assert result.value == pytest.approx(float(result.history.objective.iloc[best]))


class Around:
    """A solver, asked through ``act``, which is told whose turn it is."""

    name, batches, is_exact = "around", False, False

    def __init__(
        self,
        act: Callable[[list[Hashable], Callable[[], Answers]], Answers],
        solver: Any = Reference(),  # noqa: B008 - it keeps nothing
    ) -> None:
        self.act, self.solver = act, solver

    def refuses(self, subproblem: Any) -> str:
        return ""

    def open(self, subproblems: Sequence[Any]) -> Any:
        session = self.solver.open(subproblems)

        def minimise(turn: Turn, tolerance: float) -> Answers:
            names = [subproblems[i].name for i in turn.which]
            return self.act(names, lambda: session.minimise(turn, tolerance))

        return SimpleNamespace(minimise=minimise)


def stop(at: int) -> Around:
    """The reference, until Ctrl-C at the clients' turn number ``at``."""
    turn = 0

    def act(names: list[Hashable], ask: Callable[[], Answers]) -> Answers:
        nonlocal turn
        turn += 1
        if turn == at:
            raise KeyboardInterrupt
        return ask()

    return Around(act)


def test_ctrl_c_returns_what_there_is() -> None:
    model = squares()
    result = model.solve(solver=stop(8))  # two turns a round: in the middle of the fourth
    consistent(result)
    assert (result.status, result.rounds, result.culprit) == ("interrupted", 3, None)
    assert result.detail == "after 3 complete rounds"
    known = model.solve(max_rounds=3, solver="reference")
    assert result.value == known.value
    assert model.solve().status == "optimal", "and it can be solved again"


def test_ctrl_c_before_anything_is_there() -> None:
    model = squares()
    (x,) = model.clients["a"].variables
    for at in (1, 2):
        result = model.solve(solver=stop(at))
        consistent(result)
        assert (result.status, result.rounds) == ("interrupted", 0)
        assert np.isnan(result.value)
        assert result.history.empty
        assert not result.verify().ok
        with pytest.raises(
            dm.ResultError, match=r"'x' has no value.*\(interrupted\) before a first"
        ):
            result[x]
        with pytest.raises(dm.ResultError, match=r"client 'a' has no values.*\(interrupted\)"):
            result["a"]
        with pytest.raises(dm.ResultError, match=r"plot: the run ended \(interrupted\) before"):
            result.plot()


def failing(status: str, *, turn: int = 1, point: float = np.nan, message: str = "") -> Around:
    """The reference, but client b gets such an answer from its turn number ``turn`` on."""
    left = turn

    def act(names: list[Hashable], ask: Callable[[], Answers]) -> Answers:
        nonlocal left
        left -= names == ["b"]
        if names != ["b"] or left > 0:
            return ask()
        said = {0: message} if message else {}
        return Answers(np.array([point]), np.array([1.0]), [status], Multipliers.none(1), said)

    return Around(act)


@pytest.mark.parametrize("turn", [1, 4])
def test_a_solver_that_fails_is_told_with_its_client(turn: int) -> None:
    result = squares().solve(
        acceleration=None, solver=failing("solver_error", turn=turn, message="out of luck")
    )
    consistent(result)
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "b", turn - 1)
    assert "client 'b'" in result.detail
    assert "(out of luck)" in result.detail
    assert "choose another by the option solver" in result.detail
    if turn > 1:
        assert result.value == pytest.approx(float(result.history.objective.iloc[-1]))


@pytest.mark.parametrize("word", ["infeasible", "unbounded"])
def test_a_client_that_was_solved_before_is_not_suddenly_infeasible(word: str) -> None:
    result = squares().solve(acceleration=None, solver=failing(word, turn=4))
    consistent(result)
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "b", 3)
    assert f"called client 'b' {word}, which it had solved before" in result.detail


@pytest.mark.slow
def test_a_solver_without_the_digits_stalls() -> None:
    def coarse() -> Around:
        turn = 0

        def act(names: list[Hashable], ask: Callable[[], Answers]) -> Answers:
            nonlocal turn
            turn += 1
            found = ask()
            return found._replace(points=found.points + (-1) ** (turn // 2) * 1e-4)

        return Around(act, NAMED["factor"])

    result = squares().solve(solver=coarse(), stopping=dm.FixedBudget(1), max_rounds=3000)
    consistent(result)
    assert (result.status, result.culprit) == ("stalled", ("a", "b"))
    assert "no improvement for 500 rounds" in result.detail
    diagnose, solver, default, onward, looser = (
        result.detail.index(said)
        for said in ("diagnose()", "solver=", "default", "start=result", "larger eps_pri")
    )
    assert diagnose < solver < default < onward < looser
    assert result.value == pytest.approx(4.5, abs=0.01)
    assert squares().solve(solver=coarse(), eps_pri=1e-3, eps_dual=1e-3).status == "optimal"


def test_inaccurate_answers_end_in_a_status_of_their_own() -> None:
    def act(names: list[Hashable], ask: Callable[[], Answers]) -> Answers:
        return ask()._replace(statuses=["optimal_inaccurate"] * len(names))

    result = squares().solve(solver=Around(act))
    assert result.status == "optimal_inaccurate"
    assert result.status.has_answer
    assert result.value == near(4.5)
    assert "'a', 'b'" in result.detail


def test_points_that_are_not_numbers_count_as_divergence() -> None:
    result = squares().solve(solver=failing("optimal", turn=3))
    consistent(result)
    assert (result.status, result.culprit) == ("diverged", ("a", "b"))
    assert result.value == pytest.approx(float(result.history.objective.iloc[1]))


def test_a_solver_that_cannot_take_the_problem() -> None:
    result = squares().solve(solver="SCIPY")  # linear programmes only
    consistent(result)
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "a", 0)
    assert "SCIPY" in result.detail
    assert np.isnan(result.value)


def test_feasible_again_after_a_parameter_changed() -> None:
    p = cp.Parameter(name="p")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model()
    model.client("a", cp.square(x - 1), [x >= p])
    model.client("b", cp.square(y + 2), [y <= 0])
    model.consensus(x == y)
    for p.value, status, value in [
        (1.0, "infeasible", np.inf),
        (-1.0, "optimal", 4.5),
        (2.0, "infeasible", np.inf),
        (0.0, "optimal", 5.0),
    ]:
        result = model.solve()
        consistent(result)
        assert (result.status, result.value) == (status, near(value))


def test_a_run_too_short_for_everybody_to_have_a_turn() -> None:
    model = squares()
    result = model.solve(sequence=dm.Sequence.random(k=1), max_rounds=1)
    assert (result.status, result.rounds) == ("round_limit", 1)
    assert np.isnan(result.value)
    assert len(result.plot().axes) == 3
    assert not result.verify().ok
    with pytest.raises(dm.ResultError, match="has no value"):
        result[model.clients["a"].variables[0]]


@pytest.mark.slow
def test_a_long_inner_loop_is_no_standstill() -> None:
    """Within it the multipliers stay, so the primal residual rests while the dual one falls.

    Under this penalty the first loop contracts by rho^2 / (1 + rho^2) a half sweep: to 1e-6 takes
    some ln(1e6) (1 + rho^2) / 2 = 2,770 sweeps, nine times the patience.
    """
    x = [cp.Variable(), cp.Variable()]
    model = dm.Model()
    model.client("a", cp.square(x[0] - 1))
    model.client("b", cp.square(x[1]))
    model.consensus(x[0] == x[1])
    result = model.solve(rho=20.0, stopping=dm.FixedTolerance(), max_rounds=20_000)
    assert result.status == "optimal"
    assert result.history.inner.max() > 2_000
    assert result[x[0]] == pytest.approx(0.5, abs=1e-5)


def test_what_contradicts_is_named_with_what_it_misses() -> None:
    """Four shares of at least 2 and 5 in sum: 3 is missing, wherever it comes from."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(4)]
    model = dm.Model("cap")
    for i in range(4):
        model.client(f"u{i}", cp.sum_squares(x[i]), [x[i] >= 2, x[i] <= 100])
    model.couple(sum(x) <= 5, name="cap")
    model.couple(x[0] - x[1] <= 50, name="loose")
    said = model.solve().detail
    assert "x0 + x1 + x2 + x3 <= 5.0 of coupling 'cap' (misses by 3)" in said
    for i in range(4):
        assert f"2.0 <= x{i} of client 'u{i}' (misses by 3)" in said
    assert "100" not in said
    assert "loose" not in said


def test_two_couplings_that_contradict_are_both_named() -> None:
    x = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model("caps")
    for i in range(4):
        model.client(f"u{i}", cp.square(x[i]))
    model.couple(sum(x) <= 5, name="cap")
    model.couple(2 * sum(x) >= 12, name="floor")
    said = model.solve().detail
    assert "of coupling 'cap' (misses by 1)" in said
    assert "of coupling 'floor' (misses by 2)" in said


def test_a_feasible_owner_that_a_solver_calls_infeasible_has_a_way_out() -> None:
    result = squares().solve(
        acceleration=None, solver=failing("infeasible", turn=1, message="of the others")
    )
    assert (result.status, result.culprit, result.rounds) == ("solver_error", "b", 0)
    assert "client 'b' is feasible, but its solver finds no minimiser" in result.detail
    assert "disclose='curvature'" in result.detail
