"""Eigenvalues of symmetric matrices, also where LAPACK's fastest method fails."""

from __future__ import annotations

import functools

import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController

TINY, ONE_THREAD = 16, 500
"""Sizes above which, and up to which, matrices are taken by one thread of BLAS. Several spin while
they wait for each other: beside other busy processes, on two cores, 144 matrices of 60 took 40 to
80 times as long. Up to 24 OpenBLAS takes but one by itself."""


def eigh(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Eigenvalues, ascending, and vectors of symmetric matrices A, :math:`A = V \Lambda V^\top`.

    Divide and conquer, which numpy takes, does not converge on a few matrices that nothing is wrong
    with; the QR method does. So these are asked of it, one by one.

    Parameters
    ----------
    matrices : ndarray, shape (..., n, n)

    Returns
    -------
    values : ndarray, shape (..., n)
    vectors : ndarray, shape (..., n, n)
        In columns.

    Raises
    ------
    numpy.linalg.LinAlgError
        If an entry is not finite, or neither method converges.
    """
    if not TINY < matrices.shape[-1] <= ONE_THREAD:
        return _eigh(matrices)
    with _pools().limit(limits=1, user_api="blas"):
        return _eigh(matrices)


def eigvalsh(matrix: np.ndarray) -> np.ndarray:
    """The eigenvalues of a symmetric matrix, ascending."""
    if not TINY < len(matrix) <= ONE_THREAD:
        return np.linalg.eigvalsh(matrix)
    with _pools().limit(limits=1, user_api="blas"):
        return np.linalg.eigvalsh(matrix)


@functools.cache
def _pools() -> ThreadpoolController:
    """Those of numpy's BLAS: looking for them takes a hundred times as long as setting them."""
    return ThreadpoolController()


def _eigh(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        values, vectors = np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        if not np.isfinite(matrices).all():
            raise
        values, vectors = np.empty(matrices.shape[:-1]), np.empty(matrices.shape)
        for at in np.ndindex(matrices.shape[:-2]):
            values[at], vectors[at] = scipy.linalg.eigh(matrices[at], driver="ev")
    return values, vectors
