r"""Rows of a cone program whose slack is zero at no feasible point.

Those without variables, or with variables that equalities fix, and a right-hand side that is not
zero. And those that second-order cones keep from zero: of :math:`s_0 \ge \|(s_1, s_2)\|` with
:math:`s_2 \ne 0` both :math:`s_0 + s_1` and :math:`s_0 - s_1` are positive, so rows that are
multiples of these are not zero either. In this way cvxpy writes powers: :math:`1 \le w x` and
:math:`w^2 \le t x` for :math:`x^{-3} \le t`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram

HEIGHT = 3
"""Rows of the second-order cones that cvxpy writes powers and geometric means with."""
DIGITS = 9
"""To so many digits two rows are compared."""
Key = tuple[tuple[int, ...], tuple[float, ...]]
"""Columns and values of a row, the last column being the right-hand side; the largest is one."""


def nonzero_slacks(
    cone: ConeProgram, rows: sp.csr_array, is_equal: np.ndarray, balls: list[slice]
) -> np.ndarray:
    """Which rows have a slack that is zero at no feasible point, (k,) bool.

    ``is_equal`` says which rows are equalities, and ``balls`` where second-order cones are.
    """
    level = constant_slacks(cone, rows, is_equal)
    found = np.isfinite(level) & (level != 0)
    whole: Any = sp.csr_array(sp.hstack([rows, cone.rhs[:, None]]))
    positive: set[Key] = set()
    left = [ball for ball in balls if ball.stop - ball.start == HEIGHT]
    while left:
        for ball in left if positive else ():
            for at in range(ball.start + 1, ball.stop):
                found[at] |= _is_in(whole[[at]], positive)
        is_sure = [bool(found[ball.start + 1 : ball.stop].any()) for ball in left]
        if not any(is_sure):
            break
        sure = [ball for ball, known in zip(left, is_sure, strict=True) if known]
        left = [ball for ball, known in zip(left, is_sure, strict=True) if not known]
        for ball in sure if left else ():
            first, pair = whole[[ball.start]], (ball.start + 1, ball.start + 2)
            for at, other in (pair, pair[::-1]):
                if found[other]:
                    positive |= {_key(first + whole[[at]]), _key(first - whole[[at]])}
    return found


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


def _is_in(row: Any, positive: set[Key]) -> bool:
    """Whether a row is a multiple of one that is positive."""
    return _key(row) in positive or _key(-row) in positive


def _key(row: Any) -> Key:
    entries: Any = sp.csr_array(row)
    entries.sort_indices()
    values = np.round(entries.data / (abs(entries).max() or 1.0), DIGITS)
    kept = values != 0
    return tuple(entries.indices[kept].tolist()), tuple(values[kept].tolist())
