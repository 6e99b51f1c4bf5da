r"""Initial penalty from the curvature of the clients' objectives."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import summands
from dald_model.solvers.arrays.terms import Terms
from dald_model.values import REFUSALS, flat, preserved

EXACT = 64
"""Up to this many variables the whole Hessian is probed; beyond it only its diagonal."""
PROBES = 16
"""Random probes for the diagonal of a large Hessian (Bekas, Kokiopoulou, Saad 2007)."""
STEP = 1e-3
"""Half the distance between the two gradients of a difference: exact for quadratics."""
FLOOR = 1e-4
"""Ratio of eigenvalues below which a Hessian counts as flat."""
ZERO = 1e-7
"""Ratio below which an eigenvalue is zero: a direction without curvature asks for no penalty."""


def curvature_penalty(compiled: Decomposition) -> np.ndarray:
    r"""Penalties from the Hessians :math:`H_i` of the clients' objectives, shape (Q,).

    .. math::
        \rho_r^2 = \tfrac12 \, d_r \sqrt{\lambda_{\min} \lambda_{\max}}, \qquad
        d = \operatorname{diag} H_i, \quad
        \lambda = \operatorname{eig}(D^{-1/2} H_i D^{-1/2}), \; D = \operatorname{diag}(d)

    For :math:`D \propto I` this is the best penalty of ADMM for a strongly convex quadratic
    (Ghadimi, Teixeira, Shames, Johansson 2015; their penalty is our :math:`2\rho^2`). The
    diagonal makes it indifferent to the units of each variable, so that raw features need no
    standardising. Both ends of an edge are averaged; an entry without any curvature (a linear or
    piecewise linear objective) takes the geometric mean of the others, and 1 if there are none.
    """
    total, count = np.zeros(compiled.size), np.zeros(compiled.size)
    for sub in compiled.values():
        if sub.client.is_server:
            continue
        share = edge_curvature(sub)
        total[sub.entries] += share
        count[sub.entries] += share > 0
    known = count > 0
    squared = np.ones(compiled.size)
    if known.any():
        squared[known] = total[known] / count[known] / 2
        squared[~known] = np.exp(np.log(squared[known]).mean())
    return np.sqrt(squared)


def edge_curvature(sub: Subproblem) -> np.ndarray:
    """The curvature of a client's objective along each entry of its edges, shape (q,)."""
    diagonal, spread = hessian(sub)
    squares = sub.sides[0].power(2)
    weight = np.asarray(squares.sum(axis=1)).reshape(-1)
    # For a side that picks entries of x this is their curvature; a row g of a general matrix
    # moves x along g / |g|^2, the least change that moves the side by one.
    along = (squares @ diagonal) / np.maximum(weight, np.finfo(float).tiny) ** 2
    return np.where(weight > 0, along, 0.0) * spread


def hessian(sub: Subproblem) -> tuple[np.ndarray, float]:
    """Diagonal of the objective's Hessian at a start point, and the spread of its eigenvalues.

    From the client's form where that has the whole objective, else by differences of cvxpy's
    gradients.
    """
    form = sub.form
    if form is None or not form.valued:
        return probed_hessian(sub)
    full = form.quadratic.full
    smooth = tuple(term for term in form.terms if term.is_smooth)
    if smooth:
        terms = Terms([smooth], sub.size)
        # A logarithm is infinitely bent at zero, where others start: that says nothing of it.
        start = (
            terms.inner()
            if any(t.kind.is_positive for t in smooth)
            else _interior(sub.variables)[None]
        )
        if np.isfinite(terms.values(None, start)[0]):
            full = full + terms.hessians(None, start)[0]
    diagonal = np.diag(full)
    return diagonal, _spread(full, diagonal) if sub.size <= EXACT else 1.0


def probed_hessian(sub: Subproblem) -> tuple[np.ndarray, float]:
    """The same as :func:`hessian` by nothing but cvxpy's gradients.

    Piecewise linear terms have no curvature and are left out. Where cvxpy cannot give a gradient
    (outside the domain, say) the diagonal is zero; so it is where a step ten times as wide finds
    less than half the curvature, which is the mark of a kink.
    """
    cost = _curved(sub.client.cost)
    if cost is None:
        return np.zeros(sub.size), 1.0
    with preserved(sub.variables):
        start = _interior(sub.variables)
        near, far = (_probe(cost, sub, start, step) for step in (STEP, 10 * STEP))
    diagonal = np.maximum(np.diag(near), 0.0)
    diagonal[~(np.diag(far) >= diagonal / 2)] = 0.0
    return diagonal, _spread(near, diagonal) if sub.size <= EXACT else 1.0


def _probe(cost: cp.Expression, sub: Subproblem, start: np.ndarray, step: float) -> np.ndarray:
    """The Hessian, or for many variables an estimate of its diagonal, as a matrix."""
    if sub.size <= EXACT:
        full = np.array([_product(cost, sub, start, unit, step) for unit in np.eye(sub.size)])
        return np.nan_to_num((full + full.T) / 2)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(PROBES, sub.size))
    estimate = np.mean([s * _product(cost, sub, start, s, step) for s in signs], axis=0)
    return np.diag(np.nan_to_num(estimate, posinf=0.0, neginf=0.0))


def _spread(full: np.ndarray, diagonal: np.ndarray) -> float:
    live = diagonal > FLOOR**2 * diagonal.max(initial=0.0)
    if not live.any():
        return 1.0
    root = np.sqrt(diagonal[live])
    values = np.linalg.eigvalsh(full[np.ix_(live, live)] / np.outer(root, root))
    least = values[values > ZERO * values[-1]][0]
    return float(np.sqrt(max(least, FLOOR * values[-1]) * values[-1]))


def _curved(cost: cp.Expression) -> cp.Expression | None:
    """The summands of a convex objective that may have curvature."""
    curved = [term for term in summands(cost) if term.variables() and not term.is_pwl()]
    return sum(curved[1:], curved[0]) if curved else None


def _interior(variables: list[cp.Variable]) -> np.ndarray:
    """A point near zero that sign and matrix attributes allow."""
    return np.concatenate([flat(v.project(np.full(v.shape, 2 * STEP))) for v in variables])


def _product(
    cost: cp.Expression, sub: Subproblem, start: np.ndarray, direction: np.ndarray, step: float
) -> np.ndarray:
    """Hessian times a direction by a central difference of cvxpy's gradients; NaN if none."""
    slopes = []
    for sign in (1, -1):
        for key, value in sub.spread(start + sign * step * direction).items():
            next(v for v in sub.variables if v.id == key).save_value(value)
        slopes.append(_gradient(cost, sub.variables))
    return (slopes[0] - slopes[1]) / (2 * step)


def _gradient(cost: cp.Expression, variables: list[cp.Variable]) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            found = cost.grad
    except REFUSALS:
        return np.full(sum(v.size for v in variables), np.nan)
    parts = []
    for v in variables:
        slope = found.get(v, 0.0)
        if slope is None:
            return np.full(sum(v.size for v in variables), np.nan)
        parts.append(np.zeros(v.size) if np.isscalar(slope) and v.size > 1 else flat(slope))
    return np.concatenate(parts)
