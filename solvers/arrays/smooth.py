r"""The clients' own objectives, and gradients and Hessians of their smooth parts, many at once.

.. math::
    \psi_i(x) = \tfrac12 x^\top P x + q^\top x + d + \sum_t w_t\, \varphi_t(A_t x + b_t), \qquad
    \nabla \psi_i(x) = P x + q + \sum_t A_t^\top \big(w_t \circ \varphi_t'(A_t x + b_t)\big)

The clients may differ in every way: see :mod:`dald_model.solvers.arrays.groups` for what is worked
on together. A client that is known to cvxpy only has its ``grad``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.groups import Selected, SummandGroup, grouped
from dald_model.solvers.arrays.indexing import SelectionCache, is_run, ranges
from dald_model.values import REFUSALS, evaluated, flat, preserved

GATHERED = 0.25
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
        self._constants = np.zeros(len(subproblems))
        linear = np.zeros(int(self.sizes.sum()))
        known: list[tuple[int, Form]] = []
        self._is_foreign = np.ones(len(subproblems), dtype=bool)
        for at, sub in enumerate(subproblems):
            form = sub.form
            if form is None or not form.valued:
                continue
            known.append((at, form))
            self._is_foreign[at] = False
            start = self.starts[at]
            linear[start : start + form.size] = form.quadratic.linear
            self._constants[at] = form.quadratic.constant
        self._linear = linear if linear.any() else None
        self._is_dear = bool(self._is_foreign.any())
        positions, forms = np.array([at for at, _ in known], dtype=int), [f for _, f in known]
        self._groups: list[tuple[np.ndarray, SummandGroup]] = []
        for part in grouped(forms):
            members = np.full(len(subproblems), -1)
            members[positions[part]] = np.arange(part.size)
            self._groups.append((members, SummandGroup.of([forms[i] for i in part.tolist()])))
        self._kept = SelectionCache(self._choose, len(subproblems))
        self._all = self._choose(np.arange(len(subproblems)))

    def objectives(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The whole objectives, with the terms that have no gradient, shape (k,)."""
        chosen, points, columns = self._chosen(which, points)
        found = chosen.constants.copy()
        with np.errstate(all="ignore"):
            if chosen.linear is not None:
                found += np.add.reduceat(chosen.linear * points, chosen.starts)
            for place, group in chosen.groups:
                found[place.clients] += group.values(place.of(points, group.terms.size))
            if chosen.foreign:
                clients, subs, parts = chosen.foreign
                found[clients] = _foreign_values(subs, [points[part] for part in parts])
        return found if columns is None else found[which]

    def gradients(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The gradients of the smooth parts, one after the other as the points are."""
        chosen, points, columns = self._chosen(which, points)
        found: np.ndarray | None = None
        with np.errstate(all="ignore"):
            for place, group in chosen.groups:
                gradients = group.gradients(place.of(points, group.terms.size))
                if len(chosen.groups) == 1 and gradients.size == points.size:
                    found = gradients.reshape(-1)
                    continue
                found = np.zeros(points.size) if found is None else found
                place.add(found, gradients)
            found = np.zeros(points.size) if found is None else found
            if chosen.foreign:
                _, subs, parts = chosen.foreign
                told = _foreign_gradients(subs, [points[part] for part in parts])
                for part, gradient in zip(parts, told, strict=True):
                    found[part] = gradient
        if chosen.linear is not None:
            found += chosen.linear
        return found if columns is None else found[columns]

    def hessians(self, which: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
        """The (generalised) Hessians of the smooth parts, each (m, m).

        Raises
        ------
        ValueError
            For a client that cvxpy alone knows, see :func:`no_hessian`.
        """
        for at in which[self._is_foreign[which]].tolist():
            sub = self._subproblems[at]
            raise ValueError(f"client {sub.name!r} has no Hessian: {no_hessian(sub)}")
        chosen, sizes = self._kept(which), self.sizes[which].tolist()
        found = [np.zeros((0, 0))] * which.size
        everyone = np.arange(which.size)
        for place, group in chosen.groups:
            bent = group.hessians(place.of(points, group.terms.size))
            for i, matrix in zip(everyone[place.clients].tolist(), bent, strict=True):
                found[i] = matrix[: sizes[i], : sizes[i]]
        return found

    def _chosen(
        self, which: np.ndarray, points: np.ndarray
    ) -> tuple[_Chosen, np.ndarray, np.ndarray | None]:
        """The matrices of some clients; or of all with points for all, and the columns asked for.

        The first time that many are asked for, to evaluate the others for nothing is cheaper than
        to gather matrices that may not be asked for again.
        """
        is_few = which.size <= GATHERED * self.sizes.size or which.size == self.sizes.size
        if self._is_dear or is_few or is_run(which) or not self._kept.is_new(which):
            return self._kept(which), points, None
        columns = ranges(self.starts[which], self.sizes[which])
        padded = np.zeros(int(self.sizes.sum()))
        padded[columns] = points
        return self._all, padded, columns

    def _choose(self, which: np.ndarray) -> _Chosen:
        sizes = self.sizes[which]
        starts, total = np.cumsum(sizes) - sizes, int(sizes.sum())
        linear = self._linear
        if linear is not None:
            first = int(self.starts[which[0]])
            columns = slice(first, first + total)
            linear = linear[columns if is_run(which) else ranges(self.starts[which], sizes)]
        groups = []
        for positions, group in self._groups:
            members = positions[which]
            clients = np.flatnonzero(members >= 0)
            if clients.size:
                place = Selected.among(clients, starts, sizes, total)
                groups.append((place, group.take(members[clients])))
        others = np.flatnonzero(self._is_foreign[which]).tolist()
        subs = [self._subproblems[at] for at in which[others].tolist()]
        parts = [slice(int(starts[i]), int(starts[i] + sizes[i])) for i in others]
        foreign = (others, subs, parts) if others else None
        return _Chosen(self._constants[which], linear, starts, groups, foreign)


class _Chosen(NamedTuple):
    """What is constant for one selection of clients."""

    constants: np.ndarray
    linear: np.ndarray | None
    starts: np.ndarray
    groups: list[tuple[Selected, SummandGroup]]
    foreign: tuple[list[int], list[Subproblem], list[slice]] | None


def _foreign_values(subproblems: Sequence[Subproblem], points: Sequence[np.ndarray]) -> np.ndarray:
    """The objectives of clients that cvxpy alone knows, shape (k,)."""
    found = []
    for sub, point in zip(subproblems, points, strict=True):
        with _at(sub, point):
            found.append(evaluated(sub.client.cost))
    return np.array(found)


def _foreign_gradients(
    subproblems: Sequence[Subproblem], points: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Their gradients; NaN in the variables of which cvxpy gives none, outside of the domain."""
    found = []
    for sub, point in zip(subproblems, points, strict=True):
        with _at(sub, point):
            try:
                grads = sub.client.cost.grad
            except REFUSALS:
                grads = dict.fromkeys(sub.variables)
        parts = [grads.get(v, np.zeros(v.size)) for v in sub.variables]
        nothing = [np.full(v.size, np.nan) for v in sub.variables]
        pairs = zip(parts, nothing, strict=True)
        found.append(np.concatenate([flat(no if g is None else g) for g, no in pairs]))
    return found


@contextmanager
def _at(sub: Subproblem, point: np.ndarray) -> Iterator[None]:
    """Give the variables a point for their value, which is not checked against attributes."""
    with preserved(sub.variables), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sparse variables and of domains
        values = sub.spread(point)
        for v in sub.variables:
            v.save_value(values[v.id])
        yield


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
        rows = form.equalities.rhs.size + form.inequalities.rhs.size
        return rows > 0 or any(term.is_set for term in form.terms)
    attributes = [value for v in sub.variables for value in v.attributes.values()]
    return bool(sub.client.constraints) or any(
        value is not None and value is not False for value in attributes
    )


def kinks(form: Form) -> list[str]:
    """The kinds of the summands without a gradient."""
    return [term.kind.name for term in form.terms if not (term.is_smooth or term.is_set)]
