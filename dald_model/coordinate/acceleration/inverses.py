"""Inverses of definite matrices that are corrected by rank one, and whether they stay definite."""

from __future__ import annotations

import numpy as np

LEAST = 1e-6
"""What a correction divides by is at least this, or the inverse is found anew: digits are lost."""
EXACT = 1e-8
"""Share of a vector that the matrix times its image under the inverse may be off by."""


class Inverses:
    r"""Of symmetric S with eigenvalues in (e, 1 - e) the inverses of S and of I - S.

    A correction keeps S definite exactly where :math:`1 + a \, u^\top S^{-1} u > 0` (Sherman and
    Morrison 1950, and the determinant of a product), and no eigenvalue is below e where the trace
    of the inverse is below 1 / e. So of clients whose models stay sound no eigenproblem is solved.

    Attributes
    ----------
    is_known : ndarray of bool, shape (n,)
        Of whom they are kept.
    low : ndarray, shape (n, r, r)
        :math:`S^{-1}`.
    """

    def __init__(self, count: int, size: int, edge: float) -> None:
        self.is_known = np.zeros(count, dtype=bool)
        self.low, self._high = np.zeros((2, count, size, size))
        self._most = 1 / edge

    def set(self, who: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> None:
        """Take the eigenvalues (k, r) and vectors (k, r, r) of S of some clients."""
        edge = 1 / self._most
        within = ((values > edge) & (values < 1 - edge)).all(axis=1)
        who, values, vectors = who[within], values[within], vectors[within]
        self.is_known[who] = True
        back = np.swapaxes(vectors, 1, 2)
        self.low[who] = (vectors / values[:, None, :]) @ back
        self._high[who] = (vectors / (1 - values)[:, None, :]) @ back

    def correct(self, response: np.ndarray, lines: np.ndarray, scale: np.ndarray) -> None:
        r"""Follow :math:`S \leftarrow S + a u u^\top`, after it, of u (n, r) and a (n,)."""
        for inverse, sign, matrix in ((self.low, 1.0, response), (self._high, -1.0, None)):
            along = np.einsum("nij,nj->ni", inverse, lines)
            divisor = 1 + sign * scale * np.einsum("ni,ni->n", lines, along)
            self.is_known &= divisor > LEAST
            share = np.divide(sign * scale, divisor, out=np.zeros_like(scale), where=self.is_known)
            inverse -= share[:, None, None] * (along[:, :, None] * along[:, None, :])
            self.is_known &= np.einsum("nii->n", inverse) < self._most
            if matrix is not None:
                # S^{-1} u after the correction is a multiple of what it was before
                mapped = np.einsum("nij,nj->ni", matrix, along) - divisor[:, None] * lines
                off, whole = (np.einsum("ni,ni->n", one, one) for one in (mapped, lines))
                self.is_known &= off <= EXACT**2 * divisor**2 * whole
