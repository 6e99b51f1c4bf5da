r"""The clients' own objectives, and gradients and Hessians of their smooth parts, many at once.

.. math::
    \psi_i(x) = \tfrac12 x^\top P x + q^\top x + d + \sum_t w_t\, \varphi_t(A_t x + b_t), \qquad
    \nabla \psi_i(x) = P x + q + \sum_t A_t^\top \big(w_t \circ \varphi_t'(A_t x + b_t)\big)

The clients may differ in every way: see :mod:`dald_model.solvers.arrays.groups` for what is worked
on together. A client that is known to cvxpy only has its ``grad``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.groups import Group, merged, parts_of
from dald_model.solvers.arrays.indexing import is_run, ranges
from dald_model.solvers.arrays.pieces import Piece
from dald_model.solvers.arrays.selection_cache import Kept
from dald_model.solvers.arrays.terms import Terms

FEW = 0.25
"""Share of the clients below which to gather their matrices is cheaper than to evaluate all."""


class Smooth:
    """The objectives of n clients, see the module.

    The methods take positions of clients without repetition, shape (k,), and their points one
    after the other. Outside of a domain values are infinite or NaN and the rest means nothing.

    Parameters
    ----------
    subproblems : sequence of Subproblem
        For all of which :func:`unknown` is empty.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self.sizes = np.array([sub.size for sub in subproblems])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self._subproblems = subproblems
        self._forms = [sub.form if sub.form and sub.form.valued else None for sub in subproblems]
        self._constants = np.zeros(len(subproblems))
        slopes = np.zeros(int(self.sizes.sum()))
        parts: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
        for at, form in enumerate(self._forms):
            if form is None:
                parts.setdefault(("cvxpy",), []).append((at, subproblems[at]))
                continue
            start = self.starts[at]
            slopes[start : start + form.size] = form.quadratic.slope
            self._constants[at] = form.quadratic.constant
            for key, part in parts_of(form):
                parts.setdefault(key, []).append((at, part))
        self._slopes = slopes if slopes.any() else None
        self._is_dear = ("cvxpy",) in parts
        self._groups = [
            Group(key, members, self.starts, self.sizes) for key, members in merged(parts).items()
        ]
        self._kept = Kept(self._choose, len(subproblems))
        self._all = self._choose(np.arange(len(subproblems)))
        self._terms: dict[Any, tuple[np.ndarray, Terms]] = {}

    def objectives(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The whole objectives, with the terms that have no gradient, shape (k,)."""
        chosen, points, columns = self._chosen(which, points)
        found = chosen.constants.copy()
        with np.errstate(all="ignore"):
            if chosen.slopes is not None:
                found += np.add.reduceat(chosen.slopes * points, chosen.starts)
            for piece in chosen.pieces:
                found[piece.place.clients] += piece.values(piece.place.of(points))
        return found if columns is None else found[which]

    def gradients(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The gradients of the smooth parts, one after the other as the points are."""
        chosen, points, columns = self._chosen(which, points)
        found: np.ndarray | None = None
        with np.errstate(all="ignore"):
            for piece in chosen.pieces:
                if not piece.is_smooth:
                    continue
                slopes = piece.slopes(piece.place.of(points))
                if found is None and slopes.size == points.size:
                    found = slopes.reshape(-1)
                    continue
                found = np.zeros(points.size) if found is None else found
                piece.place.add(found, slopes)
        found = np.zeros(points.size) if found is None else found
        if chosen.slopes is not None:
            found += chosen.slopes
        return found if columns is None else found[columns]

    def hessians(self, which: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
        """The (generalised) Hessians of the smooth parts, each (m, m).

        Raises
        ------
        ValueError
            For a client that cvxpy alone knows, see :func:`no_hessian`.
        """
        found: list[np.ndarray] = []
        parts = np.split(points, np.cumsum(self.sizes[which])[:-1])
        alike: dict[Any, list[int]] = {}
        for i, at in enumerate(which.tolist()):
            form = self._forms[at]
            if form is None:
                sub = self._subproblems[at]
                raise ValueError(f"client {sub.name!r} has no Hessian: {no_hessian(sub)}")
            found.append(form.quadratic.full.copy())
            if any(term.is_smooth for term in form.terms):
                alike.setdefault(form.shape, []).append(i)
        for shape, members in alike.items():
            positions, terms = self._smooth_terms(shape)
            at = np.searchsorted(positions, which[members])
            bent = terms.hessians(at, np.stack([parts[i] for i in members]))
            for i, matrix in zip(members, bent, strict=True):
                found[i] += matrix
        return found

    def _chosen(
        self, which: np.ndarray, points: np.ndarray
    ) -> tuple[_Chosen, np.ndarray, np.ndarray | None]:
        """The matrices of some clients; or of all with points for all, and the columns asked for.

        The first time that many are asked for, to evaluate the others for nothing is cheaper than
        to gather matrices that may not be asked for again.
        """
        is_few = which.size <= FEW * self.sizes.size or which.size == self.sizes.size
        if self._is_dear or is_few or is_run(which) or not self._kept.is_new(which):
            return self._kept(which), points, None
        columns = ranges(self.starts[which], self.sizes[which])
        padded = np.zeros(int(self.sizes.sum()))
        padded[columns] = points
        return self._all, padded, columns

    def _choose(self, which: np.ndarray) -> _Chosen:
        sizes = self.sizes[which]
        starts, total = np.cumsum(sizes) - sizes, int(sizes.sum())
        slopes = self._slopes
        if slopes is not None:
            first = int(self.starts[which[0]])
            columns = slice(first, first + total)
            slopes = slopes[columns if is_run(which) else ranges(self.starts[which], sizes)]
        pieces = []
        for group in self._groups:
            members = group.positions[which]
            clients = np.flatnonzero(members >= 0)
            if clients.size:
                pieces.append(group.take(members[clients], clients, starts, total))
        return _Chosen(self._constants[which], slopes, starts, pieces)

    def _smooth_terms(self, shape: Any) -> tuple[np.ndarray, Terms]:
        """The smooth terms of all clients of one shape, stacked when first asked for."""
        if shape not in self._terms:
            forms = [(at, f) for at, f in enumerate(self._forms) if f and f.shape == shape]
            bare = [replace(f, terms=tuple(t for t in f.terms if t.is_smooth)) for _, f in forms]
            self._terms[shape] = np.array([at for at, _ in forms]), Terms(bare)
        return self._terms[shape]


class _Chosen(NamedTuple):
    """What is constant for one selection of clients."""

    constants: np.ndarray
    slopes: np.ndarray | None
    starts: np.ndarray
    pieces: list[Piece]


def unknown(sub: Subproblem) -> str:
    """Why neither its form nor cvxpy gives the gradient of a client's smooth part; empty if so."""
    if (sub.form and sub.form.valued) or sub.client.cost.is_smooth():
        return ""
    return "its objective has parts that are no quadratic and no known function"


def no_gradient(sub: Subproblem) -> str:
    """Why the objective of a client has no gradient; empty if it has one."""
    kinds = kinks(sub.form) if sub.form and sub.form.valued else []
    named = " and ".join(dict.fromkeys(kinds))
    return f"its objective has {named} terms" if named else unknown(sub)


def no_hessian(sub: Subproblem) -> str:
    """Why the smooth part of a client has no Hessian; empty if it has one."""
    if sub.form and sub.form.valued:
        return ""
    return unknown(sub) or "its objective is known to cvxpy only, which gives no Hessians"


def is_bounded(sub: Subproblem) -> bool:
    """Whether a client has constraints; those of the attributes of its variables count."""
    form = sub.form
    if form and form.complete:
        rows = form.equalities.right.size + form.inequalities.right.size
        return rows > 0 or any(term.is_set for term in form.terms)
    attributes = [value for v in sub.variables for value in v.attributes.values()]
    return bool(sub.client.constraints) or any(
        value is not None and value is not False for value in attributes
    )


def kinks(form: Form) -> list[str]:
    """The kinds of the summands without a gradient."""
    return [term.kind for term in form.terms if not (term.is_smooth or term.is_set)]
