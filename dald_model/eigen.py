"""Eigenvalues of symmetric matrices, also where LAPACK's fastest method fails."""

from __future__ import annotations

import numpy as np
import scipy.linalg


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
    try:
        values, vectors = np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        if not np.isfinite(matrices).all():
            raise
        values, vectors = np.empty(matrices.shape[:-1]), np.empty(matrices.shape)
        for at in np.ndindex(matrices.shape[:-2]):
            values[at], vectors[at] = scipy.linalg.eigh(matrices[at], driver="ev")
    return values, vectors
