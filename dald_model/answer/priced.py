"""Constraints with a price on them: their terms of the Lagrangian, and what is amiss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import Equality, Inequality, has_domain, is_approximated
from dald_model.answer.scales import reach
from dald_model.compile.measures import Measure
from dald_model.declare.client import limits
from dald_model.values import entries, flat, preserved

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
"""Constraints whose dual value may enter the Lagrangian."""

EXACT = 1e-12
"""Relative difference of exponents that are the same."""
NOTHING = 1e-9
"""Share of a worth that is none of it."""

Share = tuple[Any, ...]
"""Values of a constraint's ``dual_variables``."""


def is_priced(rule: Any) -> bool:
    """Whether a constraint's dual value enters the Lagrangian; any other stays a constraint."""
    return isinstance(rule, PRICED) and not is_approximated(rule)


def term(rule: Any, share: Share) -> Any:
    """The constraint's term of the Lagrangian, with cvxpy's sign conventions."""
    if not rule.size:
        return cp.Constant(0.0)
    if isinstance(rule, Inequality):
        return cp.scalar_product(np.maximum(share[0], 0.0), rule.expr)
    if isinstance(rule, Equality | cp.Zero):
        return cp.scalar_product(share[0], rule.expr)
    return -cp.scalar_product(rule.args, list(share))


def stated(rule: Any) -> list[Any]:
    r"""A constraint without a price, said so that solvers take it.

    Clarabel panics over ``PowConeND`` near its apex: :math:`\prod_k W_k^{\alpha_k} \ge |z|` is
    said by geometric means, as far as they are exact.
    """
    if not isinstance(rule, cp.PowConeND) or not rule.alpha.is_constant():
        return [rule]
    W, alpha = rule.W, np.asarray(rule.alpha.value, dtype=float)
    if W.ndim == 1:
        columns = [(W, alpha)]
    else:
        by_cone = (W, alpha) if rule.axis == 0 else (W.T, alpha.T)
        columns = [(by_cone[0][:, k], by_cone[1][:, k]) for k in range(by_cone[1].shape[1])]
    means: list[Any] = [cp.geo_mean(one, weights) for one, weights in columns]
    if any(
        not np.allclose(m.w, a / a.sum(), rtol=EXACT)
        for m, (_, a) in zip(means, columns, strict=True)
    ):
        return [rule]
    return [cp.abs(cp.vec(rule.z, order="F")) <= cp.hstack(means)]


def is_free(rule: Any, share: Share, around: Mapping[int, Measure], worth: float) -> bool:
    """Whether a price is nothing beside a worth, all the way that its constraint reaches.

    Then the domain takes the place of its term in the Lagrangian, if that can be written: a
    function at the edge of its domain that counts for 1e-20 of the cost is more than a cone solver
    can take.
    """
    if not isinstance(rule, Inequality) or rule.expr.is_affine() or not has_domain(rule.expr):
        return False
    if not all(edge.is_dcp() for edge in limits(rule.expr)):
        return False
    return float(np.abs(flat(share[0])) @ reach([rule.expr], around)) <= NOTHING * worth


def amiss(rule: Any, share: Share, around: Mapping[int, Measure]) -> float:
    r"""What is amiss with a price beyond stationarity, in units of the objective.

    .. math:: \sum_k |\lambda_k| \min(|c_k(x^*)|, X_k) + \mathrm{dist}(\lambda, K^*) \max_k X_k

    with :math:`X_k` the reach of entry k. A slack counts up to the reach only: how far away an
    inactive constraint is does not matter, and that it has a price does. A cone other than the
    orthant has one such product for all its entries.
    """
    if not rule.size or isinstance(rule, Equality | cp.Zero):
        return 0.0
    parts = [rule.expr] if isinstance(rule, Inequality) else list(rule.args)
    reaches = reach(parts, around)
    price = np.concatenate([flat(one) for one in share])
    with preserved(rule.variables()), np.errstate(all="ignore"):
        for v in rule.variables():
            v.save_value(around[v.id].centre)
        slack = np.concatenate([entries(part) for part in parts])
    # Where it has no value it is at the edge of its domain, and the reach is all that is known
    slack = np.where(np.isfinite(slack), slack, 0.0)
    if isinstance(rule, Inequality | cp.NonNeg):
        wrong = np.maximum(-price, 0.0) @ reaches
        return float(np.abs(price) @ np.minimum(np.abs(slack), reaches) + wrong)
    product = min(abs(float(price @ slack)), float(np.abs(price) @ reaches))
    return product + _outside(rule, share) * float(reaches.max(initial=0.0))


def _outside(rule: Any, share: Share) -> float:
    """How far a dual value is outside its cone.

    The distance grows with the value, and cvxpy projects on some cones by a solver, whose tolerance
    does not: so it is asked about a value of one.
    """
    size = max((float(np.abs(flat(one)).max(initial=0.0)) for one in share), default=0.0)
    if not isinstance(rule, cp.Cone) or not size:
        return 0.0
    # cvxpy divides by the size of a cone's argument even where that is zero.
    with preserved(rule.dual_variables), np.errstate(divide="ignore", invalid="ignore"):
        for variable, value in zip(rule.dual_variables, share, strict=True):
            variable.save_value(value / size)
        return size * float(np.max(rule.dual_residual))
