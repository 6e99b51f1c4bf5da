"""Standalone solves: what each client would choose if nobody else were there.

They give the cost of consensus, which verdicts are measured by. A point that is not quite the
minimiser makes that cost smaller, and a verdict stricter; never looser.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import numpy as np

from dald_model.answer.bound import least_near
from dald_model.answer.claim import client_cost, client_costs
from dald_model.answer.rescaling import minimise
from dald_model.answer.smooth_clients import SmoothClients
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import ConeProgram
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.exact.lower_bound import bounded
from dald_model.solvers.exact.native import STATUSES, solved_once
from dald_model.solvers.exact.smooth_bound import is_split, minimiser, split_program
from dald_model.values import flat

STEPS = 40
"""Newton steps of a smooth client at most: from a point near its own answer four are enough, and
of one without a minimiser the last point will do."""
HALVINGS = 30
"""How often a step is halved before a point is taken for the minimiser as far as doubles know."""
FAINT, DOUBLINGS = 10, 60
"""Searches along curvatures that are rounding, and doublings of a step that surely falls: 1e18."""
SHARPER = 1e-6
"""Share of a decrease below which another Newton step is not worth it."""
ENDLESS = 1e-3
"""Share of a decrease that another step as long may bring, beyond which a point is where a solver's
patience ended and no minimiser: twice as far a logarithm is as much lower as ever."""
MET = 1e-9
"""Share of a point's size by which a candidate may break constraints: at prices of the size of the
slopes that gains 1e-9 of what the client pays, which has to be known to a few per cent."""
LEFT = 1e-3
"""Share of the slopes that may be left where a client counts as minimised; where its objective is
linear, as a Huber loss is far out, Newton's method has no step and a cone solver is asked."""


def _is_feasible(sub: Subproblem, point: np.ndarray) -> bool:
    """Whether a point is known to meet a client's constraints, but for rounding."""
    if not sub.is_constrained:
        return bool(np.isfinite(point).all())
    form = sub.form
    if form is None or form.extra or not form.complete:
        return False
    return form.violation(point) <= MET * (1 + float(np.abs(point).max(initial=0.0)))


class Standalone:
    """The clients' own minimisers and how much lower they are than at a point.

    Attributes
    ----------
    points : ndarray
        All variables one after the other; NaN of a client without a minimiser that was found.
    falls : dict
        Client -> how much lower its objective is at its own minimiser; NaN where it has none.
    missing : frozenset
        The clients without a minimiser that was found, as they are unbounded alone.
    """

    def __init__(
        self,
        compiled: Decomposition,
        groups: list[SmoothClients],
        others: list[Hashable],
        at: np.ndarray,
        costs: Mapping[Hashable, float],
    ) -> None:
        self.points = np.full(at.size, np.nan)
        self.falls: dict[Hashable, float] = {}
        self._groups = groups
        others = list(others)
        for group in groups:
            points, falls, is_short = _by_newton(group, at[group.columns])
            self.points[group.columns] = points
            self.falls |= dict(zip(group.names, falls.tolist(), strict=True))
            others += [name for name, short in zip(group.names, is_short, strict=True) if short]
        for name in others:
            part = compiled.columns[name]
            self.points[part] = _minimiser(compiled[name], at[part])
        known = [name for name in others if np.isfinite(self.points[compiled.columns[name]]).all()]
        points = {name: self.points[compiled.columns[name]] for name in known}
        least = client_costs(compiled, points, known)
        for name in others:
            fall = costs[name] - least[name] if name in least else np.nan
            self.falls[name] = float(np.fmax(fall, self.falls.get(name, np.nan)))
        for name in self._endless(compiled, at, costs):
            self.points[compiled.columns[name]], self.falls[name] = np.nan, np.nan
        missing = [name for name, fall in self.falls.items() if not np.isfinite(fall)]
        self.missing = frozenset(missing)

    @property
    def doubt(self) -> float:
        """How much lower smooth clients may be than was found, as another step's fall is rounded.

        Far out along a curvature of 1e-14 no fall is sure, and that nobody pays is not known.
        """
        found = 0.0
        for group in self._groups:
            points = self.points[group.columns]
            with np.errstate(all="ignore"):
                step = group.newton_steps(points, group.gradients(points))
                fall, error, _ = group.falls(points, points + step)
            found += float(np.fmax(fall + error, 0.0).sum())
        return found

    def try_points(
        self,
        compiled: Decomposition,
        points: np.ndarray,
        names: Collection[Hashable],
        costs: Mapping[Hashable, float],
    ) -> None:
        """Take points for the minimisers of some clients, instead of solving for them.

        Where they are none, or are not feasible, clients pay less and a verdict is stricter: so
        hints of a run may serve for a proof that does, and decide nothing where it does not.
        """
        named = {
            name: points[compiled.columns[name]]
            for name in names
            if _is_feasible(compiled[name], points[compiled.columns[name]])
        }
        least = client_costs(compiled, named, named)
        for name in names:
            part = compiled.columns[name]
            self.points[part] = points[part]
            fall = costs[name] - least.get(name, np.nan)
            self.falls[name] = max(fall, 0.0) if np.isfinite(fall) else 0.0

    def _endless(
        self, compiled: Decomposition, at: np.ndarray, costs: Mapping[Hashable, float]
    ) -> list[Hashable]:
        """The clients whose objectives go on falling beyond what was found."""
        beyond = {}
        for name in self.falls:
            part, form = compiled.columns[name], compiled[name].form
            there = 2 * self.points[part] - at[part]
            if form is None or form.extra or not (form.complete and np.isfinite(there).all()):
                continue
            if not form.is_outside(there):
                beyond[name] = there
        farther = client_costs(compiled, beyond, beyond)
        return [
            name
            for name, cost in farther.items()
            if costs[name] - cost > (1 + ENDLESS) * self.falls[name] > 0
        ]


def _by_newton(
    group: SmoothClients, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The minimisers of smooth clients, (k, m), how much lower they are, and which fell short."""
    point, fallen = _descended(group, start, np.zeros(len(start)))
    slopes = group.gradients(start)
    for _ in range(FAINT):
        step = group.faint_steps(point, group.gradients(point))
        gained, far = np.zeros(len(start)), np.ones(len(start))
        for _ in range(DOUBLINGS):
            there = group.sure_falls(point, point + far[:, None] * step)
            is_better = (there > gained) & step.any(axis=1)
            if not is_better.any():
                break
            gained, far = np.where(is_better, there, gained), np.where(is_better, 2 * far, far)
        if not (gained > SHARPER * fallen).any():
            break
        step = np.where(gained > 0, far / 2, 0.0)[:, None] * step
        point, fallen = _descended(group, point + step, fallen + gained)
    if group.is_quadratic:
        return point, fallen, np.zeros(len(start), dtype=bool)
    left = np.abs(group.gradients(point)).max(axis=1)
    return point, fallen, ~(left <= LEFT * np.abs(slopes).max(axis=1))


def _descended(
    group: SmoothClients, start: np.ndarray, fallen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where Newton's method ends, and how much lower the clients are with what they had fallen."""
    point, live = start.copy(), np.ones(len(start), dtype=bool)
    for _ in range(STEPS):
        step = group.newton_steps(point, group.gradients(point))
        step[~(np.isfinite(step).all(axis=1) & live)] = 0.0
        gained, is_worse = fallen, ~live
        for _ in range(HALVINGS):
            gained = group.sure_falls(point, point + step)
            is_worse = ~(gained >= 0)  # NaN outside of the domain
            if not is_worse.any():
                break
            step[is_worse] /= 2
        gained = np.where(is_worse, 0.0, gained)
        step[is_worse] = 0.0
        point, fallen = point + step, fallen + gained
        live = gained > SHARPER * fallen
        if not live.any():
            break
    return point, fallen


def _minimiser(sub: Subproblem, at: np.ndarray) -> np.ndarray:
    """A client's own minimiser; NaN where it has none."""
    if sub.client.is_remote:
        return np.full(sub.size, np.nan)
    if sub.form is None:
        return _by_cvxpy(sub, at)
    if is_split(sub.form) and sub.form.smooth:
        point = minimiser(sub.form, at)
        if point is not None:
            return point
    cost, found_one = client_cost(sub, at), False
    for centre, lengths in _units(sub, at):
        here = sub.form.around(centre)
        is_plain = is_split(here) and not here.smooth
        cone = split_program(here) if is_plain else here.cone
        found = solved_once(_in_lengths(cone, lengths))
        status = STATUSES.get(str(found.status), "solver_error")
        if status == "unbounded":
            break
        if status == "optimal":
            found_one = True
            point = centre + lengths * np.array(found.x)[: sub.size]
            if client_cost(sub, point) <= cost:
                return point
    # No solver finds better than the point itself
    return at.copy() if found_one else np.full(sub.size, np.nan)


def _units(sub: Subproblem, at: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Where numbers are taken from, and in what lengths: from the point, where all bend alike.

    There the way to the minimum of the quadratic alone is about one. Then in the size of the point,
    then as they are. What one of them leaves without digits another has.
    """
    size = _sizes(sub, at)
    units = [(at, size), (np.zeros(at.size), np.ones(at.size))]
    if sub.form is not None and sub.form.valued:
        quadratic = sub.form.quadratic
        bends, slopes = quadratic.diagonal, np.abs(quadratic.times(at) + quadratic.linear)
        roots = np.sqrt(np.where(bends > 0, bends, 1.0))
        way = float(np.where(bends > 0, slopes / roots, 0.0).max(initial=0.0))
        if way > 0:
            units.insert(0, (at, np.where(bends > 0, way / roots, size)))
    return units


def _sizes(sub: Subproblem, at: np.ndarray) -> np.ndarray:
    """The largest absolute entry of each variable at a point, one where that is zero."""
    sizes = {
        key: np.full(value.shape, np.abs(value).max(initial=0.0) or 1.0)
        for key, value in sub.spread(at).items()
    }
    return np.concatenate([flat(sizes[v.id]) for v in sub.variables])


def _in_lengths(cone: ConeProgram, lengths: np.ndarray) -> ConeProgram:
    """A cone program whose first variables are counted in lengths, with the largest cost one."""
    whole = np.ones(cone.linear.size)
    whole[: lengths.size] = lengths
    linear, rows, matrix = whole * cone.linear, cone.rows.copy(), cone.matrix.copy()
    rows.data = rows.data * np.repeat(whole, np.diff(rows.indptr))
    matrix.data = matrix.data * whole[matrix.indices] * np.repeat(whole, np.diff(matrix.indptr))
    worth = max(np.abs(linear).max(initial=0.0), np.abs(matrix.data).max(initial=0.0)) or 1.0
    matrix.data = matrix.data / worth
    return cone._replace(matrix=matrix, linear=linear / worth, rows=rows)


def _by_cvxpy(sub: Subproblem, at: np.ndarray) -> np.ndarray:
    for centre, lengths in ((at, _sizes(sub, at)), (np.zeros(at.size), np.ones(at.size))):
        centres, spreads = sub.spread(centre), sub.spread(lengths)
        around = {key: Measure(centres[key], spreads[key]) for key in centres}
        found = minimise(sub.client.cost, sub.client.constraints, around)
        status = found.status
        if found.is_optimal:
            return np.concatenate([flat(found.values[v.id]) for v in sub.variables])
        if status == "unbounded":
            break
    return np.full(sub.size, np.nan)


def fall_near(sub: Subproblem, at: np.ndarray, reach: np.ndarray, cost: float) -> float:
    """How much lower a client's objective is within a box around a point, at least and at most.

    By a bound, and by the value at the point that a solver found: an error of one of them is no
    cost of consensus.
    """
    if sub.client.is_remote:
        return 0.0
    if sub.form is None:
        bound = least_near(sub, np.zeros(sub.size), at, reach)
        return max(cost - bound, 0.0) if np.isfinite(bound) else 0.0
    found = bounded(sub.form.cone, np.zeros(sub.size), at, reach)
    point = np.clip(found.point, at - reach, at + reach)
    fall = min(cost - found.value, cost - client_cost(sub, point))
    return max(fall, 0.0) if np.isfinite(fall) else 0.0
