"""Violations of constraints and declarations at a result's values, in units of their reach."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import Equality, Inequality, is_approximated
from dald_model.answer.reference import Reference, Task
from dald_model.answer.rescaling import minimise
from dald_model.answer.rows import ROUNDING, Row, Worst, relative
from dald_model.answer.scales import measures, reach
from dald_model.compile.measures import Measure
from dald_model.declare.wording import short
from dald_model.values import entries, flat, preserved, violated

DIGITS = 1e-9
"""Share of spreads that no value is known to. At the edge of its domain a divergence is so steep
that a point so near to one that meets it breaks it by a tenth of its reach: that is called met."""


def violation(given: Task, made: Reference, allowed: float) -> Row:
    """The worst violation at the result's values, and of a client's rules at the client's own."""
    assert made.scales is not None
    result = given.result
    worst = broken(given, made, given.values)
    around = given.measures(made.values, made.scales)
    for name, client in result.compiled.model.clients.items():
        if name in result.left:
            continue
        own, near = result.recovered.at_clients[name], around
        if client.constraints and (result.left or result.dropped):
            near = _own_measures(given, made, name)
        for rule in client.constraints:
            share = _broken(rule, own, near)
            worst.meets(share, f"{short(rule, 40)} at {name!r}")
    return worst.row("constraint violation", allowed)


def broken(given: Task, made: Reference, values: Mapping[int, Any]) -> Worst:
    """The worst violation of the AIO problem's constraints and attributes at some values."""
    assert made.scales is not None
    worst = Worst()
    around = given.measures(made.values, made.scales)
    for rule in given.problem.constraints:
        worst.meets(_broken(rule, values, around, made.reaches), short(rule, 40))
    for v in given.problem.variables():
        worst.meets(_outside(v, values[v.id], around[v.id]), f"attributes of {v.name()}")
    return worst


def _own_measures(given: Task, made: Reference, name: Hashable) -> dict[int, Measure]:
    """Of the user's variables at one client, where the problem is over the clients' copies."""
    assert made.scales is not None
    sub = given.result.compiled[name]
    point = given.split(made.values)[name]
    local = measures(sub, point, made.scales.spreads[name])
    homes = given.result.compiled.form.homes
    return {key: local[mine[name].id] for key, mine in homes.items() if name in mine}


def _scale(rule: Any, around: Mapping[int, Measure]) -> np.ndarray:
    """The reach of each entry of a constraint."""
    return reach(
        [rule.expr] if isinstance(rule, Inequality | Equality) else list(rule.args), around
    )


def known(rule: Any, around: Mapping[int, Measure], reaches: dict[int, np.ndarray]) -> np.ndarray:
    """The same, found once for all rows that are held against one solution."""
    if rule.id not in reaches:
        reaches[rule.id] = _scale(rule, around)
    return reaches[rule.id]


def _broken(
    rule: Any,
    values: Mapping[int, Any],
    around: Mapping[int, Measure],
    reaches: dict[int, np.ndarray] | None = None,
) -> float:
    """The violation of a constraint, in units of its reach; as cvxpy writes it, of spreads."""
    if not all(np.isfinite(flat(values[v.id])).all() for v in rule.variables()):
        return float("nan")
    if is_approximated(rule):
        return _away(rule, values, around)
    gap = _gap(rule, values)
    if not gap.any():
        return 0.0
    if not np.isfinite(gap).all():
        return _away(rule, values, around)
    scale = _scale(rule, around) if reaches is None else known(rule, around, reaches)
    share = relative(gap, scale if gap.size == scale.size else scale.max(initial=0.0))
    if share <= DIGITS:
        return share
    beside = _gap(rule, _beside(rule, values, around))
    return DIGITS if not beside.any() else share


def _gap(rule: Any, values: Mapping[int, Any]) -> np.ndarray:
    """The violation of a constraint by more than rounding."""
    # cvxpy divides by the size of a cone's argument even where that is zero.
    with preserved(rule.variables()), np.errstate(all="ignore"):
        for v in rule.variables():
            v.save_value(values[v.id])
        gap = violated(rule)
        return np.maximum(gap - ROUNDING * _size(rule, gap.size), 0.0)


def _beside(
    rule: Any, values: Mapping[int, Any], around: Mapping[int, Measure]
) -> dict[int, np.ndarray]:
    """Values with every entry moved towards the all-in-one solution, by ``DIGITS`` at most."""
    found = {}
    for v in rule.variables():
        value, (centre, spread) = np.asarray(values[v.id], float), around[v.id]
        found[v.id] = value + np.clip(centre - value, -DIGITS * spread, DIGITS * spread)
    return found


def _size(rule: Any, count: int) -> np.ndarray:
    """The size of the terms that each entry compares, by which the difference is rounded."""
    terms = [term for arg in rule.args for term in (arg, *arg.args)]
    known = [_summands(one) for one in terms if isinstance(one, cp.Expression) and one.size]
    sizes = [np.abs(np.nan_to_num(one)) for one in known if one.size in (1, count)]
    return np.max([np.broadcast_to(size, count) for size in sizes] or [np.zeros(count)], axis=0)


def _summands(term: cp.Expression) -> np.ndarray:
    """The size of each entry of a term; of a product of matrices that of what it is the sum of."""
    found = entries(term)
    if type(term) is not cp.MulExpression or not np.isfinite(found).all():
        return found
    values: Any = [one.value for one in term.args]
    left, right = (abs(value) for value in values)  # sparse ones stay so
    return flat(left @ right)


def _away(rule: Any, values: Mapping[int, Any], around: Mapping[int, Measure]) -> float:
    """How many spreads a point is from what solvers take a constraint for; NaN if not known."""
    away = cp.Variable(nonneg=True)
    spreads = {
        v.id: Measure(np.asarray(values[v.id], float), around[v.id].spread)
        for v in rule.variables()
    }
    near = [
        cp.abs(cp.multiply(1 / spreads[v.id].spread, v - spreads[v.id].centre)) <= away
        for v in rule.variables()
    ]
    found = minimise(away, [rule, *near], spreads)
    return found.value if found.is_optimal else float("nan")


def _outside(variable: cp.Variable, value: Any, measure: Measure) -> float:
    """How far a value is from the attributes that a variable was declared with, in spreads."""
    value = np.asarray(value, dtype=float)
    if not np.isfinite(value).all():
        return float("nan")
    return relative(flat(variable.project(value)) - flat(value), measure.spread)
