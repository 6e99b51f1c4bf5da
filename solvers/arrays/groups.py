"""Groups of clients whose summands are in the same arrays, and selections of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.form import Form, Term
from dald_model.compile.kinds.smooth import SQUARE
from dald_model.solvers.arrays.indexing import Index, is_run, selection
from dald_model.solvers.arrays.matrices import Matrices, together
from dald_model.solvers.arrays.terms import Terms, shared


class Selected(NamedTuple):
    """Where the clients of a group stand among those selected, and their variables.

    ``columns`` are a slice or of shape (k, m); of clients with fewer variables than m the others
    are behind all variables, where zero is read and nothing written.
    """

    clients: Index
    columns: Index
    size: int
    is_even: bool

    @classmethod
    def among(
        cls, clients: np.ndarray, starts: np.ndarray, sizes: np.ndarray, total: int
    ) -> Selected:
        """Of some of the selected clients, which have these sizes of ``total``."""
        own = sizes[clients]
        size, is_even = int(own.max()), bool((own == own[0]).all())
        if is_even and is_run(clients):
            first = int(starts[clients[0]])
            return cls(selection(clients), slice(first, first + clients.size * size), size, True)
        columns = starts[clients][:, None] + np.arange(size)
        if not is_even:
            columns[np.arange(size) >= own[:, None]] = total
        return cls(selection(clients), columns, size, is_even)

    def of(self, points: np.ndarray, size: int) -> np.ndarray:
        """Their points with zeros for the variables they have less than ``size``, (k, size)."""
        points = points if self.is_even else np.append(points, 0.0)
        found = points[self.columns].reshape(-1, self.size)
        return np.pad(found, ((0, 0), (0, size - self.size))) if self.size < size else found

    def add(self, total: np.ndarray, gradients: np.ndarray) -> None:
        """Add what the group has to the vector over all variables."""
        gradients = gradients[:, : self.size]
        if isinstance(self.columns, slice):
            total[self.columns] += gradients.ravel()
        elif self.is_even:
            total[self.columns] += gradients
        else:
            is_own = self.columns < total.size
            total[self.columns[is_own]] += gradients[is_own]


class SummandGroup(NamedTuple):
    r"""The summands :math:`\tfrac12 x^\top P x + \sum_t w_t \varphi(A_t x + b_t)` of k clients."""

    terms: Terms
    quadratic: Matrices | None

    @classmethod
    def of(cls, forms: Sequence[Form]) -> SummandGroup:
        """Of forms with the same kinds of terms."""
        size = max(form.size for form in forms)
        matrices = [matrix for form in forms if (matrix := square_of(form)) is not None]
        quadratic = together(matrices, (size, size)) if matrices else None
        terms = Terms.of([terms_of(form) for form in forms], size)
        return cls(terms, quadratic)

    def take(self, members: np.ndarray) -> SummandGroup:
        """Those of some clients."""
        if members.size == self.terms.count and is_run(members):
            return self
        matrix = self.quadratic
        taken = None if matrix is None else matrix.take(selection(members))
        return SummandGroup(self.terms.part(members), taken)

    def values(self, x: np.ndarray) -> np.ndarray:
        """The sums, with the terms that have no gradient, shape (k,)."""
        found = self.terms.values(None, x)
        if self.quadratic is not None:
            found += np.vecdot(self.quadratic.times(x), x) / 2
        return found

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """The gradients of the smooth summands, shape (k, m)."""
        if not self.terms.has_slopes:
            return np.zeros(x.shape) if self.quadratic is None else self.quadratic.times(x)
        found = self.terms.gradients(None, x)
        if self.quadratic is not None:
            found += self.quadratic.times(x)
        return found

    def hessians(self, x: np.ndarray) -> np.ndarray:
        """The (generalised) Hessians of the smooth summands, shape (k, m, m)."""
        found = self.terms.hessians(None, x)
        if self.quadratic is not None:
            found += self.quadratic.full
        return found


def terms_of(form: Form) -> list[Term]:
    """The summands of a form but for its P, by kind; the root of a quadratic is among them."""
    found = [term for term in form.terms if not term.is_set and term.weight.size]
    root = form.quadratic.root
    if root is not None and root.size:
        zeros = np.zeros(root.shape[0])
        found.append(Term(SQUARE, np.ones(zeros.size), root, zeros, zeros))
    return sorted(found, key=lambda term: term.kind.name)


def square_of(form: Form) -> np.ndarray | None:
    """P of a form where there is one and no root."""
    matrix = form.quadratic.matrix
    return matrix if matrix is not None and matrix.any() else None


def grouped(forms: Sequence[Form]) -> list[np.ndarray]:
    """Parts of clients that are to be a :class:`SummandGroup` each, as positions in order."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for at, form in enumerate(forms):
        kinds = tuple(term.kind for term in terms_of(form))
        alike.setdefault((*kinds, square_of(form) is None), []).append(at)
    found = []
    for members in alike.values():
        own = [forms[at] for at in members]
        squares = [matrix for form in own if (matrix := square_of(form)) is not None]
        sizes = np.array([form.size for form in own])
        parts = shared([terms_of(form) for form in own], sizes, squares)
        found += [np.array(members)[part] for part in parts]
    return found
