r"""The duality gap that a result's own multipliers certify."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import Equality, Inequality
from dald_model.answer.answer import Answer
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.exact.average import Average
from dald_model.values import flat, largest, number, preserved

PRICED = (
    Inequality,
    Equality,
    cp.Zero,
    cp.NonNeg,
    cp.PSD,
    cp.SOC,
    cp.ExpCone,
    cp.PowCone3D,
)
"""Constraints whose dual value enters the Lagrangian; any other stays a constraint."""
SERVER = Average()
REACH = 1e-4
"""How far outside its cone a dual value may be, relative to its size."""


def dual_gap(result: Answer) -> float:
    r"""The duality gap of the point and the multipliers; 0 at a primal-dual optimum.

    .. math::
        \sum_i \Big[ f_i(x_i) \pm \mu^\top (G_i x_i + g_i)
        - \min_{\|y - x_i\|_\infty \le R_i} L_i(y) \Big] + |\mu^\top \mathcal C|, \qquad
        L_i(y) = f_i(y) \pm \mu^\top (G_i y + g_i) + \lambda_i^\top c_i(y)

    with :math:`\lambda_i` the result's dual values of the client's own constraints and
    :math:`R_i = 1 + \|x_i\|_\infty`. By convexity a point is optimal for its Lagrangian if it is
    so within a box, and the box keeps the minimum finite for multipliers that are right to a few
    digits only. If the gap is zero then stationarity (A1-2) or (A2-2), and complementary
    slackness, hold. Infinite where a dual value lies outside its cone.
    """
    compiled = result.compiled
    mu = _multipliers(result)
    if mu is None or not _shares_add_up(result):
        return np.inf
    points = compiled.gather(result.recovered)
    sides = compiled.sides(points)
    total = abs(float(mu @ (sides[0] - sides[1])))
    for name, sub in compiled.items():
        if name in result.left:
            continue
        point = points[name]
        price = sub.sides[0].T @ (sub.signs * mu[sub.entries])
        if not SERVER.refuses(sub):
            # L is linear: its least value in the box is known.
            total += (1 + np.abs(point).max()) * np.abs(price).sum()
            continue
        share = _client_gap(result, name, sub, point, price)
        if not np.isfinite(share):
            return np.inf
        total += share
    return float(total)


def _client_gap(
    result: Answer,
    name: Hashable,
    sub: Subproblem,
    point: np.ndarray,
    price: np.ndarray,
) -> float:
    stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    lagrangian = sub.client.cost + price @ stacked
    kept = [cp.abs(stacked - point) <= 1 + np.abs(point).max()]
    shares = result.recovered.local_duals[name]
    for rule, share in zip(sub.client.constraints, shares, strict=True):
        if not isinstance(rule, PRICED):
            kept.append(rule)
        elif _outside(rule, share):
            return np.inf
        else:
            lagrangian = lagrangian + _priced(rule, share)
    problem = cp.Problem(cp.Minimize(lagrangian), kept)
    with preserved([*sub.variables, *(d for rule in kept for d in rule.dual_variables)]):
        for v, value in zip(sub.variables, sub.spread(point).values(), strict=True):
            v.save_value(value)
        here = number(sub.client.cost.value) + float(price @ point)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return np.nan
    if problem.status not in ("optimal", "optimal_inaccurate"):
        return np.nan
    return max(here - number(problem.value), 0.0)


def _priced(rule: Any, share: tuple[Any, ...]) -> Any:
    """The constraint's term of the Lagrangian, with cvxpy's sign conventions."""
    if isinstance(rule, Inequality):
        return cp.scalar_product(np.maximum(share[0], 0.0), rule.expr)
    if isinstance(rule, Equality | cp.Zero):
        return cp.scalar_product(share[0], rule.expr)
    return -cp.scalar_product(rule.args, list(share))


def _outside(rule: cp.Constraint, share: tuple[Any, ...]) -> bool:
    """Whether a dual value is outside its cone by more than 1e-4 of its size."""
    size = max(1.0, *map(largest, share))
    if isinstance(rule, Inequality):
        return bool(np.min(share[0]) < -REACH * size)
    if not isinstance(rule, cp.Cone):
        return False
    # cvxpy divides by the size of a cone's argument even where that is zero.
    with preserved(rule.dual_variables), np.errstate(divide="ignore", invalid="ignore"):
        for variable, value in zip(rule.dual_variables, share, strict=True):
            variable.save_value(value)
        return bool(np.max(rule.dual_residual) > REACH * size)


def _shares_add_up(result: Answer) -> bool:
    """Whether the reported dual values are the sums over the clients."""
    totals: dict[int, np.ndarray] = {}
    for name, client in result.compiled.model.clients.items():
        shares = result.recovered.local_duals[name]
        if len(shares) < len(client.constraints):
            if name in result.left:
                continue
            return False
        for rule, share in zip(client.constraints, shares, strict=True):
            one = np.concatenate([flat(part) for part in share])
            totals[rule.id] = totals.get(rule.id, 0.0) + one
    for key, total in totals.items():
        stated = result.duals.by_id.get(key)
        parts = stated if isinstance(stated, list) else [stated]
        if stated is None or not np.allclose(np.concatenate([flat(p) for p in parts]), total):
            return False
    return True


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
            if not np.allclose(stated, mu[at][: part.stop - part.start]):
                return None
    return mu
