r"""Minimisers of many quadratics by a factor of each Hessian.

With :math:`W W^\top = H^{-1}` the step is two products. Where there are equality rows, W is a
square root of the inverse on their null space, and :math:`\bar x` is the best point for c = 0:

.. math::
    x = \bar x - W (W^\top c), \qquad
    \nu = -M (H x + c), \qquad E^\top M v = v \text{ for every } v \text{ in the range of } E^\top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri  # pyright: ignore[reportAttributeAccessIssue]

from dald_model.compile.form import Form
from dald_model.sizes import SAME, SUMMED
from dald_model.solvers.arrays.indexing import double, outer, selection, times
from dald_model.solvers.exact.quadratic_step import Errors, Step, nonsmooth_terms, rows_of


class Elimination(NamedTuple):
    """Rows after Gauss-Jordan elimination: ``rows = transform @ (rows before)``.

    ``columns`` names the variable that each row gives, which has a 1 in it and 0 in the others;
    -1 for a row that depends on the others.
    """

    rows: np.ndarray
    transform: np.ndarray
    rhs: np.ndarray
    columns: np.ndarray
    consistent: np.ndarray


def eliminate(rows: np.ndarray, rhs: np.ndarray) -> Elimination:
    """Eliminate in k systems of rows of length 1, shapes (k, p, m) and (k, p)."""
    # Complete pivoting keeps the null space accurate entry by entry, however the variables are
    # scaled; an orthogonal basis is accurate only relative to the largest entry.
    count, height, size = rows.shape
    transform = np.broadcast_to(np.eye(height), (count, height, height))
    work = np.concatenate([rows, transform, rhs[:, :, None]], axis=2)
    columns = np.full((count, height), -1)
    each = np.arange(count)
    for _ in range(height):
        open_rows = np.where(columns[:, :, None] < 0, np.abs(work[:, :, :size]), -1.0)
        row, column = np.divmod(open_rows.reshape(count, -1).argmax(axis=1), size)
        use = each[open_rows[each, row, column] > SUMMED]
        row, column = row[use], column[use]
        columns[use, row] = column
        pivot = work[use, row] / work[use, row, column][:, None]
        work[use] -= work[use, :, column][:, :, None] * pivot[:, None, :]
        work[use, row] = pivot
    transform, reduced = work[:, :, size:-1], work[:, :, -1]
    slack = SAME * times(np.abs(transform), np.abs(rhs))
    consistent = np.all((columns >= 0) | (np.abs(reduced) <= slack), axis=1)
    return Elimination(work[:, :, :size], transform, reduced, columns, np.asarray(consistent))


def variable_scales(matrices: np.ndarray) -> np.ndarray:
    """Units of the variables in which H has a diagonal of ones, shape (k, m), where it can."""
    diagonals = np.diagonal(matrices, axis1=1, axis2=2)
    if (diagonals > 0).all():  # as mostly: then nothing is asked of the other entries
        return 1 / np.sqrt(diagonals)
    sizes = np.where(diagonals > 0, diagonals, np.abs(matrices).max(axis=2))
    largest = sizes.max(axis=1, keepdims=True)
    sizes = np.where(sizes > 0, sizes, np.where(largest > 0, largest, 1.0))
    return 1 / np.sqrt(sizes)


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length 1 and the lengths they had, shape (k, p); zero rows stay."""
    lengths = np.sqrt((rows**2).sum(axis=2))
    lengths[lengths == 0] = 1.0
    return rows / lengths[:, :, None], lengths


class Factor:
    """Quadratics without inequality rows and non-smooth terms, see the module."""

    is_exact: ClassVar[bool] = True

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        return rows_of("inequalities", form.inequalities.rhs.size) or nonsmooth_terms(form)

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        self._rows = np.array([form.equalities.matrix for form in forms])
        self._right = np.array([form.equalities.rhs for form in forms])
        rows = self._right.shape[1]
        self._roots = np.empty((count, size, size))
        self._failed = np.ones(count, dtype=bool)
        self._starts = np.zeros((count, size))
        self._fits = np.zeros((count, rows, size))
        self._returns = np.zeros((count, rows, size))

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H for some clients; failed are those not positive definite where it matters."""
        if self._right.shape[1] == 0:
            self._roots[which], failed = inverse_roots(hessians, SUMMED)
        else:
            failed = self._factor_on_null_space(which, hessians)
        self._failed[which] = failed
        return failed

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear``, in two products per client and two small ones per row."""
        at, nothing = selection(which), np.zeros((which.size, 0))
        points = self._starts[at] - double(self._roots[at], linear)
        failed = self._failed[which]
        points[failed] = np.nan
        energy = -np.vecdot(points, linear)
        if self._right.shape[1] == 0:
            return Step(points, nothing, nothing, failed, energy)
        equality = -(times(self._returns[at], points) + times(self._fits[at], linear))
        energy -= np.vecdot(equality, self._right[at])
        return Step(points, equality, nothing, failed, energy)

    def _factor_on_null_space(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Eliminate a variable per row, those that cost least, and factor what is left."""
        size = hessians.shape[1]
        scales = variable_scales(hessians)
        rows, lengths = unit_rows(self._rows[which] * scales[:, None, :])
        found = eliminate(rows, self._right[which] / lengths)
        # pick[i, j] = 1 where row i gives variable j; no row of a dependent one
        pick = (found.columns[:, :, None] == np.arange(size)).astype(float)
        given = pick.sum(axis=1)
        free = 1.0 - given
        basis = -pick.transpose(0, 2, 1) @ (found.rows * free[:, None, :])
        basis[:, range(size), range(size)] += free
        reduced = basis.transpose(0, 2, 1) @ (hessians * outer(scales)) @ basis
        reduced[:, range(size), range(size)] += given
        inner, failed = inverse_roots(reduced, SUMMED)
        # The columns of the given variables are zero in the basis, so their ones do not come in
        roots = scales[:, :, None] * (basis @ inner)
        fixed = scales * np.einsum("kpm,kp->km", pick, found.rhs)
        fits = (found.transform.transpose(0, 2, 1) @ pick) * scales[:, None, :]
        fits /= lengths[:, :, None]
        self._roots[which] = roots
        self._starts[which] = fixed - double(roots, times(hessians, fixed))
        self._fits[which] = fits
        self._returns[which] = fits @ hessians
        return failed | ~found.consistent


def inverse_roots(matrices: np.ndarray, flat: float) -> tuple[np.ndarray, np.ndarray]:
    r"""W with :math:`W W^\top = H^{-1}`, shape (k, m, m), and where H has a pivot below ``flat``.

    The residual of :math:`x = -W (W^\top c)` stays at 1e-14 relative to c and x up to condition
    1e10 after scaling (measured, m = 100); that of a product with the inverse is 4e-8 there.
    """
    scales = variable_scales(matrices)
    lower, failed = triangles(matrices * outer(scales), flat)
    roots = np.empty(lower.shape)
    for found, upper in zip(roots, lower.transpose(0, 2, 1), strict=True):
        found[:] = dtrtri(upper)[0]  # one by one, as numpy would take them for any matrices
    roots *= scales[:, :, None]
    return roots, failed


def triangles(matrices: np.ndarray, flat: float) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of matrices with ones on the diagonal; the identity where there is none."""
    usable, lower = np.asarray(np.isfinite(matrices).all(axis=(1, 2))), matrices
    if not usable.all():
        lower = np.where(usable[:, None, None], matrices, np.eye(matrices.shape[1]))
    try:
        lower = np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:  # does not say which one it was
        lower = lower.copy()
        for i, matrix in enumerate(lower):
            try:
                lower[i] = np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                lower[i] = 0
    failed = ~usable | (np.diagonal(lower, axis1=1, axis2=2).min(axis=1, initial=1) ** 2 < flat)
    if failed.any():
        lower[failed] = np.eye(matrices.shape[1])
    return lower, failed
