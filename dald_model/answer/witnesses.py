"""Which all-in-one solution a result is held against, where solvers and certificate disagree."""

from __future__ import annotations

import numpy as np

from dald_model.answer.comparison import explained, objective
from dald_model.answer.gap import BOXES, Certificate
from dald_model.answer.reference import Reference, Task, doubted
from dald_model.answer.violations import broken, violation


def held_against(
    given: Task,
    made: Reference,
    proven: Certificate | None,
    tol_objective: float,
    tol_feasibility: float,
) -> tuple[Reference, float, bool, list[str]]:
    """The reference that counts, the gap to it, whether it is beaten, and what to say of it."""
    gap, beats = gap_to(given, made, tol_objective, tol_feasibility)
    refuted = _is_refuted(given, made, proven, tol_objective)
    if made.status == "optimal" and not beats and not refuted:
        return made, abs(gap), False, []
    why = (
        f"{made.solver}'s AIO solution is inaccurate by its own account"
        if made.status != "optimal"
        else f"{made.solver}'s AIO solution is better than is possible by the certificate"
        if refuted
        else f"the result is feasible and better than {made.solver}'s AIO solution"
    )
    other = doubted(given, made)
    if refuted and (other is None or _is_refuted(given, other, proven, tol_objective)):
        assert proven is not None
        assert made.scales is not None
        over = given.result.compiled.sense * (objective(given, made) - proven.bound)
        return made, max(over, 0.0) / made.scales.worth, True, [f"{why}, whose bound counts"]
    if other is None:
        said = f"{why}, and no other installed solver can be asked"
        return made, 0.0 if beats else abs(gap), beats, [said]
    said = f"{why}; {other.solver} finds {other.value:.8g}"
    is_proven = not _is_refuted(given, other, proven, tol_objective)
    counts = _counts(given, made, other, tol_objective, tol_feasibility) if is_proven else ""
    if refuted or counts:
        counts = counts or "is possible"
        made, said = other, f"{said}, which {counts} and counts"
        gap, beats = gap_to(given, made, tol_objective, tol_feasibility)
    if beats:
        return made, 0.0, True, [f"{said}; the result is better than both"]
    return made, abs(gap), False, [said]


def _is_refuted(
    given: Task, made: Reference, proven: Certificate | None, tol_objective: float
) -> bool:
    """Whether no feasible point can be as good as a reference says, by a certificate.

    A point of the boxes is no better than its bound, and one t boxes away better than the result
    by no more than t times the certified gap. Who is better breaks constraints, be it by less than
    is seen, where an objective is steep.
    """
    result, units = given.result, given.units
    if not proven or units is None or made.scales is None or not made.values:
        return False
    here, theirs = given.split(given.values), given.split(made.values)
    columns = result.compiled.columns
    boxes = 1.0
    for name, point in here.items():
        reach = BOXES * units.point_lengths[columns[name]]
        boxes = max(boxes, float((np.abs(theirs[name] - point) / reach).max()))
    least = proven.value - boxes * (proven.value - proven.bound)
    return bool(result.compiled.sense * (least - made.value) > tol_objective * made.scales.worth)


def alike(one: Reference, two: Reference, tol_objective: float) -> bool:
    """Whether two solvers found the same optimum."""
    assert one.scales is not None
    return abs(one.value - two.value) <= tol_objective * one.scales.worth


def _counts(
    given: Task, made: Reference, other: Reference, tol_objective: float, tol_feasibility: float
) -> str:
    """Why another solver's solution counts rather than the first; empty where it does not.

    One that is inaccurate may be lower than the optimum for constraints that it breaks a little.
    """
    assert made.scales is not None
    lower = given.result.compiled.sense * (made.value - other.value) / made.scales.worth
    if abs(lower) > tol_objective:
        best = other if lower > 0 else made
        if broken(given, made, best.values).measured <= tol_feasibility:
            return "is better" if lower > 0 else ""
    return "is accurate" if made.status != other.status == "optimal" else ""


def gap_to(
    given: Task, made: Reference, tol_objective: float, tol_feasibility: float
) -> tuple[float, bool]:
    """The signed gap of the result's objective, and whether the result beats the reference.

    It does where it is lower by more than is tolerated, feasible, and lower by more than its
    violations can account for.
    """
    assert made.scales is not None
    sense, worth = given.result.compiled.sense, made.scales.worth
    gap = sense * (objective(given, made) - made.value) / worth
    if not gap < -tol_objective:
        return gap, False
    feasible = violation(given, made, tol_feasibility).ok
    return gap, feasible and -gap > tol_objective + explained(given, made) / worth
