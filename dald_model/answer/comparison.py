"""Comparisons of a result with the all-in-one solution, each a row of a verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.answer.priced import is_priced, term
from dald_model.answer.reference import Reference, Task
from dald_model.answer.rescaling import cost_near
from dald_model.answer.rows import ROUNDING, Row, Worst, relative
from dald_model.answer.scales import Scales
from dald_model.answer.violations import known
from dald_model.declare.client import limits
from dald_model.declare.wording import short
from dald_model.values import evaluated, flat, holding, is_inside, largest, preserved, violated

NUDGES = (0.0, 1e-15, -1e-15)
"""Shares of spreads that values are moved by, all of them, to be inside a domain."""
ASIDE = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Shares of the way to the all-in-one solution that they are moved by where that is not enough."""
MODULUS = 0.1
"""Of strong convexity in units of worth and spreads, from which a distance is judged: a gap of
1e-8, which a solver leaves, is then a distance below 5e-4."""
EIGENVALUES = 400
"""Variables of a client up to which its modulus is computed."""


def objective(given: Task, made: Reference) -> float:
    """The user's objective at the result's values.

    Values that are outside of its domain by a rounding error are moved by one; by a digit, a
    millionth of the way to the all-in-one solution, or more: no convex objective is above both ends
    there. Where that is outside as well, what counts is the least value near by, which a steep one
    undercuts.
    """
    assert made.scales is not None
    domain, variables = limits(given.cost), given.cost.variables()
    at = given.measures(given.values, made.scales)
    rounded = [{v: share * at[v.id].spread for v in variables} for share in NUDGES]
    aside = [
        {v: share * (made.values[v.id] - given.values[v.id]) for v in variables} for share in ASIDE
    ]
    for moves in (*rounded, *aside):
        moved = {v: given.values[v.id] + moves[v] for v in variables}
        with holding(moved.items()), np.errstate(all="ignore"):
            cost = evaluated(given.cost) if is_inside(domain) else np.nan
        if np.isfinite(cost):
            return given.result.compiled.sense * cost
    cost = cost_near(given.cost, given.values, at, made.scales.worth)
    return given.result.compiled.sense * cost


def consensus(given: Task, found: Scales, allowed: float) -> Row:
    """How far the ends of edges, and the clients from the result's values, are apart."""
    result, compiled = given.result, given.result.compiled
    worst = Worst()
    sides = compiled.sides(compiled.gather(result.recovered))
    reaches = _reaches(given, found)
    gaps = np.maximum(np.abs(sides[0] - sides[1]) - ROUNDING * np.abs(sides).max(axis=0), 0.0)
    for edge in compiled.edges:
        part = compiled.slots[edge.ends]
        if not given.off[part].any():
            worst.meets(relative(gaps[part], reaches[part]), f"edge {edge.tail!r} - {edge.head!r}")
    if result.left or result.dropped:
        # Who left, or who can be apart from others, need not have the value of the variable.
        return worst.row("consensus violation", allowed)
    names = {v.id: v for v in given.problem.variables()}
    spreads = given.measures(result.recovered.values, found)
    for name, own in result.recovered.at_clients.items():
        for key, value in own.items():
            if key not in names:
                continue
            agreed = flat(result.recovered.values[key])
            gap = np.abs(flat(value) - agreed) - ROUNDING * np.abs(agreed)
            share = relative(np.maximum(gap, 0.0), spreads[key].spread)
            worst.meets(share, f"{names[key].name()} at {name!r} against the result's value")
    return worst.row("consensus violation", allowed)


def _reaches(given: Task, found: Scales) -> np.ndarray:
    """How far the larger of the two sides of each entry of an edge moves over the spreads."""
    compiled = given.result.compiled
    most = np.zeros(compiled.size)
    for name, spread in found.spreads.items():
        sub = compiled[name]
        np.maximum.at(most, sub.entries, abs(sp.csr_array(sub.sides[0])) @ spread)
    return most


def unique(given: Task, made: Reference, allowed: float) -> list[Row]:
    r"""The distance of the variables that only one point is optimal for, if there are any.

    Where a client's objective has a quadratic part :math:`\tfrac12 x^\top P x` with
    :math:`X P X \succeq 0.1 V`, every feasible point within a gap of :math:`\epsilon V` of the
    optimum is within :math:`\sqrt{20 \epsilon}` spreads of it in all of this client's variables,
    and in all that consensus ties to these. So far away may an AIO solution be by its own fault
    that is worse than the result by :math:`\epsilon V`, counting what either breaks at prices.
    """
    found = made.scales
    assert found is not None
    worse = given.result.compiled.sense * (made.value - objective(given, made))
    worse += _charged(given, made) - explained(given, made)
    if worse > 0:  # which is not known of a constraint that cvxpy has no dual value of
        allowed += float(np.sqrt(2 / MODULUS * worse / found.worth))
    compiled, ties = given.result.compiled, given.live
    certain = np.zeros(ties.many, dtype=bool)
    for name, place in ties.columns.items():
        form = compiled[name].form
        if form is None or not form.valued or form.size > EIGENVALUES:
            continue
        spread = found.spreads[name]
        matrix = spread[:, None] * form.quadratic.full * spread / found.worth
        if matrix.any() and np.linalg.eigvalsh(matrix)[0] >= MODULUS:
            certain[ties.classes[place]] = True
    if not certain.any():
        return []
    worst, ours = Worst(), given.split(given.values)
    for name, point in given.split(made.values).items():
        mine = certain[ties.classes[ties.columns[name]]]
        share = np.abs(ours[name] - point) / found.spreads[name]
        worst.meets(float(share[mine].max(initial=0.0)), f"variables of {name!r}")
    return [worst.row("distance where unique", allowed)]


def distances(given: Task, made: Reference) -> list[Row]:
    """Distances of multipliers and of the solution from the AIO solve's, told but not judged."""
    assert made.scales is not None
    around = given.measures(made.values, made.scales)
    rows = []
    if given.problem.constraints:
        worst = Worst()
        for rule in given.problem.constraints:
            ours, theirs = given.result.duals.by_id.get(rule.id), made.duals.get(rule.id)
            if ours is not None and theirs is not None:
                gap = largest(_flat(ours) - _flat(theirs))
                most = known(rule, around, made.reaches).max(initial=0.0)
                worst.meets(gap * most / made.scales.worth, short(rule, 40))
        rows.append(worst.row("multiplier distance", None))
    worst = Worst()
    for v in given.problem.variables():
        gap = flat(given.values[v.id]) - flat(made.values[v.id])
        worst.meets(relative(gap, around[v.id].spread), short(v, 40))
    return [*rows, worst.row("solution distance", None)]


def explained(given: Task, made: Reference) -> float:
    r"""How much lower than the optimum a point may be for breaking constraints by as much.

    By weak duality :math:`F(x) \ge F^* - \sum_k |\lambda_k| v_k` for every point with violations
    :math:`v_k`, with the multipliers of the AIO solve.
    """
    total = 0.0
    with preserved(given.problem.variables()), np.errstate(all="ignore"):
        for v in given.problem.variables():
            v.save_value(given.values[v.id])
        for rule in given.problem.constraints:
            if rule.id in made.duals:
                total += largest(violated(rule)) * np.abs(_flat(made.duals[rule.id])).sum()
    return float(total)


def _charged(given: Task, made: Reference) -> float:
    """What the result's multipliers charge the all-in-one solution for what it breaks.

    Those of a solver that breaks constraints are no better than it; these are judged by themselves.
    """
    total = 0.0
    with preserved(given.problem.variables()), np.errstate(all="ignore"):
        for v in given.problem.variables():
            v.save_value(made.values[v.id])
        for rule in given.problem.constraints:
            price = given.result.duals.by_id.get(rule.id)
            if price is not None and is_priced(rule):
                share = tuple(price) if isinstance(price, list) else (price,)
                total += evaluated(term(rule, share))
    return total if np.isfinite(total) else 0.0


def _flat(value: Any) -> np.ndarray:
    parts = value if isinstance(value, list) else [value]
    return np.concatenate([flat(part) for part in parts])
