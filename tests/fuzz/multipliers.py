r"""Whether a result's multipliers are right, by a bound of the optimum that they give.

With the Lagrangian :math:`L(x, \mu) = \sum_i f_i(x_i) + \mu^\top \mathcal C(x)` multipliers are
right if its minimum over the clients' sets is the optimum. It is minimised in ordinary units where
the data are, nowhere more than :data:`tests.fuzz.reference.SPREAD` from the optimum: multipliers
that are off by a rounding would give :math:`-\infty` where an objective is linear.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.fuzz.case import Case
from tests.fuzz.reference import Reference, solved


def dual_gap(case: Case, known: Reference, result: dm.Result) -> float:
    """By how much the bound falls short of the optimum; NaN where it cannot be found."""
    scale = case.units.variable / case.units.objective
    if case.links:
        return known.value - _of_links(known, result, scale)
    return known.value - _of_shared(known, result, scale)


def _of_links(known: Reference, result: dm.Result, scale: float) -> float:
    """Clients have variables of their own, so that one problem minimises for each by itself."""
    given = [one.constraint for one in result.compiled.model.agreements]
    goal = sum(known.costs.values())
    for equality, constraint in zip(known.equalities, given, strict=True):
        assert constraint is not None
        price = scale * np.asarray(result.duals[constraint])
        goal += cp.sum(cp.multiply(price, equality.args[0] - equality.args[1]))
    rules = [rule for mine in (*known.rules.values(), *known.near.values()) for rule in mine]
    status, value = solved(cp.Problem(cp.Minimize(goal), rules), "CLARABEL")
    return value if status.startswith("optimal") else np.nan


def _of_shared(known: Reference, result: dm.Result, scale: float) -> float:
    """All clients have copies of one variable; a server has but a copy."""
    shared = known.variables["y0"]
    flat = cp.vec(shared, order="F") if shared.shape else cp.reshape(shared, (1,), order="F")
    prices: dict[Hashable, Any] = {}
    for (tail, head), mu in result.multipliers.items():
        if mu.size != flat.size:
            return np.nan  # structured: in entries of the package's own
        prices[tail] = prices.get(tail, 0.0) + scale * mu
        prices[head] = prices.get(head, 0.0) - scale * mu
    total = 0.0
    for name, price in prices.items():
        goal, rules = price @ flat, list(known.near["y0"])
        if name in known.costs:
            goal += known.costs[str(name)]
            rules += known.rules[str(name)]
            rules += known.near_of(known.costs[str(name)])
        status, value = solved(cp.Problem(cp.Minimize(goal), rules), "CLARABEL")
        total += value if status.startswith("optimal") else np.nan
    return total
