r"""How far a result's multipliers are from supporting the all-in-one solution.

Multipliers are right, whichever of many they are, if every client minimises its Lagrangian at a
solution :math:`x^*`, (A1-2) and (A2-2), and complementary slackness holds. With

.. math:: L_i(y) = f_i(y) \pm \mu^\top (G_i y + g_i) + \lambda_i^\top c_i(y)

what is measured is, in units of the worth V of the objective,

.. math::
    \frac1V \sum_i \Big[ \frac1\delta
    \Big( L_i(x_i^*) - \min_{|y - x_i^*| \le \delta X_i} L_i(y) \Big) + a_i \Big]

where :math:`X_i` are the spreads of :mod:`dald_model.answer.scales`, so that the box has no unit,
and :math:`a_i` is what is amiss with the prices of constraints beyond that
(:func:`dald_model.answer.priced.amiss`). For :math:`\delta \to 0` this is the residual of
stationarity in the dual of the norm that X makes; a small :math:`\delta` sees an error of
multipliers to first order, where a duality gap sees the square of it. It is taken at the AIO
solution and not at the result's, as at a kink a subgradient says nothing a digit away from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.priced import PRICED, amiss, term
from dald_model.answer.rescaling import Measure, Solved, cost_near, minimise
from dald_model.answer.scales import Points, Scales, measures
from dald_model.compile.subproblem import Subproblem
from dald_model.values import flat

NEAR = 1e-3
"""The size of the box relative to the spreads, delta."""
EXACT = 1e-9
"""Relative difference of two sums of the same numbers."""
SOLVERS = ("CLARABEL", "SCS")
"""Who is asked for the minimum in the box, one after the other."""


class Certificate(NamedTuple):
    """The figure, and the client that most of it is from or why there is none."""

    measured: float
    where: str


class _Lagrangian(NamedTuple):
    """A client's Lagrangian, what stays a constraint, and the box."""

    cost: cp.Expression
    kept: list[cp.Constraint]
    box: dict[int, Measure]


def certificate(result: Answer, names: Sequence[Hashable], points: Points, found: Scales):
    """What the multipliers of a result certify at a solution, see the module.

    Parameters
    ----------
    result : Answer
    names : sequence
        The clients that are there.
    points : dict
        Client -> its part of the solution.
    found : Scales
        At that solution.

    Returns
    -------
    Certificate
        NaN, which never passes, where it cannot be computed; infinite where reported dual values
        contradict one another.
    """
    mu = _multipliers(result)
    if mu is None:
        return Certificate(np.inf, "duals and multipliers of an edge contradict one another")
    apart = _apart(result)
    if apart:
        return Certificate(np.inf, apart)
    shares: dict[Hashable, float] = {}
    open_: dict[Hashable, _Lagrangian] = {}
    for name in names:
        sub = result.compiled[name]
        price = sub.sides[0].T @ (sub.signs * mu[sub.entries])
        if sub.client.is_server:
            # L is linear: its least value in the box is known.
            shares[name] = float(np.abs(price) @ found.spreads[name])
            continue
        around = measures(sub, points[name], found.spreads[name])
        rules = list(zip(sub.client.constraints, _shares(result, name), strict=True))
        priced = [(r, s) for r, s in rules if isinstance(r, PRICED)]
        shares[name] = sum(amiss(rule, share, around) for rule, share in priced)
        stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
        terms = [term(rule, share) for rule, share in priced]
        cost = sub.client.cost + price @ (stacked - points[name]) + sum(terms)
        kept = [rule for rule, _ in rules if not isinstance(rule, PRICED)]
        open_[name] = _Lagrangian(cost, kept, _small(sub, points[name], found.spreads[name]))
    for name, decrease in _decreases(open_, NEAR * found.worth).items():
        if not np.isfinite(decrease):
            said = f"the certificate of client {name!r} could not be computed"
            return Certificate(np.nan, said)
        shares[name] += decrease / NEAR
    worst = max(shares, key=lambda name: shares[name])
    return Certificate(sum(shares.values()) / found.worth, f"stationarity, most at {worst!r}")


def _small(sub: Subproblem, point: np.ndarray, spread: np.ndarray) -> dict[int, Measure]:
    return measures(sub, point, NEAR * spread)


def _decreases(given: Mapping[Hashable, _Lagrangian], worth: float) -> dict[Hashable, float]:
    """How far below its value at the centre each Lagrangian falls in its box.

    Clients share no variable, so one problem does for all; one after the other where that fails.
    """
    together = _least(list(given.values()), worth, SOLVERS[0])
    found = {name: _decrease(one, together, worth) for name, one in given.items()}
    for name, one in given.items():
        for solver in SOLVERS:
            if not np.isfinite(found[name]):
                found[name] = _decrease(one, _least([one], worth, solver), worth)
    return found


def _least(given: Sequence[_Lagrangian], worth: float, solver: str) -> Solved:
    if not given:
        return Solved("optimal", 0.0, {}, {})
    box: dict[int, Measure] = {}
    for one in given:
        box |= one.box
    kept = [rule for one in given for rule in one.kept]
    return minimise(sum(one.cost for one in given), kept, box, worth, solver, box=1.0)


def _decrease(one: _Lagrangian, least: Solved, worth: float) -> float:
    if not least.is_optimal:
        return np.nan
    centre = {key: measure.centre for key, measure in one.box.items()}
    spreads = {key: Measure(m.centre, m.spread / NEAR) for key, m in one.box.items()}
    here = cost_near(one.cost, centre, spreads, worth)
    there = cost_near(one.cost, least.values, spreads, worth)
    return max(here - there, 0.0) if np.isfinite(here - there) else np.nan


def _shares(result: Answer, name: Hashable):
    return result.recovered.local_duals[name]


def _apart(result: Answer) -> str:
    """Where the reported dual values are not the sums over the clients; empty where they are."""
    totals: dict[int, np.ndarray] = {}
    sizes: dict[int, np.ndarray] = {}
    for name, client in result.compiled.model.clients.items():
        shares = _shares(result, name)
        if len(shares) < len(client.constraints):
            if name in result.left:
                continue
            return f"client {name!r} has constraints without dual values"
        for rule, share in zip(client.constraints, shares, strict=True):
            one = np.concatenate([flat(part) for part in share])
            totals[rule.id] = totals.get(rule.id, 0.0) + one
            sizes[rule.id] = sizes.get(rule.id, 0.0) + np.abs(one)
    for key, total in totals.items():
        stated = result.duals.by_id.get(key)
        if stated is None:
            return "a constraint has no dual value"
        parts = stated if isinstance(stated, list) else [stated]
        gap = np.abs(np.concatenate([flat(p) for p in parts]) - total)
        if not np.all(gap <= EXACT * sizes[key]):
            return "a dual value is not the sum of those of its clients"
    return ""


def _multipliers(result: Answer) -> np.ndarray | None:
    """The multipliers as one vector; None if duals and multipliers contradict one another."""
    compiled = result.compiled
    mu = np.concatenate([np.asarray(result.multipliers[e.ends], float) for e in compiled.edges])
    for edge in compiled.edges:
        for part in edge.parts:
            if part.agreement.constraint is None:
                continue
            stated = part.sign * flat(result.duals[part.agreement.constraint])
            at = slice(compiled.slots[edge.ends].start + part.start, None)
            held = mu[at][: part.stop - part.start]
            if not np.all(np.abs(stated - held) <= EXACT * np.abs(held)):
                return None
    return mu
