"""What users are told of their mistakes, to the letter: in declarations, in options, in results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm

GENERATOR = np.random.default_rng(0)
A, B = GENERATOR.normal(size=(3, 20, 4)), GENERATOR.normal(size=(3, 20))
DCP = "rewrite it with cvxpy's atoms (https://www.cvxpy.org/tutorial/dcp)"
NONCONVEX = (
    "; or, if it is meant to be non-convex, declare the client with nonconvex=True (needs pip "
    'install "dald_model[nonconvex]"), for a stationary point instead of an optimum'
)
RULES = "does not follow cvxpy's DCP rules"
WRITE = "write it as convex <= concave or affine == affine"


def shared() -> tuple[dm.Model, cp.Variable]:
    """Three clients of least squares in one variable."""
    w, model = cp.Variable(4, name="w"), dm.Model("base")
    for i in range(3):
        model.client(f"c{i}", cp.sum_squares(A[i] @ w - B[i]))
    return model, w


def numbers(count: int = 3) -> tuple[dm.Model, list[cp.Variable]]:
    """Clients with a number each, and nothing that connects them yet."""
    x, model = [cp.Variable(name=f"x{i}") for i in range(count)], dm.Model("numbers")
    for i in range(count):
        model.client(i, cp.square(x[i] - i))
    return model, x


def declared(make: Callable[[cp.Variable], Any], rules: Callable[[cp.Variable], Any]) -> None:
    """A client whose objective and constraints are made of the shared variable."""
    model, w = shared()
    model.client("bad", make(w), rules(w))


def forgotten() -> None:
    """A variable of its own for each client, all with one name."""
    model = dm.Model("forgotten")
    for i in range(3):
        model.client(f"c{i}", cp.sum_squares(A[i] @ cp.Variable(4, name="w") - B[i]))
    model.solve()


def without_value() -> None:
    """A Parameter that was never set."""
    model, w = shared()
    model.client("reg", cp.Parameter(nonneg=True, name="lam") * cp.norm1(w))
    model.solve()


def with_nan() -> np.ndarray:
    """A matrix with one entry missing."""
    found = A[0].copy()
    found[3, 2] = np.nan
    return found


DECLARED: dict[str, tuple[Callable[[cp.Variable], Any], Callable[[cp.Variable], Any], str]] = {
    "concave": (
        lambda w: cp.sum(cp.sqrt(w)), lambda _: [],
        "the objective sum(power(w, 0.5)) is concave by cvxpy's DCP rules, expected convex for "
        f"Minimize; {DCP}{NONCONVEX}",
    ),
    "logistic by hand": (
        lambda w: -cp.sum(cp.log(1 + cp.exp(-A[0] @ w))), lambda _: [],
        "the objective -sum(log(1.0 + exp([20x4] @ w))) is unknown by cvxpy's DCP rules, expected "
        "convex for Minimize; in it, log(1.0 + exp([20x4] @ w)) breaks the rules, since log is "
        f"concave and its argument 1.0 + exp([20x4] @ w) is convex; {DCP}{NONCONVEX}",
    ),
    "constraint": (
        lambda _: 0, lambda w: [cp.norm(w) >= 1],
        f"constraint 0, 1.0 <= norm(w, 2), {RULES}: norm(w, 2) is convex, expected concave; "
        f"{WRITE}",
    ),
    "bilinear": (
        lambda w: cp.Variable(4, name="u") @ w, lambda _: [],
        "the objective u @ w is unknown by cvxpy's DCP rules, expected convex for Minimize; in "
        "it, u @ w breaks the rules, since it multiplies two expressions of variables; "
        f"{DCP}{NONCONVEX}",
    ),
    "vector": (
        lambda w: cp.square(A[0] @ w - B[0]), lambda _: [],
        "the objective is an expression of shape (20,), expected cp.Minimize, cp.Maximize or a "
        "real scalar cvxpy expression (which is minimised), such as cp.sum(...) of a vector",
    ),
    "nan": (
        lambda w: cp.sum_squares(with_nan() @ w), lambda _: [],
        "minimize sum_squares([20x4] @ w) holds 1 NaN or infinite entries in a constant of shape "
        "(20, 4), the first is nan at [3, 2]; clean the data first (drop or impute those rows)",
    ),
    "infinity": (
        lambda w: cp.sum_squares(w - np.inf), lambda _: [],
        "minimize sum_squares(w + -inf) holds the constant inf; clean the data first (drop or "
        "impute those rows)",
    ),
    "maximised": (
        lambda w: cp.Maximize(cp.sum_squares(w)), lambda _: [],
        "the objective sum_squares(w) is convex by cvxpy's DCP rules, expected concave for "
        f"Maximize; {DCP}{NONCONVEX}",
    ),
    "integer": (
        lambda w: cp.sum_squares(cp.Variable(4, integer=True, name="z") - w), lambda _: [],
        "variable 'z' is integer, expected real and continuous; relax it (bounds instead of "
        "boolean, real and imaginary parts instead of complex)",
    ),
    "no list": (
        cp.sum_squares, lambda w: w >= 0,
        "the constraints are 0.0 <= w of type Inequality, expected a list of cvxpy constraints "
        "such as [x >= 0]",
    ),
    "bool": (
        cp.sum_squares, lambda _: [np.float64(1) <= 2],
        "constraint 0 is np.True_ of type bool, expected a cvxpy constraint such as x >= 0",
    ),
    "negative weight": (
        lambda w: -0.1 * cp.norm1(w), lambda _: [],
        "the objective -0.1 * norm1(w) is concave by cvxpy's DCP rules, expected convex for "
        f"Minimize; {DCP}",
    ),
    "weight without sign": (
        lambda w: cp.Parameter(name="lam", value=1.0) * cp.norm1(w), lambda _: [],
        "the objective lam * norm1(w) is unknown by cvxpy's DCP rules, expected convex for "
        "Minimize; in it, lam * norm1(w) breaks the rules, since the sign of the Parameter 'lam' "
        f"is unknown: declare it as cp.Parameter(nonneg=True); {DCP}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DECLARED)
def test_a_client_that_cannot_be_declared(kind: str) -> None:
    objective, rules, said = DECLARED[kind]
    with pytest.raises(dm.DeclarationError) as caught:
        declared(objective, rules)
    assert str(caught.value) == f"client 'bad': {said}"


@pytest.mark.parametrize("kind", ["integer", "boolean"])
def test_integers_of_an_ordinary_problem_are_refused_with_a_way_out(kind: str) -> None:
    x, k = cp.Variable(name="x"), cp.Variable(name="k", **{kind: True})
    problem = cp.Problem(cp.Minimize(cp.square(x - k) + cp.square(k - 0.3)))
    with pytest.raises(dm.DeclarationError) as caught:
        problem.solve(method="dald")
    assert str(caught.value) == (
        f"client 'client 0': variable 'k' is {kind}, expected real and continuous; relax it "
        "(bounds instead of boolean, real and imaginary parts instead of complex)"
    )


def couple(model: dm.Model, x: list[cp.Variable]) -> None:
    """A coupling that is not convex."""
    model.couple(cp.abs(x[0] - x[1]) >= 1)


CONNECTED: dict[str, tuple[Callable[[dm.Model, list[cp.Variable]], Any], str]] = {
    "inequality": (
        lambda model, x: model.consensus(x[0] <= x[1]),
        "consensus: given x0 <= x1 of type Inequality, expected a cvxpy equality such as x0 == "
        "x1; any other constraint between clients is model.couple(...)",
    ),
    "three": (
        lambda model, x: model.consensus(x[0] + x[1] == x[2]),
        "consensus x0 + x1 == x2: the side x0 + x1 mixes the clients' variables x0 of 0, x1 of 1; "
        "expected the variables of one client on each side; write x0 == x1 rather than x0 - x1 == "
        "0, or declare an equality of several clients by model.couple(...)",
    ),
    "list": (
        lambda model, x: model.consensus([x[0] == x[1]]),  # pyright: ignore[reportArgumentType]
        "consensus: given [Equality(Variable((), x0), Variable((), x1))] of type list, expected a "
        "cvxpy equality such as x0 == x1; unpack several as in model.consensus(*equalities)",
    ),
    "coupling": (
        couple,
        f"coupling 'coupling': constraint 0, 1.0 <= abs(x0 - x1), {RULES}: abs(x0 - x1) is "
        f"convex, expected concave; {WRITE}",
    ),
    "twice": (
        lambda model, x: model.client(0, cp.square(x[0])),
        "client 0 is declared already; expected a new name for each client",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONNECTED)
def test_what_cannot_connect_clients(kind: str) -> None:
    connect, said = CONNECTED[kind]
    with pytest.raises(dm.DeclarationError) as caught:
        connect(*numbers())
    assert str(caught.value) == said


COUPLED = (
    "has no coupling: none of its variables (w) stands in a consensus equality, a coupling or "
    "another client{}; add model.consensus(...) or model.couple(...) for it, or solve it on its "
    "own with cvxpy"
)


def alone() -> None:
    """A single client."""
    model, w = dm.Model(), cp.Variable(4, name="w")
    model.client("a", cp.sum_squares(w))
    model.solve()


def solved(**options: Any) -> dm.Result:
    return shared()[0].solve(**options)


ASKED: dict[str, tuple[Callable[[], Any], str]] = {
    "no clients": (
        dm.Model().solve, "model 'model' has no clients; declare them with model.client(...)",
    ),
    "one client": (alone, f"client 'a' {COUPLED.format('')}"),
    "one name": (
        forgotten,
        "client 'c0' "
        + COUPLED.format(" (the variable 'w' of client 'c1' is another object)"),
    ),
    "no value": (
        without_value,
        "client 'reg': the Parameter 'lam' has no value; set its value before solving",
    ),
    "nodes": (
        lambda: shared()[0].topology(nx.path_graph(3)),
        "topology: 0, 1, 2 are no clients of 'base'; expected nodes among 'c0', 'c1', 'c2'",
    ),
    "tolerance": (
        lambda: solved(eps=1e-8),
        "eps: solve has no such option; did you mean eps_pri=..., eps_dual=...?",
    ),
    "rounds": (
        lambda: solved(max_iters=10),
        "max_iters: solve has no such option; did you mean max_rounds=...?",
    ),
    "geometric": (
        lambda: solved(gp=True),
        "gp: solve has no such option; geometric programs are taken after a change of variables "
        "only: write log-sum-exp of log-variables, as cp.log_sum_exp(A @ u + b)",
    ),
    "sequence": (
        lambda: solved(sequence="jacobi"),
        "sequence: given 'jacobi', expected an object such as dm.Sequence.levels([...])",
    ),
    "algorithm": (
        lambda: solved(algorithm="admm"),
        "algorithm: given 'admm', expected an object such as dm.DALD(); did you mean "
        "dm.ConsensusADMM(...)?",
    ),
    "class": (
        lambda: solved(algorithm=dm.FedAvg),
        "algorithm: given the class FedAvg, expected an object such as dm.DALD(); call it, as in "
        "dm.FedAvg(...)",
    ),
    "metric": (
        lambda: solved(metrics={"rmse": lambda at: at["q"]}),
        "metrics: given 'q', expected a cvxpy Variable of 'base', as in lambda at: at[w]",
    ),
    "name in a result": (
        lambda: solved()["c0"]["v"],
        "result: client 'c0' has no variable 'v'; expected one of 'w'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
def test_what_cannot_be_solved_or_read(kind: str) -> None:
    ask, said = ASKED[kind]
    with pytest.raises(dm.DaldError) as caught:
        ask()
    assert str(caught.value) == said


def test_a_name_of_two_variables() -> None:
    x, y, model = cp.Variable(name="w"), cp.Variable(name="w"), dm.Model()
    model.client("a", cp.square(x - 1))
    model.client("b", cp.square(y))
    model.consensus(x == y)
    result = model.solve()
    with pytest.raises(dm.ResultError) as caught:
        result["w"]
    assert str(caught.value) == (
        "result: 2 variables are called 'w', expected a name of one; ask by the variable itself, "
        "or at one client, as in result[client][name]"
    )


def test_a_column_and_a_vector_are_warned_of_in_the_users_line() -> None:
    model, w = shared()
    with pytest.warns(UserWarning, match="add up to a matrix") as caught:
        model.client("trap", cp.sum_squares(A[0] @ cp.reshape(w, (4, 1), order="F") - B[0]))
    assert caught[0].filename == __file__
    assert str(caught[0].message) == (
        "client 'trap': [20x4] @ reshape(w, (4, 1), F) of shape (20, 1) and -[20] of shape (20,) "
        "add up to a matrix of shape (20, 20) by numpy's rules; if entry by entry is meant, have "
        "both of one shape, as by cp.vec(..., order='F')"
    )


AGREE = "every client is feasible, but they cannot agree on edge"
RELAX = "relax a constraint by more than that"


def one_contradiction() -> dm.Model:
    model, w = shared()
    model.client("bad", 0, [w >= 1, w <= 0])
    return model


def two_contradict() -> dm.Model:
    model, w = shared()
    model.client("lo", 0, [w <= 0])
    model.client("hi", 0, [cp.sum(w) >= 1])
    return model


def couplings_contradict() -> dm.Model:
    model, x = numbers(4)
    model.couple(cp.sum(x) <= 5, name="cap")
    model.couple(cp.sum(x) >= 6, name="floor")
    return model


def falling() -> dm.Model:
    w, model = cp.Variable(2, name="w"), dm.Model()
    model.client("a", cp.sum(w))
    model.client("b", 0.1 * cp.norm(w))
    return model


def rising() -> dm.Model:
    x, model = [cp.Variable(name=f"x{i}") for i in range(3)], dm.Model()
    for i in range(3):
        model.client(i, cp.Maximize(x[i]))
    model.couple(x[0] + x[1] <= 1)
    model.couple(x[1] - x[2] == 0)
    return model


def gaining() -> dm.Model:
    x, y, model = cp.Variable(name="x"), cp.Variable(name="y"), dm.Model()
    model.client("a", cp.square(x))
    model.client("b", 0 * y, [y >= 0])
    model.couple(objective=-y - x, name="gain")
    return model


ENDED: dict[str, tuple[Callable[[], dm.Model], str, str]] = {
    "one": (
        one_contradiction, "infeasible",
        "client 'bad' is infeasible: no point satisfies its own constraints and the domain of its "
        "objective, since these contradict each other: 1.0 <= w of client 'bad' (misses by 1); w "
        "<= 0.0 of client 'bad' (misses by 1); relax one of them (CLARABEL: infeasible)",
    ),
    "two": (
        two_contradict, "infeasible",
        f"{AGREE} ('server', 'lo'), since these contradict each other: w <= 0.0 of client 'lo' "
        f"(misses by 0.25); 1.0 <= sum(w) of client 'hi' (misses by 1); {RELAX}",
    ),
    "couplings": (
        couplings_contradict, "infeasible",
        f"{AGREE} ('cap', 0), since these contradict each other: x0 + x1 + x2 + x3 <= "
        "5.0 of coupling 'cap' (misses by 1); 6.0 <= x0 + x1 + x2 + x3 of coupling "
        f"'floor' (misses by 1); {RELAX}",
    ),
    "falling": (
        falling, "unbounded",
        "the objective falls without bound along a direction on which all clients agree; it falls "
        "fastest at client 'a'; add a constraint or a regulariser",
    ),
    "rising": (
        rising, "unbounded",
        "the objective rises without bound along a direction on which all clients agree; it rises "
        "fastest at client 2; add a constraint or a regulariser",
    ),
    "gaining": (
        gaining, "unbounded",
        "the objective falls without bound along a direction on which all clients agree; it falls "
        "fastest at client 'gain'; add a constraint or a regulariser",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDED)
def test_what_has_no_answer(kind: str) -> None:
    build, status, said = ENDED[kind]
    result = build().solve()
    assert result.status == status
    assert result.culprit is not None
    assert repr(result.culprit) in result.detail
    assert result.detail == said
