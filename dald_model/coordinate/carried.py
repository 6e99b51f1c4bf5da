r"""Curvature that equality rows carry from variables with a cost to those without.

What an area of a network sends out costs nothing itself; but somebody must make it. Along a
variable k that the edges see, the others that they see held,

.. math:: h_k = \min_d \{ d^\top D d : E d = 0, \; d_k = 1, \; d_j = 0
    \text{ for the other seen } j \}

is the stiffness of the client's optimal value, D being its own curvatures and E its equality rows.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.subproblem import Subproblem

LARGEST = 300
"""Variables of a client beyond which this is not asked."""
RANK = 1e-10
"""Singular values below this share of the largest are none, and so is what rows miss by less."""


def carried(sub: Subproblem, diagonal: np.ndarray) -> np.ndarray:
    """Own curvatures, shape (m,), with those that rows carry where a seen variable has none.

    Zero stays where the rows leave no such way, or one that costs nothing.
    """
    form = sub.form
    if form is None or not form.equalities.rhs.size or sub.size > LARGEST:
        return diagonal
    is_seen, rows = sub.sight.of_variables > 0, form.equalities.matrix
    # A variable that stands nowhere else does what its row asks
    rows = rows[~rows[:, sub.size :].any(axis=1), : sub.size]
    asked = np.flatnonzero(is_seen & (diagonal == 0) & rows.any(axis=0))
    free = np.flatnonzero(~is_seen)
    if not asked.size or not free.size or not diagonal[free].any():
        return diagonal
    left, values, right = np.linalg.svd(rows[:, free])
    rank = int(np.count_nonzero(values > RANK * values.max(initial=0.0)))
    missed = left[:, rank:].T @ rows[:, asked]
    is_way = np.abs(missed).max(axis=0, initial=0.0) <= RANK * np.abs(rows[:, asked]).max(axis=0)
    moves = -right[:rank].T @ ((left[:, :rank].T @ rows[:, asked]) / values[:rank, None])
    idle, own = right[rank:].T, diagonal[free]
    if idle.shape[1]:
        root = np.sqrt(own)[:, None]
        moves = moves - idle @ np.linalg.lstsq(root * idle, root * moves)[0]
    found = diagonal.copy()
    energies = own @ moves**2
    is_way &= energies > RANK * own.max() * (moves**2).sum(axis=0)
    found[asked[is_way]] = energies[is_way]
    return found
