"""Clients of one structure, lowered at once: each has cvxpy's own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.alike_lowered import AlikeLowered
from dald_model.compile.objectives import objectives

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
    for i, (matrix, b) in data.items():
        form = compiled[i].form
        assert form is not None
        assert form.objective(point) == pytest.approx(np.abs(matrix @ point - b).sum())
        assert form.violation(point) == pytest.approx(max(0, (matrix @ point - 1).max()))
        alone = objectives([compiled[i]], [np.stack([point, 2 * point])])[0]
        expected = [np.abs(k * matrix @ point - b).sum() for k in (1, 2)]
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
