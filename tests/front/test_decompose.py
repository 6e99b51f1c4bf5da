"""An ordinary problem becomes a model: its clients, edges and couplings."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.expect import says
from tests.front.taken_apart import near, owned, pulled, stated, swaps, variables


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


def test_constraints_of_the_same_variables_are_one_client() -> None:
    """Those that no summand holds, in the order in which they were stated."""
    x = variables(3)
    narrow, wide, more = x[0] >= x[2], x[0] + x[1] + x[2] >= 9, x[1] <= x[0] + x[2]
    cost = cp.square(x[0] - x[1]) + cp.square(x[1] - x[2])
    model = swaps(stated(cp.Minimize(cost + cp.square(x[2])), [narrow, wide, more, x[2] <= 8]))
    assert owned(model) == [["x0", "x1"], ["x1", "x2"], ["x2"], ["x2", "x0", "x1"]]
    assert model.clients["client 3"].constraints == (narrow, wide, more)


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


X = cp.Variable(name="x")
X_OTHER = cp.Variable(name="other")


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
        (
            cp.Problem(cp.Minimize(X + z), [z == X, z >= np.nan]),
            ["'client 1'", "holds the constant nan"],
        ),
    ]:
        with pytest.raises(dm.DeclarationError) as caught:
            problem.solve(method="dald")
        says(str(caught.value), *parts)
