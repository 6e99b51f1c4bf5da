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

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.balance import balance, is_extreme
from dald_model.solvers.exact.native import attempts, solved_once

AUXILIARY = 10.0
"""How many times farther from zero than the solver has them the program's own variables may be."""
PASSES: tuple[dict[str, Any], ...] = ({}, attempts(1e-6)[0])
"""Clarabel's settings, its defaults first. Roots and powers over wide boxes have variables of their
own that are 1e3 times others, which only shows once they are found: then they are measured in
what they were found to be, and are asked for to more digits. Where that is not enough and numbers
are extreme, once more in units of the rows."""
ENOUGH = 1e-6
"""Share of what prices and curvature are worth in the box from which on a bound is sought again."""


class Bound(NamedTuple):
    """A lower bound, and the point that the solver found, shape (m,)."""

    value: float
    point: np.ndarray


def lower_bound(
    cone: ConeProgram, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray
) -> float:
    """A lower bound of a client's cone program plus ``linear @ x`` for :math:`|x - centre|` within.

    See :func:`bounded`.
    """
    return bounded(cone, linear, centre, reach).value


def bounded(cone: ConeProgram, linear: np.ndarray, centre: np.ndarray, reach: np.ndarray) -> Bound:
    """The bound and where the solver has the minimum.

    Parameters
    ----------
    cone : ConeProgram
    linear, centre, reach : ndarray, shape (m,)
        ``reach`` is positive: how far x may be from the centre, entry by entry.

    Returns
    -------
    Bound
        Of minus infinity where the solver gave no numbers.
    """
    size, total = centre.size, cone.linear.size
    here, level = cone.around(centre), float(linear @ centre)
    priced, lengths = here.linear.copy(), np.ones(total)
    priced[:size] += linear
    lengths[:size] = reach
    best = Bound(-np.inf, centre)
    for options in (*PASSES, None):
        if options is None:
            if not is_extreme(here, lengths):
                break
            here, lengths = _balanced(here, lengths, size)
        u, least, lost = _once(here, priced, lengths, size, options or {})
        if u is None:
            continue
        found = here.constant + level + least
        if found > best.value:
            best = Bound(float(found), centre + (lengths * u)[:size])
        if lost <= ENOUGH:
            break
        lengths[size:] *= np.maximum(np.abs(u[size:]), 1.0)
    return best


def _balanced(cone: ConeProgram, lengths: np.ndarray, size: int) -> tuple[ConeProgram, np.ndarray]:
    """The same program in units of its rows, and lengths of all variables that go with them."""
    whole = lengths.copy()
    whole[size:] = np.nan
    found = balance(cone, whole)
    rows = cone.rows.copy()
    rows.data = rows.data * found.cells
    return cone._replace(rows=rows, rhs=found.rhs), found.lengths


def _once(
    cone: ConeProgram, cost: np.ndarray, lengths: np.ndarray, size: int, options: dict[str, Any]
) -> tuple[np.ndarray | None, float, float]:
    """The solver's point in lengths, a bound, and what it loses as a share of what is at stake."""
    total, scale = lengths.size, sp.diags_array(lengths)
    matrix = sp.csc_array(scale @ cone.matrix @ scale)
    worth = max(float(np.abs(lengths * cost).max()), float(abs(matrix).max())) or 1.0
    box = sp.eye_array(size, total, format="csc")
    boxed = ConeProgram(
        matrix / worth,
        lengths * cost / worth,
        0.0,
        sp.csc_array(sp.vstack([cone.rows @ scale, box, -box])),
        np.concatenate([cone.rhs, np.ones(2 * size)]),
        (*cone.cones, ("NonnegativeConeT", 2 * size)),
    )
    found = solved_once(boxed, **options)
    u, z = np.array(found.x), np.array(found.z)
    if not (np.isfinite(u).all() and np.isfinite(z).all()):
        return None, -np.inf, np.inf  # else, however it is called, its z is always in the dual cone
    z[-2 * size :] = np.maximum(z[-2 * size :], 0.0)
    bent = boxed.matrix @ u
    left = bent + boxed.linear + boxed.rows.T @ z
    away = np.where(np.arange(total) < size, 1.0, AUXILIARY * np.maximum(np.abs(u), 1.0))
    least = -(u @ bent) / 2 - boxed.rhs @ z + left @ u - np.abs(left) @ (away + np.abs(u))
    return u, float(worth * least), float((bent / 2 + boxed.linear) @ u - least)
