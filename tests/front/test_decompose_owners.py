"""Owners of an ordinary problem's variables: by name, number and function."""

import sys
from itertools import pairwise
from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm
from tests.expect import says
from tests.front.taken_apart import EXACT, near, owned, pulled, state, stated, swaps, variables

X_OTHER = cp.Variable(name="other")


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
        (1, ["clients=1", "at least 2", "number of entries of variables, 5"]),
        (True, ["clients=True of type bool"]),
        ({"a": [X_OTHER], "b": []}, ["'a' is given other", "of this problem"]),
        ({"a": 5}, ["'a' is given 5 of type int"]),
        (lambda x: {"a": x, "b": x[0]}, ["'x0' are given to 'a' and to 'b'", "one owner"]),
        (lambda x: {"a": x}, ["'a' owns all variables", "say of one more whose it is"]),
        (lambda x: lambda v: None, ["nobody owns all variables"]),
        (1000, ["clients=1000", "the number of entries of variables"]),
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
