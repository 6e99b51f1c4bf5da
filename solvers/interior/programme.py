r"""The clients of an interior point as one program over the variables that they have together.

.. math::
    \min \; \tfrac12 x^\top P x + q^\top x + d + \sum_t w_t \varphi_t(R_t x + o_t) + \sum_k w_k t_k
    \quad\text{s.t. } E x = e, \; A x + s = b, \; s \in K

with smooth :math:`\varphi`, and :math:`t_k` that stand at the head of one second-order cone each:
they are norms and absolute values, and are eliminated there. A client whose form says less than
everything, or has a kind that is undefined at zero, comes by its cone program.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.compile.kinds.kind import Kind
from dald_model.sizes import INFINITE, SUMMED
from dald_model.solvers.base import Encoding
from dald_model.solvers.interior.batches import Batches
from dald_model.solvers.interior.cones import Orthant
from dald_model.solvers.interior.numbers import Numbers, taken
from dald_model.solvers.interior.rows import Rows, batched, summed

EQUAL, NONNEGATIVE = ("ZeroConeT", None), ("NonnegativeConeT", None)


class Place(NamedTuple):
    """Where multipliers of a client lie: the key of their group, and which of its rows.

    Those of arguments of norms and absolute values, ``is_argument``, are no constraint's, and count
    with the other sign.
    """

    key: Any
    rows: np.ndarray
    is_argument: bool = False


class Block:
    """Rows of one client: a matrix of its form, or a part of it, over variables of some numbers.

    Parameters
    ----------
    source : matrix
    columns : ndarray
    part : slice, int or None
        Which rows; or of how many arguments each ball is, :math:`(r, R x + o)`.
    """

    def __init__(self, source: Any, columns: np.ndarray, part: slice | int | None = None) -> None:
        self.source, self.columns, self.part = source, columns, part

    @cached_property
    def matrix(self) -> Any:
        """The rows."""
        if self.part is None:
            return self.source
        rows = sp.csr_array(self.source)
        return rows[self.part] if isinstance(self.part, slice) else _spread(rows, self.part)


class Group(NamedTuple):
    """Rows of cones of one kind: :math:`s = b - A x`, of which ``tops`` are the heads' weights.

    With tops the rows are those of the tails, (count, width - 1), and b as well; and the cone has
    the methods of heads.
    """

    rows: Rows
    right: np.ndarray
    cone: Any
    tops: np.ndarray | None


class Smooth(NamedTuple):
    """Smooth terms of one kind, with ``width`` arguments each."""

    kind: Kind
    rows: Rows
    offset: np.ndarray
    weight: np.ndarray
    parameter: np.ndarray
    width: int

    def at(self, x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value and gradient at x, and what :meth:`curvature` takes."""
        arguments = self.kind.grouped(self.rows.times(x) + self.offset, self.width)
        with np.errstate(all="ignore"):
            value, slope, bend = self.kind.evaluate(arguments, self.parameter)
            if self.kind.is_joint:
                back = self.rows.back((self.weight[:, None] * slope).ravel())
                return float(self.weight @ value), back, arguments
            back = self.rows.back(self.weight * slope)
            return float(self.weight @ value), back, self.weight * bend

    def bends(self) -> np.ndarray:
        """The second derivative in each argument at zero."""
        arguments = self.kind.grouped(self.offset, self.width)
        with np.errstate(all="ignore"):
            bend = self.kind.evaluate(arguments, self.parameter)[2]
        return (np.repeat(self.weight, self.width).reshape(bend.shape) * bend).ravel()

    def curvature(self, known: np.ndarray) -> Any:
        """The Hessian where :meth:`at` was asked last."""
        if not self.kind.is_joint:
            return self.rows.gram(np.maximum(known, 0.0))
        matrix = self.rows.matrix
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        table = dense.reshape(self.weight.size, self.width, -1)
        root = self.kind.root(table, known, self.weight, self.parameter)
        found = Rows(root.reshape(-1, dense.shape[1])).gram()
        return sp.csc_array(found) if sp.issparse(matrix) else found


@dataclass
class Programme:
    r"""See the module; ``places`` has of each client its encoding and where its multipliers are.

    Of clients apart from each other P stays in their ``quadratics``, and in ``roots`` R of
    :math:`R^\top R`. The last ``split`` variables and equalities stand for long sums. ``numbers``
    are known of clients apart.
    """

    size: int
    matrix: Any
    quadratics: list[tuple[Any, np.ndarray]]
    roots: list[tuple[Any, np.ndarray]]
    linear: np.ndarray
    constant: float
    equal: Rows
    equal_right: np.ndarray
    groups: dict[Any, Group]
    smooth: list[Smooth]
    places: dict[Any, tuple[Encoding, list[Place]]]
    split: int
    is_dense: bool
    numbers: Numbers | None

    def is_like(self, other: Programme) -> bool:
        """Whether the two differ in numbers alone."""
        return self._shape == other._shape

    def again(self, forms: Sequence[Form], before: Sequence[Form]) -> Programme | None:
        """The same of clients apart with the numbers of other forms; None if more is other."""
        numbers = self.numbers
        if numbers is None or not numbers.are_of(forms, before):
            return None
        every = numbers.rights.items()
        rights = {key: np.concatenate(taken(forms, some)) for key, some in every}
        if NONNEGATIVE in rights and rights[NONNEGATIVE].max() >= (1 - SUMMED) * INFINITE:
            return None
        weights = {key: np.concatenate(taken(forms, s)) for key, s in numbers.weights.items()}
        values = np.concatenate([np.zeros(0), *taken(forms, numbers.linear)])
        found = self._with(
            linear=np.bincount(numbers.columns, values, self.size),
            constant=sum(taken(forms, numbers.constants)),
            equal_right=rights.pop(EQUAL, self.equal_right),
            groups={
                key: group._replace(right=rights[key], tops=weights.get(key))
                for key, group in self.groups.items()
            },
        )
        found.smooth = []
        for one, places in zip(self.smooth, numbers.smooth.values(), strict=True):
            offset, weight, parameter = joined(taken(forms, places))
            found.smooth.append(one._replace(offset=offset, weight=weight, parameter=parameter))
        for name in ("quadratics", "roots"):
            known, matrices = getattr(self, name), taken(forms, getattr(numbers, name))
            if not all(one is two for one, (two, _) in zip(matrices, known, strict=True)):
                bends = [(one, columns) for one, (_, columns) in zip(matrices, known, strict=True)]
                setattr(found, name, bends)
                vars(found).pop("_batched", None)
        return found

    def with_numbers(self, apart: Programme, before: Programme, of: np.ndarray) -> Programme:
        """The same where the program of the clients apart has other numbers than ``before``.

        With ``of``, the number here of each variable there.
        """
        agreed, matrix = self.equal_right[apart.equal_right.size :], self.matrix
        if apart.quadratics is not before.quadratics or apart.roots is not before.roots:
            quadratics, roots = (
                [(one, of[columns]) for one, columns in each]
                for each in (apart.quadratics, apart.roots)
            )
            matrix = bent(self.size, quadratics, roots, is_dense=self.is_dense)
        groups = {
            key: group._replace(right=apart.groups[key].right, tops=apart.groups[key].tops)
            for key, group in self.groups.items()
        }
        return self._with(
            matrix=matrix,
            linear=np.bincount(of, apart.linear, self.size),
            constant=apart.constant,
            equal_right=np.concatenate([apart.equal_right, agreed]),
            groups=groups,
            smooth=[
                one._replace(offset=two.offset, weight=two.weight, parameter=two.parameter)
                for one, two in zip(self.smooth, apart.smooth, strict=True)
            ],
        )

    def _with(self, **numbers: Any) -> Programme:
        """The same with other numbers; what was made of the rest stays."""
        found = copy(self)
        vars(found).update(numbers)
        return found

    @cached_property
    def _shape(self) -> tuple[Any, ...]:
        return (
            self.size,
            self.is_dense,
            self.equal_right.size,
            [(key, group.right.size) for key, group in self.groups.items()],
            [(term.kind.name, term.weight.size) for term in self.smooth],
            [(how, [p.rows.size for p in places]) for how, places in self.places.values()],
        )

    @cached_property
    def _batched(self) -> list[tuple[list[Any], list[Any]]]:
        """Quadratics and roots of many clients at once, and of one each."""
        return [batched(self.quadratics), batched(self.roots)]

    def slopes(self, x: np.ndarray, multipliers: dict[Any, np.ndarray]) -> np.ndarray:
        """The gradient of the Lagrangian in the variables of clients that share none, (n,)."""
        found = self.linear + self.equal.back(multipliers[EQUAL])
        for (batches, rest), is_root in zip(self._batched, (False, True), strict=True):
            for matrices, of in batches:
                bends = matrices @ x[of][..., None]
                bends = matrices.swapaxes(1, 2) @ bends if is_root else bends
                found = found + np.bincount(of.ravel(), bends.ravel(), found.size)
            for matrix, columns in rest:
                bends = matrix @ x[columns]
                found[columns] += matrix.T @ bends if is_root else bends
        for term in self.smooth:
            found = found + term.at(x)[1]
        for key, group in self.groups.items():
            found = found + group.rows.back(multipliers[key])
        return found

    def limited(self, multipliers: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
        """Multipliers brought back to what rounding took them beyond: zero, or weights of kinks."""
        found = dict(multipliers)
        for key, group in self.groups.items():
            if group.tops is not None:
                sizes = group.cone.norms(found[key])
                over = sizes > group.tops  # a weight may be zero
                shares = np.where(over, group.tops / np.where(over, sizes, 1.0), 1.0)
                found[key] = found[key] * np.repeat(shares, key[1])
            elif isinstance(group.cone, Orthant):
                found[key] = np.maximum(found[key], 0.0)
        return found

    def tangents(
        self, points: np.ndarray, multipliers: dict[Any, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the Lagrangians of clients that share no variable prove at their points, (n,).

        Their slopes, and of each client how far it is below the objective there, NaN of one that
        comes by its cone program; and what slopes of variables of rows' own, zero but for rounding,
        are worth as far as these rows take them from zero.
        """
        x = np.concatenate([points, np.zeros(self.size - points.size)])
        slopes, count = self.slopes(x, multipliers), len(self.places)
        losses, spare = np.zeros((2, count))
        equal = Group(self.equal, self.equal_right, None, None)
        for key, (rows, right, cone, tops) in {EQUAL: equal, **self.groups}.items():
            slack, owners = right - rows.times(x), self.owners[key]
            losses = losses + np.bincount(owners, slack * multipliers[key], count)
            if tops is not None:
                kinks = cone.norms(slack) * tops
                losses = losses + np.bincount(owners[:: key[1]], kinks, count)
            elif points.size < x.size:
                row, column, sizes = rows.beyond(points.size)
                far = np.abs(slopes[column] * slack[row] / sizes)
                spare = spare + np.bincount(owners[row], far, count)
        is_read = [encoding == Encoding.ROWS for encoding, _ in self.places.values()]
        return slopes[: points.size], np.where(is_read, losses, np.nan), spare

    @cached_property
    def owners(self) -> dict[Any, np.ndarray]:
        """Of each kind of rows the number of the client that has it."""
        found = {key: np.zeros(group.right.size, dtype=int) for key, group in self.groups.items()}
        found[EQUAL] = np.zeros(self.equal_right.size, dtype=int)
        for at, (_, places) in enumerate(self.places.values()):
            for place in places:
                if place.rows.size:
                    found[place.key][place.rows] = at
        return found


def joined(terms: Sequence[Any]) -> list[np.ndarray]:
    """Offsets, weights and parameters of some terms, one after the other."""
    each = [(term.offset, term.weight, term.parameter) for term in terms]
    return [np.concatenate(parts) for parts in zip(*each, strict=True)]


def bent(
    size: int,
    quadratics: Sequence[tuple[Any, np.ndarray]],
    roots: Sequence[tuple[Any, np.ndarray]],
    *,
    is_dense: bool,
) -> Any:
    """P of quadratics and roots, each over variables of some numbers."""
    found = summed(size, quadratics, is_dense=is_dense)
    batches, rest = batched(roots)
    rows = [Batches(batches, np.ones(size))] if batches else []
    rows += [Rows.joined(rest, size, is_dense=is_dense)] if rest else []
    for more in (one.gram() for one in rows):
        found = found + (more.toarray() if is_dense and sp.issparse(more) else more)
    return found


def _spread(rows: Any, width: int) -> Any:
    """Rows of balls of some arguments each, after a row of zeros for each radius; negated."""
    count = rows.shape[0] // width
    tails = np.arange(count * (width + 1)).reshape(count, -1)[:, 1:].ravel()
    shape = count * (width + 1), tails.size
    return sp.csr_array((-np.ones(tails.size), (tails, np.arange(tails.size))), shape=shape) @ rows
