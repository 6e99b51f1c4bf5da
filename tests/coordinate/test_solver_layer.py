"""Solvers by name, by client and of one's own: the optimum by hand, and what each refuses."""

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Answers, Average, Conic, Multipliers, Reference, Solver, Turn
from tests.coordinate.chain import MEAN, TAKEN, TARGETS, Spy, capped, chain
from tests.expect import near, says

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
        name, batches, is_exact = "by hand", False, False

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
            return Answers(
                np.concatenate(points),
                costs,
                ["optimal"] * len(subs),
                Multipliers.none(len(subs)),
                {},
            )

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


def test_every_name_is_tested_below() -> None:
    elsewhere = {"nonlinear"}  # tests/solvers, tests/nonconvex
    assert set(TAKEN) | elsewhere | {"average", "conic", "reference"} == set(NAMED)


@pytest.mark.parametrize("kind", TAKEN)
def test_every_solver_by_its_name_and_auto_gives_the_optimum(kind: str) -> None:
    make, optimum = TAKEN[kind]
    model, x = make()
    compiled, solved = model.compile(), set()
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
        if named in solved:
            continue
        solved.add(named)
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


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "factor",
            "solver: 'factor' cannot take client 'b': it has 1 row of inequalities; choose one of "
            "'active_set', 'semismooth', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"b": NAMED["newton"]},
            "solver: 'newton' cannot take client 'b': it has no smooth term that is not quadratic; "
            "choose one of "
            "'active_set', 'semismooth', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"a": "average"},
            "solver: 'average' cannot take client 'a': it is no server; choose one of "
            "'factor', 'conic', 'reference', or leave it to 'auto'",
        ),
        (
            {"c": "newton"},
            "solver: 'newton' cannot take client 'c': it has no smooth term that is not quadratic; "
            "choose one of 'factor', 'conic', 'reference', or leave it to 'auto'",
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
    monkeypatch.setattr(dm.Subproblem, "lowered", property(lambda sub: None))
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


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "SCS"])
def test_a_solver_of_cvxpy_has_no_unit(solver: str, unit: float) -> None:
    """The weighted mean of 1, 3 and 8, measured from an origin a thousand lengths away."""
    model, x = dm.Model("weighted mean"), cp.Variable()
    for name, (weight, wish) in {"a": (1, 1), "b": (2, 3), "c": (1, 8)}.items():
        model.client(name, weight * cp.square(x / unit - (wish + 1e3)))
    result = model.solve(solver=solver)
    assert result.status == "optimal"
    assert float(result[x]) / unit - 1e3 == pytest.approx(15 / 4, abs=1e-4)
