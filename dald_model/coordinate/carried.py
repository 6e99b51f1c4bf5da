r"""Curvature that equality rows carry from variables with a cost to those without.

What an area of a network sends out costs nothing itself; but somebody must make it. Along a
variable k that the edges see, the others that they see held,

.. math:: h_k = \min_d \{ d^\top D d : E d = 0, \; d_k = 1, \; d_j = 0
    \text{ for the other seen } j \}

is the stiffness of the client's optimal value, D being its own curvatures and E its equality rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem

LARGEST = 300
"""Variables of a client beyond which this is not asked."""
RANK = 1e-10
"""Singular values below this share of the largest are none, and so is what rows miss by less."""


class _Ways(NamedTuple):
    """How variables that are ``free`` follow, (f, a), where one that is ``asked`` for moves by one.

    And whether the rows let it, (a,), and along what they leave the free ones at rest, (f, k).
    """

    asked: np.ndarray
    free: np.ndarray
    moves: np.ndarray
    is_way: np.ndarray
    idle: np.ndarray


def carries(sub: Subproblem) -> bool:
    """Whether equality rows let variables that are not seen follow one that is, by itself."""
    ways = _ways(sub, np.ones(sub.size, dtype=bool))
    return ways is not None and bool(ways.is_way.any())


def carried(sub: Subproblem, diagonal: np.ndarray) -> np.ndarray:
    """Own curvatures, shape (m,), with those that rows carry where a seen variable has none.

    Zero stays where the rows leave no such way, or one that costs nothing.
    """
    ways = _ways(sub, diagonal == 0)
    if ways is None or not diagonal[ways.free].any():
        return diagonal
    moves, is_way = ways.moves, ways.is_way
    idle, own = ways.idle, diagonal[ways.free]
    if idle.shape[1]:
        root = np.sqrt(own)[:, None]
        moves = moves - idle @ np.linalg.lstsq(root * idle, root * moves)[0]
    found = diagonal.copy()
    energies = own @ moves**2
    is_way &= energies > RANK * own.max() * (moves**2).sum(axis=0)
    found[ways.asked[is_way]] = energies[is_way]
    return found


def _ways(sub: Subproblem, among: np.ndarray) -> _Ways | None:
    """Those of the seen variables among some, (m,) bool; None where there is nothing to ask."""
    form = sub.form
    if form is None or not form.equalities.rhs.size or sub.size > LARGEST:
        return None
    is_seen, rows = sub.sight.of_variables > 0, form.equalities.matrix
    # A variable that stands nowhere else does what its row asks
    rows = rows[~rows[:, sub.size :].any(axis=1), : sub.size]
    asked = np.flatnonzero(is_seen & among & rows.any(axis=0))
    free = np.flatnonzero(~is_seen)
    if not asked.size or not free.size:
        return None
    left, values, right = np.linalg.svd(rows[:, free])
    rank = int(np.count_nonzero(values > RANK * values.max(initial=0.0)))
    missed = left[:, rank:].T @ rows[:, asked]
    is_way = np.abs(missed).max(axis=0, initial=0.0) <= RANK * np.abs(rows[:, asked]).max(axis=0)
    moves = -right[:rank].T @ ((left[:, :rank].T @ rows[:, asked]) / values[:rank, None])
    return _Ways(asked, free, moves, is_way, right[rank:].T)
