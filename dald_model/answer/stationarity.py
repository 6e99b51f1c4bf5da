r"""How far a result's multipliers are from supporting the all-in-one solution.

Multipliers are right, whichever of many they are, if every client minimises its Lagrangian at a
solution :math:`x^*`, (A1-2) and (A2-2), and complementary slackness holds. With

.. math:: L_i(y) = f_i(y) \pm \mu^\top (G_i y + g_i) + \lambda_i^\top c_i(y)

what is measured is the largest over the clients of

.. math::
    \frac1{W_i} \Big[ \frac{m_i(\delta_0) - m_i(\delta_1)}{\delta_1 - \delta_0} + a_i \Big],
    \qquad m_i(\delta) = \min_{\|(y - x_i^*) / X_i\|_1 \le \delta} L_i(y),
    \qquad W_i = \max \Big( \max_e |p_{i,e}| X_{i,e}, \; \frac V N \Big)

where :math:`X_i` are the spreads and V the worth of :mod:`dald_model.answer.scales`, so that
nothing has a unit, :math:`p_i = \pm G_i^\top \mu` what the multipliers charge the client (of a
server, whose charges cancel, what each of its clients pays), N the number of variables of all
clients, and :math:`a_i` what is amiss with the prices of the client's constraints beyond that
(:func:`dald_model.answer.priced.amiss`).

For small :math:`\delta` the quotient is the largest entry of :math:`X_i \circ \nabla L_i`, so
:math:`W_i` makes it a relative error of the multipliers, of one client and one entry among
thousands as of all, and sees it to first order, where a duality gap sees the square of it. What
goes on within :math:`\delta_0` is left out: a kink that the AIO solution misses by a digit has
another gradient there. So an error of a price passes where the client would answer it by a move
below :math:`\delta_0` of its spread. Where a subgradient at the solution bounds the quotient by far
less than is allowed (:mod:`dald_model.answer.subgradient`), as where clients are smooth, it is what
is told, and nothing is minimised; nor is it within :math:`\delta_0` where :math:`L_i(x_i^*)` in the
place of :math:`m_i(\delta_0)`, which is no larger, is enough.

A slope is what two solves differ by, and of a client that solvers leave inaccurate, or that has a
constraint without a price, whose violations of 1e-6 are a slope within so small a ball, it is not
resolved; unless the point that a solver found within :math:`\delta_1` is lower than a subgradient g
lets any be within :math:`\delta_0`, by :math:`m_i(\delta_0) \ge L_i(x_i^*) - \delta_0 \|X_i \circ
g\|_\infty`, however inaccurate the solver calls itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.priced import amiss, is_free, is_priced, stated, term
from dald_model.answer.rescaling import Solved, cost_near, minimise
from dald_model.answer.scales import Points, Scales, measures
from dald_model.answer.subgradient import steepest
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import limits, unique_variables
from dald_model.solvers.exact.average import Average
from dald_model.values import flat

SERVER = Average()
RADII = (1e-4, 1e-3)
"""How far from the solution the Lagrangians are minimised, in spreads."""
PLAIN = 0.1
"""Share of what is allowed up to which the bound by a subgradient is all that is asked for."""
EXACT = 1e-9
"""Relative difference of two sums of the same numbers."""
SOLVERS = ("CLARABEL", "SCS")
"""Who is asked for the minimum near by, one after the other."""


class Support(NamedTuple):
    """The figure, the client that most of it is from or why there is none, and if it is resolved.

    Where it is not, solvers say too little to call the multipliers wrong.
    """

    measured: float
    where: str
    is_resolved: bool = True


class _Lagrangian(NamedTuple):
    """A client's Lagrangian, what stays a constraint, the solution and the spreads.

    ``own`` is the Lagrangian without what the multipliers charge, whose slopes are ``charges``.
    """

    cost: cp.Expression
    own: cp.Expression
    charges: dict[int, np.ndarray]
    kept: list[cp.Constraint]
    around: dict[int, Measure]


def certificate(
    result: Answer, names: Sequence[Hashable], points: Points, found: Scales, allowed: float
) -> Support:
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
    allowed : float
        The figure that is allowed: what a subgradient bounds by much less is not minimised.

    Returns
    -------
    Support
        NaN, which never passes, where it cannot be computed; infinite where reported dual values
        contradict one another.
    """
    mu = _multipliers(result)
    if mu is None:
        return Support(np.inf, "duals and multipliers of an edge contradict one another")
    apart = _apart(result)
    if apart:
        return Support(np.inf, apart)
    shares: dict[Hashable, float] = {}
    sizes: dict[Hashable, float] = {}
    given: dict[Hashable, _Lagrangian] = {}
    unpriced: set[Hashable] = set()
    least = found.worth / sum(points[name].size for name in names)
    for name in names:
        sub, spread = result.compiled[name], found.spreads[name]
        price = sub.sides[0].T @ (sub.signs * mu[sub.entries])
        charged = float((np.abs(_met(sub, price)) * spread).max())
        sizes[name] = max(least, charged)
        if not SERVER.refuses(sub):
            # L is linear, and zero if its clients' multipliers cancel: an error is one of these
            reaches = abs(sub.sides[0]) @ spread
            sizes[name] = max(least, float((np.abs(mu[sub.entries]) * reaches).max()))
            shares[name] = charged
            continue
        around = measures(sub, points[name], spread)
        rules = list(zip(sub.client.constraints, _shares(result, name), strict=True))
        priced = [(r, s) for r, s in rules if is_priced(r)]
        shares[name] = sum(amiss(rule, share, around) for rule, share in priced)
        free = {rule.id for rule, share in priced if is_free(rule, share, around, least)}
        terms = [term(rule, share) for rule, share in priced if rule.id not in free]
        kept = [one for rule, _ in rules if not is_priced(rule) for one in stated(rule)]
        if kept:
            unpriced.add(name)
        kept += [edge for rule, _ in priced if rule.id in free for edge in limits(rule.expr)]
        given[name] = _lagrangian(sub, price, terms, kept, points[name], spread)
    bounds: dict[Hashable, float] = {}
    for name, one in list(given.items()):
        if _has_kinks(result.compiled[name]):
            continue
        bound = bounds[name] = steepest(one.own, one.charges, one.around, RADII[1])
        if shares[name] + bound <= PLAIN * allowed * sizes[name]:
            shares[name] += bound
            del given[name]
    # The solution itself is no worse than the least near by, which a solver may miss
    here = {
        name: cost_near(one.cost, {k: m.centre for k, m in one.around.items()}, one.around, least)
        for name, one in given.items()
    }
    outer, vague = _near(given, RADII[1], least)
    for name in list(given):  # it takes the place of the least within the inner radius, as a bound
        bound = max(here[name] - outer[name], 0.0) / (RADII[1] - RADII[0])
        if shares[name] + bound <= PLAIN * allowed * sizes[name]:
            shares[name] += bound
            del given[name]
    inner, also_vague = _near(given, RADII[0], least)
    vague |= also_vague | unpriced
    for name in given:
        gained = (np.fmin(inner[name], here[name]) - outer[name]) / (RADII[1] - RADII[0])
        if not np.isfinite(gained):
            said = f"the certificate of client {name!r} could not be computed"
            return Support(np.nan, said, is_resolved=False)
        shares[name] += max(gained, 0.0)
    relative = {name: share / sizes[name] for name, share in shares.items()}
    worst = max(relative, key=relative.__getitem__)
    is_resolved = any(relative[name] > allowed for name in relative.keys() - vague)
    if not is_resolved:
        # Whatever a solver says of its minimum it has found a point as low as that
        radius, further = RADII[0], RADII[1] - RADII[0]
        for name in given.keys() & bounds.keys() - unpriced:
            gained = (here[name] - radius * bounds[name] - outer[name]) / further
            is_resolved |= bool(gained > allowed * sizes[name])
    return Support(relative[worst], f"stationarity at {worst!r}", is_resolved)


def _has_kinks(sub: Subproblem) -> bool:
    """Whether a client is known to have kinks, where one subgradient says little."""
    form = sub.form
    return form is not None and any(not (t.is_smooth or t.is_set) for t in form.terms)


def _met(sub: Subproblem, price: np.ndarray) -> np.ndarray:
    """What of a price is ever paid: of a symmetric matrix its symmetric part, however large it is.

    Prices of consensus of all entries may differ by any skew matrix.
    """
    parts = sub.spread(price)
    return np.concatenate(
        [
            flat((part + part.T) / 2 if v.is_symmetric() and part.ndim == 2 else part)
            for v, part in zip(sub.variables, parts.values(), strict=True)
        ]
    )


def _lagrangian(
    sub: Subproblem,
    price: np.ndarray,
    terms: list[Any],
    kept: list[cp.Constraint],
    point: np.ndarray,
    spread: np.ndarray,
) -> _Lagrangian:
    stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    own = sub.client.cost + sum(terms)
    cost = own + price @ (stacked - point)
    charges = {key: flat(part) for key, part in sub.spread(price).items()}
    return _Lagrangian(cost, own, charges, kept, measures(sub, point, spread))


def _near(
    given: Mapping[Hashable, _Lagrangian], radius: float, worth: float
) -> tuple[dict[Hashable, float], set[Hashable]]:
    """The least value of each Lagrangian within a radius of the solution, and whose are inaccurate.

    Clients share no variable, so one problem does for all; one after the other where that fails.
    """
    together = _least(list(given.values()), radius, worth, SOLVERS[0])
    found = {name: _value(one, together, worth) for name, one in given.items()}
    vague = set(given) if together.status != "optimal" else set()
    for name, one in given.items():
        for solver in SOLVERS:
            if not np.isfinite(found[name]):
                alone = _least([one], radius, worth, solver)
                found[name] = _value(one, alone, worth)
                is_accurate = alone.status == "optimal" and solver == SOLVERS[0]
                vague = vague - {name} if is_accurate else vague | {name}
    return found, vague


def _least(given: Sequence[_Lagrangian], radius: float, worth: float, solver: str) -> Solved:
    if not given:
        return Solved("optimal", 0.0, {}, {})
    units: dict[int, Measure] = {}
    rules: list[cp.Constraint] = []
    for one in given:
        units |= {k: Measure(m.centre, radius * m.spread) for k, m in one.around.items()}
        away = [
            cp.norm1(cp.multiply(1 / units[v.id].spread, v - units[v.id].centre))
            for v in unique_variables([one.cost, *one.kept])
        ]
        rules += [*one.kept, sum(away) <= 1.0]
    cost: Any = sum([one.cost for one in given])
    return minimise(cost, rules, units, radius * worth, solver)


def _value(one: _Lagrangian, least: Solved, worth: float) -> float:
    """The value there; what a solver's tolerance leaves outside of a declaration is no gain."""
    if not least.is_optimal:
        return np.nan
    declared = {v.id: v.project(least.values[v.id]) for v in one.cost.variables()}
    return cost_near(one.cost, declared, one.around, worth)


def _shares(result: Answer, name: Hashable):
    return result.recovered.local_duals[name]


def _apart(result: Answer) -> str:
    """Where the reported dual values are not the sums over the clients; empty where they are."""
    totals: dict[int, np.ndarray] = {}
    sizes: dict[int, np.ndarray] = {}
    for name, client in result.compiled.model.stated.items():
        if name not in result.compiled:  # a coupling that is an edge
            continue
        shares = _shares(result, name)
        if len(shares) < len(client.constraints):
            if name in result.left:
                continue
            return f"{client.kind} {name!r} has constraints without dual values"
        # Bounds that the compiler added for couplings come last and are nobody's
        for rule, share in zip(client.constraints, shares, strict=False):
            one = np.concatenate([flat(part) for part in share])
            if not is_priced(rule) and np.isnan(one).all():
                continue  # cvxpy has no dual values of it
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
