r"""Form of a client: its objective and constraints as arrays in its own variables.

.. math::
    \min_x \; \tfrac12 x^\top P x + q^\top x + d + \sum_t w_t\, \varphi_t(A_t x + b_t)
    \quad\text{s.t. } E x = e, \; A x \le b

or, where something is left that none of these terms describes, the cone program of the client. A
form holds numbers only, so it can be stacked with others of its shape and can travel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.kinds.kind import Kind
from dald_model.sizes import DATA

SPARSE_ROOT = 250
"""Variables from which on a quadratic is kept by a sparse root, where that has fewer entries.

Measured, 40 clients of dense rows, whole solves: with 150 variables the root takes 1.2 to 2.4 times
as long, with 250 it takes 0.5 to 1.1 of the time, least of it with few rows and an l1 norm.
"""


class Quadratic(NamedTuple):
    r""":math:`\tfrac12 x^\top P x + q^\top x + d`.

    ``matrix`` is P, symmetric, shape (m, m), or None where ``root`` R is kept: then
    :math:`P = R^\top R`, R of shape (k, m), dense where it has fewer rows than columns, or, of many
    variables, sparse where it has fewer entries than P.
    """

    matrix: np.ndarray | None
    linear: np.ndarray
    constant: float
    root: Any = None

    @property
    def full(self) -> np.ndarray:
        """P itself, shape (m, m)."""
        if self.matrix is not None:
            return self.matrix
        found = self.root.T @ self.root
        return found.toarray() if sp.issparse(found) else found

    @property
    def numbers(self) -> np.ndarray:
        """Those that P is kept by."""
        kept: Any = self.matrix if self.root is None else self.root
        return kept.data if sp.issparse(kept) else np.asarray(kept)

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of P, shape (m,)."""
        if self.matrix is not None:
            return np.diag(self.matrix)
        if sp.issparse(self.root):
            return np.bincount(self.root.indices, self.root.data**2, self.linear.size)
        return np.einsum("km,km->m", self.root, self.root)

    def times(self, point: np.ndarray) -> np.ndarray:
        """P x of a point, shape (m,)."""
        return self.root.T @ (self.root @ point) if self.matrix is None else self.matrix @ point


class Rows(NamedTuple):
    """Rows of linear constraints: ``matrix`` of shape (p, m) and ``rhs`` of shape (p,)."""

    matrix: np.ndarray
    rhs: np.ndarray


class Term(NamedTuple):
    r"""The sum of T scalar convex functions :math:`w_t \varphi(u_t)` with :math:`u = A x + b`.

    Attributes
    ----------
    kind : Kind
        Which :math:`\varphi`, one of :mod:`dald_model.compile.kinds`.
    weight : ndarray, shape (T,)
        :math:`w > 0`; of a ball what the user multiplied both sides by.
    matrix : ndarray, shape (T * width, m)
        The arguments of one function stand in successive rows.
    offset : ndarray, shape (T * width,)
    parameter : ndarray, shape (T,)
        What else the kind knows of each function, such as the radius of a ball; zeros else.
    width : int
        Arguments of one function.
    """

    kind: Kind
    weight: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray
    parameter: np.ndarray
    width: int = 1

    @property
    def is_smooth(self) -> bool:
        """Whether the gradient is continuous."""
        return self.kind.is_smooth

    @property
    def is_set(self) -> bool:
        """Whether it is a constraint, not a summand."""
        return self.kind.is_set

    @property
    def is_of_data(self) -> bool:
        """Whether they are absolute values of rows of data: of most variables each."""
        if not self.kind.is_polyhedral or sp.issparse(self.matrix):
            return False
        count, size = self.matrix.shape
        return bool(np.count_nonzero(self.matrix) > max(count, DATA * count * size))

    def excess(self, point: np.ndarray) -> float:
        """How far a point of shape (m,) is outside of a constraint, in the user's units."""
        powers = self.weight * self.kind.excess(self._arguments(point), self.parameter)
        return float(powers.max(initial=0.0))

    def values(self, points: np.ndarray) -> np.ndarray:
        """The sums at points of shape (k, m), (k,); infinite outside the domain."""
        count = len(points)
        if not self.weight.size:
            return np.zeros(count)
        arguments = np.asarray(self.matrix @ points.T).T + self.offset
        grouped = self.kind.grouped(arguments.reshape(-1), self.width)
        with np.errstate(all="ignore"):
            found = self.kind.value(grouped, np.tile(self.parameter, count))
            return found.reshape(count, -1) @ self.weight

    def subgradient(self, point: np.ndarray) -> np.ndarray:
        """The gradient of the sum at a point of shape (m,), or one of its subgradients."""
        slopes = self.kind.gradient(self._arguments(point), self.parameter)
        weights = self.weight.reshape(-1, *[1] * (slopes.ndim - 1))
        return np.asarray(self.matrix.T @ (weights * slopes).reshape(-1))

    def _arguments(self, point: np.ndarray) -> np.ndarray:
        return self.kind.grouped(np.asarray(self.matrix @ point) + self.offset, self.width)


LINEAR = ("ZeroConeT", "NonnegativeConeT")
"""The cones whose rows are linear."""


def cone_height(kind: str, argument: Any) -> int:
    """The rows of a cone, by its type's name and its argument; see :class:`ConeProgram`."""
    if kind == "PSDTriangleConeT":
        return argument * (argument + 1) // 2
    if kind in ("ExponentialConeT", "PowerConeT"):
        return 3
    return len(argument) + 1 if kind == "GenPowerConeT" else argument


class Source(NamedTuple):
    """What a cone program is: another one's at F x + f.

    Attributes
    ----------
    levels : callable
        What :func:`dald_model.compile.recognition.with_levels` makes of the other one; read once.
    matrix, offset : csr_array and ndarray
        F and f.
    """

    levels: Callable[[], Any]
    matrix: Any
    offset: np.ndarray


class ConeProgram(NamedTuple):
    r"""The client in Clarabel's form over :math:`v = (x, y)`, the client's m variables first.

    .. math:: \min \tfrac12 v^\top P v + q^\top v + d \quad\text{s.t. } A v + s = b,\; s \in K

    ``cones`` lists K as pairs of Clarabel's cone type by name and its argument, such as
    ``("ZeroConeT", 3)``; an argument of None stands for a cone that takes none. ``source`` says of
    which template it is, where that is known.
    """

    matrix: sp.csc_array
    linear: np.ndarray
    constant: float
    rows: sp.csc_array
    rhs: np.ndarray
    cones: tuple[tuple[str, Any], ...]
    source: Source | None = None

    def around(self, centre: np.ndarray) -> ConeProgram:
        """The same in the differences of the client's variables from a point of shape (m,)."""
        full = np.zeros(self.linear.size)
        full[: centre.size] = centre
        bent = self.matrix @ full
        return self._replace(
            linear=self.linear + bent,
            constant=float(self.constant + (bent / 2 + self.linear) @ full),
            rhs=self.rhs - self.rows @ full,
            source=self.source
            and self.source._replace(offset=self.source.offset + self.source.matrix @ centre),
        )


@dataclass(frozen=True, eq=False)
class Form:
    r"""One client as numbers, see the module.

    Attributes
    ----------
    size : int
        Variables of the client, m.
    quadratic : Quadratic
    equalities, inequalities : Rows
        ``E x = e`` and ``A x <= b``; zero rows where there are none. Their last ``extra`` columns
        belong to variables that stand nowhere else: :math:`\|x\|_1 \le 1` needs some.
    terms : tuple of Term
    complete : bool
        Whether quadratic, rows and terms describe the client; otherwise only ``cone`` does.
    program : callable
        Makes :attr:`cone`, the cone program, which describes the client in every case.
    extra : int
        See the rows.
    valued : bool
        Whether quadratic and terms are the whole objective: then only constraints may be left to
        ``cone``.
    """

    size: int
    quadratic: Quadratic
    equalities: Rows
    inequalities: Rows
    terms: tuple[Term, ...]
    complete: bool
    program: Callable[[], ConeProgram]
    extra: int = 0
    valued: bool = True

    @cached_property
    def shape(self) -> tuple[Any, ...]:
        """Forms of equal shape can be stacked: the same sizes, rows and kinds of terms.

        Smooth terms may be of any number of functions and arguments, and so may absolute values of
        which there are more than variables.
        """
        return (
            self.size,
            self.equalities.rhs.size,
            self.inequalities.rhs.size,
            tuple(
                (t.kind.name,)
                if t.is_smooth
                or t.is_of_data
                or (t.kind.is_polyhedral and t.weight.size > self.size)
                else (t.kind.name, t.width, t.weight.size, sp.issparse(t.matrix))
                for t in self.terms
            ),
            self.extra,
            self.complete,
        )

    @cached_property
    def shape_but_counts(self) -> tuple[Any, ...]:
        """The same for methods that take any number of absolute values together."""
        kinds = tuple(
            one[:1] if t.kind.is_polyhedral else one
            for t, one in zip(self.terms, self.shape[3], strict=True)
        )
        return *self.shape[:3], kinds, *self.shape[4:]

    @cached_property
    def smooth(self) -> tuple[Term, ...]:
        """The terms that have a gradient."""
        return tuple(term for term in self.terms if term.is_smooth)

    @cached_property
    def kinked(self) -> tuple[Term, ...]:
        """The terms that have none everywhere: norms and balls, then absolute values."""
        found = (term for term in self.terms if not term.is_smooth)
        return tuple(sorted(found, key=lambda term: term.kind.is_polyhedral))

    @cached_property
    def heights(self) -> tuple[int, int, int]:
        """The equalities, inequalities and balls, each of which has a multiplier."""
        balls = sum(term.weight.size for term in self.terms if term.is_set)
        return self.equalities.rhs.size, self.inequalities.rhs.size, balls

    @cached_property
    def single_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """The inequalities of one of the client's entries each, which that is, and its factor.

        And whether others are of several.
        """
        stands = self.inequalities.matrix != 0
        counts, is_extra = stands.sum(axis=1), stands[:, self.size :].any(axis=1)
        rows = np.flatnonzero((counts == 1) & ~is_extra)
        entries = stands[rows].argmax(axis=1)
        return rows, entries, self.inequalities.matrix[rows, entries], bool((counts > 1).any())

    @cached_property
    def cone(self) -> ConeProgram:
        """See the class; made when first asked for."""
        return self.program()

    def around(self, centre: np.ndarray, known: tuple[Form, Form] | None = None) -> Form:
        """The same client in its differences from a point of shape (m,).

        ``known`` is another form, and it around the same point: what the two forms have in common
        is taken from there.
        """
        other, there = known or (None, None)
        if other is not None and there is not None and self.quadratic is other.quadratic:
            quadratic = there.quadratic
        else:
            matrix, linear, constant, root = self.quadratic
            bent = self.quadratic.times(centre)
            level = float(constant + (linear + bent / 2) @ centre)
            quadratic = Quadratic(matrix, linear + bent, level, root)
        offsets = {} if other is None or there is None else _offsets(other, there)
        rows = [_around(part, centre) for part in (self.equalities, self.inequalities)]
        terms = []
        for term in self.terms:
            offset = offsets.get((id(term.matrix), id(term.offset)))
            if offset is None:
                offset = term.offset + np.asarray(term.matrix @ centre)
            terms.append(term._replace(offset=offset))
        return self.with_others(
            quadratic=quadratic,
            equalities=rows[0],
            inequalities=rows[1],
            terms=tuple(terms),
            program=lambda: self.cone.around(centre),
        )

    def with_others(self, **numbers: Any) -> Form:
        """The same with other numbers in some of its parts, of the same shape."""
        found = object.__new__(type(self))
        own = found.__dict__
        own.update(self.__dict__)
        for made in ("cone", "smooth", "kinked"):
            own.pop(made, None)
        own.update(numbers)
        if found.inequalities.matrix is not self.inequalities.matrix:
            own.pop("single_rows", None)
        return found

    @property
    def digest(self) -> bytes:
        """What all numbers of a complete form come to: the same of clients with the same."""
        found = hashlib.sha256(repr(self.shape).encode())
        parts: list[Any] = [*self.quadratic, *self.equalities, *self.inequalities]
        for term in self.terms:
            parts += [np.frombuffer(term.kind.name.encode(), np.uint8), *term[1:]]
        for part in parts:
            stored = (part.indptr, part.indices, part.data) if sp.issparse(part) else (part,)
            for one in stored:
                array = np.ascontiguousarray(() if one is None else one)
                found.update(repr((array.shape, array.dtype.str)).encode())
                found.update(array.tobytes())
        return found.digest()

    def objective(self, point: np.ndarray) -> float:
        """The client's objective at a point of shape (m,), if the form is valued."""
        return float(self.objectives(point[None])[0])

    def objectives(self, points: np.ndarray) -> np.ndarray:
        """The same at points of shape (k, m), (k,)."""
        _, linear, constant, root = self.quadratic
        if root is None:
            squares = np.vecdot(points @ self.quadratic.full, points)
        else:
            squares = np.sum((root @ points.T) ** 2, axis=0)
        return squares / 2 + points @ linear + constant + sum(t.values(points) for t in self.terms)

    def magnitudes(self, points: np.ndarray) -> np.ndarray:
        """The sums of the sizes of what objectives add up at points of shape (k, m), (k,)."""
        _, linear, constant, root = self.quadratic
        sizes = np.abs(points)
        if root is None:
            squares = np.vecdot(sizes @ np.abs(self.quadratic.full), sizes)
        else:
            squares = np.sum((abs(root) @ sizes.T) ** 2, axis=0)
        terms = sum(np.abs(term.values(points)) for term in self.terms)
        return squares / 2 + sizes @ np.abs(linear) + abs(constant) + terms

    def violation(self, point: np.ndarray) -> float:
        """The largest violation at a point of shape (m,); for a complete form without extras."""
        zero = np.abs(self.equalities.matrix @ point - self.equalities.rhs)
        over = self.inequalities.matrix @ point - self.inequalities.rhs
        outside = [term.excess(point) for term in self.terms if term.is_set]
        return float(max(zero.max(initial=0.0), over.max(initial=0.0), *outside, 0.0))

    def is_outside(self, point: np.ndarray) -> bool:
        """Whether a point of shape (m,) breaks a row that is of no extra column, or a ball."""
        rows, gap, own = self.inequalities, self.equalities, slice(self.size)
        is_over = rows.matrix[:, own] @ point > rows.rhs
        is_off = gap.matrix[:, own] @ point != gap.rhs
        if self.extra:
            is_over &= ~rows.matrix[:, self.size :].any(axis=1)
            is_off &= ~gap.matrix[:, self.size :].any(axis=1)
        if is_over.any() or is_off.any():
            return True
        return any(term.excess(point) > 0 for term in self.terms if term.is_set)


def _around(rows: Rows, centre: np.ndarray) -> Rows:
    """Rows in the differences of their first variables from a point; of the rest it is zero."""
    if not rows.rhs.size:  # as most are
        return rows
    return Rows(rows.matrix, rows.rhs - np.asarray(rows.matrix[:, : centre.size] @ centre))


def _offsets(form: Form, there: Form) -> dict[tuple[int, int], np.ndarray]:
    """The offsets of a form's terms around a point, by the ids of matrix and offset before."""
    pairs = zip(form.terms, there.terms, strict=True)
    return {(id(one.matrix), id(one.offset)): two.offset for one, two in pairs}
