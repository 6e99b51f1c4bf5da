r"""Proven lower bound of a smooth client near a point, by Newton's method.

Of a differentiable convex f and prices p let u be any point of the domain and
:math:`r = \nabla f(u) + p`. Then for every y within a box around x

.. math:: f(y) + p^\top y \ge f(u) + p^\top u - |r|^\top (|u - x| + \text{reach}),

and from an answer one or two steps leave an r that costs nothing.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.form import Form
from dald_model.eigen import eigh
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.exact.lower_bound import lower_bound

STEPS = 4
"""Newton's steps at most."""
ENOUGH = 1e-9
"""Share of what the prices are worth in the box that the bound may lose."""
RIDGE = 1e-14
"""Share of the largest eigenvalue below which a direction has no curvature, and no step."""


def least_within(form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> float:
    """A lower bound of a client's objective plus ``linear @ x`` for :math:`|x - centre|` within.

    Arguments as of :func:`dald_model.solvers.exact.lower_bound.lower_bound`, which is asked where
    the client is not smooth, or the bound would lose more than rounding.
    """
    found = _smooth(form, linear, centre, reach)
    return lower_bound(form.cone, linear, centre, reach) if found is None else found


def _smooth(form: Form, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> float | None:
    """The bound of the module; None where there is none that will do."""
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    if not (form.complete and form.valued) or rows or not all(t.is_smooth for t in form.terms):
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
