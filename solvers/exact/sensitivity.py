r"""Sensitivity of clients: how their minimisers move with what they are told.

With directions :math:`\xi = M x` a client that is told :math:`\tau` answers with the minimiser of
its own objective and :math:`\tfrac12 |M x - \tau|^2`. On its active manifold, whose rows are N,
with the Hessian H of what is smooth there,

.. math::
    \begin{pmatrix} H + M^\top M & N^\top \\ N & 0 \end{pmatrix}
    \begin{pmatrix} X \\ \cdot \end{pmatrix} = \begin{pmatrix} M^\top \\ 0 \end{pmatrix},
    \qquad S = \frac{d \xi}{d \tau} = M X,

the (generalised) Jacobian of the answer (Fiacco and McCormick 1968; Qi and Sun 1993), symmetric
with eigenvalues in [0, 1]; :math:`S^{-1} - I` is the Hessian that ALADIN's clients send.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.smooth import Smooth
from dald_model.solvers.exact.active_manifold import ActiveManifold

RIDGE = 1e-13
"""Added where a direction may have no curvature, and rows may depend on each other; shares of the
diagonal."""
GIVE = 1e-2
"""How far active rows give way, in units of the rest of the client: 0 is a rigid row.

Which rows are active at one answer need not be what is active at the next. Rigid rows make prices
arbitrary where several clients are held by the same bound, and 1 forgets the rows.
"""


class Sensitivity:
    """The responses of clients of one size m and as many directions r.

    Parameters
    ----------
    subproblems : sequence of Subproblem
        For all of which :func:`dald_model.solvers.exact.active_manifold.no_manifold` is empty.
    maps : ndarray, shape (n, r, m)
        M.
    """

    def __init__(self, subproblems: Sequence[Subproblem], maps: np.ndarray) -> None:
        forms = [form for sub in subproblems if (form := sub.form) is not None]
        self._smooth = Smooth(subproblems)
        self._manifolds = [ActiveManifold(form) for form in forms]
        self._is_bent = np.array([one.is_bent for one in self._manifolds])
        self._maps = maps
        self._last: list[bytes | None] = [None] * len(forms)

    def changed(self, points: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which clients respond otherwise than last time, and how, (k,) and (k, r, r).

        Parameters
        ----------
        points : ndarray, shape (n, m)
            Their minimisers.
        slopes : ndarray, shape (n, r)
            The slopes of their objectives there along the directions.
        """
        active = [one.active(x) for one, x in zip(self._manifolds, points, strict=True)]
        keys: list[bytes | None] = [each.tobytes() for each in active]
        is_same = [now == before for now, before in zip(keys, self._last, strict=True)]
        self._last = keys
        which = np.flatnonzero(~np.array(is_same) | self._is_bent)
        if which.size == 0:
            return which, np.zeros((0, *2 * self._maps.shape[1:2]))
        flat = points[which].reshape(-1)
        hessians = np.stack(self._smooth.hessians(which, flat))
        gradients = self._smooth.gradients(which, flat).reshape(which.size, -1)
        rows = []
        for i, at in enumerate(which.tolist()):
            manifold, x = self._manifolds[at], points[at]
            rows.append(manifold.rows(active[at], x))
            if manifold.is_bent:
                force = slopes[at] @ self._maps[at] - gradients[i]
                hessians[i] += manifold.curvature(active[at], x, force)
        return which, responses(hessians, self._maps[which], rows)


def responses(hessians: np.ndarray, maps: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
    """S, see the module, of shape (k, r, r).

    ``hessians`` (k, m, m) and ``maps`` (k, r, m); of each client its rows, (p, m).
    """
    count, size = hessians.shape[:2]
    most = max(len(each) for each in rows)
    system = np.zeros((count, size + most, size + most))
    curved = hessians + np.swapaxes(maps, 1, 2) @ maps
    diagonal = np.diagonal(curved, axis1=1, axis2=2)
    floor = np.maximum(diagonal.max(axis=1, keepdims=True), np.finfo(float).tiny)
    scale = 1 / np.sqrt(np.where(diagonal > RIDGE * floor, diagonal, floor))
    system[:, :size, :size] = curved * scale[:, :, None] * scale[:, None, :]
    each = np.arange(size + most)
    system[:, each[:size], each[:size]] += RIDGE
    system[:, each[size:], each[size:]] = -1.0
    for own, each_scale, mine in zip(system, scale, rows, strict=True):
        scaled = mine * each_scale
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        scaled = scaled / np.where(lengths > 0, lengths, 1.0)
        stop = size + len(mine)
        own[size:stop, :size], own[:size, size:stop] = scaled, scaled.T
        own[each[size:stop], each[size:stop]] = -GIVE
    told = np.zeros((count, size + most, maps.shape[1]))
    told[:, :size] = np.swapaxes(maps * scale[:, None, :], 1, 2)
    moved = np.linalg.solve(system, told)[:, :size]
    found = np.swapaxes(told[:, :size], 1, 2) @ moved
    return (found + np.swapaxes(found, 1, 2)) / 2
