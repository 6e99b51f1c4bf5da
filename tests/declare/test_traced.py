"""Owners alike are declared once: the same models as those declared one by one, in fewer calls."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import dald_model as dm
from tests.expect import near, says

W = cp.Variable(3, name="w")
RNG = np.random.default_rng(0)
OWNERS = 12


class Rows(NamedTuple):
    """Rows of one owner."""

    A: np.ndarray
    y: np.ndarray


def arrays(rows: Callable[[int], int]) -> dict[int, Any]:
    return {
        i: (RNG.normal(size=(rows(i), 3)), np.sign(RNG.normal(size=rows(i)))) for i in range(OWNERS)
    }


def frames(rows: Callable[[int], int]) -> dict[int, Any]:
    return {
        i: pd.DataFrame(A, columns=list("abc")).assign(y=y) for i, (A, y) in arrays(rows).items()
    }


FUNCTIONS: dict[str, tuple[Callable, Callable]] = {
    "squares": (arrays, lambda d: cp.sum_squares(d[0] @ W - d[1])),
    "mean": (arrays, lambda d: cp.sum_squares(d[1] - d[0] @ W) / len(d[1]) + 0.1 * cp.norm1(W)),
    "margins": (arrays, lambda d: cp.sum(cp.logistic(cp.multiply(-d[1], d[0] @ W))) / d[1].size),
    "huber": (arrays, lambda d: cp.sum(cp.huber(d[0] @ W - 2 * d[1], 2))),
    "columns": (arrays, lambda d: cp.sum(cp.abs(d[0][:, :2] @ W[:2] - d[1])) + cp.sum_squares(W)),
    "named": (
        lambda rows: {i: Rows(*own) for i, own in arrays(rows).items()},
        lambda d: cp.sum_squares(d.A @ W - d.y),
    ),
    "whole numbers": (
        lambda rows: {i: (A.round(1), y.astype(int)) for i, (A, y) in arrays(rows).items()},
        lambda d: cp.sum_squares(d[0] @ W - d[1]) + cp.sum_squares(W),
    ),
    "maximum": (arrays, lambda d: cp.Maximize(-cp.sum_squares(d[0] @ W - d[1]))),
    "frame": (frames, lambda f: cp.sum_squares(f[["a", "b", "c"]] @ W - f["y"])),
    "series": (frames, lambda f: cp.sum_squares(f.y * (f[list("abc")].to_numpy() @ W) - f.a)),
}


@pytest.mark.parametrize("rows", [lambda i: 5, lambda i: 4 + i % 2], ids=["alike", "ragged"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_traced_owners_are_those_declared_one_by_one(kind: str, rows: Callable[[int], int]) -> None:
    make, function = FUNCTIONS[kind]
    data, calls = make(rows), []

    def counted(own: Any) -> Any:
        calls.append(type(own))
        return function(own)

    model = dm.Model("traced")
    found = model.clients(data, counted)
    assert list(found) == list(data)
    assert len(calls) < len(data)
    W.value = RNG.normal(size=3)
    for own, client in zip(data.values(), found.values(), strict=True):
        if isinstance(own, pd.DataFrame):
            own = (own[["a", "b", "c"]].to_numpy(), own["y"].to_numpy())
            goal = {
                "frame": lambda d: cp.sum_squares(d[0] @ W - d[1]),
                "series": lambda d: cp.sum_squares(cp.multiply(d[1], d[0] @ W) - d[0][:, 0]),
            }[kind](own)
        else:
            goal = function(own)
        assert client.objective.expr.value == near(getattr(goal, "expr", goal).value)
    result, problem = model.solve(), model.monolithic()
    problem.solve(solver="CLARABEL")
    assert result.status == "optimal"
    assert result.value == near(problem.value)


def test_groups_of_a_frame_are_traced() -> None:
    frame = pd.concat([own.assign(g=i) for i, own in frames(lambda i: 5).items()])
    kinds: list[type] = []

    def squares(rows: Any) -> cp.Expression:
        kinds.append(type(rows))
        return cp.sum_squares(rows[["a", "b", "c"]] @ W - rows["y"])

    model = dm.Model("groups")
    model.clients(frame.groupby("g"), squares)
    assert len(kinds) == 3  # once with a stand-in, and two drawn owners
    best = np.linalg.lstsq(frame[["a", "b", "c"]].to_numpy(), frame["y"].to_numpy())[0]
    assert model.solve()[W] == near(best)


def test_each_owner_may_have_variables_of_its_own() -> None:
    data = {i: (cp.Variable(3, name=f"x{i}"), RNG.normal(size=3)) for i in range(OWNERS)}
    calls: list[Any] = []

    def near_all(own: Any) -> cp.Expression:
        calls.append(own)
        x, wish = own
        return cp.sum_squares(x - wish) + cp.sum_squares(x - W)

    model = dm.Model("own variables")
    found = model.clients(data, near_all)
    assert len(calls) == 3
    for i, (x, _) in data.items():
        assert {v.id for v in found[i].variables} == {x.id, W.id}
    mean = np.mean([wish for _, wish in data.values()], axis=0)
    result = model.solve()
    assert result[W] == near(mean)
    assert result[data[5][0]] == near((data[5][1] + mean) / 2)


def branching(own: Any) -> cp.Expression:
    A, y = own
    return cp.sum_squares(A @ W) if (y > 0).all() else cp.sum_squares(A @ W - y)


def by_numpy(own: Any) -> cp.Expression:
    return cp.sum_squares(np.linalg.qr(own[0])[1] @ W - own[1][:3])


def with_a_variable(own: Any) -> cp.Expression:
    z = cp.Variable(3)
    return cp.sum_squares(own[0] @ z - own[1]) + cp.sum_squares(z - W)


SEEN: list[int] = []


def by_turns(own: Any) -> cp.Expression:
    SEEN.append(1)
    return (1 + len(SEEN) % 2) * cp.sum_squares(own[0] @ W - own[1])


def bounded_by_turns(own: Any) -> Any:
    SEEN.append(1)
    return cp.sum_squares(own[0] @ W - own[1]), [cp.sum(W) <= 3 + len(SEEN) % 2]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branching, "function raised"),
        (by_numpy, "function raised"),
        (with_a_variable, "another client of"),
        (by_turns, "another client of"),
        (bounded_by_turns, "another client of"),
    ],
)
def test_what_cannot_be_traced_is_declared_one_by_one_and_said(
    function: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = arrays(lambda i: 5)
    model, calls = dm.Model("one by one"), []

    def counted(own: Any) -> Any:
        calls.append(own)
        return function(own)

    with caplog.at_level(logging.INFO, logger="dald_model"):
        model.clients(data, counted)
    says(caplog.text, f"{OWNERS} owners are declared one by one", reason)
    assert all(own[0] is data[i][0] for i, own in enumerate(calls[-OWNERS:]))


def test_owners_of_other_structures_are_declared_one_by_one_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = {i: (i, RNG.normal(size=3)) for i in range(OWNERS)}  # a whole number may be a size
    with caplog.at_level(logging.INFO, logger="dald_model"):
        dm.Model().clients(data, lambda own: own[0] * cp.sum_squares(W - own[1]))
    says(caplog.text, f"{OWNERS} owners", "differ in structure or shapes")


def test_owners_with_data_that_are_not_finite_are_named() -> None:
    data = arrays(lambda i: 5)
    data[7][1][2] = np.nan
    with pytest.raises(dm.DeclarationError, match=r"client 7: minimize .* holds 1 NaN"):
        dm.Model().clients(data, lambda d: cp.sum_squares(d[0] @ W - d[1]))


def test_convexity_that_rests_on_a_sign_is_asked_of_each_sign() -> None:
    data = {i: (1.0 + i, RNG.normal(size=3)) for i in range(OWNERS)}
    weighed = lambda own: own[0] * cp.sum_squares(W - own[1])  # noqa: E731
    assert len(dm.Model().clients(data, weighed)) == OWNERS
    data[9] = (-1.0, data[9][1])
    with pytest.raises(dm.DeclarationError, match="client 9: the objective"):
        dm.Model().clients(data, weighed)


def bounded(own: Any) -> Any:
    A, y, cap, most = own
    return cp.sum_squares(A @ W - y), [cap + W >= 0, cp.norm(W) <= most, cp.sum(W) <= 0.5]


def with_bounds() -> dict[int, Any]:
    own = arrays(lambda i: 5)
    caps, most = RNG.uniform(0.1, 0.5, (OWNERS, 3)), RNG.uniform(0.3, 0.6, OWNERS)
    return {i: (A, y, caps[i], most[i]) for i, (A, y) in own.items()}


def test_constraints_are_traced_and_priced_as_those_declared_one_by_one() -> None:
    data, calls = with_bounds(), []

    def counted(own: Any) -> Any:
        calls.append(own)
        return bounded(own)

    model, by_hand = dm.Model("traced"), dm.Model("by hand")
    model.clients(data, counted)
    assert len(calls) == 3
    for i, own in data.items():
        by_hand.client(i, *bounded(own))
    result, other = model.solve(), by_hand.solve()
    assert result.status == other.status == "optimal"
    assert result[W] == near(other[W])
    assert result.verify().ok
    problem = by_hand.monolithic()
    problem.solve(solver=cp.CLARABEL)
    assert result.value == near(problem.value)
    rules = model.clients[7].constraints
    assert [*map(str, rules)] == [*map(str, by_hand.clients[7].constraints)]
    slack = [np.max(rule.residual) for rule in rules]
    assert max(slack) <= 1e-6
    prices = [result.duals[client.constraints[1]] for client in model.clients.values()]
    assert [client.constraints[1].dual_value for client in model.clients.values()] == prices
    total = sum(other.duals[client.constraints[1]] for client in by_hand.clients.values())
    assert sum(prices) == pytest.approx(total, abs=1e-4)


def test_a_constraint_without_data_is_one_of_all_its_owners() -> None:
    model = dm.Model("one")
    model.clients(arrays(lambda i: 5), lambda d: (cp.sum_squares(d[0] @ W - d[1]), [W >= 0.1]))
    (rule,) = {
        id(client.constraints[0]): client.constraints[0] for client in model.clients.values()
    }.values()
    compiled, result = model.compile(), model.solve()
    assert compiled.form.common.rules == (rule,)
    assert result.verify().ok
    problem = model.monolithic()
    assert result.value == near(problem.solve(solver=cp.CLARABEL))


def test_a_constraint_that_needs_other_signs_is_declared_by_itself() -> None:
    data = {i: (RNG.normal(size=3), 1.0 + i) for i in range(OWNERS)}
    weighed = lambda own: (cp.sum_squares(W - own[0]), [own[1] * cp.norm(W) <= 9])  # noqa: E731
    assert len(dm.Model().clients(data, weighed)) == OWNERS
    data[9] = (data[9][0], -1.0)
    with pytest.raises(dm.DeclarationError, match="client 9: constraint 0"):
        dm.Model().clients(data, weighed)
