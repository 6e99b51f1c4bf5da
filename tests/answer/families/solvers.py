"""The least value of a well-scaled problem by plain cvxpy, by solvers that have to agree.

Nothing of the package is used. A value is evaluated by cvxpy at the solver's point, and counts only
if the constraints hold there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

AGREE, DIGITS = 1e-6, 1e-7
"""Two solvers agree if their values differ by less than a tenth of RIGHT, relative to the scale, or
in the eighth digit. Where neither holds the truth is not certain, and the draw is skipped."""
HOLDS = 1e-7
"""A row holds if it is violated by less, relative to the larger of 1 and its terms."""
TIGHT: dict[str, dict[str, Any]] = {
    "CLARABEL": dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11),
    "SCS": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 100_000},
    "PIQP": {"eps_abs": 1e-10, "eps_rel": 1e-10},
    "HIGHS": {"time_limit": 5.0},
}
"""As tight as each can do in double precision; HiGHS finds vertices, and can cycle in a quadratic
program for ever."""


@dataclass(frozen=True)
class Found:
    """A minimum: its value, the variables there, and how far the solvers' values are apart."""

    value: float
    values: list[np.ndarray]
    apart: float


def least(
    cost: Any,
    rules: Sequence[cp.Constraint],
    variables: Sequence[cp.Variable],
    solvers: Sequence[str],
    needed: int | None = None,
) -> Found | None:
    """The least feasible value of the first ``needed`` solvers, by default all, that find one.

    None if fewer do.
    """
    needed = len(solvers) if needed is None else needed
    found: list[tuple[float, list[np.ndarray]]] = []
    for solver in solvers:
        if len(found) == needed:
            break
        value = _solved(cp.Problem(cp.Minimize(cost), list(rules)), solver)
        if value is not None:
            found.append((value, [np.asarray(v.value, dtype=float) for v in variables]))
    if len(found) < needed:
        return None
    values = [value for value, _ in found]
    value, at = min(found, key=lambda one: one[0])
    return Found(value, at, max(values) - min(values))


def is_unbounded(cost: cp.Expression, rules: Sequence[cp.Constraint]) -> bool:
    """Whether Clarabel proves that a problem has no lower bound."""
    problem = cp.Problem(cp.Minimize(cost), list(rules))
    _run(problem, "CLARABEL")
    return str(problem.status).startswith("unbounded")


def violation(rules: Sequence[cp.Constraint]) -> float:
    """The largest violation at the variables' values, relative to the larger of 1 and its terms."""
    worst = 0.0
    for rule in rules:
        terms = [np.abs(np.asarray(arg.value, dtype=float)).max(initial=0.0) for arg in rule.args]
        off = np.asarray(rule.violation(), dtype=float).max(initial=0.0)
        worst = max(worst, float(off) / max(1.0, *map(float, terms)))
    return worst


def _solved(problem: cp.Problem, solver: str) -> float | None:
    """The cost at the solver's point; None if it has none that is feasible."""
    _run(problem, solver)
    is_known = all(v.value is not None for v in problem.variables())
    if not (is_known and str(problem.status).startswith("optimal")):
        return None
    value = float(np.asarray(problem.objective.expr.value).reshape(-1)[0])
    return value if np.isfinite(value) and violation(problem.constraints) <= HOLDS else None


def _run(problem: cp.Problem, solver: str) -> None:
    for variable in problem.variables():
        variable.save_value(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inaccuracy, which the agreement of two decides
        try:
            problem.solve(solver=solver, **TIGHT[solver])
        except (cp.SolverError, ValueError):  # cvxpy's own; without a value it counts as not found
            return
