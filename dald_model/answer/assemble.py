"""The conversion of a finished run to a result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from dald_model.answer.domains import clients_inside, settle
from dald_model.answer.local_duals import dual_values
from dald_model.answer.rescaling import undisturbed
from dald_model.answer.result import Result
from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition, Recovered
from dald_model.compile.lowered import values
from dald_model.coordinate.outcome import Outcome, objective
from dald_model.coordinate.status import Status
from dald_model.values import flat

Points = Mapping[Hashable, np.ndarray]
"""Client -> vector of its local variables."""


@uncollected()
def assemble(outcome: Outcome, tolerances: tuple[float, float], seconds: float) -> Result:
    """Turn the answer into the user's terms, and set values and dual values."""
    membership, termination, state = outcome.membership, outcome.termination, outcome.best.state
    compiled, rows = membership.compiled, outcome.rows
    recovered = Recovered({}, {}, {}, {})
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray] = {}
    value = math.nan
    if state is not None:
        mu = state.estimate
        mu[membership.off] = 0.0  # what is not in the problem has no price
        lengths = state.units.point_lengths
        points = {name: state.points[part] for name, part in compiled.columns.items()}
        points = clients_inside(compiled, points, lengths)
        held = state.held
        duals = {
            name: dual_values(sub, *held[compiled.places[name]], points[name])
            if name in compiled.constrained
            else ()
            for name, sub in compiled.items()
        }
        recovered = compiled.recover(points, duals, mu, membership.gone)
        settle(compiled, recovered, lengths)
        multipliers = {ends: mu[slot].copy() for ends, slot in compiled.slots.items()}
        is_whole = not (membership.gone or membership.cut)  # else not all have the same values
        given = _agreed(compiled, recovered) if is_whole else points
        value = objective(membership, _costs(compiled, given, points, state.objectives))
    if termination.status == Status.INFEASIBLE:
        value = compiled.sense * math.inf
    if termination.status == Status.UNBOUNDED:
        value = -compiled.sense * math.inf
    found = Result(
        status=termination.status,
        value=value,
        rounds=len(rows),
        answer_round=outcome.best.round,
        history=rows,  # pyright: ignore[reportArgumentType] - a frame when it is read
        recovered=recovered,
        multipliers=multipliers,
        compiled=compiled,
        seconds=seconds,
        eps_pri=tolerances[0],
        eps_dual=tolerances[1],
        culprit=termination.culprit,
        detail=termination.detail,
        fallbacks=outcome.events,
        left=dict(membership.gone),
        dropped=dict(membership.cut),
        state=outcome.last,
        learnt=outcome.learnt,
        recalled=outcome.recalled,
        unaccelerated=outcome.unaccelerated,
        losses=outcome.losses,
        given=tuple((p, _kept(p.value)) for p in compiled.model.parameters),
    )
    found.apply()
    return found


def _kept(value: Any) -> Any:
    """A value of a Parameter that stays when it is written into."""
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value)


def _agreed(compiled: Decomposition, recovered: Recovered) -> dict[Hashable, np.ndarray]:
    """The clients' variables at the values that the user gets, which all of them share."""
    homes = compiled.form.homes.items()
    shared = [(flat(recovered.values[key]), own) for key, own in homes]
    agreed = {v.id: value for value, own in shared for v in own.values()}
    return {
        name: agreed[sub.variables[0].id]
        if len(sub.variables) == 1
        else np.concatenate([agreed[v.id] for v in sub.variables])
        for name, sub in compiled.items()
    }


def _costs(compiled: Decomposition, given: Points, own: Points, solvers: np.ndarray) -> np.ndarray:
    """What each client minimises at the values that the user gets, as the user's expressions say.

    From their affine pieces, or by cvxpy. Where an expression has no value there, as at the edge of
    the domain of an atom, it counts at the client's own copy: that is right as well, but where it
    is steep, as an inverse matrix is, copies that all but agree differ. Last comes the solver's
    figure, which may be a difference of large numbers, or a sum of squares multiplied out, and is
    all there is of who is at a site.
    """
    subs = list(compiled.values())
    known = [(at, sub) for at, sub in enumerate(subs) if not sub.client.is_remote]
    found = np.array([0.0 if sub.client.is_server else np.nan for sub in subs])
    for points in (given, own):
        left = [(at, sub) for at, sub in known if not math.isfinite(found[at])]
        with np.errstate(all="ignore"):
            places = [at for at, _ in left]
            lowered = [sub.lowered for _, sub in left]
            found[places] = values(lowered, [points[sub.name] for _, sub in left])
        left = [(at, sub) for at, sub in left if not math.isfinite(found[at])]
        if not left:
            break
        with undisturbed([v for _, sub in left for v in sub.client.given.variables]):
            for at, sub in left:
                found[at] = sub.client.cost_at(sub.spread(points[sub.name]))
    return np.where(np.isfinite(found), found, solvers)
