"""Atoms that cvxpy treats unlike the others: each is solved as the all-in-one solve does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

untyped: Any = cp
"""Of parts of cvxpy that its annotations leave out."""
Cost = Callable[[cp.Variable], Any]


def indicator(x: cp.Variable) -> Any:
    return 2 * untyped.transforms.indicator([x <= 0.3])


def support(x: cp.Variable) -> Any:
    y = cp.Variable(2)
    return untyped.transforms.suppfunc(y, [cp.norm(y) <= 1])(3 * x)  # 3 |x|


def perspective(x: cp.Variable) -> Any:
    s = cp.Variable(nonneg=True)
    return cp.perspective(cp.sum_squares(x - 2), s) + cp.square(s - 1)


def perspective_of_an_indicator(x: cp.Variable) -> Any:
    s = cp.Variable(nonneg=True)
    f = cp.sum_squares(x) + cp.sum(cp.square(x[:1]))
    return cp.perspective(f, s, cp.sum_squares(x)) + cp.square(s + 1)


def together(a: Cost, b: Cost, *, shared: bool, rules: Any = lambda x: ()) -> dm.Model:
    x = cp.Variable(2)
    y = x if shared else cp.Variable(2)
    model = dm.Model()
    model.client("a", a(x), rules(x))
    model.client("b", b(y))
    if not shared:
        model.consensus(x == y)
    return model


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    "cost", [indicator, support, perspective, perspective_of_an_indicator], ids=lambda f: f.__name__
)
def test_atoms_that_hold_more_than_their_arguments(cost: Cost, shared: bool) -> None:
    model = together(cost, lambda x: cp.sum_squares(x - np.array([1.0, 2.0])), shared=shared)
    optimum: Any = model.monolithic().solve(solver=cp.CLARABEL)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(optimum, rel=1e-4)


def test_a_support_function_of_a_shared_variable_in_closed_form() -> None:
    """Of 3 |x| + |x - c|^2 the minimum is 3 |c| - 9/4 where |c| > 3/2."""
    c = np.array([3.0, -4.0])
    model = together(support, lambda x: cp.sum_squares(x - c), shared=True)
    assert model.solve().value == pytest.approx(15 - 9 / 4, rel=1e-5)


def test_a_summand_without_gradient_near_zero() -> None:
    """Where cvxpy has no gradient: each entry minimises 1/x + x^2 + (x - 1)^2."""
    model = together(
        lambda x: cp.sum(cp.inv_pos(x)) + cp.sum_squares(x),
        lambda x: cp.sum_squares(x - 1),
        shared=True,
    )
    x = np.max(np.roots([4, -2, 0, -1]).real)
    result = model.solve()
    assert result.status == "optimal"
    assert result.value == pytest.approx(2 * (1 / x + x**2 + (x - 1) ** 2), rel=1e-6)


@pytest.mark.parametrize(
    "cost",
    [
        lambda x: cp.sum(cp.power(cp.abs(x), 1.5)),
        lambda x: cp.sum(cp.xexp(cp.abs(x))),
        lambda x: cp.power(cp.sum_squares(x), 1.5),
    ],
    ids=["power", "xexp", "power of squares"],
)
def test_a_domain_that_is_not_dcp_does_not_hide_that_clients_cannot_agree(cost: Cost) -> None:
    x = cp.Variable(2)
    model = dm.Model()
    model.client("a", cost(x), [x >= 1])
    model.client("b", cp.sum_squares(x), [x <= 0])
    assert model.solve().status == "infeasible"


def test_explaining_after_a_solve() -> None:
    model = together(
        lambda x: cp.cvar(x, 0.6), lambda x: cp.sum_squares(x - np.ones(2)), shared=True
    )
    before = str(model.compile().explain())
    model.solve()
    assert str(model.compile().explain()) == before
