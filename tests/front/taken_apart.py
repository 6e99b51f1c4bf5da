"""Small problems, and what a solve leaves behind, by cvxpy and by ours.

The oracle is plain cvxpy on the same problem object: value, status, variables and the dual value
of every constraint, on problems whose primal and dual optimum is unique.
"""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm

NEAR = 1e-4
"""How far a result may be from the known one: what ``verify`` allows, relative and absolute."""

EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
"""Clarabel at its default accuracy is itself wrong by up to 3e-5 in some of these problems."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def variables(count: int, *shape: int) -> list[cp.Variable]:
    return [cp.Variable(shape, name=f"x{i}") for i in range(count)]


def pulled(x: list[cp.Variable], scale: float = 1.0) -> list[cp.Expression]:
    """Squares with their minima at 0, 1, 2, ...; plus one more so that no optimum is at zero."""
    return [scale * cp.sum_squares(v - i - 1) for i, v in enumerate(x)]


def stated(objective: Any, rules: list[Any]) -> cp.Problem:
    """A problem; ``cp.Problem`` also takes booleans, which its annotations do not know."""
    return cp.Problem(objective, rules)


def state(problem: cp.Problem) -> tuple[Any, ...]:
    """What a solve leaves behind, as plain numbers."""
    duals = []
    for rule in problem.constraints:
        given = rule.dual_value
        duals += [np.array(part) for part in (given if isinstance(given, list) else [given])]
    points = [np.array(v.value) for v in problem.variables()]
    return problem.status, problem.value, points, duals


def swaps(problem: cp.Problem) -> dm.Model:
    """Solve by plain cvxpy, then by ours: the same state of the same objects."""
    problem.solve(solver=cp.CLARABEL, **EXACT)
    status, value, points, duals = state(problem)
    returned = problem.solve(method="dald")
    found = state(problem)
    assert found[0] == status == "optimal"
    assert returned == problem.value
    assert found[1] == near(value)
    for ours, theirs in zip((*found[2], *found[3]), (*points, *duals), strict=True):
        assert ours.shape == theirs.shape
        assert ours == near(theirs)
    problem.solve(solver=cp.CLARABEL)
    for again, theirs in zip(state(problem)[3], duals, strict=True):
        assert again == near(theirs), "and out again"
    return dm.decompose(problem)


def owned(model: dm.Model) -> list[list[str]]:
    return [[v.name() for v in client.variables] for client in model.clients.values()]
