"""Sessions that a second run takes over from the first, against a model that is declared anew."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED
from tests.coordinate.chain import Spy

SIZE = 3
SOLVERS = {"lasso": "semismooth"}
"""What solves the kinds that have another name."""


def kinds():
    """Name -> a client's objective and rules, of data and two Parameters, and who solves it."""
    rng = np.random.default_rng(5)
    A, b = rng.normal(size=(12, SIZE)), rng.normal(size=12)

    def square(x, level, weight):
        return cp.sum_squares(A @ x - b - level) + weight * cp.sum_squares(x), []

    def bounds(x, level, weight):
        return cp.sum_squares(A @ x - b) + weight * cp.sum(x), [x >= level]

    def lasso(x, level, weight):
        return cp.sum_squares(A @ x - b - level) + weight * cp.norm1(x), []

    def logistic(x, level, weight):
        return cp.sum(cp.logistic(A @ x + level)) + weight * cp.sum_squares(x), []

    def absolute(x, level, weight):
        return cp.norm1(A @ x - b - level) + weight * cp.sum_squares(x), []

    def ball(x, level, weight):
        return weight * cp.sum_squares(A @ x - b), [cp.norm(x - level, 3) <= 1]

    return {
        "factor": square,
        "active_set": bounds,
        "lasso": lasso,
        "newton": logistic,
        "semismooth": absolute,
        "conic": ball,
    }


def model_of(build):
    level, weight = cp.Parameter(name="level"), cp.Parameter(nonneg=True, name="weight")
    model, x = dm.Model("one"), [cp.Variable(SIZE, name=f"x{i}") for i in range(3)]
    for i, v in enumerate(x):
        model.client(i, *build(v, level, weight))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, level, weight


OPTIONS = {
    "acceleration": None, "rho": 0.7, "accuracy": 1e-10, "max_rounds": 6, "eps_pri": 0.0,
    "eps_dual": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", kinds())
def test_a_run_that_takes_sessions_over_is_that_of_a_model_declared_anew(name):
    """Along a path of Parameters, on which factors and warm starts of other values are left."""
    model, level, weight = model_of(kinds()[name])
    for one, two in [(0.1, 1.0), (0.3, 1.0), (0.3, 2.5), (-0.2, 0.4)]:
        fresh, its_level, its_weight = model_of(kinds()[name])
        level.value = its_level.value = one
        weight.value = its_weight.value = two
        assert {each.solver for each in model.compile().explain()} == {SOLVERS.get(name, name)}
        now, anew = (each.solve(**OPTIONS) for each in (model, fresh))
        for column in ("objective", "primal", "dual"):
            np.testing.assert_allclose(
                now.history[column], anew.history[column], rtol=1e-6, atol=1e-7, err_msg=column
            )


def test_another_option_or_side_takes_other_sessions():
    model, level, weight = model_of(kinds()["factor"])
    level.value, weight.value = 0.1, 1.0
    model.solve()
    spy = Spy(NAMED["conic"])
    model.solve(solver=spy)
    assert spy.turns
    before = len(spy.turns)
    model.solve()
    assert len(spy.turns) == before

    shift = cp.Parameter(value=0.0)
    moved, x, y = dm.Model("moved"), cp.Variable(name="x"), cp.Variable(name="y")
    moved.client("a", cp.square(x))
    moved.client("b", cp.square(y - 1))
    moved.consensus(x == y + shift)
    result = moved.solve()
    shift.value = -1.0
    again = moved.solve(start=result)
    assert again.status == "optimal"
    assert again.value == pytest.approx(0.0, abs=1e-6)  # x = 0, y = 1; it was a half


def test_a_solve_within_a_solve_has_sessions_of_its_own():
    model, level, weight = model_of(kinds()["lasso"])
    level.value, weight.value = 0.1, 1.0
    model.solve()
    inner = []
    outer = model.solve(callback=lambda at: inner.append(model.solve().value) and None)
    alone = model.solve()
    assert outer.status == alone.status == "optimal"
    assert outer.value == pytest.approx(alone.value, rel=1e-9)
    assert inner == pytest.approx([alone.value] * len(inner), rel=1e-9)
