r"""The all-in-one (AIO) solution that a result is compared with, and the scales found at it.

The problem is solved as it stands, which gives the first scales; where these say that its units
are not those of a solver's tolerances it is solved again in units of the scales
(:mod:`dald_model.answer.rescaling`), until they stay. A solution that its solver calls inaccurate,
or that a feasible point beats, is doubtful and cross-checked by another solver.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.agreeing import Agreeing, agreeing
from dald_model.answer.answer import Answer
from dald_model.answer.calibration import calibrated, is_unresolved, natural
from dald_model.answer.rescaling import ACCURATE, SHARP, Solved, cost_near, minimise
from dald_model.answer.scales import Scales
from dald_model.compile.measures import Measure
from dald_model.coordinate.status import Status
from dald_model.coordinate.units import Units
from dald_model.declare.client import all_in_one
from dald_model.errors import OptionError
from dald_model.values import flat, holding

PASSES = 6
"""How often the problem is solved at most while scales still change."""
SAME, CLOSE = 10.0, 1.1
"""Scales that differ by less than this factor need no further pass; of an inaccurate solution."""
RESOLVED = 1e-3
"""Share of a worth by which solves in other units may differ in F, and that F is at least, if the
worth is more than noise."""
NOTHING = 1e-6
"""Share of the change of F over natural lengths, below which a worth that varies is nothing."""
LOST = 1e-12
"""The same of which doubles leave no digit."""
ORDINARY, LARGE = 100.0, 1e4
"""Units within this factor of those of the scales are a solver's own; an objective may be larger
than its worth, as the gap relative to it that is asked for is 1e-11."""


@dataclass(frozen=True, eq=False)
class Task:
    """The all-in-one problem that a result answers.

    Attributes
    ----------
    problem : cp.Problem
    cost : cp.Expression
        What it minimises: its objective or the negative.
    values : dict
        Variable id -> the result's value.
    live : Agreeing
        The clients that are still there.
    off : ndarray of bool
        The entries of edges that do not count any more.
    """

    result: Answer
    problem: cp.Problem
    cost: cp.Expression
    values: Mapping[int, Any]
    live: Agreeing
    off: np.ndarray

    @property
    def claims_a_point(self) -> bool:
        """Whether the result is a point, be it optimal or on the way there."""
        empty = self.result.status in (Status.INFEASIBLE, Status.UNBOUNDED)
        return not empty and bool(self.result.recovered.values)

    @property
    def units(self) -> Units | None:
        """Those of the run, unless the result was made without one."""
        return self.result.state and self.result.state.units

    def split(self, values: Mapping[int, Any]) -> dict[Hashable, np.ndarray]:
        """Values by variable id -> the vector of each client's local variables."""
        compiled = self.result.compiled
        known = {**self._derived(values), **values}
        known |= {key: known[user] for key, user in self._users().items() if user in known}
        return {
            name: np.concatenate([flat(known[v.id]) for v in compiled[name].variables])
            for name in self.live.columns
        }

    def _derived(self, values: Mapping[int, Any]) -> dict[int, Any]:
        """What couplings share, by variable id, where the user's variables have these values."""
        made = self.result.compiled.derived
        known = {v.id: v for e in made.values() for v in e.variables() if v.id in values}
        with holding((v, values[key]) for key, v in known.items()):
            return {key: expression.value for key, expression in made.items()}

    def _users(self) -> dict[int, int]:
        """Local variable -> the user's variable that it is a copy of; by id, copies only."""
        homes = self.result.compiled.form.homes
        return {v.id: key for key, local in homes.items() for v in local.values() if v.id != key}

    def measures(self, values: Mapping[int, Any], found: Scales) -> dict[int, Measure]:
        """A point of the problem and the spreads around it, by variable id."""
        compiled = self.result.compiled
        users = self._users()
        spreads: dict[int, np.ndarray] = {}
        for name, spread in found.spreads.items():
            for key, part in compiled[name].spread(spread).items():
                user = users.get(key, key)
                spreads[key] = part
                spreads[user] = np.maximum(spreads.get(user, part), part)
        return {
            v.id: Measure(np.asarray(values[v.id], float), spreads[v.id])
            for v in self.problem.variables()
        }


@dataclass(frozen=True, eq=False)
class Reference:
    """The solution of the task, see the module.

    Attributes
    ----------
    status, value : str, float
        As cvxpy would say it, in the user's sense.
    values, duals : dict
        By variable id, and by constraint id.
    scales : Scales or None
        None where there is no optimum.
    solver : str
        Who found it.
    seconds : float
        Of all solves for it.
    notes : tuple of str
        What a reader should know about it.
    is_calibrated : bool
        Whether the scales were found at the solution; else they are the model's natural units.
    reaches : dict
        Constraint id -> how far it moves over the spreads, as far as somebody has asked.
    """

    status: str
    value: float
    values: Mapping[int, Any]
    duals: Mapping[int, Any]
    scales: Scales | None
    solver: str
    seconds: float
    notes: tuple[str, ...] = ()
    is_calibrated: bool = True
    reaches: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)


def task(result: Answer) -> Task:
    """The all-in-one problem that a result answers, and the result's values."""
    compiled = result.compiled
    off = np.zeros(compiled.size, dtype=bool)
    for edge in compiled.edges:
        gone = edge.ends in result.dropped or set(edge.ends) & set(result.left)
        off[compiled.slots[edge.ends]] = bool(gone)
    live = {n: c for n, c in compiled.form.clients.items() if n not in result.left}
    ties = agreeing(compiled, tuple(live), off)
    if not (result.left or result.dropped):
        problem, values = compiled.model.monolithic(), result.recovered.values
    else:
        rules = [rule for client in live.values() for rule in client.constraints]
        for edge in compiled.edges:
            if not off[compiled.slots[edge.ends]].any():
                pairs = zip(edge.given(edge.tail), edge.given(edge.head), strict=True)
                rules += [one == two for one, two in pairs]
        problem = all_in_one(live.values(), rules, compiled.sense < 0)
        values = {}
        if result.recovered.values:
            points = compiled.gather(result.recovered)
            values = {k: v for name in live for k, v in compiled[name].spread(points[name]).items()}
    return Task(result, problem, compiled.sense * problem.objective.expr, values, ties, off)


def reference(given: Task, solver: str | None) -> Reference:
    """Solve the task.

    Raises
    ------
    OptionError
        If cvxpy cannot solve the AIO problem with this solver.
    """
    begun = time.perf_counter()
    name = (solver or "CLARABEL").upper()
    found = minimise(given.cost, given.problem.constraints, solver=name)
    notes: tuple[str, ...] = ()
    if found.status == "failed":
        if solver is not None:
            raise _failed(found, name)
        first, (name, found) = found, _second(given, name, None, None)
        if found.status == "failed":
            raise _failed(first)
        notes = (f"the AIO solve by CLARABEL failed ({first.said}); this is {name}'s",)
    if not found.is_optimal and given.claims_a_point:
        name, found, notes = _contradicted(given, name, found, notes)
    made, stays = _at(given, found, name, None, notes), False
    for _ in range(PASSES - 1):
        before = made.scales
        if before is None:
            break
        is_ordinary = _is_ordinary(given, made, before)
        if is_ordinary and made.status == "optimal":
            stays = True
            break
        name, again = _again(given, made, before)
        if not again.is_optimal:
            break
        made = _at(given, again, name, before, notes, is_known=is_ordinary)
        near = SAME if made.status == "optimal" else CLOSE
        if made.scales is None or not made.scales.differ(before, near):
            is_same = made.scales is not None and not made.scales.differ(before, CLOSE)
            stays = is_same and made.status == "optimal"
            break
    else:
        made = replace(made, scales=_of_agreed(given, made))
    if made.scales and is_unresolved(given.result.compiled, given.split(made.values), made.scales):
        made = replace(made, scales=_of_agreed(given, made))
    if made.scales:
        made = _beyond_noise(given, made, stays=stays)
    return replace(made, seconds=time.perf_counter() - begun)


def _beyond_noise(given: Task, made: Reference, *, stays: bool) -> Reference:
    """The solution in natural units where the worth, never the same, is nothing beside these.

    Where all want zero it is what solvers leave of nothing, and so are the spreads. A worth above
    the energy that the run began with is something, and natural units need not be found. Nor do
    they count beside a worth that stays, or that is resolved: a run may have begun with any. But
    what is a rounding error beside them stays by chance.
    """
    assert made.scales is not None
    share = LOST if stays else 1.0
    if given.units is None or made.scales.worth > share * given.units.energy:
        return made
    points = given.split(made.values)
    wide = natural(given.result.compiled, given.live, points, given.units)
    if made.scales.worth > NOTHING * wide.worth:
        return made
    if made.scales.worth > LOST * wide.worth and _is_resolved(given, made, made.scales):
        return made
    solver, again = _again(given, made, wide)
    if not again.is_optimal:
        return replace(made, scales=wide, is_calibrated=False)
    found = _at(given, again, solver, wide, made.notes, is_known=True)
    return replace(found, is_calibrated=False)


def _is_resolved(given: Task, made: Reference, found: Scales) -> bool:
    """Whether F is of the size of a worth, and the same to its digits when solved once more.

    Beside a far larger F a worth is what solvers leave of it.
    """
    least = RESOLVED * found.worth
    if not least <= abs(made.value) <= found.worth / NOTHING:
        return False
    solver, again = _again(given, made, found)
    if not again.is_optimal:
        return False
    other = _at(given, again, solver, found, made.notes, is_known=True)
    return abs(other.value - made.value) <= least


def _again(given: Task, made: Reference, before: Scales) -> tuple[str, Solved]:
    """Solve in units of scales, or of others where these, found in bad units, do not serve.

    They are too large, or what a solver left of nothing.
    """
    solver, again = made.solver, Solved("failed", float("nan"), {}, {})
    for share in (1.0, 1e-2, 1e-4, 1e4):
        size = Scales(share**2 * before.worth, {k: share * s for k, s in before.spreads.items()})
        units = given.measures(made.values, size)
        again = minimise(given.cost, given.problem.constraints, units, size.worth, solver)
        if again.is_optimal:
            return solver, again
    return _second(given, solver, given.measures(made.values, before), before.worth)


def _contradicted(
    given: Task, name: str, found: Solved, notes: tuple[str, ...]
) -> tuple[str, Solved, tuple[str, ...]]:
    """What to take where a solver finds no optimum of a problem that the result has one of.

    It may have failed at the problem's units: it is asked again from the result's point on, whose
    only part is to say where to look, and after it another solver.
    """
    centres = {key: np.asarray(value, float) for key, value in given.values.items()}
    units = {
        key: Measure(c, np.abs(c).max(initial=0.0) + np.zeros(c.shape))
        for key, c in centres.items()
        if np.isfinite(c).all() and c.any()
    }
    again = minimise(given.cost, given.problem.constraints, units, solver=name)
    if again.is_optimal:
        return name, again, notes
    other, again = _second(given, name, None, None)
    if again.is_optimal:
        return other, again, (f"{name} called the AIO problem {found.status}; {other} solves it",)
    return name, found, notes


def doubted(given: Task, made: Reference) -> Reference | None:
    """What another solver finds for the same problem in the same units; None without an answer."""
    assert made.scales is not None
    begun = time.perf_counter()
    units = given.measures(made.values, made.scales)
    name, found = _second(given, made.solver, units, made.scales.worth)
    if not found.is_optimal:
        return None
    other = _at(given, found, name, made.scales, made.notes, is_known=not made.is_calibrated)
    if other.is_calibrated:
        other = _beyond_noise(given, other, stays=False)
    return replace(other, seconds=made.seconds + time.perf_counter() - begun)


def sharpened(given: Task, made: Reference) -> Reference | None:
    """What the same solver finds when asked for all digits it has; None where it finds no more."""
    assert made.scales is not None
    begun = time.perf_counter()
    units, worth = given.measures(made.values, made.scales), made.scales.worth
    options = SHARP.get(made.solver)
    if options is None:
        return None
    constraints = given.problem.constraints
    found = minimise(given.cost, constraints, units, worth, made.solver, options=options)
    if not found.is_optimal:
        return None
    other = _at(given, found, made.solver, made.scales, made.notes, is_known=True)
    return replace(other, status="optimal", seconds=made.seconds + time.perf_counter() - begun)


def _at(
    given: Task,
    found: Solved,
    solver: str,
    before: Scales | None,
    notes: tuple[str, ...],
    is_known: bool = False,
) -> Reference:
    """What a solve means, with the scales at its point; these before where they are known."""
    sense = given.result.compiled.sense
    if not found.is_optimal:
        return Reference(found.status, sense * found.value, {}, {}, None, solver, 0.0, notes)
    values = found.values
    size = before
    if size is None or not is_known:
        points = given.split(values)
        size = calibrated(given.result.compiled, given.live, points, before, given.units)
    cost = cost_near(given.cost, values, given.measures(values, size), size.worth)
    duals = {
        rule.id: found.duals[at]
        for at, rule in enumerate(given.problem.constraints)
        if at in found.duals
    }
    value = sense * (cost if np.isfinite(cost) else found.value)
    return Reference(found.status, value, values, duals, size, solver, 0.0, notes)


def _of_agreed(given: Task, made: Reference) -> Scales:
    """The scales if all clients want the solution, as what they wish beyond it was never the same.

    In units of the problem as it stands: those that were met are what solvers leave of nothing.
    """
    points = given.split(made.values)
    return calibrated(given.result.compiled, given.live, points, None, given.units, is_agreed=True)


def _is_ordinary(given: Task, made: Reference, found: Scales) -> bool:
    """Whether the problem as it stands is in units that a solver's tolerances are meant for."""
    sizes = [np.asarray(m.spread) for m in given.measures(made.values, found).values()]
    offsets = [np.abs(m.centre) / m.spread for m in given.measures(made.values, found).values()]
    return (
        found.worth >= 1 / ORDINARY
        and abs(made.value) <= LARGE * found.worth
        and all(s.size == 0 or 1 / ORDINARY <= s.min() <= s.max() <= ORDINARY for s in sizes)
        and all(o.max(initial=0.0) <= ORDINARY for o in offsets)
    )


def _second(
    given: Task, used: str, units: Mapping[int, Measure] | None, worth: float | None
) -> tuple[str, Solved]:
    """The first other installed solver that can solve the task, and what it found."""
    found = Solved("failed", float("nan"), {}, {})
    for name in ACCURATE:
        if name == used or name not in cp.installed_solvers():
            continue
        found = minimise(given.cost, given.problem.constraints, units, worth or 1.0, name)
        if found.status != "failed":
            return name, found
    return used, found


def _failed(found: Solved, name: str = "CLARABEL") -> OptionError:
    others = ", ".join(cp.installed_solvers())
    return OptionError(
        f"verify: the all-in-one solve failed with {name} ({found.said}); name another solver, "
        f"verify(solver=...), among {others}"
    )
