"""Standalone solves: what each client would choose if nobody else were there.

They give the cost of consensus, which verdicts are measured by. A point that is not quite the
minimiser makes that cost smaller, and a verdict stricter; never looser.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import scipy.sparse as sp

from dald_model.answer.bound import Parts
from dald_model.answer.claim import client_costs
from dald_model.answer.cone_clients import ConeClient
from dald_model.answer.smooth_clients import SmoothClients
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form, Rows

STEPS = 40
"""Newton steps of a smooth client at most: from a point near its own answer four are enough, and
of one without a minimiser the last point will do."""
HALVINGS = 30
"""How often a step is halved before a point is taken for the minimiser as far as doubles know."""
FAINT, DOUBLINGS = 10, 60
"""Searches along curvatures that are rounding, and doublings of a step that surely falls: 1e18."""
SHARPER = 1e-4
"""Share of the decrease so far that another Newton step has to promise: S is a yardstick, and one
that is this much too small makes a verdict that much stricter. Less than :data:`ENDLESS`."""
ENDLESS = 1e-3
"""Share of a decrease that another step as long may bring, beyond which a point is where a solver's
patience ended and no minimiser: twice as far a logarithm is as much lower as ever."""


class Standalone:
    """The clients' own minimisers and how much lower they are than at a point.

    Attributes
    ----------
    points : ndarray
        All variables one after the other; NaN of a client without a minimiser that was found.
    falls : dict
        Client -> how much lower its objective is at its own minimiser; NaN where it has none.
    falling : dict
        Client that falls for ever -> the point where the search for its minimiser ended.
    missing : frozenset
        The clients without a minimiser that was found, as they are unbounded alone.
    """

    def __init__(
        self,
        compiled: Decomposition,
        parts: Parts,
        at: np.ndarray,
        costs: Mapping[Hashable, float],
    ) -> None:
        self.points = np.full(at.size, np.nan)
        self.falls: dict[Hashable, float] = {}
        self.parts = parts
        others = list(parts.cones)
        for group in parts.groups:
            points, falls, is_short = _by_newton(group, at[group.columns])
            self.points[group.columns] = points
            self.falls |= dict(zip(group.names, falls.tolist(), strict=True))
            others += [name for name, short in zip(group.names, is_short, strict=True) if short]
        for name in others:
            part = compiled.columns[name]
            client = parts.cones.get(name) or ConeClient(compiled[name], at[part])
            self.points[part] = client.minimiser()
        stated = _with_common_rules(compiled, self.points)
        for name, form in stated.items():
            part = compiled.columns[name]
            self.points[part] = ConeClient(compiled[name], at[part], form=form).minimiser()
            self.falls[name] = np.nan
        others = list(dict.fromkeys([*others, *stated]))
        known = [name for name in others if np.isfinite(self.points[compiled.columns[name]]).all()]
        points = {name: self.points[compiled.columns[name]] for name in known}
        least = client_costs(compiled, points, known)
        for name in others:
            fall = costs[name] - least[name] if name in least else np.nan
            self.falls[name] = float(np.fmax(fall, self.falls.get(name, np.nan)))
        self.falling = {}
        for name in self._endless(compiled, at, costs):
            self.falling[name] = self.points[compiled.columns[name]].copy()
            self.points[compiled.columns[name]], self.falls[name] = np.nan, np.nan
        missing = [name for name, fall in self.falls.items() if not np.isfinite(fall)]
        self.missing, self._others = frozenset(missing), frozenset(others)

    @property
    def doubt(self) -> float:
        """How much lower smooth clients may be than Newton found, as another fall is rounded.

        Far out along a curvature of 1e-14 no fall is sure, and that nobody pays is not known.
        """
        found = 0.0
        for group in self.parts.groups:
            points = self.points[group.columns]
            with np.errstate(all="ignore"):
                step, _ = group.steps(points, group.gradients(points))
                fall, error, _ = group.falls(points, points + step)
            is_own = [name not in self._others for name in group.names]
            found += float(np.fmax(fall + error, 0.0)[is_own].sum())
        return found

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


def _with_common_rules(compiled: Decomposition, points: np.ndarray) -> dict[Hashable, Form]:
    """The clients whose minimisers break rules that a server holds for them, with these rules.

    What agreeing costs does not depend on where a rule is held.
    """
    places, holder = compiled.form.common.places, compiled.holder
    rules = compiled[holder].form if places and holder is not None else None
    found: dict[Hashable, Form] = {}
    if rules is None or rules.extra or not rules.complete:
        return found
    entries = _entries(compiled, holder)
    for name in places:
        form = compiled[name].form
        if form is None or form.extra or not (form.complete and form.valued):
            continue
        own = {entry: at for at, entry in enumerate(_entries(compiled, name))}
        pairs = [(at, own[entry]) for at, entry in enumerate(entries) if entry in own]
        cells = np.ones(len(pairs)), tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)
        to_own = sp.csr_array(cells, shape=(len(entries), form.size))
        is_absent = np.asarray(to_own.sum(axis=1)) == 0
        whole = form.with_others(
            equalities=_joined(form.equalities, rules.equalities, to_own, is_absent),
            inequalities=_joined(form.inequalities, rules.inequalities, to_own, is_absent),
            terms=(
                *form.terms,
                *(
                    term._replace(matrix=sp.csr_array(term.matrix) @ to_own)
                    for term in rules.terms
                    if not np.any(sp.csr_array(term.matrix)[:, np.flatnonzero(is_absent)].data)
                ),
            ),
        )
        point = points[compiled.columns[name]]
        if not whole.violation(point) <= 0:
            found[name] = whole
    return found


def _entries(compiled: Decomposition, name: Hashable) -> list[tuple[int, int]]:
    """Which entry of which variable of the user's each of a client's own is."""
    homes = compiled.form.homes.items()  # a server's own variable has one of its own beside
    users = {v.id: key for key, local in homes for v in local.values() if v.id != key}
    return [(users.get(v.id, v.id), at) for v in compiled[name].variables for at in range(v.size)]


def _joined(own: Rows, held: Rows, to_own: sp.csr_array, is_absent: np.ndarray) -> Rows:
    """A client's rows and those of the server that touch nothing but its entries."""
    is_here = ~(held.matrix[:, is_absent] != 0).any(axis=1)
    matrix = np.vstack([own.matrix, held.matrix[is_here] @ to_own])
    return Rows(matrix, np.concatenate([own.rhs, held.rhs[is_here]]))


def _by_newton(
    group: SmoothClients, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The minimisers of smooth clients, (k, m), how much lower they are, and which have no step.

    Where an objective is linear, as a Huber loss is far out, a cone solver is asked.
    """
    point, fallen = _descended(group, start, np.zeros(len(start)))
    for _ in range(FAINT):
        step = group.steps(point, group.gradients(point))[1]
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
    is_level = np.abs(group.gradients(point)) <= group.gradient_errors(point)
    return point, fallen, ~(fallen > 0) & ~is_level.all(axis=1)


def _descended(
    group: SmoothClients, start: np.ndarray, fallen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where Newton's method ends, and how much lower the clients are with what they had fallen."""
    point, live = start.copy(), np.ones(len(start), dtype=bool)
    for _ in range(STEPS):
        slopes = group.gradients(point)
        step = group.steps(point, slopes)[0]
        live &= -np.vecdot(slopes, step) / 2 > SHARPER * fallen  # NaN where there is none
        if not live.any():
            break
        step, gained = np.where(live[:, None], step, 0.0), fallen
        for _ in range(HALVINGS):
            gained = group.sure_falls(point, point + step)
            is_worse = live & ~(gained >= 0)  # NaN outside of the domain
            if not is_worse.any():
                break
            step[is_worse] /= 2
        live &= gained > 0
        point = np.where(live[:, None], point + step, point)
        fallen = np.where(live, fallen + gained, fallen)
    return point, fallen
