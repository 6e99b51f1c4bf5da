r"""First-order conditions of a problem that need not be convex, at a point.

cvxpy writes a problem as a smooth non-linear program (DNLP) with variables of its own for kinks,

.. math:: \min_y F(y) \quad \text{s.t. } c^l \le c(y) \le c^u, \; y^l \le y \le y^u ,

and gives gradients and Jacobian at any y. A point is stationary to :math:`\epsilon` if there are
multipliers, of the right sign and of active constraints alone, with

.. math:: \|\nabla F(y) + J(y)^\top \lambda + \nu\|_\infty \le \epsilon\, (1 + |F(y)|) .

The multipliers are those of the linear program that minimises the left side, so nothing that a run
found is used. A constraint is active within the tolerance of violations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

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
    y, gradient = program.point, program.gradient
    low = np.concatenate([program.row_bounds[0], program.bounds[0]])
    high = np.concatenate([program.row_bounds[1], program.bounds[1]])
    at = np.concatenate([program.rows, y])
    violation = float(np.maximum(np.maximum(low - at, at - high), 0.0).max(initial=0.0))
    near = VIOLATION * (1 + np.abs(at))
    is_low, is_high = at - low <= near, high - at <= near
    active = np.flatnonzero(is_low | is_high)
    rules = sp.csr_array(sp.vstack([program.jacobian, sp.eye_array(y.size)]))
    slopes = sp.csc_array(rules[active].T)
    signs = np.stack([np.where(is_low, -np.inf, 0.0), np.where(is_high, np.inf, 0.0)])[:, active]
    residual = least_residual(gradient, slopes, signs.T, 1 + abs(program.objective))
    return Conditions(program.objective, violation, residual)


def least_residual(gradient: np.ndarray, slopes: Any, signs: np.ndarray, scale: float) -> float:
    r"""The least :math:`\|g + S \lambda\|_\infty` over multipliers within these bounds.

    A linear program, in units of ``scale``; where it is not solved, nothing is proved: infinite.
    """
    if not slopes.shape[1]:
        return float(np.abs(gradient).max(initial=0.0))
    ones = np.ones((gradient.size, 1))
    rows: Any = sp.block_array([[slopes, -ones], [-slopes, -ones]], format="csc")
    cost = np.append(np.zeros(slopes.shape[1]), 1.0)
    limits = np.concatenate([-gradient, gradient]) / scale
    found = linprog(cost, rows, limits, bounds=[*map(tuple, signs), (0.0, None)])
    return float(found.fun * scale) if found.status == 0 else np.inf
