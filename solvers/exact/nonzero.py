r"""Rows of a cone program whose slack is zero at no feasible point.

Those without variables, or with variables that equalities fix, and a right-hand side that is not
zero. And those that second-order cones keep from zero: of :math:`s_0 \\ge \\|(s_1, s_2)\\|` with
:math:`s_2 \\ne 0` both :math:`s_0 + s_1` and :math:`s_0 - s_1` are positive, so rows that are
multiples of these are not zero either. In this way cvxpy writes powers: :math:`1 \\le w x` and
:math:`w^2 \\le t x` for :math:`x^{-3} \\le t`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram

DIGITS = 9
"""To so many digits two rows are compared."""
Key = tuple[tuple[int, ...], tuple[float, ...]]
"""Columns and values of a row, the last column being the right-hand side; the largest is one."""


def nonzero_slacks(
    cone: ConeProgram, rows: sp.csr_array, is_equal: np.ndarray, balls: list[slice]
) -> np.ndarray:
    """Which rows have a slack that is zero at no feasible point, (k,) bool.

    ``is_equal`` says which rows are equalities, and ``balls`` where second-order cones are. Of one
    that cannot be zero at least a row is named.
    """
    level = constant_slacks(cone, rows, is_equal)
    found = np.isfinite(level) & (level != 0)
    whole: Any = sp.csr_array(sp.hstack([rows, cone.rhs[:, None]]))
    positive: set[Key] = set()
    left = dict(enumerate(balls))
    while True:
        certain = [
            at for at, ball in left.items() if _is_certain(whole[ball], found[ball], positive)
        ]
        if not certain:
            return found
        for at in certain:
            ball = left.pop(at)
            own, first = whole[ball], ball.start
            named = [k for k in range(own.shape[0]) if _is_in(own[[k]], positive)]
            found[[first + k for k in named]] = True
            found[first] = True  # as the others are in size at most as large
            sure = np.flatnonzero(found[ball])
            for k in range(1, own.shape[0]):
                if (sure[sure > 0] != k).any():
                    positive |= {_key(own[[0]] + own[[k]]), _key(own[[0]] - own[[k]])}


def constant_slacks(cone: ConeProgram, rows: sp.csr_array, is_equal: np.ndarray) -> np.ndarray:
    """The slack of each row that is the same at all feasible points; NaN of the others."""
    fixed = np.full(cone.linear.size, np.nan)
    ties, rhs = sp.csr_array(rows[is_equal]), cone.rhs[is_equal]
    ties.eliminate_zeros()
    present = sp.csr_array((np.ones(ties.nnz), ties.indices, ties.indptr), ties.shape)
    while (single := np.flatnonzero(present @ np.isnan(fixed) == 1)).size:
        level = (rhs[single] - ties[single] @ np.nan_to_num(fixed)).reshape(-1)
        cells = sp.coo_array(ties[single])
        mine = np.isnan(fixed[cells.col])
        fixed[cells.col[mine]] = level[cells.row[mine]] / cells.data[mine]
    varies = abs(rows) @ np.isnan(fixed) > 0
    return np.where(varies, np.nan, cone.rhs - rows @ np.nan_to_num(fixed))


def _is_certain(own: Any, known: np.ndarray, positive: set[Key]) -> bool:
    """Whether the slack of a second-order cone cannot be zero."""
    if known.any():
        return True
    sums = [own[[0]] + sign * own[[k]] for k in range(1, own.shape[0]) for sign in (1, -1)]
    return any(_is_in(row, positive) for row in [*(own[[k]] for k in range(own.shape[0])), *sums])


def _is_in(row: Any, positive: set[Key]) -> bool:
    """Whether a row is a multiple of one that is positive."""
    return _key(row) in positive or _key(-row) in positive


def _key(row: Any) -> Key:
    entries: Any = sp.csr_array(row)
    entries.sort_indices()
    values = np.round(entries.data / (abs(entries).max() or 1.0), DIGITS)
    kept = values != 0
    return tuple(entries.indices[kept].tolist()), tuple(values[kept].tolist())
