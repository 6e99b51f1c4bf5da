"""Norms and balls by semismooth Newton steps, against closed forms and cvxpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import NAMED, Choice, Turn
from tests.duals import duals
from tests.expect import flat

M = 6
EVERYONE = np.arange(1)


BALLS: dict[str, Callable[[cp.Variable], tuple[Any, Any]]] = {
    "norm": lambda x: (cp.norm(x) <= 0.5, True),
    "squares": lambda x: (cp.sum_squares(x) <= 0.5, True),
    "shifted norm": lambda x: (cp.norm(x - np.array([1.0, 2, 3])) <= 0.5, True),
    "shifted squares": lambda x: (cp.sum_squares(x + 1) <= 0.5, True),
    "scaled arguments": lambda x: (cp.norm(3 * x - 1) <= 2, True),
    "scaled squares of arguments": lambda x: (cp.sum_squares(3 * x - 1) <= 2, True),
    "scaled norm": lambda x: (2 * cp.norm(x) <= 0.5, True),
    "scaled squares": lambda x: (cp.sum_squares(x) / 4 <= 0.05, True),
    "turned round": lambda x: (cp.Constant(0.5) >= cp.norm(x[:2]), True),
    "inactive norm": lambda x: (cp.norm(x) <= 50, False),
    "inactive squares": lambda x: (cp.sum_squares(x) <= 50, False),
}


@pytest.mark.parametrize("name", BALLS)
def test_the_dual_value_of_a_ball_is_that_of_cvxpy(name: str) -> None:
    x, y = cp.Variable(3), cp.Variable(3)
    rule, is_active = BALLS[name](x)
    model = dm.Model("ball")
    model.client("a", cp.sum_squares(x - np.array([2.0, 1.0, -1.0])) + cp.sum(x), [rule])
    model.client("b", cp.sum_squares(y))
    model.consensus(x == y)
    sub = model.compile()["a"]
    rng = np.random.default_rng(9)
    q = sub.entries.size
    turn = Turn(EVERYONE, rng.normal(size=q), 1 + rng.random(q), rng.normal(size=q))
    solver = Choice("auto").chain(sub)[0]
    if not name.startswith("scaled ") or "arguments" in name:
        assert solver is NAMED["semismooth"]
    answers = solver.open([sub]).minimise(turn, 1e-10)
    sub.set(turn.mu, turn.rho, turn.neighbours)
    precise: dict[str, Any] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-8)
    sub.problem.solve(solver=cp.CLARABEL, **precise)
    np.testing.assert_allclose(answers.points, sub.point(), atol=1e-4)  # of cvxpy: root of its gap
    theirs = float(flat(sub.client.constraints[0].dual_value)[0])
    ours = float(flat(duals(sub, answers)[0][0])[0])
    assert (theirs > 1e-3) == is_active
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
