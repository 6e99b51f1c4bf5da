"""Numbers of the forms of clients alike, of all at once: an axis for the clients comes first."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dald_model.compile.form import Form, Quadratic, Rows, Term

Parts = tuple[Quadratic, Rows, Rows, tuple[Term, ...]]
"""What a form is made of."""


class StackedForms(NamedTuple):
    """Forms of n clients that are like one; an array of length one is the same of all.

    Attributes
    ----------
    like : Form
        Of the client that the others are like.
    matrix, root : ndarray or None, shapes (n, m, m) and (n, k, m)
        One of the two, see :class:`dald_model.compile.form.Quadratic`.
    linear, constant : ndarray, shapes (n, m) and (n,)
    rows : tuple of two pairs
        Of equalities and inequalities, matrices and right sides; None where they are those of
        ``like``.
    terms : tuple of pairs
        Of each term, matrices, or None of those of ``like``, and offsets, (n, T * width).
    """

    like: Form
    matrix: np.ndarray | None
    root: np.ndarray | None
    linear: np.ndarray
    constant: np.ndarray
    rows: tuple[tuple[np.ndarray | None, np.ndarray | None], ...]
    terms: tuple[tuple[np.ndarray | None, np.ndarray], ...]

    def parts(self, at: int) -> Parts:
        """The numbers of one client's form."""
        matrix, root = (None if one is None else _at(one, at) for one in (self.matrix, self.root))
        quadratic = Quadratic(matrix, self.linear[at], float(self.constant[at]), root)
        equalities, inequalities = (
            own
            if matrices is None and sides is None
            else Rows(
                own.matrix if matrices is None else _at(matrices, at),
                own.rhs if sides is None else _at(sides, at),
            )
            for own, (matrices, sides) in zip(
                (self.like.equalities, self.like.inequalities), self.rows, strict=True
            )
        )
        terms = tuple(
            own._replace(
                matrix=own.matrix if matrices is None else _at(matrices, at),
                offset=_at(offsets, at),
            )
            for own, (matrices, offsets) in zip(self.like.terms, self.terms, strict=True)
        )
        return quadratic, equalities, inequalities, terms

    @staticmethod
    def of(stack: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Of an array of the clients what some of them have, (k, ...)."""
        if len(stack) == 1:
            return np.broadcast_to(stack, (at.size, *stack.shape[1:]))
        is_whole = at.size == len(stack) and bool((np.diff(at) > 0).all())
        return stack if is_whole else stack[at]

    def terms_of(self, at: np.ndarray) -> Iterator[tuple[Term, np.ndarray, np.ndarray]]:
        """Each term of some clients: what is the same of all, matrices and offsets."""
        for own, (matrices, offsets) in zip(self.like.terms, self.terms, strict=True):
            matrices = own.matrix[None] if matrices is None else matrices
            yield own, self.of(matrices, at), self.of(offsets, at)

    @property
    def is_plain(self) -> bool:
        """Whether they are quadratics and smooth terms of the clients' variables, and no more."""
        form = self.like
        is_free = not (form.equalities.rhs.size or form.inequalities.rhs.size or form.extra)
        is_own = all(t.is_smooth and t.matrix.shape[1] == form.size for t in form.terms)
        return form.complete and form.valued and is_free and is_own


class Batch:
    """Clients whose forms are among stacked ones: their names, and which of them they are."""

    def __init__(self, forms: StackedForms, names: list[Hashable], at: Sequence[int]) -> None:
        self.forms, self.names, self.at = forms, names, np.array(at)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return self.forms is other.forms and self.names == other.names

    __hash__ = object.__hash__

    def own(self, stack: np.ndarray) -> np.ndarray:
        """Of an array of the stacked forms what these clients have, (n, ...)."""
        return self.forms.of(stack, self.at)


def _at(stack: np.ndarray, at: int) -> np.ndarray:
    """What is of one client, or of all."""
    return stack[at if len(stack) > 1 else 0]
