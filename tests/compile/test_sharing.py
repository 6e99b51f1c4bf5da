"""Clients share what is alike of their forms and no number, against cvxpy's own answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.alike_lowered import AlikeLowered
from dald_model.compile.objectives import objectives
from tests.compile.both_ways import by_clarabel, by_cvxpy, compiled, turn
from tests.compile.clients import SPD, F, Share, b, untyped
from tests.expect import flat, largest, number


def model_of(shares: Sequence[Share]) -> dm.Model:
    """Clients, and one more who wants the variables of them all near zero."""
    model, ties = dm.Model("alike"), []
    for at, (cost, rules) in enumerate(shares):
        model.client(at, cost, rules)
        variables = {v.id: v for part in (cost, *rules) for v in part.variables()}.values()
        ties += [(v, cp.Variable(v.shape)) for v in variables]
    model.client("near", cp.sum(cp.hstack([cp.sum_squares(copy) for _, copy in ties])))
    model.consensus(*(v == copy for v, copy in ties))
    return model


def has_the_values(sub: dm.Subproblem, points: int, seed: int = 9) -> None:
    """Of the client's form those of cvxpy, at random points."""
    assert sub.form is not None
    assert sub.form.complete
    rng = np.random.default_rng(seed)
    for _ in range(points):
        for v in sub.client.variables:
            v.value = rng.normal(size=v.shape)
        point = np.concatenate([flat(v.value) for v in sub.client.variables])
        theirs = number(sub.client.cost.value)
        assert sub.form.objective(point) == pytest.approx(theirs, rel=1e-10, abs=1e-10)
        stated = max((largest(r.violation()) for r in sub.client.constraints), default=0.0)
        assert sub.form.violation(point) == pytest.approx(stated, rel=1e-11, abs=1e-12)


def leaks() -> dict[str, list[Share]]:
    """Clients alike in everything but one number that stands outside of all expressions."""
    shares: dict[str, list[Share]] = {}
    shares["axis of a cone"] = []
    for axis in (0, 1):
        X = cp.Variable((2, 2))
        rule = cp.SOC(np.array([1.0, 2.0]), X, axis=axis)
        shares["axis of a cone"].append((cp.sum_squares(X - F[:2, :2] - 3), [rule]))
    shares["exponent of a cone"] = []
    for alpha in (0.3, 0.7):
        x = cp.Variable(3)
        rule = cp.PowCone3D(x[0], x[1], x[2], alpha)
        shares["exponent of a cone"].append((cp.sum_squares(x - np.array([1.0, 2.0, 4.0])), [rule]))
    shares["exponents of a cone"] = []
    for weights in ([0.2, 0.3, 0.5], [0.5, 0.2, 0.3]):
        x, z = cp.Variable(3), cp.Variable()
        rule = cp.PowConeND(x, z, np.array(weights))
        cost = cp.sum_squares(x - np.array([1.0, 2.0, 4.0])) + cp.square(z - 5)
        shares["exponents of a cone"].append((cost, [rule]))
    shares["long bounds"] = []
    for at in (500, 600):
        upper = np.ones(1100)
        upper[at] = 0.25
        x = cp.Variable(1100, bounds=[np.zeros(1100), upper])
        shares["long bounds"].append((cp.sum_squares(x - 2), []))
    shares["bounds of many digits"] = []
    for digit in (0.0, 1e-9):
        x = cp.Variable(2, bounds=[np.zeros(2), np.array([0.123456789, 0.5]) + digit])
        shares["bounds of many digits"].append((cp.sum_squares(x - 2), []))
    shares["sparsity"] = []
    for pattern in ([(0, 1), (1, 0)], [(0, 1), (0, 1)]):
        X = cp.Variable((2, 2), sparsity=pattern)
        shares["sparsity"].append((cp.sum_squares(X - 1), []))
    shares["width of a huber"] = []
    for width in (0.3, 2.0):
        x = cp.Variable(3)
        shares["width of a huber"].append((cp.sum(untyped.huber(x - 3, width)), []))
    shares["order of a norm"] = []
    for order in (1.5, 3):
        x = cp.Variable(3)
        shares["order of a norm"].append((untyped.pnorm(x - 3, order), []))
    shares["exponents of a mean"] = []
    for weights in ([1, 2, 3], [3, 2, 1]):
        x = cp.Variable(3)
        shares["exponents of a mean"].append((-cp.geo_mean(x, weights), []))
    shares["axis of a function"] = []
    for axis in (0, 1):
        X = cp.Variable((2, 2))
        shares["axis of a function"].append((cp.sum(cp.norm(X - F[:2, :2], axis=axis)), []))
    shares["constant matrix of a fraction"] = []
    for other in (SPD, SPD[::-1, ::-1]):
        x = cp.Variable(3)
        shares["constant matrix of a fraction"].append((cp.matrix_frac(x - b[:3], other), []))
    shares["constant argument"] = []
    for other in (0.5, 2.0):
        x = cp.Variable(3)
        shares["constant argument"].append((cp.sum(cp.maximum(x - 1, other)), []))
    shares["sign of a form"] = []
    for other in (SPD, 0 * SPD, SPD):
        x = cp.Variable(3)
        shares["sign of a form"].append((cp.quad_form(x - 1, other), []))
    return shares


@pytest.mark.filterwarnings("ignore:Reading from a sparse CVXPY")  # cvxpy warns of itself
@pytest.mark.parametrize("name", leaks())
def test_a_client_gets_its_own_numbers_and_none_of_its_likes(name: str) -> None:
    shares = leaks()[name]
    for order in (shares, shares[::-1]):
        subs = model_of(order).compile()
        for at in range(len(order)):
            given = turn(subs[at], at)
            point, value, _ = by_cvxpy(subs[at], given)
            mine, own, _ = by_clarabel(subs[at], given)
            # Strongly convex with modulus 2 at least: as far as the roots of the two gaps
            apart = 2 * np.sqrt(1e-7 * max(1.0, abs(value)))
            np.testing.assert_allclose(mine, point, rtol=0, atol=apart)
            assert own == pytest.approx(value, rel=1e-5, abs=1e-5)


def test_bounds_are_those_of_the_client_to_the_last_digit() -> None:
    subs = model_of(leaks()["bounds of many digits"]).compile()
    for at, digit in enumerate((0.0, 1e-9)):
        assert subs[at].form is not None
        assert 0.123456789 + digit in subs[at].form.inequalities.rhs


def test_clients_of_one_shape_have_their_own_data_and_weights() -> None:
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(6):
        x = cp.Variable(4)
        data, weight, bound = rng.normal(size=(9, 4)), rng.random() + 0.1, rng.random(4) + 1
        cost = cp.sum_squares(data @ x - rng.normal(size=9)) + weight * cp.norm1(x)
        cost += cp.multiply(weight, cp.sum(cp.logistic(x)))
        shares.append((cost + cp.quad_form(x, data.T @ data), [x <= bound, cp.sum(x) == weight]))
    subs = model_of(shares).compile()
    for at in range(6):
        has_the_values(subs[at], 20)


def test_weights_that_vanish_or_change_their_size_are_read_afresh() -> None:
    x = cp.Variable(3)
    weight = cp.Parameter(nonneg=True)
    signed = cp.Parameter(3)
    scale = cp.Parameter((2, 3))
    width = cp.Parameter(nonneg=True, value=1)
    cost = weight * cp.norm1(x - 1) + signed @ x + cp.sum_squares(scale @ x - 1)
    cost += weight * cp.sum(cp.logistic(x)) + cp.sum(untyped.huber(x, width))
    sub = compiled(cost, [cp.sum(x) <= weight, scale @ x <= 3])["client"]
    rng = np.random.default_rng(6)
    for value in (1.0, 0.0, 2.0, 1e-7, 1.0, 0.0):
        weight.value, width.value = value, 1 + value
        signed.value, scale.value = rng.normal(size=3), rng.normal(size=(2, 3)) * (value > 0)
        given = turn(sub, 8)
        point, _, _ = by_cvxpy(sub, given)
        mine, _, _ = by_clarabel(sub, given)
        np.testing.assert_allclose(mine, point, atol=1e-4)


def test_a_function_is_not_mistaken_at_points_of_another_sign() -> None:
    """Rows that a piece does not touch must not shift those that it does."""
    for size in (2, 3, 4, 5):
        for extra in (
            lambda y: cp.abs(y),
            lambda y: cp.max(cp.hstack([y, 1])),
            lambda y: cp.pos(y),
        ):
            w, y = cp.Variable(size), cp.Variable()
            for cost in (cp.max(w[:2]) + extra(y), extra(y) + cp.max(w[-2:])):
                has_the_values(compiled(cost, [])["client"], 30)


def test_a_constant_that_cannot_hold_is_infeasible() -> None:
    for rule in (lambda x: cp.Constant(1) <= 0, lambda x: 0 * x <= -1, lambda x: 0 * x == 1):
        x, y = cp.Variable(2), cp.Variable(2)
        model = dm.Model("infeasible")
        model.client("a", cp.sum_squares(x), [rule(x)])
        model.client("b", cp.sum_squares(y - 1))
        model.consensus(x == y)
        result = model.solve()
        assert (result.status, result.culprit) == ("infeasible", "a")


def test_the_same_answer_whatever_was_compiled_and_forgotten_before() -> None:
    """What is kept by the identity of an object must keep the object."""
    for at in range(30):
        y = cp.Variable(nonneg=True)
        x = cp.Variable(2 + at % 3)
        compiled(cp.square(cp.sum_squares(x) + y), [])
        v = cp.Variable(2 + at % 4)
        cost = cp.sum_squares(v - at) + cp.norm1(v[: 1 + at % 2]) + cp.sum(cp.exp(v))
        has_the_values(compiled(cost, [])["client"], 1)


def test_owners_of_unequal_sizes_follow_one_of_their_size():
    """By closed forms; but for the first of each size none is read by itself."""
    rng, w, model = np.random.default_rng(0), cp.Variable(3, name="w"), dm.Model()
    data = {
        i: (rng.normal(size=(rows, 3)), rng.normal(size=rows)) for i, rows in enumerate([5, 7] * 15)
    }
    model.clients(data, lambda own: cp.sum_squares(own[0] @ w - own[1]))
    compiled = model.compile()
    for name, (A, y) in data.items():
        form = compiled[name].form
        assert form is not None
        np.testing.assert_allclose(form.quadratic.full, 2 * A.T @ A, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(form.quadratic.linear, -2 * A.T @ y, rtol=1e-12, atol=1e-12)
        assert form.quadratic.constant == pytest.approx(y @ y)
    assert [i for i in data if not isinstance(compiled[i].lowered, AlikeLowered)] == [0, 1]


COUNT, ROWS, SIZE = 30, 8, 4


w, c = cp.Variable(SIZE, name="w"), cp.Variable(name="c")


class Own(NamedTuple):
    A: Any
    b: Any
    low: Any
    sign: Any
    size: float


def owners() -> dict[int, Own]:
    r = np.random.default_rng(0)
    return {
        i: Own(
            r.normal(size=(ROWS, SIZE)),
            r.normal(size=ROWS),
            -r.uniform(1, 2, size=SIZE),
            np.sign(r.normal(size=ROWS)),
            float(r.uniform(0.5, 2)),
        )
        for i in range(COUNT)
    }


CASES: dict[str, Callable[[Own], Any]] = {
    "squares": lambda o: cp.sum_squares(o.A @ w - o.b),
    "two variables": lambda o: cp.sum_squares(o.A @ w + c - o.b),
    "logistic": lambda o: (
        cp.sum(cp.logistic(cp.multiply(-o.sign, o.A @ w + c))) + 0.1 * cp.sum_squares(w)
    ),
    "bounds": lambda o: (cp.sum_squares(o.A @ w - o.b), [w >= o.low]),
    "rows": lambda o: (cp.sum_squares(w - o.low), [o.A @ w <= 5 + o.b]),
    "kinks": lambda o: cp.norm1(o.A @ w - o.b) + cp.sum_squares(w),
    "huber": lambda o: cp.sum(cp.huber(o.A @ w - o.b)),
    "divided": lambda o: cp.sum_squares((o.A @ w - o.b) / o.size),
    "ball": lambda o: (cp.sum_squares(o.A @ w - o.b), [cp.norm(w) <= 3]),
    "cap": lambda o: (cp.sum_squares(w - o.low), [w >= o.low, cp.sum(w) <= 3 * o.size]),
    "linear": lambda o: (o.low @ w, [cp.abs(w) <= 1]),
    "exponentials": lambda o: cp.sum(cp.exp(o.A @ w)) - o.low @ w,
    "quantiles": lambda o: cp.sum(cp.maximum(0.3 * (o.A @ w - o.b), 0.7 * (o.b - o.A @ w))),
    "log-sum-exp": lambda o: cp.log_sum_exp(o.A @ w - o.b) + cp.sum_squares(w),
}


ONE_BY_ONE: dict[str, Callable[[Own], Any]] = {
    "weights": lambda o: o.size * cp.sum_squares(o.A @ w - o.b),
    "radii": lambda o: (cp.sum_squares(o.A @ w - o.b), [cp.norm(w) <= 3 * o.size]),
}


@pytest.mark.parametrize("name", [*CASES, *ONE_BY_ONE])
def test_each_has_the_values_of_its_own_expressions(name: str) -> None:
    function, r = (CASES | ONE_BY_ONE)[name], np.random.default_rng(1)
    own, model = owners(), dm.Model(name)
    model.clients(own, function)
    compiled = model.compile()
    found = [compiled[i].lowered for i in own]
    assert all(isinstance(one, AlikeLowered) for one in found[1:]) == (name in CASES)
    for i, data in own.items():
        given, form = function(data), compiled[i].form
        goal, rules = given if isinstance(given, tuple) else (given, [])
        assert form is not None
        for _ in range(3):
            point = r.normal(size=form.size)
            w.value, c.value = point[:SIZE], point[-1]
            assert form.objective(point) == pytest.approx(goal.value, rel=1e-9, abs=1e-9)
            # What all of them state is the server's
            if compiled[i].is_constrained and form.complete and not form.extra:
                stated = max((float(np.max(rule.residual)) for rule in rules), default=0.0)
                assert form.violation(point) == pytest.approx(stated, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_data_that_all_but_the_first_have(count: int) -> None:
    A, model = np.random.default_rng(2).normal(size=(2, ROWS, SIZE)), dm.Model()
    data = {i: (A[min(i, 1)].copy(), np.arange(ROWS) + i) for i in range(count + 1)}
    model.clients(data, lambda own: (cp.norm1(own[0] @ w - own[1]), [own[0] @ w <= 1]))
    compiled, point = model.compile(), np.linspace(-1, 1, SIZE)
    for i, (matrix, right) in data.items():
        form = compiled[i].form
        assert form is not None
        assert form.objective(point) == pytest.approx(np.abs(matrix @ point - right).sum())
        assert form.violation(point) == pytest.approx(max(0, (matrix @ point - 1).max()))
        alone = objectives([compiled[i]], [np.stack([point, 2 * point])])[0]
        expected = [np.abs(k * matrix @ point - right).sum() for k in (1, 2)]
        assert alone == pytest.approx(expected)
    subs = [compiled[i] for i in data]
    found = objectives(subs, [point[None]] * len(subs))[:, 0]
    assert found == pytest.approx([np.abs(A @ point - b).sum() for A, b in data.values()])


def test_solved_at_once_as_in_closed_form() -> None:
    own, model = owners(), dm.Model()
    model.clients(own, CASES["squares"])
    result = model.solve(disclose="curvature")
    A, b = np.concatenate([o.A for o in own.values()]), np.concatenate([o.b for o in own.values()])
    assert result.status == "optimal"
    assert result[w] == pytest.approx(np.linalg.lstsq(A, b, rcond=None)[0], rel=1e-6)
    assert result.certificate().ok
