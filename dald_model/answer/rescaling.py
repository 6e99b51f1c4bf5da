r"""Convex problems solved in units of their own, so that a solver's tolerances mean something.

A solver stops at absolute figures, such as a gap of 1e-8, which is much for an objective of size
1e-7 and nothing for one of size 1e7. A problem is therefore given to cvxpy in :math:`z` and
divided by the worth :math:`V` of its objective,

.. math:: \min_z \; f(\bar x + X \circ z) / V \quad\text{s.t. } c(\bar x + X \circ z) \in K,

where the centre :math:`\bar x` and the spread :math:`X` make z of the order of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.compile.measures import Measure, measured
from dald_model.declare.client import unique_variables
from dald_model.values import evaluated, number, panics_as_errors, preserved, undisturbed

ACCURATE = {
    "CLARABEL": {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-11, "tol_feas": 1e-9},
    "PIQP": {},
    "HIGHS": {},
    "SCS": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 20_000},
}
"""What is asked of solvers beyond their defaults, in the problem's own units. The gap relative to
the objective may not decide: of an objective of size 1e5 that varies by 1 it would leave 1e-3.
A solver that fails at that is asked for its defaults."""
OPTIMAL = ("optimal", "optimal_inaccurate")
TROUBLES = (cp.SolverError, ArithmeticError, ValueError, TypeError)
"""What cvxpy and its solvers raise where they cannot go on."""


class Solved(NamedTuple):
    """What a solver found, in the user's units.

    Attributes
    ----------
    status : str
        cvxpy's word; "failed" where the solver gave up.
    value : float
        The least value by the solver's own account.
    values : dict
        Variable id -> value.
    duals : dict
        Position of the constraint -> its dual value.
    said : str
        What the solver said where it failed.
    """

    status: str
    value: float
    values: dict[int, np.ndarray]
    duals: dict[int, Any]
    said: str = ""

    @property
    def is_optimal(self) -> bool:
        """Whether there is a point, accurate or not."""
        return self.status in OPTIMAL


def minimise(
    cost: cp.Expression,
    rules: Sequence[cp.Constraint],
    measures: Mapping[int, Measure] | None = None,
    worth: float = 1.0,
    solver: str = "CLARABEL",
    box: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Solved:
    r"""Minimise a cost under rules, in the units of the measures and the worth.

    Parameters
    ----------
    cost : cp.Expression
    rules : sequence of cp.Constraint
    measures : dict
        Variable id -> :class:`Measure`; without them, and where an expression cannot be written in
        other variables, the problem is solved as it stands.
    worth : float
        What the cost is divided by.
    solver : str
    box : float
        Only points with :math:`|x - \bar x| \le X` times this count; needs measures.
    options : dict
        Of the solver; default :data:`ACCURATE`, and its own where that fails.

    Returns
    -------
    Solved
        Variables keep the values that they have.
    """
    variables = unique_variables([cost, *rules])
    if box is not None:
        assert measures is not None
        rules = [*rules, *_box(variables, measures, box)]
    with cleared(variables):
        swaps, goal, held = measured(cost, rules, variables, measures or {})
        problem = cp.Problem(cp.Minimize(goal / worth), held)
        with preserved([d for rule in held for d in rule.dual_variables]):
            name = solver.upper()
            if options is not None:
                return _solved(problem, swaps, worth, name, options)
            found = _solved(problem, swaps, worth, name, ACCURATE.get(name, {}))
            if found.status == "failed" and name in ACCURATE:
                found = _solved(problem, swaps, worth, name, {})
            return found


def _solved(
    problem: cp.Problem,
    swaps: Mapping[int, cp.Expression],
    worth: float,
    solver: str,
    options: Mapping[str, Any],
) -> Solved:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), panics_as_errors():
            warnings.simplefilter("ignore")  # the status says what a warning would say
            problem.solve(solver=solver, **options)
    except TROUBLES as error:
        return Solved("failed", float("nan"), {}, {}, str(error))
    if problem.status not in OPTIMAL:
        return Solved(str(problem.status), worth * number(problem.value), {}, {})
    values = {key: np.asarray(_dense(x.value), dtype=float) for key, x in swaps.items()}
    duals = {
        at: _times(worth, rule.dual_value)
        for at, rule in enumerate(problem.constraints)
        if rule.dual_value is not None
    }
    if not all(np.isfinite(value).all() for value in values.values()):
        return Solved("failed", float("nan"), {}, {}, "the point that was found is not finite")
    return Solved(str(problem.status), worth * number(problem.value), values, duals)


def _box(
    variables: Sequence[cp.Variable], measures: Mapping[int, Measure], size: float
) -> list[cp.Constraint]:
    return [
        cp.abs(cp.multiply(1 / measures[v.id].spread, v - measures[v.id].centre)) <= size
        for v in variables
    ]


@contextmanager
def cleared(variables: Sequence[cp.Variable]) -> Iterator[None]:
    """Take variables their values for a while.

    cvxpy 1.9 canonicalises ``cvar`` and ``sum_largest`` wrongly where values are set.
    """
    with preserved(variables):
        for v in variables:
            v.save_value(None)
        yield


def _dense(value: Any) -> Any:
    return value.toarray() if hasattr(value, "toarray") else value


def _times(factor: float, value: Any) -> Any:
    if isinstance(value, list):
        return [_times(factor, one) for one in value]
    return None if value is None else factor * value


def cost_at(expression: cp.Expression, values: Mapping[int, np.ndarray]) -> float:
    """The value of a scalar expression where variables have these values; NaN where it has none.

    Variables keep the values that they have.
    """
    variables = unique_variables([expression])
    with undisturbed(variables):
        for v in variables:
            v.save_value(values[v.id])
        return evaluated(expression)
