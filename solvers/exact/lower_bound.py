r"""Proven lower bound of a cone program within a box, from whatever a solver found.

Of :math:`\min \tfrac12 v^\top P v + q^\top v` subject to :math:`b - A v \in K` let u and
:math:`z \in K^*` be a solver's primal and dual points and :math:`r = P u + q + A^\top z` what is
left of stationarity. Then for every feasible v

.. math::
    \tfrac12 v^\top P v + q^\top v \ge
    -\tfrac12 u^\top P u - b^\top z + r^\top v,

whatever the solver's accuracy: a cut, which is least in a corner of a box.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.balance import balance
from dald_model.solvers.exact.native import attempts, solved_once

AUXILIARY = 10.0
"""How many times farther from zero than the solver has them the program's own variables may be."""
PASSES: tuple[dict[str, Any], ...] = ({}, attempts(1e-6)[0])
"""Clarabel's settings, its defaults first. Roots and powers over wide boxes have variables of their
own that are 1e3 times others, which only shows once they are found: then they are measured in
what they were found to be, and are asked for to more digits. Where that is not enough, once more
in units of the rows, in which both factors of :math:`|x|^2 \\le t s` are of one size."""
ENOUGH = 1e-6
"""Share of what prices and curvature are worth in the box from which on a bound is sought again."""


class Cut(NamedTuple):
    r"""An affine function that is nowhere above a client, :math:`l + g^\top (x - c)`."""

    level: float
    slopes: np.ndarray

    def least(self, linear: np.ndarray, near: np.ndarray, reach: np.ndarray) -> float:
        """The least of it plus ``linear @ w`` for w, counted from c, within reach of ``near``."""
        slopes = self.slopes + linear
        return float(self.level + slopes @ near - np.abs(slopes) @ reach)


class BoxBound(NamedTuple):
    """A lower bound, the point that the solver found, shape (m,), and the cut that proves it."""

    value: float
    point: np.ndarray
    cut: Cut


def nothing(centre: np.ndarray) -> BoxBound:
    """The bound where no solver gave numbers."""
    return BoxBound(-np.inf, centre, Cut(-np.inf, np.zeros(centre.size)))


def bounded(
    cone: ConeProgram,
    linear: np.ndarray,
    centre: np.ndarray,
    reach: np.ndarray,
    wanted: float = -np.inf,
) -> BoxBound:
    """A lower bound of a client's cone program plus ``linear @ x`` for :math:`|x - centre|` within.

    And where the solver has the minimum. The cut holds in any box, with any ``linear``.

    Parameters
    ----------
    cone : ConeProgram
    linear, centre, reach : ndarray, shape (m,)
        ``reach`` is positive: how far x may be from the centre, entry by entry.
    wanted : float
        The bound that would do: it is sought again where what the solver left is all that lacks.

    Returns
    -------
    BoxBound
        Of minus infinity where the solver gave no numbers.
    """
    size, total = centre.size, cone.linear.size
    here, level = cone.around(centre), float(linear @ centre)
    priced, lengths = here.linear.copy(), np.ones(total)
    priced[:size] += linear
    lengths[:size] = reach
    best = nothing(centre)
    for options in (*PASSES, None):
        if options is None:
            here, lengths = _balanced(here, lengths, size)
        u, least, slopes, lost, worth = _once(here, priced, lengths, size, options or {})
        if u is None:
            continue
        cut = Cut(here.constant + least, slopes - linear)
        found = level + cut.least(linear, np.zeros(size), reach)
        if found > best.value:
            best = BoxBound(found, centre + (lengths * u)[:size], cut)
        if lost <= ENOUGH * worth and not found < wanted <= found + lost:
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
) -> tuple[np.ndarray | None, float, np.ndarray, float, float]:
    """The solver's point in lengths, the level and slopes of a cut, and what it loses in the box.

    And what prices and curvature are worth there.
    """
    columns, matrix = lengths[cone.matrix.indices], cone.matrix.copy()
    matrix.data = matrix.data * columns * np.repeat(lengths, np.diff(matrix.indptr))
    largest = float(np.abs(matrix.data).max(initial=0.0))
    worth = max(float(np.abs(lengths * cost).max()), largest) or 1.0
    matrix.data = matrix.data / worth
    boxed = ConeProgram(
        matrix,
        lengths * cost / worth,
        0.0,
        _boxed(cone.rows, lengths, size),
        np.concatenate([cone.rhs, np.ones(2 * size)]),
        (*cone.cones, ("NonnegativeConeT", 2 * size)),
    )
    found = solved_once(boxed, **options)
    u, z = np.array(found.x), np.array(found.z)
    # Whatever status the solver gives, its z is in the dual cone
    if not (np.isfinite(u).all() and np.isfinite(z).all()):
        return None, -np.inf, u, np.inf, worth
    z[-2 * size :] = 0.0  # what of the box is due is told by the slopes
    bent = boxed.matrix @ u
    left = bent + boxed.linear + boxed.rows.T @ z
    level = -(u @ bent) / 2 - boxed.rhs @ z
    level -= np.abs(left[size:]) @ (AUXILIARY * np.maximum(np.abs(u[size:]), 1.0))
    lost = (bent / 2 + boxed.linear) @ u - level + np.abs(left[:size]).sum()
    slopes = worth * left[:size] / lengths[:size]
    return u, float(worth * level), slopes, float(worth * lost), worth


def _boxed(rows: Any, lengths: np.ndarray, size: int) -> sp.csc_array:
    """Rows in these lengths, and below them those of the box of the first variables."""
    height, ends = rows.shape[0], np.repeat(rows.indptr[1 : size + 1], 2)
    data = rows.data * np.repeat(lengths, np.diff(rows.indptr))
    data = np.insert(data, ends, np.tile([1.0, -1.0], size))
    box = height + np.arange(2 * size).reshape(2, size).T.ravel()
    starts = rows.indptr + 2 * np.minimum(np.arange(rows.indptr.size), size)
    shape = (height + 2 * size, lengths.size)
    return sp.csc_array((data, np.insert(rows.indices, ends, box), starts), shape=shape)
