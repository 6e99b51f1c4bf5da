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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.kinds.kind import Kind
from dald_model.solvers.base import Encoding
from dald_model.solvers.interior.cones import Orthant
from dald_model.solvers.interior.rows import Rows, stacked

EQUAL = ("ZeroConeT", None)


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

    def is_of(self, other: Block) -> bool:
        """Whether another has the same matrix."""
        return self.source is other.source and self.part == other.part


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
    """Smooth terms of one kind, with ``width`` arguments each, and the matrices of the rows."""

    kind: Kind
    sources: list[Any]
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
    :math:`R^\top R`. The last ``split`` variables and equalities stand for long sums. ``stated``
    has of each kind of rows the blocks that they were made of.
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
    stated: dict[Any, list[Block]]
    is_dense: bool

    def has(self, stated: dict[Any, list[Block]]) -> bool:
        """Whether these are the same rows."""
        return self.stated.keys() == stated.keys() and all(
            len(blocks) == len(self.stated[key]) and all(map(Block.is_of, self.stated[key], blocks))
            for key, blocks in stated.items()
        )

    def is_like(self, other: Programme) -> bool:
        """Whether the two differ in numbers alone."""
        return self._shape == other._shape

    def with_numbers(self, apart: Programme, before: Programme, of: np.ndarray) -> Programme | None:
        """The same where the program of the clients apart has other numbers than ``before``.

        With ``of``, the number here of each variable there; None where they differ in more.
        """
        pairs = [(apart.equal, before.equal)]
        pairs += [(group.rows, before.groups[k].rows) for k, group in apart.groups.items()]
        pairs += [
            (one.rows, two.rows) for one, two in zip(apart.smooth, before.smooth, strict=True)
        ]
        if any(one is not two for one, two in pairs):
            return None
        agreed = self.equal_right[apart.equal_right.size :]
        bends = [
            [(matrix, of[columns]) for matrix, columns in each]
            for each in (apart.quadratics, apart.roots)
        ]
        is_same = before.is_bent_as(apart)
        return replace(
            self,
            matrix=self.matrix if is_same else bent(self.size, *bends, is_dense=self.is_dense),
            linear=np.bincount(of, apart.linear, self.size),
            constant=apart.constant,
            equal_right=np.concatenate([apart.equal_right, agreed]),
            groups={
                key: group._replace(right=apart.groups[key].right, tops=apart.groups[key].tops)
                for key, group in self.groups.items()
            },
            smooth=[
                one._replace(offset=two.offset, weight=two.weight, parameter=two.parameter)
                for one, two in zip(self.smooth, apart.smooth, strict=True)
            ],
        )

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

    def is_bent_as(self, other: Programme) -> bool:
        """Whether the two have the same quadratics and roots."""
        own, its = ([*one.quadratics, *one.roots] for one in (self, other))
        return len(own) == len(its) and all(a is b for (a, _), (b, _) in zip(own, its, strict=True))

    def slopes(self, x: np.ndarray, multipliers: dict[Any, np.ndarray]) -> np.ndarray:
        """The gradient of the Lagrangian in the variables of clients that share none, (n,)."""
        found = self.linear + self.equal.back(multipliers[EQUAL])
        alike = stacked(self.quadratics)
        if alike is not None:
            matrices, of = alike
            bends = (matrices @ x[of][..., None]).ravel()
            found = found + np.bincount(of.ravel(), bends, found.size)
        for matrix, columns in self.quadratics if alike is None else ():
            found[columns] += matrix @ x[columns]
        for root, columns in self.roots:
            found[columns] += root.T @ (root @ x[columns])
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


def bent(
    size: int,
    quadratics: Sequence[tuple[Any, np.ndarray]],
    roots: Sequence[tuple[Any, np.ndarray]],
    *,
    is_dense: bool,
) -> Any:
    """P of quadratics and roots, each over variables of some numbers."""
    found = _squares(size, quadratics, is_dense=is_dense)
    if roots:
        more = Rows.joined(roots, size, is_dense=is_dense).gram()
        found = found + (more.toarray() if is_dense and sp.issparse(more) else more)
    return found


def _squares(size: int, quadratics: Sequence[tuple[Any, np.ndarray]], *, is_dense: bool) -> Any:
    alike = stacked(quadratics)
    if alike is not None:
        matrices, columns = alike
        cells = (columns[:, :, None] * size + columns[:, None]).ravel()
        if is_dense:
            return np.bincount(cells, matrices.ravel(), size * size).reshape(size, size)
        kept = np.flatnonzero(matrices)
        places = np.divmod(cells[kept], size)
        return sp.csc_array((matrices.ravel()[kept], places), shape=(size, size))
    if is_dense:
        found = np.zeros((size, size))
        for matrix, columns in quadratics:
            dense = matrix.toarray() if sp.issparse(matrix) else matrix
            found[columns[:, None], columns] += dense
        return found
    if not quadratics:
        return sp.csc_array((size, size))
    cells = [(sp.coo_array(matrix), columns) for matrix, columns in quadratics]
    data = np.concatenate([one.data for one, _ in cells])
    row = np.concatenate([columns[one.row] for one, columns in cells])
    column = np.concatenate([columns[one.col] for one, columns in cells])
    return sp.csc_array((data, (row, column)), shape=(size, size))


def _spread(rows: Any, width: int) -> Any:
    """Rows of balls of some arguments each, after a row of zeros for each radius; negated."""
    count = rows.shape[0] // width
    tails = np.arange(count * (width + 1)).reshape(count, -1)[:, 1:].ravel()
    shape = count * (width + 1), tails.size
    return sp.csr_array((-np.ones(tails.size), (tails, np.arange(tails.size))), shape=shape) @ rows
