"""One client compiled, and its turn answered by cvxpy, by Clarabel and by its own solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import dald_model as dm
from dald_model.solvers import Answers, Choice, Turn
from tests.compile.clients import Make
from tests.expect import number

GAP = 1e-8


def whole(make: Make) -> dm.Subproblem:
    """The client as a subproblem whose edges tie all its variables, its names kept."""
    cost, rules = make()
    return compiled(cost, rules)["client"]


def compiled(cost: Any, rules: Sequence[Any]) -> dm.Compiled:
    model = dm.Model("one")
    model.client("client", cost, list(rules))
    goal = cost if isinstance(cost, cp.Minimize | cp.Maximize) else cp.Minimize(cost)
    variables = {v.id: v for part in (goal, *rules) for v in part.variables()}
    copies = {key: cp.Variable(v.shape) for key, v in variables.items()}
    other: Any = sum(cp.sum_squares(v) for v in copies.values())
    model.client("other", cp.Maximize(-other) if isinstance(goal, cp.Maximize) else other)
    model.consensus(*[variables[key] == copies[key] for key in variables])
    return model.compile()


def turn(sub: dm.Subproblem, seed: int) -> Turn:
    rng = np.random.default_rng(seed)
    q = sub.entries.size
    return Turn(np.zeros(1, int), rng.normal(size=q), 1 + rng.random(q), rng.normal(size=q) / 2)


def by_cvxpy(sub: dm.Subproblem, given: Turn) -> tuple[np.ndarray, float, list[Any]]:
    """Point, augmented Lagrangian and dual values of the user's own constraints."""
    sub.set(given.mu, given.rho, given.neighbours)
    options: dict[str, Any] = {"tol_gap_abs": GAP, "tol_gap_rel": GAP, "tol_feas": GAP}
    sub.problem.solve(solver=cp.CLARABEL, **options)
    assert sub.problem.status == "optimal"
    duals = [[d.value for d in rule.dual_variables] for rule in sub.client.constraints]
    return sub.point(), number(sub.problem.value), duals


def native(cones: Any) -> tuple[Any, list[Any]]:
    """Clarabel's module, which declares no types, and its cones."""
    kinds: Any = clarabel
    made = []
    for kind, argument in cones:
        if kind == "GenPowerConeT":
            made.append(kinds.GenPowerConeT(list(argument), 1))
        else:
            made.append(getattr(kinds, kind)(*([] if argument is None else [argument])))
    return kinds, made


def by_clarabel(sub: dm.Subproblem, given: Turn) -> tuple[np.ndarray, float, Any]:
    """The form's cone program with the augmented terms, given to Clarabel by hand."""
    cone, (G, g) = sub.form.cone, sub.sides
    n, m = cone.linear.size, sub.size
    weight = given.rho**2
    K = sp.block_array(
        [[2 * G.T @ sp.diags_array(weight) @ G, None], [None, sp.csr_array((n - m, n - m))]]
    )
    c = np.zeros(n)
    c[:m] = G.T @ (sub.signs * given.mu + 2 * weight * (g - given.neighbours))
    gap = g - given.neighbours
    constant = given.mu @ (sub.signs * gap) + weight @ gap**2
    kinds, cones = native(cone.cones)
    settings = kinds.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = GAP
    P = sp.csc_array(sp.triu(cone.matrix + K, format="csc"))
    found = kinds.DefaultSolver(P, cone.linear + c, cone.rows, cone.rhs, cones, settings).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x)[:m], found.obj_val + cone.constant + constant, np.array(found.z)


def first_answer(sub: dm.Subproblem, given: Turn, tolerance: float) -> Answers:
    """That of the first of the client's solvers that has one, else that of the last."""
    tried = (solver.open([sub]).minimise(given, tolerance) for solver in Choice("auto").chain(sub))
    answers = next(tried)
    while answers.statuses[0] not in ("optimal", "optimal_inaccurate"):
        following = next(tried, None)
        if following is None:
            break
        answers = following
    return answers
