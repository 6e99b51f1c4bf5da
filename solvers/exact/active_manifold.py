r"""Active manifold of a client: where its objective is smooth around one of its points.

Rows of constraints that hold with equality, and arguments of absolute values and norms that are
zero, stay so under small changes of what the client is told; the rest of its objective has a
Hessian there.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem

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
