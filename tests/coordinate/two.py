"""Clients a and b with x == y, and what every result of a run of them has."""

from collections.abc import Callable, Iterable
from typing import Any

import cvxpy as cp
import pytest

import dald_model as dm


def agreeing(
    f: Callable[[cp.Variable], Any],
    g: Callable[[cp.Variable], Any],
    f_rules: Callable[[cp.Variable], Iterable[Any]] = lambda x: [],
    g_rules: Callable[[cp.Variable], Iterable[Any]] = lambda y: [],
    shape: Any = (),
) -> dm.Model:
    """Clients a and b with x == y."""
    x, y = cp.Variable(shape, name="x"), cp.Variable(shape, name="y")
    model = dm.Model("two")
    model.client("a", f(x), f_rules(x))
    model.client("b", g(y), g_rules(y))
    model.consensus(x == y)
    return model


def squares() -> dm.Model:
    """Minimise (x - 1)^2 + (y + 2)^2 at -1/2: 4.5, with mu = 3."""
    return agreeing(lambda x: cp.square(x - 1), lambda y: cp.square(y + 2))


def consistent(result: dm.Result) -> None:
    """What every result has, however the run ended."""
    assert isinstance(result.status, str)
    assert result.status.message
    assert result.rounds == len(result.history)
    assert list(result.history.index) == list(range(1, result.rounds + 1))
    problem = result.compiled.model.monolithic()
    empty = result.status in ("infeasible", "unbounded")
    for v in problem.variables():
        if empty or not result.rounds:
            assert v.value is None
        else:
            assert v.value == pytest.approx(result[v], abs=0)
    for c in problem.constraints:
        if empty or not result.rounds:
            assert c.dual_value is None
    if result.status.has_answer:
        assert (result.culprit, result.detail) == (None, "")
    else:
        assert result.detail
    assert str(result)
    assert result._repr_html_()
