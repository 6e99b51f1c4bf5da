r"""What is right: the all-in-one solve of a case by plain cvxpy, in ordinary units.

Nothing of the package is used, and no unit of the user's: whatever units a case is in, its answer
is taken back to ordinary ones and judged there, where the data are about 1.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from tests.fuzz.case import Case, run

SPREAD = 1.0
"""How far a variable is moved to see how an objective varies: the size of the data."""
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
STEEP = 1e-5
"""A violation beyond which it is asked how far the point is from where the constraint holds."""
LEAST = 0.1
"""The variation counted at least; the weights of terms are from 0.2 to 2."""


@dataclass
class Reference:
    """A case in ordinary units, and its optimum.

    Attributes
    ----------
    costs, rules : dict
        Of each client.
    equalities : list of cp.Constraint
    status : str
        "optimal", "infeasible", "unbounded", or "doubtful" where solvers do not agree.
    value : float
    best : dict
        The variables there.
    """

    case: Case
    costs: dict[str, cp.Expression]
    rules: dict[str, list[cp.Constraint]]
    equalities: list[cp.Constraint]
    variables: dict[str, cp.Variable]
    status: str = ""
    value: float = np.nan
    best: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def problem(self) -> cp.Problem:
        """All in one."""
        rules = [rule for mine in self.rules.values() for rule in mine]
        return cp.Problem(cp.Minimize(sum(self.costs.values())), self.equalities + rules)

    def solve(self) -> None:
        """Find the optimum by Clarabel, and by another solver where that is not sure of it."""
        self.status, self.value = solved(self.problem, "CLARABEL")
        self._keep()
        if self.status.endswith("_inaccurate") or self.status == "error":
            self.confirm()

    def confirm(self) -> None:
        """Solve once more, more accurately and by others; what they do not agree on is doubtful."""
        found = [
            solved(self.problem, "CLARABEL", **TIGHT),
            solved(self.problem, "SCS", eps_abs=1e-9, eps_rel=1e-9, max_iters=50_000),
        ]
        kinds = {status.removesuffix("_inaccurate") for status, _ in found}
        values = [value for _, value in found]
        if kinds == {"optimal"} and abs(values[0] - values[1]) <= 1e-5 * max(LEAST, abs(values[0])):
            solved(self.problem, "CLARABEL", **TIGHT)  # SCS has set the variables last
            self.status, self.value = "optimal", values[0]
            self._keep()
        elif kinds in ({"infeasible"}, {"unbounded"}):
            self.status = kinds.pop()
        else:
            self.status = "doubtful"

    def _keep(self) -> None:
        known = {key: v.value for key, v in self.variables.items() if v.value is not None}
        self.best = {key: _dense(value) for key, value in known.items()}

    @cached_property
    def near(self) -> dict[str, list[cp.Constraint]]:
        """Variable -> that it is no more than :data:`SPREAD` from the optimum."""
        return {
            key: [cp.abs(self.variables[key] - value) <= SPREAD] for key, value in self.best.items()
        }

    @cached_property
    def variation(self) -> float:
        r"""How much the objectives vary where the data are, :math:`\sum_i f_i(x_i^*) - m_i`.

        Here :math:`m_i` is the least of client i's objective on its own, nowhere more than
        :data:`SPREAD` from the optimum of all: what consensus costs. It is free of units, and
        adding a constant to an objective leaves it.
        """
        total = 0.0
        for name, cost in self.costs.items():
            with self.at(self.best):
                here = _number(cost.value)
            problem = cp.Problem(cp.Minimize(cost), self.rules[name] + self.near_of(cost))
            status, least = solved(problem, "CLARABEL")
            if status.startswith("optimal") and np.isfinite(here):
                total += max(0.0, here - least)
        return max(LEAST, total)

    def near_of(self, cost: cp.Expression) -> list[cp.Constraint]:
        """The same of the variables of one client's objective."""
        return [rule for v in cost.variables() for rule in self.near.get(v.name(), ())]

    def objective(self, values: Mapping[str, Mapping[str, Any]]) -> float:
        """The sum of the clients' objectives at their own values.

        A value that an inexact answer has on the wrong side of a domain's boundary is moved by a
        millionth of the way to the optimum, where a convex objective is at most as much off.
        """
        total = 0.0
        for name, cost in self.costs.items():
            with self.at(values[name]):
                found = _number(cost.value)
            if not np.isfinite(found):
                found = self._inside(cost, values[name])
            total += found
        return total

    def _inside(self, cost: cp.Expression, values: Mapping[str, Any]) -> float:
        best = self.best
        moved = {key: v + 1e-6 * (best[key] - v) for key, v in values.items() if key in best}
        with self.at(moved):
            return _number(cost.value)

    def violation(self, values: Mapping[str, Mapping[str, Any]]) -> float:
        """The most that any constraint, attribute or consensus equality is violated.

        A constraint that is steep there, as an inverse of a matrix that is nearly singular, is
        violated by no more than the point is from where it holds.
        """
        worst = [0.0]
        for name, rules in self.rules.items():
            with self.at(values[name]):
                found = [_largest(rule.violation()) for rule in rules]
            worst += [
                gap if gap <= STEEP else min(gap, _away(rule, values[name]))
                for rule, gap in zip(rules, found, strict=True)
            ]
            worst += [
                _largest(value - self.variables[key].project(value))
                for key, value in values[name].items()
            ]
        merged: dict[str, Any] = {}
        for mine in values.values():
            for key, value in mine.items():  # a client's copy against the others'
                worst.append(_largest(value - merged.setdefault(key, value)))
        for rule in self.equalities:  # a server is no owner: it is where its first client is
            self._place(rule, merged)
        return max(worst + [self._apart(rule, merged) for rule in self.equalities])

    def _place(self, rule: cp.Constraint, merged: dict[str, Any]) -> None:
        known = [merged[v.name()] for v in rule.variables() if v.name() in merged]
        for v in rule.variables():
            merged.setdefault(v.name(), known[0])

    def _apart(self, rule: cp.Constraint, merged: Mapping[str, Any]) -> float:
        with self.at(merged):
            return _largest(rule.violation())

    @contextlib.contextmanager
    def at(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Have the variables hold values."""
        for key, value in values.items():
            self.variables[key].save_value(value)
        # cvxpy divides by the size of a cone's argument even where that is zero.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


def reference(case: Case) -> Reference:
    """The case in ordinary units, solved."""
    space = run(case.ordinary.declaration())
    clients = space["clients"]
    found = Reference(
        case,
        {name: cost for name, (cost, _) in clients.items()},
        {name: rules for name, (_, rules) in clients.items()},
        space["consensus"],
        {one.name: space[one.name] for one in case.unknowns},
    )
    found.solve()
    return found


def solved(problem: cp.Problem, solver: str, **options: Any) -> tuple[str, float]:
    """The status and the optimum of a problem; "error" where the solver gave up.

    Without values of the variables: cvxpy compiles some atoms wrongly where there are any.
    """
    for variable in problem.variables():
        variable.save_value(None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=solver, **options)
    except (cp.SolverError, ValueError):  # cvxpy's own, as of power cones of several sizes
        return "error", np.nan
    except BaseException as error:
        if not is_panic(error):
            raise
        return "error", np.nan
    return str(problem.status), _number(problem.value)


def is_panic(error: BaseException) -> bool:
    """Whether Clarabel's Rust gave up: an exception that is no ``Exception``."""
    return type(error).__name__ == "PanicException"


def ordinary(case: Case, values: Mapping[str, Any]) -> dict[str, Any]:
    """A client's values, by the name of the variable, taken to ordinary units."""
    units = case.units
    measured = {one.name: one.measured for one in case.unknowns}
    return {
        key: np.asarray(value) / units.variable - units.offset if measured[key] else value
        for key, value in values.items()
    }


def _away(rule: cp.Constraint, values: Mapping[str, Any]) -> float:
    """The farthest that an entry of the variables has to move for a constraint to hold."""
    far = cp.Variable(nonneg=True)
    near = [cp.abs(v - values[v.name()]) <= far for v in rule.variables()]
    status, found = solved(cp.Problem(cp.Minimize(far), [rule, *near]), "CLARABEL")
    return found if status == "optimal" else np.inf


def _number(value: Any) -> float:
    return np.nan if value is None else float(np.asarray(value).reshape(-1)[0])


def _largest(value: Any) -> float:
    parts: Sequence[Any] = value if isinstance(value, list) else [value]
    return max((float(np.abs(_dense(part)).max(initial=0.0)) for part in parts), default=0.0)


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value, dtype=float)
