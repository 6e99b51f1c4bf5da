r"""Rows of data: sums over them, and the numbers of all rows from those of one.

``cp.sum(cp.logistic(A @ x))`` is the same function of every row of data; its template needs one of
them, and clients with more or fewer rows share it. The affine expressions of one sum are a group.
What belongs to the entries of a group stands once in the template, and comes as often as the group
has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import (
    ENTRYWISE,
    Sum,
    is_affine_throughout,
)

APART = -1
"""The group of what is not repeated."""


class NotRowByRowError(Exception):
    """What was found is not what a client of other data is: it is to be read as it stands."""


class Repeats(NamedTuple):
    """Where the rows or columns of a template come among those of a client.

    Attributes
    ----------
    base, stride, counts : ndarray of int, shape (n,)
        Where each comes first, how far from there it comes again, and how often.
    """

    base: np.ndarray
    stride: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_functions(cls, counts: np.ndarray, width: int) -> Repeats:
        """Of functions with so many rows each, all copies of one after the other."""
        starts = (np.cumsum(counts) - counts) * width
        base = (starts[:, None] + np.arange(width)).reshape(-1)
        return cls(base, np.full(base.size, width), np.repeat(counts, width))

    @property
    def size(self) -> int:
        """How many all of them are."""
        return int(self.counts.sum())

    def each(self) -> tuple[np.ndarray, np.ndarray]:
        """Every copy: of which it is one, and where it comes."""
        of, nth = each_copy(self.counts)
        return of, self.base[of] + nth * self.stride[of]

    def vector(self, vector: np.ndarray) -> np.ndarray:
        """A vector with the entry of each at all of its places."""
        of, at = self.each()
        found = np.empty(self.size, dtype=vector.dtype)
        found[at] = vector[of]
        return found


def repeated(matrix: Any, rows: Repeats, columns: Repeats) -> sp.csr_array:
    """A matrix whose repeated rows have entries in the same copies of repeated columns."""
    entries = sp.coo_array(matrix)
    row, column = entries.coords
    of, nth = each_copy(rows.counts[row])
    row, column = row[of], column[of]
    at = (
        rows.base[row] + nth * rows.stride[row],
        columns.base[column] + nth * columns.stride[column],
    )
    return sp.csr_array((entries.data[of], at), shape=(rows.size, columns.size))


def each_copy(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What comes as often as the counts say, by position, and which time it is."""
    of = np.repeat(np.arange(counts.size), counts)
    return of, np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)


class RowReplication:
    """Where the entries of a template's pieces come in those of a client.

    Parameters
    ----------
    groups : sequence of int
        The group of every piece, or :data:`APART`.
    sizes : sequence of int
        The entries of every piece of the client.

    Attributes
    ----------
    stops : ndarray of int
        Where the pieces begin and end among the client's entries.
    size : int
        How many these are.
    group, piece : ndarray of int
        Of every entry of the template's pieces.
    entries : Repeats
        These entries.
    is_wide : bool
        Whether there are groups.
    """

    def __init__(self, groups: Sequence[int], sizes: Sequence[int]) -> None:
        pairs = list(zip(groups, sizes, strict=True))
        self.stops = np.cumsum([0, *sizes])
        self.size = int(self.stops[-1])
        self.is_wide = any(group != APART for group in groups)
        self._lengths = np.ones(max(groups, default=APART) + 2, dtype=int)  # the last is APART's
        for group, size in pairs:
            if group != APART:
                self._lengths[group] = size
        narrow = np.array([1 if group != APART else size for group, size in pairs], dtype=int)
        self.group = np.repeat(np.array(groups, dtype=int), narrow)
        self.piece, nth = each_copy(narrow)
        self.entries = self.columns(self.stops[self.piece] + nth, self.group)

    def columns(self, base: np.ndarray, groups: np.ndarray) -> Repeats:
        """Columns of these groups, all copies of one after the other from its base on."""
        return Repeats(base, np.ones(base.size, dtype=int), self.counts(groups))

    def vector(self, vector: np.ndarray) -> np.ndarray:
        """A vector over the entries of the template's pieces with each as often as it comes."""
        return np.repeat(vector, self.entries.counts)

    def counts(self, groups: np.ndarray) -> np.ndarray:
        """How often what is of these groups comes."""
        return self._lengths[groups]

    def groups(self, *parts: tuple[Any, int]) -> np.ndarray:
        """The groups of functions of the pieces.

        Each part is a matrix and how many of its rows belong to every function.

        Raises
        ------
        NotRowByRowError
            If a function takes entries of several groups, or of a group and others.
        """
        found = np.full(parts[0][0].shape[0] // parts[0][1], APART)
        coords = [(sp.coo_array(matrix).coords, width) for matrix, width in parts]
        owners = np.concatenate([row // width for (row, _), width in coords])
        own = np.concatenate([self.group[column] for (_, column), _ in coords])
        found[owners] = own
        if (found[owners] != own).any():
            raise NotRowByRowError
        return found

    def square(self, matrix: Any) -> sp.csr_array:
        """A matrix over the entries in rows and columns.

        Raises
        ------
        NotRowByRowError
            If it ties entries of several groups together, or of a group and others.
        """
        row, column = sp.coo_array(matrix).coords
        if (self.group[row] != self.group[column]).any():
            raise NotRowByRowError
        return repeated(matrix, self.entries, self.entries)

    def apart(self, matrix: Any) -> sp.csr_array:
        """Rows of constraints over all entries.

        Raises
        ------
        NotRowByRowError
            If one of them takes entries of a group.
        """
        rows: Any = sp.csr_array(matrix)
        if (self.group[rows.indices] != APART).any():
            raise NotRowByRowError
        places = self.entries.base[rows.indices]
        return sp.csr_array((rows.data, places, rows.indptr), shape=(rows.shape[0], self.size))


def is_row_sum(expression: Any, is_affine: Callable[[Any], bool] = is_affine_throughout) -> bool:
    """Whether an expression adds up one function of the entries of affine expressions.

    ``is_affine`` is :func:`dald_model._cvxpy.is_affine_throughout`, or the same from memory.
    """
    kind = type(expression)
    if kind is cp.quad_over_lin:
        x, divisor = expression.args
        is_all = _axis(expression) is None and divisor.is_constant() and divisor.size == 1
        return is_all and x.size > 1 and is_affine(x)
    if kind not in (Sum, cp.norm1) or _axis(expression) is not None:
        return False
    (inner,) = expression.args
    if inner.shape == () or (kind is Sum and inner.is_affine()):
        return False
    return _is_entrywise(inner, inner.shape, is_affine)


def _is_entrywise(
    expression: Any, shape: tuple[int, ...], is_affine: Callable[[Any], bool]
) -> bool:
    if expression.is_constant():
        return uniform(expression) is not None
    if expression.shape != shape:
        return False
    if is_affine(expression):
        return True
    if not isinstance(expression, ENTRYWISE):
        return False
    return all(_is_entrywise(arg, shape, is_affine) for arg in expression.args)


def uniform(constant: Any) -> np.ndarray | None:
    """The number that all entries of a constant are, as an array of shape (); None else."""
    value = constant.value
    value = np.asarray(value.toarray() if sp.issparse(value) else value, dtype=float)
    first = value.reshape(-1)[:1]
    return first.reshape(()) if first.size and (value == first[0]).all() else None


def _axis(expression: Any) -> Any:
    """Over what an atom adds up, None for all; where results keep their dimensions, not that."""
    data = expression.get_data() or [None]
    return data[0] if not any(data[1:]) else data
