"""Verification of a stationary point: first-order conditions, and where other starts lead."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.stationarity import STATIONARY, VIOLATION, Conditions, conditions
from dald_model.answer.verdict import Row
from dald_model.answer.verification import Verification
from dald_model.errors import OptionError
from dald_model.solvers.exact.nonlinear import Nonlinear
from dald_model.starting import drawn
from dald_model.values import holding, number, preserved

DRAWN = 4
"""All-in-one solves from drawn starts, besides the one from the run's own."""


class _Local(NamedTuple):
    """One local solve of the all-in-one problem."""

    start: str
    status: str
    value: float
    seconds: float


def verify_local(result: Answer, solver: str | None = None) -> Verification:
    r"""Check the first-order conditions of the all-in-one problem, and solve it from other starts.

    The rows are

    * reported value, ``result.value`` less F at the values, relative to 1 + |F|;
    * constraint violation and consensus violation, at most 1e-5 of 1 + |F| and of 1 + |x|;
    * stationarity, the gradient of the Lagrangian with the best multipliers
      (:mod:`dald_model.answer.stationarity`), at most 1e-4 of 1 + |F|;
    * starts, informational: how far apart the all-in-one solves from the run's start and from four
      drawn starts end;
    * a lower point, informational: by how much the best of them is below the result.

    Raises
    ------
    OptionError
        If the solver is none of cvxpy's installed solvers of non-linear programs.
    """
    compiled = result.compiled
    problem, sense = compiled.model.monolithic(), compiled.sense
    given = [(p, value) for p, value in result.given if not isinstance(p, cp.CallbackParam)]
    with holding(given), np.errstate(all="ignore"):
        found = conditions(problem, result.recovered.values)
        rows = [*_rows(result, found)]
        locals_ = _from_starts(result, problem, Nonlinear(solver or "UNO"))
    ended = [one for one in locals_ if np.isfinite(one.value)]
    values = [sense * one.value for one in ended]
    spread = max(values) - min(values) if values else 0.0
    best = min(ended, key=lambda one: sense * one.value, default=None)
    rows.append(Row("starts", spread, found.scale, None, f"{len(ended)} of {len(locals_)} ended"))
    fall, where, note = 0.0, "", ""
    if best is not None:
        fall = max(0.0, found.objective - sense * best.value)
    if best is not None and fall > STATIONARY * found.scale:
        where = best.start
        note = (
            f"a lower point: the all-in-one solve from {best.start} ends at {best.value:.6g}, "
            f"lower by {fall:.3g}; try starts=9, or other values of the variables"
        )
    rows.append(Row("a lower point", fall, found.scale, None, where))
    first = locals_[0]
    return Verification(result, tuple(rows), first.status, first.value, first.seconds, note)


def _rows(result: Answer, found: Conditions) -> list[Row]:
    compiled, sense = result.compiled, result.compiled.sense
    gap = abs(sense * result.value - found.objective)
    sides = compiled.sides(compiled.gather(result.recovered))
    apart = np.abs(sides[0] - sides[1])
    size = 1 + np.abs(sides).max(axis=0)
    worst = int(np.argmax(apart / size)) if apart.size else 0
    ends = next((e for e, s in compiled.slots.items() if s.start <= worst < s.stop), "")
    where = f"on edge {ends}" if apart[worst] else ""
    return [
        Row("reported value", gap, found.scale, VIOLATION),
        Row("constraint violation", found.violation, found.scale, VIOLATION),
        Row("consensus violation", float(apart[worst]), float(size[worst]), VIOLATION, where),
        Row("stationarity", found.residual, found.scale, STATIONARY),
    ]


def _from_starts(result: Answer, problem: cp.Problem, solver: Nonlinear) -> list[_Local]:
    """Local solves of the all-in-one problem, the first from where the run started."""
    if solver.solver not in cp.installed_solvers():
        raise OptionError(
            f"verify: given solver={solver.solver!r}, expected one of cvxpy's installed solvers of "
            "non-linear programs, as a client is not convex"
        )
    variables, began = problem.variables(), result.began or {}
    found = []
    with preserved(result.compiled.model.variables), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for v in variables:
            if v.id in began:
                v.save_value(began[v.id])
        for at, values in enumerate(drawn(variables, 1 + DRAWN)):
            name = f"drawn start {at}" if at else "the run's start"
            found.append(_solved(problem, values, solver, name))
    return found


def _solved(problem: cp.Problem, values: Mapping[int, Any], solver: Nonlinear, name: str) -> _Local:
    for v in problem.variables():
        v.save_value(values[v.id])
    begun = time.perf_counter()
    status, _ = solver.answer(problem)
    value = number(problem.value) if status == "optimal" else np.nan
    return _Local(name, status, value, time.perf_counter() - begun)
