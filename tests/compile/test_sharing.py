"""Clients share what is alike of their forms and no number, against cvxpy's own answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile.lowering import Lowering
from dald_model.declare.checked import declare_client
from dald_model.values import flat, largest, number
from tests.compile.both_ways import by_clarabel, by_cvxpy, compiled, first_answer, native, turn
from tests.compile.clients import SPD, F, Share, b, untyped


def lowered(*shares: Share) -> tuple[Lowering, list[Any]]:
    """Several clients by one Lowering, as the clients of a model are."""
    lowering = Lowering()
    clients = [declare_client(at, *share) for at, share in enumerate(shares)]
    return lowering, [(one, lowering(one)) for one in clients]


def same_minimiser(one: Any, found: Any, seed: int = 0) -> None:
    """The cone program's minimiser with a linear and a quadratic term is cvxpy's."""
    assert found is not None
    rng = np.random.default_rng(seed)
    cone, m = found.form.cone, found.form.size
    c = rng.normal(size=m)
    stacked = cp.hstack([cp.vec(v, order="F") for v in one.variables])
    goal = one.cost + c @ stacked + cp.sum_squares(stacked)
    problem = cp.Problem(cp.Minimize(goal), list(one.constraints))
    problem.solve(solver=cp.CLARABEL)
    # Strongly convex with modulus 2: as far as the roots of the two gaps
    apart = 2 * np.sqrt(1e-7 * max(1.0, abs(number(problem.value))))
    theirs = np.concatenate([flat(v.value) for v in one.variables])
    v, full = cp.Variable(cone.linear.size), np.zeros(cone.linear.size)
    full[:m] = c
    kinds, cones = native(cone.cones)
    settings = kinds.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-7
    extra = sp.diags_array(np.where(np.arange(v.size) < m, 2.0, 0.0))
    P = sp.csc_array(sp.triu(cone.matrix + extra, format="csc"))
    answer = kinds.DefaultSolver(
        P, cone.linear + full, cone.rows, cone.rhs, cones, settings
    ).solve()
    assert str(answer.status) == "Solved"
    np.testing.assert_allclose(np.array(answer.x)[:m], theirs, rtol=0, atol=apart)


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
        for one, found in lowered(*order)[1]:
            same_minimiser(one, found)


def test_bounds_are_those_of_the_client_to_the_last_digit() -> None:
    for (one, found), digit in zip(
        lowered(*leaks()["bounds of many digits"])[1], (0.0, 1e-9), strict=True
    ):
        assert one.variables[0].attributes["bounds"][1][0] == 0.123456789 + digit
        assert 0.123456789 + digit in found.form.inequalities.rhs


SHARING: dict[str, Callable[[Any, float], Any]] = {
    "norm": lambda x, w: w * cp.norm1(x),
    "norm divided": lambda x, w: w / 4 * cp.norm1(x),
    "logistic": lambda x, w: cp.multiply(w, cp.sum(cp.logistic(x))),
    "weights": lambda x, w: np.full(4, w) @ cp.abs(x),
    "form": lambda x, w: w * cp.quad_form(x, w * np.eye(4)),
    "log": lambda x, w: -(w * cp.sum(cp.log(x))),
    "huber": lambda x, w: w * cp.sum(untyped.huber(x)),
    "log_sum_exp": lambda x, w: w * cp.log_sum_exp(x),
    "hinge": lambda x, w: w * cp.sum(cp.pos(x)),
    "squared hinge": lambda x, w: w * cp.sum(cp.square(cp.pos(x))),
    "squares": lambda x, w: w * cp.sum_squares(x),
    "halves": lambda x, w: cp.sum_squares(x) / 2 + w * cp.norm1(x),
    "quotient": lambda x, w: cp.norm1(x) / w,
}


@pytest.mark.parametrize("name", SHARING)
def test_clients_that_differ_in_weights_share_a_template(name: str) -> None:
    shares = []
    for weight in (0.5, 1.7, 3.1):
        x = cp.Variable(4)
        shares.append((SHARING[name](x, weight), [x >= weight]))
    lowering, pairs = lowered(*shares)
    for (one, found), share in zip(pairs, shares, strict=True):
        x = one.variables[0]
        x.value = np.array([0.3, 1.0, 2.0, 4.0])
        ours = found.form.objective(x.value)
        assert ours == pytest.approx(number(share[0].value), rel=1e-11)
    assert [len(alike) for alike in lowering._templates.values()] == [1]


def test_clients_of_one_shape_have_their_own_data_and_weights() -> None:
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(6):
        x = cp.Variable(4)
        data, weight, bound = rng.normal(size=(9, 4)), rng.random() + 0.1, rng.random(4) + 1
        cost = cp.sum_squares(data @ x - rng.normal(size=9)) + weight * cp.norm1(x)
        cost += cp.multiply(weight, cp.sum(cp.logistic(x)))
        shares.append((cost + cp.quad_form(x, data.T @ data), [x <= bound, cp.sum(x) == weight]))
    lowering, pairs = lowered(*shares)
    assert len(lowering._templates) == 1
    for one, found in pairs:
        assert found.form.complete
        for _ in range(20):
            x = one.variables[0]
            x.value = rng.normal(size=4)
            assert found.form.objective(x.value) == pytest.approx(number(one.cost.value), rel=1e-11)
            stated = max(largest(rule.violation()) for rule in one.constraints)
            assert found.form.violation(x.value) == pytest.approx(stated, rel=1e-11, abs=1e-12)


def test_weights_that_vanish_or_change_their_size_are_read_afresh() -> None:
    x = cp.Variable(3)
    weight = cp.Parameter(nonneg=True)
    signed = cp.Parameter(3)
    scale = cp.Parameter((2, 3))
    width = cp.Parameter(nonneg=True, value=1)
    cost = weight * cp.norm1(x - 1) + signed @ x + cp.sum_squares(scale @ x - 1)
    cost += weight * cp.sum(cp.logistic(x)) + cp.sum(untyped.huber(x, width))
    one = declare_client("a", cost, [cp.sum(x) <= weight, scale @ x <= 3])
    lowering = Lowering()
    rng = np.random.default_rng(6)
    for value in (1.0, 0.0, 2.0, 1e-7, 1.0, 0.0):
        weight.value, width.value = value, 1 + value
        signed.value, scale.value = rng.normal(size=3), rng.normal(size=(2, 3)) * (value > 0)
        found = lowering(one)
        assert found is not None
        same_minimiser(one, found)
        if found.form.complete and not getattr(found.form, "extra", 0):
            for _ in range(10):
                x.value = rng.normal(size=3)
                assert found.form.objective(x.value) == pytest.approx(number(cost.value), rel=1e-10)


def test_a_parameter_that_changes_between_solves_changes_the_form() -> None:
    x = cp.Variable(3)
    target = cp.Parameter(3, value=np.ones(3))
    sub = compiled(cp.sum_squares(x - target) + cp.norm1(x), [x <= target + 1])["client"]
    for value in (np.ones(3), np.zeros(3), -np.arange(3.0)):
        target.value = value
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
                one = declare_client("a", cost)
                found = Lowering()(one)
                assert found is not None
                assert found.form.complete
                rng = np.random.default_rng(9)
                for _ in range(30):
                    for v in one.variables:
                        v.value = rng.normal(size=v.shape)
                    point = np.concatenate([flat(v.value) for v in one.variables])
                    ours = found.form.objective(point)
                    assert ours == pytest.approx(number(cost.value), abs=1e-10)


def test_a_constant_that_cannot_hold_is_infeasible() -> None:
    for rule in (lambda x: cp.Constant(1) <= 0, lambda x: 0 * x <= -1, lambda x: 0 * x == 1):
        x, y = cp.Variable(2), cp.Variable(2)
        model = dm.Model("infeasible")
        model.client("a", cp.sum_squares(x), [rule(x)])
        model.client("b", cp.sum_squares(y - 1))
        model.consensus(x == y)
        sub = model.compile()["a"]
        assert sub.form is not None
        assert sub.form.complete
        assert sub.form.violation(np.zeros(2)) == 1
        given = turn(sub, 1)
        assert first_answer(sub, given, 1e-6).statuses[0] == "infeasible"


def test_the_same_answer_whatever_was_lowered_and_forgotten_before() -> None:
    """What is kept by the identity of an object must keep the object."""
    lowering = Lowering()
    rng = np.random.default_rng(10)
    for at in range(30):
        y = cp.Variable(nonneg=True)
        x = cp.Variable(2 + at % 3)
        lowering(declare_client("gone", cp.square(cp.sum_squares(x) + y)))
        v = cp.Variable(2 + at % 4)
        cost = cp.sum_squares(v - at) + cp.norm1(v[: 1 + at % 2]) + cp.sum(cp.exp(v))
        found = lowering(declare_client("kept", cost))
        assert found is not None
        assert found.form.complete
        v.value = rng.normal(size=v.size)
        assert found.form.objective(v.value) == pytest.approx(number(cost.value), rel=1e-11)
