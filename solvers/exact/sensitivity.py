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
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.smooth import Smooth

ACTIVE = 1e-7
"""A row is at its bound, and an argument at its kink, up to this share of its own numbers."""


class ActiveManifold:
    """The rows and the curvature of one client's manifolds, see the module.

    Attributes
    ----------
    is_bent : bool
        Whether the curvature is not the same at all points of one manifold.
    """

    def __init__(self, form: Form) -> None:
        self._equalities = form.equalities.matrix
        self._edges, self._bounds = form.inequalities
        kinked = [term for term in form.terms if term.kind.is_polyhedral]
        empty = np.zeros((0, form.size))
        self._kinks = np.concatenate([empty, *(_dense(term) for term in kinked)])
        self._offset = np.concatenate([np.zeros(0), *(term.offset for term in kinked)])
        self._round = [term for term in form.terms if not (term.is_smooth or term in kinked)]
        self._edge_norms = np.linalg.norm(self._edges, axis=1)
        self._kink_norms = np.linalg.norm(self._kinks, axis=1)
        self._size = form.size
        self.is_bent = len(self._round) > 0 or any(term.is_smooth for term in form.terms)

    def active(self, point: np.ndarray) -> np.ndarray:
        """Which inequalities, kinks, norms and balls are active at a point of shape (m,)."""
        length = float(np.linalg.norm(point))
        room = self._bounds - self._edges @ point
        u = self._kinks @ point + self._offset
        found = [
            room <= ACTIVE * (self._edge_norms * length + np.abs(self._bounds)),
            np.abs(u) <= ACTIVE * (self._kink_norms * length + np.abs(self._offset)),
        ]
        for term in self._round:
            rows, arguments = _arguments(term, point)
            size = np.linalg.norm(rows, axis=(1, 2)) * length
            size += np.linalg.norm(term.offset.reshape(arguments.shape), axis=1)
            far = np.linalg.norm(arguments, axis=1)
            gap = term.parameter - far if term.is_set else far
            found.append(gap <= ACTIVE * (size + term.parameter))
        return np.concatenate(found)

    def rows(self, active: np.ndarray, point: np.ndarray) -> np.ndarray:
        """What does not change along the manifold, (p, m): linear functions of the variables."""
        edges, kinks, *others = self._parted(active)
        found = [self._equalities, self._edges[edges], self._kinks[kinks]]
        for term, mine in zip(self._round, others, strict=True):
            rows, arguments = _arguments(term, point)
            if term.is_set:
                found.append(_normals(rows, arguments)[mine])
            else:
                found.append(rows[mine].reshape(-1, self._size))
        return np.concatenate(found)

    def curvature(self, active: np.ndarray, point: np.ndarray, force: np.ndarray) -> np.ndarray:
        r"""The Hessian of norms and of active balls at a point, (m, m).

        ``force``, (m,), is what all terms and constraints that are not smooth hold there: the
        multipliers of balls are the least squares of it.
        """
        found = np.zeros((self._size, self._size))
        others = self._parted(active)[2:]
        held: np.ndarray | None = None
        at = len(self._equalities) + int(active[: len(self._bounds) + len(self._offset)].sum())
        for term, mine in zip(self._round, others, strict=True):
            rows, arguments = _arguments(term, point)
            if not term.is_set:
                found += _bend(rows[~mine], arguments[~mine], term.weight[~mine])
                at += int(mine.sum()) * term.width
                continue
            if held is None:
                left = force - self._sloped(active, point)
                held = np.linalg.lstsq(self.rows(active, point).T, left)[0]
            count = int(mine.sum())
            weight = np.maximum(held[at : at + count], 0.0)
            found += _bend(rows[mine], arguments[mine], weight)
            at += count
        return found

    def _sloped(self, active: np.ndarray, point: np.ndarray) -> np.ndarray:
        """The gradient of norms that are not at their kink."""
        found = np.zeros(self._size)
        for term, mine in zip(self._round, self._parted(active)[2:], strict=True):
            if not term.is_set:
                normals = _normals(*_arguments(term, point))
                found += term.weight[~mine] @ normals[~mine]
        return found

    def _parted(self, active: np.ndarray) -> list[np.ndarray]:
        sizes = [self._bounds.size, self._offset.size, *(one.weight.size for one in self._round)]
        return np.split(active, np.cumsum(sizes)[:-1])


def no_manifold(sub: Subproblem) -> str:
    """Why a client's active manifold is not known, or says little; empty if it does.

    With kinks at rows of data which of them are active changes from answer to answer.
    """
    form = sub.form
    if form is None:
        return "it is known to cvxpy alone, which gives no Hessians"
    if not (form.complete and form.valued):
        return "it has cones that its solver knows no Hessian on"
    if form.extra:
        return "its rows have variables that stand nowhere else"
    kinked = [term for term in form.terms if term.kind.is_polyhedral]
    if any(term.is_of_data or term.weight.size > form.size for term in kinked):
        return "its objective has kinks at rows of data, between which a Hessian says little"
    return ""


def _dense(term: Term) -> np.ndarray:
    return sp.csr_array(term.matrix).toarray() if sp.issparse(term.matrix) else term.matrix


def _arguments(term: Term, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (T, width, m) and arguments (T, width) of the functions of a term."""
    rows = _dense(term).reshape(-1, term.width, point.size)
    return rows, rows @ point + term.offset.reshape(-1, term.width)


def _normals(rows: np.ndarray, arguments: np.ndarray) -> np.ndarray:
    """Gradients of the lengths of arguments, (T, m); zero at zero."""
    lengths = np.linalg.norm(arguments, axis=1, keepdims=True)
    units = arguments / np.maximum(lengths, np.finfo(float).tiny)
    return np.einsum("twm,tw->tm", rows, units)


def _bend(rows: np.ndarray, arguments: np.ndarray, weight: np.ndarray) -> np.ndarray:
    r""":math:`\sum_t w_t A_t^\top (I - \hat u_t \hat u_t^\top) A_t / |u_t|`."""
    lengths = np.linalg.norm(arguments, axis=1)
    share = weight / np.maximum(lengths, np.finfo(float).tiny)
    normals = _normals(rows, arguments)
    whole = np.einsum("t,twm,twk->mk", share, rows, rows)
    return whole - (share[:, None] * normals).T @ normals


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
        For all of which :func:`dald_model.solvers.exact.sensitivity.no_manifold` is empty.
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
