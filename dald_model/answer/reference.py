"""The all-in-one (AIO) solve by plain cvxpy that an answer is compared with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.claim import Claim
from dald_model.answer.domains import inside
from dald_model.answer.rescaling import cost_at, minimise
from dald_model.compile.measures import Measure
from dald_model.declare.client import limits
from dald_model.errors import OptionError

OTHERS = ("CLARABEL", "PIQP", "SCS")
"""Who is asked where a solver fails or contradicts an answer, in this order, if installed."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What a solver found for the all-in-one problem.

    Attributes
    ----------
    status, value : str, float
        As cvxpy says it; the value in the user's sense, evaluated at the point.
    values, duals : dict
        By variable id, and by constraint id.
    solver : str
    seconds : float
    """

    status: str
    value: float
    values: Mapping[int, np.ndarray]
    duals: Mapping[int, Any]
    solver: str
    seconds: float


def all_in_one(claim: Claim, solver: str | None) -> Reference:
    """Solve the problem as it stands by plain cvxpy, by default by Clarabel.

    Raises
    ------
    OptionError
        If cvxpy cannot solve it by this solver.
    """
    name = (solver or OTHERS[0]).upper()
    found = _solved(claim, name, {})
    if found.status != "failed":
        return found
    if solver is None:
        for other in OTHERS[1:]:
            if other in cp.installed_solvers():
                again = _solved(claim, other, {})
                if again.status != "failed":
                    return again
    raise OptionError(
        f"verify: cvxpy could not solve the all-in-one problem with {name} ({found.duals[-1]}); "
        f"expected a solver that can: {', '.join(cp.installed_solvers())}"
    )


def measured_from(
    claim: Claim, measures: Mapping[int, Measure], worth: float
) -> Iterator[Reference]:
    """Solve it again with every variable counted from the answer and in its length.

    By one installed solver after the other, as often as asked for.
    """
    for name in OTHERS:
        if name in cp.installed_solvers():
            yield _solved(claim, name, measures, worth)


def _solved(claim: Claim, name: str, measures: Mapping[int, Any], worth: float = 1.0) -> Reference:
    begun = time.perf_counter()
    problem, sense = claim.problem, claim.compiled.sense
    options = None if measures else {}  # the solver's defaults, as a user has them
    found = minimise(claim.cost, problem.constraints, measures, worth, name, options=options)
    seconds = time.perf_counter() - begun
    if not found.is_optimal:
        value = sense * found.value
        return Reference(found.status, value, {}, {-1: found.said}, name, seconds)
    value = cost_at(claim.cost, found.values)
    if not np.isfinite(value):  # zero of a root, less what a solver leaves
        value = cost_at(claim.cost, found.values | _inside(claim, found.values))
    value = value if np.isfinite(value) else found.value
    duals = {
        rule.id: found.duals[at] for at, rule in enumerate(problem.constraints) if at in found.duals
    }
    return Reference(found.status, sense * value, found.values, duals, name, seconds)


def _inside(claim: Claim, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The values that have to be moved by rounding for the objective to be defined."""
    sizes = {key: np.full(np.shape(x), np.abs(x).max(initial=1.0)) for key, x in values.items()}
    return inside(limits(claim.cost), values, sizes)
