"""Factors of sums of curvature, and solves with them that are refined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_lapack_funcs
from scipy.sparse.linalg import LinearOperator, gmres, splu

from dald_model.sizes import SUMMED

POTRF, POTRS, GETRF, GETRS = get_lapack_funcs(("potrf", "potrs", "getrf", "getrs"))
"""LAPACK itself, as scipy's checks take longer than a solve of 50 unknowns."""
REGULAR_ROWS, REFINED_TO = 1e-8, 1e-13
"""What regularises multipliers of rows of length one, and the share of a right side that a
refinement leaves, both as in Clarabel: dependent rows leave rounding over this in multipliers."""
REFINEMENTS = 4
"""Passes of a refinement before a Krylov method: each takes all digits but where curvature is less
than what regularises it."""
KRYLOV = 20
"""Directions of little curvature that a refinement is exact in."""


def factored(total: Any, is_multiplier: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A solve, refined; the matrix is quasidefinite with a regularisation."""
    diagonal = total.diagonal()
    size = float(np.abs(diagonal).max(initial=0.0))
    bump = SUMMED * np.where(diagonal != 0, np.abs(diagonal), size or 1.0)
    bump = np.where(is_multiplier, -REGULAR_ROWS, bump + 1e-16 * size)
    if sp.issparse(total):
        options = {"SymmetricMode": True}
        matrix = sp.csc_array(total + sp.diags_array(bump))
        plain = splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        ).solve
    else:
        matrix = total.copy()
        at = np.arange(bump.size)
        matrix[at, at] += bump
        plain = _dense(matrix, bool(is_multiplier.any()))

    def solve(side: np.ndarray) -> np.ndarray:
        found, enough = plain(side), REFINED_TO * np.abs(side).max(initial=0.0)
        left = side - total @ found
        for _ in range(REFINEMENTS):
            if np.abs(left).max(initial=0.0) <= enough:
                return found
            found = found + plain(left)
            left = side - total @ found
        # Where curvature is less than what regularises it each pass takes little of what is left,
        # and as many steps of a Krylov method as there are such directions take all
        factor = cast("Any", LinearOperator)(total.shape, matvec=plain, dtype=float)
        krylov = gmres(total, left, rtol=0.0, atol=enough, restart=KRYLOV, maxiter=1, M=factor)
        return found + krylov[0]

    return solve


def _dense(matrix: np.ndarray, is_indefinite: bool) -> Callable[[np.ndarray], np.ndarray]:
    if not is_indefinite and matrix.size:
        factor, info = POTRF(matrix.T)
        if info == 0:
            return lambda side: POTRS(factor, side)[0]
    return pivoted(matrix)


def pivoted(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A solve with a symmetric matrix."""
    if not matrix.size:
        return np.copy
    factor, pivots, _ = GETRF(matrix.T)
    return lambda side: GETRS(factor, pivots, side)[0]
