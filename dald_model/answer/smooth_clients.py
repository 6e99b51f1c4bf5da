r"""Clients whose objective has a gradient and that have no constraints, stacked by shape.

.. math:: f(x) = \tfrac12 x^\top P x + q^\top x + \varphi(x), \qquad
    f(x) - f(u) = -(P x + q)^\top d - \tfrac12 d^\top P d + \varphi(x) - \varphi(u), \quad d = u - x

The difference is computed as it stands on the right: constants cancel before they are rounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.compile.lowered import Lowered
from dald_model.compile.stacked_forms import Batch
from dald_model.compile.subproblem import Subproblem
from dald_model.eigen import eigh
from dald_model.sizes import EPSILONS, ROOM
from dald_model.solvers.arrays.matrices import together
from dald_model.solvers.arrays.stack import Stack
from dald_model.solvers.arrays.terms import Terms

RIDGE = 1e-15
"""Share of the largest eigenvalue below which a curvature, and a step along it, is rounding: with
unit diagonals eigenvalues have errors of a few times 2e-16."""


class Bends(NamedTuple):
    r"""Eigenvalues (k, r) and vectors (k, m, r) of :math:`D A D`, and the diagonal of D, (k, m).

    D makes the diagonal one, so that units of single variables neither hide a curvature nor make
    one of rounding. NaN where A is not finite.
    """

    roots: np.ndarray
    vectors: np.ndarray
    inverse: np.ndarray


class SmoothClients:
    """Some clients of one shape, see the module; arrays have a row for each.

    Parameters
    ----------
    compiled : Decomposition
    names : list
    forms : list of Form
        Theirs, with smooth terms alone.

    Attributes
    ----------
    names : list
    columns : ndarray of int, shape (k, m)
        Where their variables lie in the vector of all.
    """

    def __init__(self, compiled: Decomposition, names: list[Hashable], forms: list[Form]) -> None:
        self.names = names
        starts = np.array([compiled.columns[name].start for name in names])
        self.columns = starts[:, None] + np.arange(forms[0].size)
        self._quadratics = [form.quadratic for form in forms]
        self._linear = np.array([one.linear for one in self._quadratics])
        is_dense = all(one.matrix is not None for one in self._quadratics)
        self._matrix = np.stack([one.full for one in self._quadratics]) if is_dense else None
        self._roots = None
        if all(one.root is not None for one in self._quadratics):
            roots = [one.root for one in self._quadratics]
            shape = max(root.shape[0] for root in roots), forms[0].size
            self._roots = together(roots, shape), together([abs(root) for root in roots], shape)
        self._terms = Terms.of([f.terms for f in forms], forms[0].size) if forms[0].terms else None

    @classmethod
    def of_batch(cls, compiled: Decomposition, batch: Batch) -> SmoothClients:
        """Those that were lowered at once, with matrices."""
        found, forms, at = object.__new__(cls), batch.forms, batch.at
        found.names, found._quadratics, found._roots = batch.names, [], None
        starts = np.array([compiled.columns[name].start for name in batch.names])
        found.columns = starts[:, None] + np.arange(forms.like.size)
        assert forms.matrix is not None
        found._linear, found._matrix = batch.own(forms.linear), batch.own(forms.matrix)
        stacks = [Stack.of_stacked(*one, at.size) for one in forms.terms_of(at)]
        found._terms = Terms(stacks, at.size, forms.like.size) if stacks else None
        return found

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
        return EPSILONS * (self._sizes(at) + np.abs(self._linear))

    def falls(self, at: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How much lower each objective is at ``to`` than at ``at``, and how far that is rounded.

        The error of the quadratic, which grows with the distance, and that of the other terms,
        which is a share of their values. All (k,); NaN outside of the domain.
        """
        step = to - at
        slopes, bent = self._times(at) + self._linear, self._times(step)
        found = -np.vecdot(slopes, step) - np.vecdot(step, bent) / 2
        error = np.vecdot(self.gradient_errors(at) + EPSILONS * self._sizes(step), np.abs(step))
        if self._terms is None:
            return found, error, np.zeros(len(found))
        before, after = self._terms.values(None, at), self._terms.values(None, to)
        with np.errstate(invalid="ignore"):
            return found + before - after, error, EPSILONS * (np.abs(before) + np.abs(after))

    def sure_falls(self, at: np.ndarray, to: np.ndarray) -> np.ndarray:
        """How much lower each objective is for certain: rounding never makes a fall."""
        found, error, of_terms = self.falls(at, to)
        return found - error - of_terms

    def steps(self, at: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Newton's steps :math:`-(\nabla^2 f)^+ s` for slopes s, and those that may be rounding.

        Both (k, m); the latter along curvature that may be rounding, as if it were the largest
        such. NaN without a Hessian.
        """
        sure, faint = np.full((2, *at.shape), np.nan)
        for part, bent in self._bends(at):
            along, rest = _along(bent, slopes[part])
            least = RIDGE * np.maximum(bent.roots[:, -1:], np.finfo(float).tiny)
            step, is_sure = along / np.maximum(bent.roots, least), bent.roots > least
            for found, kept in ((sure, is_sure), (faint, ~is_sure)):
                found[part] = -bent.inverse * _combined(bent, np.where(kept, step, 0.0))
            faint[part] -= bent.inverse * rest / least
        return sure, faint

    def losses(self, slopes: np.ndarray, away: np.ndarray, enough: np.ndarray) -> np.ndarray:
        r"""How much each objective can fall from a point with these slopes, at most, (k,).

        In the box whose farthest entries are ``away`` from the point: by
        :math:`\sum_e |s_e| d_e`, or along each eigenvector of P, with its curvature
        :math:`\lambda`, by :math:`a t - \lambda t^2 / 2` for the best t within the box. The latter
        is asked only where the former is more than ``enough``, (k,).
        """
        found = np.vecdot(np.abs(slopes), away)
        is_asked = found > enough
        if not is_asked.any():
            return found
        for part, bent in self._own_bends:
            if not is_asked[part].any():
                continue
            along, rest = _along(bent, slopes[part])
            along, far = np.abs(along), away[part] / bent.inverse
            sure = np.maximum(bent.roots - RIDGE * np.maximum(bent.roots[:, -1:], 0.0), 0.0)
            wide = np.einsum("kmr,km->kr", np.abs(bent.vectors), far)
            way = np.minimum(wide, along / np.maximum(sure, np.finfo(float).tiny))
            lost = np.vecdot(along - sure * way / 2, way) + np.vecdot(np.abs(rest), far)
            found[part] = np.where(is_asked[part], np.fmin(found[part], lost), found[part])
        return found

    def metrics(self, at: np.ndarray) -> Iterator[np.ndarray]:
        r"""Matrices M with :math:`|M s|^2 = s^\top (\nabla^2 f)^{-1} s`, (m, m) for each client.

        Where curvature may be rounding it counts as the least that is not.
        """
        for _, matrices in self.hessians(at):
            bent = _bends_of(matrices)
            least = RIDGE * np.maximum(bent.roots[:, -1:], np.finfo(float).tiny)
            weights = 1 / np.sqrt(np.maximum(bent.roots, least))
            yield from weights[:, :, None] * bent.vectors.transpose(0, 2, 1) * bent.inverse[:, None]

    def _bends(self, at: np.ndarray) -> Iterable[tuple[slice, Bends]]:
        if self.is_quadratic:
            return self._own_bends
        return ((part, _bends_of(matrices)) for part, matrices in self.hessians(at))

    @cached_property
    def _own_bends(self) -> list[tuple[slice, Bends]]:
        """Those of the quadratics; of a root with few rows by it alone."""
        roots = [one.root for one in self._quadratics]
        if roots and all(
            root is not None and 0 < 2 * root.shape[0] < root.shape[1] for root in roots
        ):
            return [(slice(i, i + 1), _bends_of_root(root)) for i, root in enumerate(roots)]
        return [(part, _bends_of(matrices)) for part, matrices in self._parts()]

    def hessians(self, at: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Second derivatives at a point for each client, (k', m, m), of some at a time."""
        for part, matrices in self._parts():
            if self._terms is not None:
                which = np.arange(part.start, part.stop)
                matrices = matrices + self._terms.hessians(which, at[part])
            yield part, matrices

    def _parts(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The matrices P, (k', m, m), of as many clients at a time as there is room for."""
        count, size = self.columns.shape
        chunk = max(1, ROOM // (8 * size**2))
        for first in range(0, count, chunk):
            part = slice(first, min(first + chunk, count))
            quadratics = self._quadratics[part]
            kept = self._matrix
            yield part, np.stack([q.full for q in quadratics]) if kept is None else kept[part]

    def _sizes(self, vectors: np.ndarray) -> np.ndarray:
        """The sizes of the summands of P x, (k, m)."""
        sizes = np.abs(vectors)
        if self._matrix is not None:
            return np.einsum("kij,kj->ki", np.abs(self._matrix), sizes)
        if self._roots is not None:
            return self._roots[1].back(self._roots[1].times(sizes))
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
        if self._roots is not None:
            return self._roots[0].back(self._roots[0].times(vectors))
        pairs = zip(self._quadratics, vectors, strict=True)
        return np.stack([one.times(vector) for one, vector in pairs])


def _bends_of(matrices: np.ndarray) -> Bends:
    is_finite = np.asarray(np.isfinite(matrices).all(axis=(1, 2)))
    matrices = np.where(is_finite[:, None, None], matrices, np.eye(matrices.shape[1]))
    inverse = _inverse_roots(np.diagonal(matrices, axis1=1, axis2=2))
    roots, vectors = eigh(inverse[:, :, None] * matrices * inverse[:, None, :])
    return Bends(np.where(is_finite[:, None], roots, np.nan), vectors, inverse)


def _bends_of_root(root: Any) -> Bends:
    r"""Those of :math:`R^\top R` but for where it is zero."""
    rows = root.toarray() if sp.issparse(root) else root
    inverse = _inverse_roots(np.square(rows).sum(axis=0))
    _, sizes, vectors = np.linalg.svd(rows * inverse, full_matrices=False)
    return Bends(sizes[None, ::-1] ** 2, vectors[::-1].T[None], inverse[None])


def _inverse_roots(diagonal: np.ndarray) -> np.ndarray:
    return 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def _along(bent: Bends, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes in the scaled variables: along the vectors, (k, r), and what is left, (k, m)."""
    scaled = bent.inverse * slopes
    along = np.einsum("kmr,km->kr", bent.vectors, scaled)
    is_whole = bent.vectors.shape[1] == bent.vectors.shape[2]
    rest = np.zeros(scaled.shape) if is_whole else scaled - _combined(bent, along)
    return along, rest


def _combined(bent: Bends, along: np.ndarray) -> np.ndarray:
    return np.einsum("kmr,kr->km", bent.vectors, along)


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
    """The smooth ones among clients by shape, and the others but free servers.

    Of all clients those that were lowered at once are together.
    """
    names, kept = list(names), compiled.stacked.known("smooth clients", dict[object, Any])
    batches = compiled.batches if len(names) == len(compiled) else []
    batches = [b for b in batches if b.forms.matrix is not None and is_smooth_alone(b.forms.like)]
    for batch in batches:
        if id(batch) not in kept:
            kept[id(batch)] = SmoothClients.of_batch(compiled, batch)
    found = [kept[id(batch)] for batch in batches]
    within = {name for batch in batches for name in batch.names}
    groups: dict[object, list[tuple[Hashable, Lowered]]] = {}
    others: list[Hashable] = []
    told: dict[int, object] = {}  # shapes of those alike, None of those that are not smooth
    for name in names if not within else (one for one in names if one not in within):
        sub = compiled[name]
        lowered = sub.lowered
        like = None if lowered is None else lowered.alike
        if id(like) not in told or like is None:
            if is_free_server(sub):
                continue
            told[id(like)] = like.shape if like is not None and is_smooth_alone(like) else None
        shape = told[id(like)]
        if shape is None or lowered is None:
            others.append(name)
        else:
            groups.setdefault(shape, []).append((name, lowered))
    for shape, those in groups.items():
        known = kept.get(shape)
        if known is None or known[0] != those:
            forms = [lowered.form for _, lowered in those]
            known = those, SmoothClients(compiled, [name for name, _ in those], forms)
            if 8 * known[1].columns.shape[1] * known[1].columns.size <= ROOM:
                kept[shape] = known
        found.append(known[1])
    return found, others
