"""Clients with kinked rows in the same arrays, and what is kept of them between turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.exact.kinked_rows import KinkedRows
from dald_model.solvers.exact.separable_kinks import ActiveKinks

SOFT = 10.0
r"""The penalties :math:`\tau` at first, relative to what a row is held with by the diagonal of H.

Soft ones make inner problems of few steps.
"""

LARGE = 64
"""Variables from which on a triangular factor is kept in place of an inverse, and clients with
kinks of single variables are left to :mod:`dald_model.solvers.exact.separable_kinks`."""

SHARED = 2**22
"""Bytes of matrices that are worked on together: they stay in cache for all steps of a turn."""


class KinkGroup:
    r"""Clients whose rows are in the same arrays, and what is kept of them between turns.

    Attributes
    ----------
    rows : KinkedRows
    multipliers, values : ndarray, shape (k, R)
        s, and u at the last points.
    reaches : ndarray, shape (k, R)
        How far a row moves with variables by :math:`\operatorname{diag}(H)^{-1/2}`.
    forces : ndarray, shape (k,)
        How far the force of a row can move such variables.
    grown : ndarray, shape (k,)
        How stiff the clients are by now.
    inside : ndarray of bool, shape (k, R)
        The rows J that the inverses are of.
    inverses : ndarray, shape (k, m, m)
    is_stale : ndarray of bool, shape (k,)
        Whether H is another than that of the inverse.
    active : list of ActiveKinks or None
        Of each client with ``LARGE`` variables and kinks of single ones alone.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        self._begin(KinkedRows.of(forms), forms[0].size)

    def take(self, forms: Sequence[Form]) -> None:
        """Be as if made from these forms, of the same matrices."""
        self._begin(self.rows.again(forms), forms[0].size)

    def _begin(self, rows: KinkedRows, size: int) -> None:
        self.rows, shape = rows, rows.offset.shape
        self.multipliers, self.values = np.zeros(shape), rows.offset.copy()
        self.reaches, self.forces = np.ones(shape), np.ones(shape[0])
        self.grown = np.full(shape[0], SOFT)
        self.inside = np.zeros(shape, dtype=bool)
        self.inverses = np.zeros((shape[0], size, size))
        self.is_stale = np.ones(shape[0], dtype=bool)
        self.at_once = max(1, SHARED // max(1, rows.matrix.bytes, 8 * size**2))
        self.active: list[ActiveKinks | None] = [
            rows.active(at, size) if size >= LARGE else None for at in range(shape[0])
        ]

    def renew(self, members: np.ndarray, shares: np.ndarray) -> None:
        """Take other H, of which ``shares`` are the inverse of the diagonals."""
        squares = self.rows.matrix.take(selection(members)).squared_times(shares)
        self.reaches[members] = np.sqrt(np.where(squares > 0, squares, 1.0))
        limits = np.where(np.isfinite(self.rows.high[members]), self.rows.high[members], 0.0)
        self.forces[members] = (limits * self.reaches[members]).max(axis=1)
        self.is_stale[members] = True
        for active in map(self.active.__getitem__, members.tolist()):
            if active is not None:
                active.forget()

    def enter(self, member: int, point: np.ndarray, multipliers: np.ndarray) -> None:
        """Take what was found elsewhere for a client whose rows are of single variables."""
        rows, count = self.rows, multipliers.size
        self.multipliers[member, :count] = multipliers
        own, at = rows.columns[member, :count], slice(None, count)
        self.values[member, at] = rows.entries[member, at] * (point[own] - rows.levels[member, at])
