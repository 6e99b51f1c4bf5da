r"""First-order conditions of a problem that need not be convex, at a point.

cvxpy writes a problem as a smooth non-linear program (DNLP) with variables of its own for kinks,

.. math:: \min_y F(y) \quad \text{s.t. } c^l \le c(y) \le c^u, \; y^l \le y \le y^u ,

and gives gradients and Jacobian at any y. A point is stationary to :math:`\epsilon` if there are
multipliers, of the right sign and of active constraints alone, with

.. math:: \|\nabla F(y) + J(y)^\top \lambda + \nu\|_\infty \le \epsilon\, (1 + |F(y)|) .

The multipliers are those of a least-squares problem with bounds, so nothing that a run found is
used. A constraint is active within the tolerance of violations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy.optimize import lsq_linear

from dald_model._cvxpy import SmoothProgram
from dald_model.values import holding

VIOLATION = 1e-5
"""What constraints and copies may be violated by, relative to 1 + |F|: solvers of non-linear
programs reach 1e-8, and copies agree to ``eps_pri``."""
STATIONARY = 1e-4
"""What the gradient of the Lagrangian may be, relative to 1 + |F|."""


class Conditions(NamedTuple):
    """The first-order conditions at a point.

    Attributes
    ----------
    objective : float
        F, as it is minimised.
    violation : float
        The largest violation of a constraint.
    residual : float
        The largest entry of the gradient of the Lagrangian.
    """

    objective: float
    violation: float
    residual: float

    @property
    def scale(self) -> float:
        """What violation and residual are measured by, 1 + |F|."""
        return 1 + abs(self.objective)

    @property
    def hold(self) -> bool:
        """Whether the point is stationary."""
        feasible = self.violation <= VIOLATION * self.scale
        return bool(feasible and self.residual <= STATIONARY * self.scale)


def conditions(problem: cp.Problem, values: Mapping[int, Any]) -> Conditions:
    """The first-order conditions of a DNLP problem where its variables have these values, by id."""
    with holding((v, values[v.id]) for v in problem.variables()), np.errstate(all="ignore"):
        program = SmoothProgram(problem)
    y, gradient, jacobian = program.point, program.gradient, program.jacobian
    low = np.concatenate([program.row_bounds[0], program.bounds[0]])
    high = np.concatenate([program.row_bounds[1], program.bounds[1]])
    at = np.concatenate([program.rows, y])
    violation = float(np.maximum(np.maximum(low - at, at - high), 0.0).max(initial=0.0))
    near = VIOLATION * (1 + np.abs(at))
    is_low, is_high = at - low <= near, high - at <= near
    active = np.flatnonzero(is_low | is_high)
    columns = np.vstack([jacobian, np.eye(y.size)])[active].T
    least = np.where(is_low, -np.inf, 0.0)[active]
    most = np.where(is_high, np.inf, 0.0)[active]
    residual = gradient
    if active.size:
        found = lsq_linear(columns, -gradient, (least, most), method="bvls")
        residual = columns @ found.x + gradient
    return Conditions(program.objective, violation, float(np.abs(residual).max(initial=0.0)))
