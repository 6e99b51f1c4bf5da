r"""Certificates that a cone program has no solution, checked by their own arithmetic.

For :math:`\min \tfrac12 v^\top P v + q^\top v` with :math:`A v + s = b, \; s \in K`

* z in the dual cone with :math:`A^\top z = 0` and :math:`b^\top z < 0` proves that no v is feasible
  (Farkas),
* d with :math:`P d = 0`, :math:`-A d \in K` and :math:`q^\top d < 0` that the objective falls
  without bound from any feasible point.

A solver finds either to some digits only, so it is asked what they prove: that no point within
``CERTIFIED`` of zero is feasible, or that the objective falls for that long, and by more than the
direction's own error explains where the objective is steep. The program is to be in units in which
its solutions would be of size one. They may be wrong for a variable, so the rows that a proof
rests on must cancel in each variable that they have: what is left there is a share of its terms
that rounding and solvers explain, however little it is beside other variables' terms. (Three owners
of :math:`\min t / 3, \; |u - p_i|^2 \le t` were "infeasible" in units in which t is 6e6.)

Where the digits of an interior point prove nothing, most of what users contradict themselves in is
linear, such as a trace that is 6 and at most 0: a vertex of the linear rows' own Farkas program
proves it to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from dald_model.compile.form import LINEAR, ConeProgram, cone_height
from dald_model.sizes import EPSILONS

CERTIFIED = 1e4
"""How far a certificate has to reach."""
TIGHT = 1e-6
"""How far a direction may leave the cones, relative to the rows and its length; the share of its
terms that a sum is at least, as less may be rounding, and at most where terms are to cancel; and
the share of the largest multiplier, in units of its row, below which one is a solver's rounding."""

MARGIN = 1e2
"""How many times farther than the worst of its rows says a direction may be from the cones."""
BALANCES = 10
"""How often rows and columns are divided by the roots of their largest entries."""


def infeasibility(cone: ConeProgram, multipliers: Any = None) -> np.ndarray | None:
    """Multipliers which prove that no point is feasible: a solver's, or those of linear rows.

    None where neither do. The solver's, if it has any, are to lie in the dual cone.
    """
    if multipliers is not None and is_infeasible(cone, multipliers):
        return np.asarray(multipliers, dtype=float)
    balanced, found = _of_linear_rows(cone)
    return found if is_infeasible(balanced, found) else None


def is_infeasible(cone: ConeProgram, multipliers: Any) -> bool:
    """Whether these multipliers, which lie in the dual cone, prove that no point is feasible."""
    z = np.asarray(multipliers, dtype=float)
    if not np.isfinite(z).all():
        return False
    fall = float(cone.rhs @ z)
    is_negative = fall < -TIGHT * (np.abs(cone.rhs) @ np.abs(z))
    if not is_negative:
        return False
    left, sizes = np.abs(cone.rows.T @ z), abs(cone.rows).T @ np.abs(z)
    told = np.abs(z) * np.sqrt(sp.csr_array(cone.rows).power(2).sum(axis=1))
    by_rows = abs(sp.csc_array(cone.rows)[told > TIGHT * told.max()]).sum(axis=0)
    if ((by_rows > 0) & (left > TIGHT * sizes)).any():
        return False
    return CERTIFIED * float(left[left > EPSILONS * sizes].sum()) <= -fall


def _of_linear_rows(cone: ConeProgram) -> tuple[ConeProgram, np.ndarray]:
    r"""The vertex of :math:`\min b^\top z, \; A^\top z = 0, \; |z| \le 1` over the linear rows.

    It comes with the program in units in which these rows have entries of about one; multipliers of
    other rows are zero.
    """
    heights = [cone_height(*one) for one in cone.cones]
    kinds = np.repeat([kind for kind, _ in cone.cones], heights)
    linear = np.flatnonzero(np.isin(kinds, LINEAR))
    found = np.zeros(cone.rhs.size)
    if not linear.size:
        return cone, found
    matrix = sp.csr_array(cone.rows)[linear]
    sizes, units = _balanced(matrix)
    rhs = cone.rhs[linear] / sizes
    solved = linprog(
        rhs / (np.abs(rhs).max() or 1.0),
        A_eq=(sp.diags_array(1 / sizes) @ matrix @ sp.diags_array(units)).T,
        b_eq=np.zeros(units.size),
        bounds=[(-1 if kind == "ZeroConeT" else 0, 1) for kind in kinds[linear]],
        method="highs-ds",  # ends at a vertex, where most multipliers are zero
    )
    if solved.x is not None:
        found[linear] = solved.x / sizes
    return cone._replace(rows=sp.csc_array(cone.rows @ sp.diags_array(units))), found


def _balanced(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of rows and units of variables in which the matrix has entries of about one."""
    sizes, units = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    for _ in range(BALANCES):
        sizes *= _roots(sp.diags_array(1 / sizes) @ matrix @ sp.diags_array(units), 1)
        units /= _roots(sp.diags_array(1 / sizes) @ matrix @ sp.diags_array(units), 0)
    return sizes, units


def _roots(matrix: Any, axis: int) -> np.ndarray:
    """The roots of the largest entries of columns or rows, one where there are none."""
    largest = np.asarray(abs(matrix).max(axis=axis).todense()).reshape(-1)
    return np.sqrt(np.where(largest > 0, largest, 1.0))


def is_unbounded(cone: ConeProgram, direction: Any, slacks: Any) -> bool:
    """Whether the objective falls along this direction, whose slacks lie in the cones."""
    d, s = np.asarray(direction, dtype=float), np.asarray(slacks, dtype=float)
    if not (np.isfinite(d).all() and np.isfinite(s).all() and d.any()):
        return False
    fall = float(cone.linear @ d)
    if not fall < -TIGHT * (np.abs(cone.linear) @ np.abs(d)):
        return False
    length, bend = np.abs(d).max(), float(d @ (cone.matrix @ d))
    sizes = np.asarray(abs(cone.rows).sum(axis=1)).reshape(-1)
    sizes[sizes == 0] = sizes.max(initial=0.0)
    outside = np.abs(cone.rows @ d + s)
    if (outside > TIGHT * length * sizes).any():
        return False
    # A direction that is in the cones is about so far away, and may fall by so much less.
    away = float((outside[sizes > 0] / sizes[sizes > 0]).max(initial=0.0))
    is_sure = MARGIN * away * np.abs(cone.linear).sum() <= -fall
    # A price far above the slopes of the units asks for a move that is as far beyond their lengths
    reach = CERTIFIED * max(1.0, np.abs(cone.linear).max())
    return bool(is_sure and reach / length * bend <= -fall)
