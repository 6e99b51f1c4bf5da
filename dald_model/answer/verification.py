r"""Verification of a result against the all-in-one (AIO) solve by plain cvxpy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd

from dald_model.answer.answer import Answer
from dald_model.answer.duality_gap import dual_gap
from dald_model.coordinate.status import Status
from dald_model.declare.client import all_in_one, short
from dald_model.errors import OptionError
from dald_model.text import Bare, Heading, Part, Printed, counted
from dald_model.values import flat, largest, number, preserved

UNIQUE = 1e-3
"""A relative distance of two solutions up to which they count as the same."""


@dataclass(frozen=True)
class Row:
    """One comparison: what was measured, what is allowed (None: told, not judged), where."""

    check: str
    measured: float
    allowed: float | None = None
    where: str = ""

    @property
    def ok(self) -> bool:
        """Whether the measured figure is within the allowed one; NaN never is."""
        return self.allowed is None or bool(self.measured <= self.allowed)


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Printed):
    """What the comparison found; ``ok`` is the termination, ``print`` shows the table.

    Attributes
    ----------
    rows : tuple of Row
        The comparisons, in the order of :func:`verify`.
    aio_status, aio_value, aio_seconds :
        Of the all-in-one solve.
    note : str
        What the distance of the solutions means.
    """

    result: Answer
    rows: tuple[Row, ...]
    aio_status: str
    aio_value: float
    aio_seconds: float
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether every row is within its tolerance."""
        return all(row.ok for row in self.rows)

    @property
    def failures(self) -> list[Row]:
        """The rows outside their tolerance."""
        return [row for row in self.rows if not row.ok]

    def __getitem__(self, check: str) -> Row:
        return next(row for row in self.rows if row.check == check)

    def __bool__(self) -> bool:
        return self.ok

    def report(self, *, wide: bool) -> list[Part]:
        """The comparison with the all-in-one solve, failures named."""
        failed = ", ".join(row.check for row in self.failures)
        termination = "passed" if self.ok else f"FAILED ({failed})"
        rows = [
            {
                "check": row.check,
                "measured": f"{row.measured:.1e}",
                "allowed": "" if row.allowed is None else f"{row.allowed:.0e}",
                "": ("ok" if row.ok else "FAILED") if row.allowed is not None else "told",
                "where": row.where,
            }
            for row in self.rows
        ]
        return [
            Heading(f"Verification of {self.result.compiled.model.name!r}: {termination}"),
            Bare(self._solves()),
            pd.DataFrame(rows),
            [f"  note: {self.note}"] if self.note else [],
        ]

    def _solves(self) -> pd.DataFrame:
        ours = self.result
        time = f"{ours.seconds:.2f} s, {counted(ours.rounds, 'round')}"
        aio = f"{self.aio_value:.8g}", self.aio_status, f"{self.aio_seconds:.2f} s"
        rows = [
            ("distributed", f"{ours.value:.8g}", str(ours.status), time),
            ("all-in-one", *aio),
        ]
        return pd.DataFrame(rows)


def verify(
    result: Answer,
    *,
    solver: str | None = None,
    tol_objective: float = 1e-4,
    tol_feasibility: float = 1e-4,
    tol_dual: float = 1e-4,
) -> Verification:
    r"""Solve ``model.monolithic()`` by plain cvxpy and compare.

    With :math:`F` the objective of the AIO problem, :math:`F^*` its optimum, :math:`x` the
    values in the result and :math:`x_i` those at the clients, the rows are

    * objective gap, :math:`|F(x) - F^*| / \max(1, |F^*|)`,
    * reported value, the same for ``result.value``,
    * consensus violation, the largest :math:`|\mathcal C_r| / \max(1, |x_r|)` over all edges and
      over the copies of shared variables,
    * constraint violation, the largest over all constraints, relative to
      :math:`\max(1, \|x\|_\infty)`,
    * multipliers, the duality gap that the result's own multipliers certify
      (:func:`dald_model.answer.duality_gap.dual_gap`), relative to :math:`\max(1, |F^*|)`:
      multipliers are often not unique, and this is what makes any of them right,
    * distance of multipliers and of the solution from the AIO solve's, relative, told but not
      judged: where they are large although all other rows hold, the optimum is not unique.

    Parameters
    ----------
    result : Result
    solver : str
        The cvxpy solver of the AIO problem; default Clarabel, which is accurate for every cone.
    tol_objective, tol_feasibility, tol_dual : float
        What is allowed of the first two, the next two and the fifth row.

    Where clients left or edges were dropped for good, the AIO problem is that of those who are
    still there, over the copies of the clients.

    Returns
    -------
    Verification
        The user's variables and dual values are left as they are.

    Raises
    ------
    OptionError
        If cvxpy cannot solve the AIO problem with this solver.
    """
    problem, values = aio(result)
    with preserved(_leaves(problem)):
        begun = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                problem.solve(solver=solver or "CLARABEL")
        except cp.SolverError as error:
            raise OptionError(
                f"verify: the all-in-one solve failed with {solver or 'CLARABEL'} ({error}); name "
                f"another solver, verify(solver=...), among {', '.join(cp.installed_solvers())}"
            ) from error
        seconds = time.perf_counter() - begun
        status, value = str(problem.status), number(problem.value)
        aio_values = {v.id: v.value for v in problem.variables()}
        aio_duals = {c.id: c.dual_value for c in problem.constraints}
    kind = status.removesuffix("_inaccurate")
    if kind != "optimal" or result.status in (Status.INFEASIBLE, Status.UNBOUNDED):
        same = kind == result.status
        row = Row("status", 0.0 if same else np.inf, 0.0, f"{result.status}, AIO {status}")
        return Verification(result, (row,), status, value, seconds)
    if not result.recovered.values:
        row = Row("status", np.inf, 0.0, f"{result.status} without a point, AIO {status}")
        return Verification(result, (row,), status, value, seconds)

    scale = max(1.0, abs(value))
    rows = [
        Row("objective gap", abs(_objective(values, problem) - value) / scale, tol_objective),
        Row("reported value", abs(result.value - value) / scale, tol_objective),
        _consensus(result, problem, tol_feasibility),
        _violation(result, problem, values, tol_feasibility),
        Row("multipliers", dual_gap(result) / scale, tol_dual, "duality gap they certify"),
        *_apart("multiplier distance", result.duals.by_id, problem.constraints, aio_duals),
        *_apart("solution distance", values, problem.variables(), aio_values),
    ]
    note = ""
    if rows[-1].measured > UNIQUE and all(row.ok for row in rows):
        note = "the optimum is not unique to this accuracy: both solutions are feasible and optimal"
    return Verification(result, tuple(rows), status, value, seconds, note)


def aio(result: Answer) -> tuple[cp.Problem, Mapping[int, Any]]:
    """The all-in-one problem that a result answers, and the result's values by variable id."""
    compiled = result.compiled
    if not (result.left or result.dropped):
        return compiled.model.monolithic(), result.recovered.values
    live = {n: c for n, c in compiled.form.clients.items() if n not in result.left}
    rules = [rule for client in live.values() for rule in client.constraints]
    for edge in compiled.edges:
        if edge.ends not in result.dropped and not set(edge.ends) & set(result.left):
            pairs = zip(edge.given(edge.tail), edge.given(edge.head), strict=True)
            rules += [one == two for one, two in pairs]
    points = compiled.gather(result.recovered)
    values = {key: v for name in live for key, v in compiled[name].spread(points[name]).items()}
    return all_in_one(live.values(), rules, compiled.sense < 0), values


def _leaves(problem: cp.Problem) -> list[cp.Variable]:
    """The variables and dual variables of a problem."""
    return problem.variables() + [d for c in problem.constraints for d in c.dual_variables]


def _objective(values: Mapping[int, Any], problem: cp.Problem) -> float:
    with preserved(_leaves(problem)):
        for v in problem.variables():
            v.save_value(values[v.id])
        return number(problem.objective.value)


def _consensus(result: Answer, problem: cp.Problem, allowed: float) -> Row:
    compiled, recovered = result.compiled, result.recovered
    worst, where = 0.0, ""
    sides = compiled.sides(compiled.gather(recovered))
    gaps = np.abs(sides[0] - sides[1]) / np.maximum(1.0, np.abs(sides).max(axis=0))
    for edge in compiled.edges:
        if edge.ends in result.dropped or set(edge.ends) & set(result.left):
            continue
        gap = largest(gaps[compiled.slots[edge.ends]])
        if not gap <= worst:
            worst, where = gap, f"edge {edge.tail!r} - {edge.head!r}"
    names = {v.id: v.name() for v in problem.variables()}
    for name, found in recovered.at_clients.items():
        # Who left, or who can be apart from others, need not have the value of the variable.
        for key, value in () if result.left or result.dropped else found.items():
            gap = _relative(value, recovered.values[key])
            if not gap <= worst:
                worst, where = gap, f"{names[key]} at {name!r} against the result's value"
    return Row("consensus violation", worst, allowed, where)


def _violation(
    result: Answer, problem: cp.Problem, values: Mapping[int, Any], allowed: float
) -> Row:
    """The worst violation at the result's values, and of a client's rules at the client's own."""
    worst, where = 0.0, ""
    # cvxpy divides by the size of a cone's argument even where that is zero.
    with preserved(_leaves(problem)), np.errstate(divide="ignore", invalid="ignore"):
        for v in problem.variables():
            v.save_value(values[v.id])
        size = max(1.0, *(largest(v.value) for v in problem.variables()))
        for rule in problem.constraints:
            gap = largest(rule.violation()) / size
            if not gap <= worst:
                worst, where = gap, short(rule, 40)
        for name, client in result.compiled.model.clients.items():
            if name in result.left:
                continue
            for v in client.variables:
                v.save_value(result.recovered.at_clients[name][v.id])
            for rule in client.constraints:
                gap = largest(rule.violation()) / size
                if not gap <= worst:
                    worst, where = gap, f"{short(rule, 40)} at {name!r}"
    return Row("constraint violation", worst, allowed, where)


def _apart(
    check: str, ours: Mapping[int, Any], objects: Sequence[Any], aio: Mapping[int, Any]
) -> list[Row]:
    """The largest relative distance between our values (or duals) and the AIO solve's."""
    if not objects:
        return []
    worst, where = 0.0, ""
    for one in objects:
        if ours.get(one.id) is None or aio[one.id] is None:
            continue
        gap = _relative(_flat_all(ours[one.id]), _flat_all(aio[one.id]))
        if not gap <= worst:
            worst, where = gap, short(one, 40)
    return [Row(check, worst, None, where)]


def _flat_all(value: Any) -> np.ndarray:
    parts = value if isinstance(value, list) else [value]
    return np.concatenate([flat(part) for part in parts])


def _relative(ours: Any, theirs: Any) -> float:
    return largest(flat(ours) - flat(theirs)) / max(1.0, largest(theirs))
