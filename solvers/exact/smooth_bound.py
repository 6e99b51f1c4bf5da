r"""Proven lower bound of a smooth client near a point, by Newton's method.

Of a differentiable convex f and prices p let u be any point of the domain and
:math:`r = \nabla f(u) + p`. Then for every y within a box around x

.. math:: f(y) + p^\top y \ge f(u) + p^\top u - |r|^\top (|u - x| + \text{reach}),

and from an answer one or two steps leave an r that costs nothing. Where rows of constraints or the
box hold the client, r is what they carry; there its terms are replaced by their tangents at u,
which are below them, and what is left is a quadratic program:

.. math:: f(y) \ge \tfrac12 y^\top P y + q^\top y + \varphi(u) + \nabla\varphi(u)^\top (y - u).

Cones for cubes or reciprocals over boxes a hundred times as wide as the answers are beyond an
interior point's digits; tangents do not mind.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form
from dald_model.eigen import eigh
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.lower_bound import bounded, lower_bound

STEPS = 4
"""Newton's steps at most."""
ENOUGH = 1e-9
"""Share of what the prices are worth in the box that the bound may lose."""
RIDGE = 1e-14
"""Share of the largest eigenvalue below which a direction has no curvature, and no step."""


def least_within(form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> float:
    """A lower bound of a client's objective plus ``linear @ x`` for :math:`|x - centre|` within.

    Arguments as of :func:`dald_model.solvers.exact.lower_bound.bounded`, which is asked where the
    client is not smooth, or the bound would lose more than rounding.
    """
    best = -np.inf
    if form.complete and form.valued and all(t.is_smooth for t in form.terms):
        found = _smooth(form, linear, centre, reach)
        if found is not None:
            return found
        if form.terms:
            best, is_sharp = _held(form, linear, centre, reach)
            if is_sharp:
                return best
    return max(best, lower_bound(form.cone, linear, centre, reach))


def _smooth(form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> float | None:
    """The bound of the module; None where there is none that will do."""
    if form.equalities.rhs.size + form.inequalities.rhs.size:
        return None
    terms = Terms([form.terms], form.size) if form.terms else None
    matrix, cost = form.quadratic.full, form.quadratic.linear + linear
    u, worth = centre, float(np.abs(linear) @ reach)
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            left = matrix @ u + cost
            if terms is not None:
                left = left + terms.gradients(None, u[None])[0]
            away = np.abs(u - centre)
            lost = float(np.abs(left) @ (away + reach))
            if not np.isfinite(lost) or (away > reach).any():
                return None
            if lost <= ENOUGH * worth:
                value = form.objective(u) + float(linear @ u) - lost
                return value if np.isfinite(value) else None
            bent = matrix if terms is None else matrix + terms.hessians(None, u[None])[0]
            if not np.isfinite(bent).all():
                return None
            values, vectors = eigh(bent)
            along = vectors.T @ left
            live = values > RIDGE * max(float(values[-1]), np.finfo(float).tiny)
            u = u - vectors[:, live] @ (along[live] / values[live])
    return None


def _held(
    form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray
) -> tuple[float, bool]:
    """The best bound by tangents, and whether it is as high as the client's own values."""
    here, size = form.around(centre), form.size
    terms, worth = Terms([here.terms], size), float(np.abs(linear) @ reach)
    nowhere, level = np.zeros(size), float(linear @ centre)
    best, u = -np.inf, nowhere
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            value, slopes = float(terms.values(None, u[None])[0]), terms.gradients(None, u[None])[0]
            bends = terms.hessians(None, u[None])[0]
            if not (np.isfinite(value) and np.isfinite(slopes).all() and np.isfinite(bends).all()):
                break
            tangent = _program(here, slopes, value - float(slopes @ u))
            best = max(best, level + bounded(tangent, linear, nowhere, reach).value)
            if here.objective(u) + float(linear @ u) + level - best <= ENOUGH * worth:
                return best, True
            model = _program(here, slopes - bends @ u, 0.0, bends)
            u = bounded(model, linear, nowhere, reach).point
    return best, False


def _program(
    form: Form, slopes: np.ndarray, level: float, bends: np.ndarray | None = None
) -> ConeProgram:
    """The quadratic and the rows of a form with these slopes and Hessian of its terms."""
    matrix = form.quadratic.full if bends is None else form.quadratic.full + bends
    equal, under = form.equalities, form.inequalities
    total = equal.matrix.shape[1]
    full, cost = sp.csc_array(matrix), np.zeros(total)
    full.resize((total, total))
    cost[: form.size] = form.quadratic.linear + slopes
    return ConeProgram(
        full,
        cost,
        form.quadratic.constant + level,
        sp.csc_array(sp.vstack([sp.csc_array(equal.matrix), sp.csc_array(under.matrix)])),
        np.concatenate([equal.rhs, under.rhs]),
        (("ZeroConeT", equal.rhs.size), ("NonnegativeConeT", under.rhs.size)),
    )
