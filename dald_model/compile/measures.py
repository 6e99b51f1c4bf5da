r"""Expressions in other units, :math:`x = \bar x + X \circ z`, over variables z of order one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import with_parts
from dald_model.values import REFUSALS

SIGNS = ("nonneg", "nonpos", "pos", "neg")
CONES = ("PSD", "NSD", "diag")


class Measure(NamedTuple):
    """Where a variable is measured from, and in what units; both of the variable's shape."""

    centre: np.ndarray
    spread: np.ndarray


def measured(
    cost: cp.Expression,
    rules: Sequence[cp.Constraint],
    variables: Sequence[cp.Variable],
    measures: Mapping[int, Measure],
) -> tuple[dict[int, cp.Expression], cp.Expression, list[cp.Constraint]]:
    """Cost and rules over new variables, and the old ones as expressions of the new.

    Variables in an atom that takes no expression for them, such as ``perspective``, stay as they
    are; and all, with nothing new, where there is no measure, or an expression cannot be written in
    other variables all the same.
    """
    same: dict[int, cp.Expression] = {v.id: v for v in variables}
    if not measures:
        return same, cost, list(rules)
    swaps = {v.id: _variable(v, measures[v.id]) if v.id in measures else v for v in variables}
    for kept in (set(), _held([cost, *rules])):
        instead = {v.id: v if v.id in kept else swaps[v.id] for v in variables}
        names = {id(v): instead[v.id] for v in variables}
        try:
            goal = with_parts(cost, names)
            held = [with_parts(rule, names) for rule in rules]
            if goal.is_convex() and all(rule.is_dcp() for rule in held):
                return instead, goal, held
        except REFUSALS:
            pass
    return same, cost, list(rules)


def _held(parts: Sequence[Any]) -> set[int]:
    """The variables, by id, of the atoms that take no expressions for them."""
    found: set[int] = set()
    for part in parts:
        if isinstance(part, cp.perspective):
            found.update(v.id for v in part.variables())
        else:
            found |= _held(part.args)
    return found


def _variable(variable: cp.Variable, measure: Measure) -> cp.Expression:
    """The variable as an expression of a new one that has the same attributes.

    A variable with a sign keeps its origin, and a semidefinite one has one unit for all entries:
    cvxpy's rules of convexity may rest on these attributes.
    """
    kept = {k: v for k, v in variable.attributes.items() if v is not None and v is not False}
    if any(kept.get(name) for name in SIGNS) and len(kept) == 1:
        return cp.multiply(measure.spread, cp.Variable(variable.shape, **kept))
    if any(kept.get(name) for name in CONES) and len(kept) == 1:
        return float(measure.spread.max()) * cp.Variable(variable.shape, **kept)
    if kept.get("bounds") is not None and len(kept) == 1:
        within = [(bound - measure.centre) / measure.spread for bound in kept["bounds"]]
        inner = cp.Variable(variable.shape, bounds=within)
        return measure.centre + cp.multiply(measure.spread, inner)
    if kept.get("symmetric") and len(kept) == 1:
        centre, spread = ((a + a.T) / 2 for a in measure)
        return centre + cp.multiply(spread, cp.Variable(variable.shape, symmetric=True))
    if kept:
        return variable
    return measure.centre + cp.multiply(measure.spread, cp.Variable(variable.shape))
