r"""Clients whose objective has a gradient and that have no constraints, stacked by shape.

.. math:: f(x) = \tfrac12 x^\top P x + q^\top x + \varphi(x), \qquad
    f(x) - f(u) = -(P x + q)^\top d - \tfrac12 d^\top P d + \varphi(x) - \varphi(u), \quad d = u - x

The difference is computed as it stands on the right: constants cancel before they are rounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.eigen import eigh
from dald_model.solvers.arrays.terms import Terms

ROOM = 2**22
"""Entries of the Hessians that are held at once: 32 MiB."""
RIDGE = 1e-15
"""Share of the largest eigenvalue below which a curvature, and a step along it, is rounding: with
unit diagonals eigenvalues have errors of a few times 2e-16."""
ROUNDED = 8 * np.finfo(float).eps
"""Share of the summands of a difference that counts as its error: so much inner products round."""


Bends = tuple[np.ndarray, np.ndarray, np.ndarray]
"""What :func:`scaled_roots` finds of a Hessian."""


class SmoothClients:
    """Some clients of one shape, see the module; arrays have a row for each.

    Attributes
    ----------
    names : list
    columns : ndarray of int, shape (k, m)
        Where their variables lie in the vector of all.
    """

    def __init__(self, compiled: Decomposition, subs: list[Subproblem]) -> None:
        self.names = [sub.name for sub in subs]
        columns = [np.arange(*compiled.columns[name].indices(2**62)[:2]) for name in self.names]
        self.columns = np.stack(columns)
        forms = [sub.form for sub in subs if sub.form is not None]
        self._quadratics = [form.quadratic for form in forms]
        self._linear = np.stack([one.linear for one in self._quadratics])
        self._is_dense = all(one.matrix is not None for one in self._quadratics)
        self._matrix = np.stack([one.full for one in self._quadratics]) if self._is_dense else None
        self._terms = Terms([f.terms for f in forms], subs[0].size) if forms[0].terms else None

    @property
    def is_quadratic(self) -> bool:
        """Whether there are no other terms."""
        return self._terms is None

    def gradients(self, at: np.ndarray) -> np.ndarray:
        """At a point for each client, (k, m)."""
        found = self._times(at) + self._linear
        return found if self._terms is None else found + self._terms.gradients(None, at)

    def gradient_errors(self, at: np.ndarray) -> np.ndarray:
        """What each gradient of the quadratic may be wrong by for being rounded, (k, m)."""
        return ROUNDED * (self._sizes(at) + np.abs(self._linear))

    def falls(self, at: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How much lower each objective is at ``to`` than at ``at``, and how far that is rounded.

        The error of the quadratic, which grows with the distance, and that of the other terms,
        which is a share of their values. All (k,); NaN outside of the domain.
        """
        step = to - at
        slopes, bent = self._times(at) + self._linear, self._times(step)
        found = -np.vecdot(slopes, step) - np.vecdot(step, bent) / 2
        error = np.vecdot(self.gradient_errors(at) + ROUNDED * self._sizes(step), np.abs(step))
        if self._terms is None:
            return found, error, np.zeros(len(found))
        before, after = self._terms.values(None, at), self._terms.values(None, to)
        with np.errstate(invalid="ignore"):
            return found + before - after, error, ROUNDED * (np.abs(before) + np.abs(after))

    def sure_falls(self, at: np.ndarray, to: np.ndarray) -> np.ndarray:
        """How much lower each objective is for certain: rounding never makes a fall."""
        found, error, of_terms = self.falls(at, to)
        return found - error - of_terms

    def newton_steps(self, at: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        r"""The steps :math:`-(\nabla^2 f)^+ s` for slopes s, (k, m); NaN where there is none."""
        return self._steps(at, slopes)[0]

    def faint_steps(self, at: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Steps against the slopes along curvatures that may be rounding, (k, m).

        As long as if they were the largest such; zero where there is none.
        """
        return np.nan_to_num(self._steps(at, slopes)[1], nan=0.0, posinf=0.0, neginf=0.0)

    def _steps(self, at: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sure, faint = np.full((2, *at.shape), np.nan)
        for i, (bent, slope) in enumerate(zip(self._bends(at), slopes, strict=True)):
            if bent is not None and np.isfinite(slope).all():
                roots, vectors, inverse = bent
                along = vectors.T @ (inverse * slope)
                least = RIDGE * max(float(roots[-1]), np.finfo(float).tiny)
                live, steps = roots > least, along / np.maximum(roots, least)
                sure[i] = -inverse * (vectors[:, live] @ steps[live])
                faint[i] = -inverse * (vectors[:, ~live] @ steps[~live])
        return sure, faint

    def losses(self, slopes: np.ndarray, away: np.ndarray, enough: np.ndarray) -> np.ndarray:
        r"""How much each objective can fall from a point with these slopes, at most, (k,).

        In the box whose farthest entries are ``away`` from the point: by
        :math:`\sum_e |s_e| d_e`, or along each eigenvector of P, with its curvature
        :math:`\lambda`, by :math:`a t - \lambda t^2 / 2` for the best t within the box. The latter
        is asked only where the former is more than ``enough``, (k,).
        """
        found = np.vecdot(np.abs(slopes), away)
        for i in np.flatnonzero(found > enough):
            bent = self._own_bends[i]
            if bent is None:
                continue
            roots, vectors, inverse = bent
            sure = np.maximum(roots - RIDGE * max(float(roots[-1]), 0.0), 0.0)
            along = np.abs(vectors.T @ (inverse * slopes[i]))
            wide = np.abs(vectors).T @ (away[i] / inverse)
            way = np.minimum(wide, along / np.maximum(sure, np.finfo(float).tiny))
            found[i] = np.fmin(found[i], (along - sure * way / 2) @ way)
        return found

    def hessians(self, at: np.ndarray) -> Iterator[np.ndarray]:
        """One (m, m) matrix for each client, a few made at a time."""
        size = at.shape[1]
        chunk = max(1, ROOM // size**2)
        for first in range(0, len(at), chunk):
            part = np.arange(first, min(first + chunk, len(at)))
            matrices = (
                self._matrix[part]
                if self._matrix is not None
                else np.stack([self._quadratics[i].full for i in part])
            )
            if self._terms is not None:
                matrices = matrices + self._terms.hessians(part, at[part])
            yield from matrices

    def _bends(self, at: np.ndarray) -> Iterable[Bends | None]:
        if self.is_quadratic:
            return self._own_bends
        return (_bends_of(bent) for bent in self.hessians(at))

    @cached_property
    def _own_bends(self) -> list[Bends | None]:
        return [_bends_of(one.full) for one in self._quadratics]

    def _sizes(self, vectors: np.ndarray) -> np.ndarray:
        """The sizes of the summands of P x, (k, m)."""
        sizes = np.abs(vectors)
        if self._matrix is not None:
            return np.einsum("kij,kj->ki", np.abs(self._matrix), sizes)
        return np.stack(
            [
                np.abs(one.full) @ size
                if one.root is None
                else abs(one.root).T @ (abs(one.root) @ size)
                for one, size in zip(self._quadratics, sizes, strict=True)
            ]
        )

    def _times(self, vectors: np.ndarray) -> np.ndarray:
        if self._matrix is not None:
            return np.einsum("kij,kj->ki", self._matrix, vectors)
        pairs = zip(self._quadratics, vectors, strict=True)
        return np.stack([one.times(vector) for one, vector in pairs])


def _bends_of(matrix: np.ndarray) -> Bends | None:
    return scaled_roots(matrix) if np.isfinite(matrix).all() else None


def scaled_roots(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Eigenvalues and vectors of :math:`D A D`, and the diagonal of D that makes its diagonal one.

    So that units of single variables neither hide a curvature nor make one of rounding.
    """
    diagonal = np.diagonal(matrix)
    inverse = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = eigh(inverse[:, None] * matrix * inverse)
    return values, vectors, inverse


def is_smooth_alone(form: Form | None) -> bool:
    """Whether a client has a gradient everywhere in its domain and no constraints."""
    if form is None or not (form.complete and form.valued) or form.extra:
        return False
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    return not rows and all(term.is_smooth for term in form.terms)


def is_free_server(sub: Subproblem) -> bool:
    """Whether this is a server whose variables may be anything, so that its prices are zero."""
    form = sub.form
    if not sub.client.is_server:
        return False
    return form is None or not (form.equalities.rhs.size + form.inequalities.rhs.size)


def smooth_groups(
    compiled: Decomposition, names: Iterable[Hashable]
) -> tuple[list[SmoothClients], list[Hashable]]:
    """The smooth ones among clients by shape, and the others but free servers."""
    groups: dict[object, list[Subproblem]] = {}
    others: list[Hashable] = []
    for name in names:
        sub = compiled[name]
        form = sub.form
        if is_free_server(sub):
            continue
        if form is not None and is_smooth_alone(form):
            groups.setdefault(form.shape, []).append(sub)
        else:
            others.append(name)
    return [SmoothClients(compiled, subs) for subs in groups.values()], others
