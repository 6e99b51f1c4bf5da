r"""Proven lower bound of a cone program within a box, from whatever a solver found.

Of :math:`\min \tfrac12 v^\top P v + q^\top v` subject to :math:`b - A v \in K` let u and
:math:`z \in K^*` be a solver's primal and dual points and :math:`r = P u + q + A^\top z` what is
left of stationarity. Then for every feasible v

.. math::
    \tfrac12 v^\top P v + q^\top v \ge
    -\tfrac12 u^\top P u - b^\top z + r^\top u - |r|^\top |v - u|,

whatever the solver's accuracy; only the last summand needs to know how far v may be.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.native import solved_once

AUXILIARY = 10.0
"""How many times farther from zero than the solver has them the program's own variables may be."""


def lower_bound(
    cone: ConeProgram, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray
) -> float:
    """A lower bound of a client's cone program plus ``linear @ x`` for :math:`|x - centre|` within.

    Parameters
    ----------
    cone : ConeProgram
    linear, centre, reach : ndarray, shape (m,)
        ``reach`` is positive: how far x may be from the centre, entry by entry.

    Returns
    -------
    float
        Minus infinity where the solver gave no numbers.
    """
    size, total = centre.size, cone.linear.size
    level = float(linear @ centre)
    here = cone.around(centre)
    lengths = np.ones(total)
    lengths[:size] = reach
    scale = sp.diags_array(lengths)
    priced = here.linear.copy()
    priced[:size] += linear
    matrix = sp.csc_array(scale @ here.matrix @ scale)
    worth = max(float(np.abs(lengths * priced).max()), float(abs(matrix).max())) or 1.0
    box = sp.eye_array(size, total, format="csc")
    boxed = ConeProgram(
        matrix / worth,
        lengths * priced / worth,
        0.0,
        sp.csc_array(sp.vstack([here.rows @ scale, box, -box])),
        np.concatenate([here.rhs, np.ones(2 * size)]),
        (*here.cones, ("NonnegativeConeT", 2 * size)),
    )
    found = solved_once(boxed)
    u, z = np.array(found.x), np.array(found.z)
    if not (np.isfinite(u).all() and np.isfinite(z).all()):
        return -np.inf  # else whatever it is called: its dual points are always in the cone
    z[-2 * size :] = np.maximum(z[-2 * size :], 0.0)
    bent = boxed.matrix @ u
    left = bent + boxed.linear + boxed.rows.T @ z
    away = np.where(np.arange(total) < size, 1.0, AUXILIARY * np.maximum(np.abs(u), 1.0))
    least = -(u @ bent) / 2 - boxed.rhs @ z + left @ u - np.abs(left) @ (away + np.abs(u))
    return float(worth * least + here.constant + level)
