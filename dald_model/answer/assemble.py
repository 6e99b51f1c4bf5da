"""The conversion of a finished run to a result."""

from __future__ import annotations

import math
from collections.abc import Hashable
from copy import deepcopy
from itertools import accumulate
from typing import Any

import numpy as np

from dald_model.answer.claim import Points, client_costs, recovered, split
from dald_model.answer.result import Result
from dald_model.answer.scale import NOISE
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.recovered import Recovered
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.outcome import Outcome, objective
from dald_model.coordinate.status import Status
from dald_model.gc_pause import gc_paused
from dald_model.solvers.base import Encoding, Tangents


@gc_paused
def assemble(outcome: Outcome, tolerances: tuple[float, float], seconds: float) -> Result:
    """Turn the answer into the user's terms, and set values and dual values."""
    membership, termination, state = outcome.membership, outcome.termination, outcome.best.state
    compiled, rows = membership.compiled, outcome.rows
    found = Recovered({}, {}, {}, {})
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray] = {}
    value = math.nan
    if state is not None:
        mu = state.estimate
        mu[membership.off] = 0.0  # what is not in the problem has no price
        held = state.held if compiled.constrained else []

        def duals(name: Hashable) -> tuple[Any, ...]:
            if name not in compiled.constrained or not compiled[name].client.is_convex:
                return ()  # cvxpy gives no dual values of non-linear programs
            return dual_values(compiled[name], *held[compiled.places[name]])

        points, found = recovered(compiled, state, mu, duals, membership.gone)
        prices = mu.copy()
        multipliers = {ends: prices[slot] for ends, slot in compiled.slots.items()}
        is_whole = not (membership.gone or membership.cut)  # else not all have the same values
        given = split(compiled, found.values) if is_whole else points
        costs = _known_costs(compiled, given, state.tangents)
        if costs is None:
            costs = _costs(compiled, given, points, state.objectives)
        value = objective(membership, costs)
    if termination.status == Status.INFEASIBLE:
        value = compiled.sense * math.inf
    if termination.status == Status.UNBOUNDED:
        value = -compiled.sense * math.inf
    result = Result(
        status=termination.status,
        value=value,
        rounds=len(rows),
        answer_round=outcome.best.round,
        history=rows,  # pyright: ignore[reportArgumentType] - a frame when it is read
        recovered=found,
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
    result.apply()
    return result


def _kept(value: Any) -> Any:
    """A value of a Parameter that stays when it is written into."""
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value)


def _known_costs(
    compiled: Decomposition, given: Points, told: Tangents | None
) -> np.ndarray | None:
    """The same from the proof, where what the user gets is what was proved, to rounding."""
    if told is None or not told.objectives.size:
        return None
    there = np.concatenate([given[name] for name in compiled.layout])
    starts = [compiled.columns[name].start for name in compiled.layout]
    sizes = np.maximum.reduceat(np.abs(told.points), starts)[compiled.owners]
    if (np.abs(there - told.points) > NOISE * sizes).any():
        return None
    return told.objectives[[compiled.places[name] for name in compiled]]


def _costs(compiled: Decomposition, given: Points, own: Points, solvers: np.ndarray) -> np.ndarray:
    """What each client minimises at the values that the user gets, as the user's expressions say.

    Where an expression has no value there, as at the edge of the domain of an atom, it counts at
    the client's own copy: that is right as well, but where it is steep, as an inverse matrix is,
    copies that all but agree differ. Last comes the solver's figure, which may be a difference of
    large numbers, or a sum of squares multiplied out, and is all there is of who is at a site.
    """
    found = np.full(len(compiled), np.nan)
    for points in (given, own):
        left = [name for name, cost in zip(compiled, found, strict=True) if not np.isfinite(cost)]
        known = client_costs(compiled, points, left)
        found[[compiled.order[name] for name in left]] = [known[name] for name in left]
    return np.where(np.isfinite(found), found, solvers)


def dual_values(sub: Subproblem, encoding: Encoding, given: np.ndarray) -> tuple[Any, ...]:
    """For each of a client's constraints the values of its cvxpy ``dual_variables``.

    Parameters
    ----------
    sub : Subproblem
    encoding : Encoding
    given : ndarray
        The multipliers.

    Returns
    -------
    tuple
        With cvxpy's signs; empty for a client without constraints, one that was not
        solved, and one whose solver gives no multipliers.
    """
    if not sub.is_constrained or encoding in (Encoding.UNSOLVED, Encoding.ELSEWHERE):
        return ()
    if encoding == Encoding.CONES:
        return sub.cone_duals(given)
    if encoding == Encoding.VALUES:
        return _shaped(sub, given)
    form = sub.form
    if form is None:  # cvxpy alone knows the client, and its solver gives no multipliers
        return ()
    one, two, stop = accumulate(form.heights)
    if given.size < stop:
        return ()
    return sub.local_duals(given[:one], given[one:two], given[two:stop])


def _shaped(sub: Subproblem, given: np.ndarray) -> tuple[Any, ...]:
    found, at = [], 0
    for rule in sub.client.constraints:
        values = []
        for dual in rule.dual_variables:
            values.append(given[at : at + dual.size].reshape(dual.shape, order="F"))
            at += dual.size
        found.append(tuple(values))
    return tuple(found)
