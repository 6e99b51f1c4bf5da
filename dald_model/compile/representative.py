"""Representative: the client that others are like but for their data.

Others may have more rows where affine expressions are told for any number of them: ``A @ x - b`` is
one for each number of rows of A and b; ``cp.diff(A @ x)`` is not, since cvxpy is asked for its
operator of that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import ENTRYWISE, DivExpression, NegExpression, Promote
from dald_model.compile.affine_maps import is_same
from dald_model.compile.lowered import Lowered, Read
from dald_model.compile.row_replication import APART
from dald_model.compile.stacked_maps import (
    NotStackedError,
    StackedMaps,
    StackedValue,
    only,
    stacked_parts,
)
from dald_model.declare.affine import NO_OTHERS, MadeOnce, affine_parts
from dald_model.declare.client import Client
from dald_model.declare.structure_key import Leaves

COMPARED = 64
"""Entries up to which constants are compared, to find parts that are the same."""
Shapes = tuple[tuple[int, ...], ...]
"""See :attr:`Leaves.shapes`."""


class Representative:
    """A client that others are like but for their data, so that nothing else is asked of these.

    Attributes
    ----------
    lowered : Lowered
    variables : list of cp.Variable
        The client's own.
    shapes : tuple
        See :attr:`dald_model.declare.structure_key.Leaves.shapes`.
    is_any_rows : bool
        Whether others may have other numbers of rows, too.
    """

    def __init__(self, client: Client, known: Leaves, lowered: Lowered) -> None:
        self.lowered, self.variables = lowered, client.variables
        self._stacks = MadeOnce()
        self._counts = [0, 0]  # of those with other shapes, and with its own
        self._constants, self.shapes = known.constants, known.shapes
        self._places = {id(constant): at for at, constant in enumerate(known.constants)}
        stated = [client.objective.expr, *client.constraints]
        repeated = [node for node in nodes(stated) if type(node) is Promote]
        self._promoted = {id(node): at for at, node in enumerate(repeated, len(known.constants))}
        given = lowered.read.given
        self._of_pieces = [self._among(piece) for piece in given.pieces]
        self._fixed = {at for part in given.fixed for at in self._among(part)}
        pairs = [*zip(given.pieces, given.groups, strict=True)]
        of_rows = [piece for piece, group in pairs if group != APART]
        self._of_groups = [at for at, (_, group) in enumerate(pairs) if group != APART]
        self._rigid = {
            at
            for piece, group in pairs
            if group == APART
            for at in (*self._among(piece), *self._promotions(piece))
        }
        self.is_any_rows = (
            len(of_rows) > 0
            and all(map(is_any_rows, of_rows))
            and all(map(_has_plain_constants, stated))
        )

    def _among(self, part: Any) -> list[int]:
        """Which of the client's constants are in a part of it."""
        return [self._places[id(constant)] for constant in part.constants()]

    def _promotions(self, part: Any) -> list[int]:
        """The same of the numbers that are repeated, in the order of :attr:`Leaves.shapes`."""
        found = (self._promoted.get(id(node)) for node in nodes([part]))
        return [at for at in found if at is not None]

    def is_checked(self, shapes: Shapes) -> bool:
        """Whether a client like it is to be compared with cvxpy: the first, second, fourth, ...

        What goes wrong with data goes wrong with most.
        """
        which = shapes == self.shapes
        self._counts[which] += 1
        return not self._counts[which] & (self._counts[which] - 1)

    def read(self, known: Leaves, shapes: Shapes) -> Read | None:
        """What cvxpy would make of a client with these leaves; None if it takes another."""
        promoted = NO_OTHERS
        is_alike = shapes == self.shapes
        if not is_alike:
            if not self.is_any_rows or any(shapes[at] != self.shapes[at] for at in self._rigid):
                return None
            promoted = {key: shapes[at] for key, at in self._promoted.items()}
        values = [constant.value for constant in known.constants]
        stays = [
            (at in self._fixed or other.size <= COMPARED) and is_same(value, other.value)
            for at, (value, other) in enumerate(zip(values, self._constants, strict=True))
        ]
        if not all(stays[at] for at in self._fixed):
            return None

        def value(constant: Any) -> Any:
            at = self._places.get(id(constant))
            if at is not None:
                return values[at]
            given = [value(arg) for arg in constant.args]
            if id(constant) in promoted:
                return np.full(promoted[id(constant)], given[0])
            return constant.numeric(given)

        read = self.lowered.read
        given = read.given.with_numbers(value) if read.given.sources else read.given
        if given is None or not read.template.accepts(given.numbers):
            return None
        parts = [
            part
            if (is_alike or at not in self._of_groups) and all(stays[one] for one in among)
            else affine_parts(piece, value, promoted)
            for at, (piece, part, among) in enumerate(
                zip(read.given.pieces, read.parts, self._of_pieces, strict=True)
            )
        ]
        if not (is_alike or self._has_rows_by_group(parts)):
            return None
        return read._replace(given=given, parts=parts, is_first=False)

    def stacked(self, constants: Sequence[Sequence[Any]]) -> StackedMaps:
        """The affine maps of clients of its own shapes, from the constants of each.

        Raises :class:`NotStackedError` where they differ in more than :func:`stacked_parts` reads.
        """
        every = [constant.value for own in constants for constant in own]
        return self._stacks.of(tuple(map(id, every)), every, lambda: self._stacked(constants))

    def _stacked(self, constants: Sequence[Sequence[Any]]) -> StackedMaps:
        columns = zip(*constants, strict=True)
        given = [_stack(*pair) for pair in zip(columns, self._constants, strict=True)]
        stacks, stays = zip(*given, strict=True) if given else ((), ())
        read = self.lowered.read
        value = StackedValue({key: stacks[at] for key, at in self._places.items()})
        if not all(stays[at] for at in self._fixed):
            raise NotStackedError
        for source, number in zip(read.given.sources, read.given.numbers, strict=True):
            if not is_same(source(lambda node: only(value(node))), number):
                raise NotStackedError
        parts = [
            None if all(stays[at] for at in among) else stacked_parts(piece, value)
            for piece, among in zip(read.given.pieces, self._of_pieces, strict=True)
        ]
        return StackedMaps(parts, self.variables, self.lowered.maps, len(constants))

    def _has_rows_by_group(self, parts: list[Any]) -> bool:
        """Whether all pieces of a group have as many rows."""
        groups = self.lowered.read.given.groups
        sizes = {groups[at]: parts[at][1].size for at in self._of_groups}
        return all(parts[at][1].size == sizes[groups[at]] for at in self._of_groups)


def _stack(constants: Sequence[Any], other: Any) -> tuple[np.ndarray, bool]:
    """A constant of several clients, (n, ...), or (1, ...) where it is another's; and if it is."""
    own, is_its = np.asarray(other.value)[None], all(one is other for one in constants)
    found = own if is_its else np.array([one.value for one in constants])
    if own.dtype.kind not in "biuf" or found.dtype.kind not in "biuf":  # sparse matrices
        raise NotStackedError
    is_its = is_its or bool((found == own).all())
    return own if is_its else found, is_its


def _has_plain_constants(part: Any) -> bool:
    """Whether all constants of a part, a number for instance, are what their leaves make them."""
    if not isinstance(part, cp.Constraint) and part.is_constant():
        return is_plain(part)
    return all(map(_has_plain_constants, part.args))


def is_read_from(known: Leaves, lowered: Lowered) -> bool:
    """Whether all numbers of what was read are constants that the user wrote.

    Where cvxpy repeats a column it makes constants of its own, and another client's are not known
    by place.
    """
    own, given = {id(constant) for constant in known.constants}, lowered.read.given
    return all(id(one) in own for part in (*given.pieces, *given.fixed) for one in part.constants())


def is_any_rows(expression: Any) -> bool:
    """Whether :func:`dald_model.declare.affine.affine_parts` takes it with other rows of data."""
    if isinstance(expression, cp.Variable):
        return True
    if expression.is_constant():
        return is_plain(expression)
    kind, args = type(expression), expression.args
    fixed = [arg.is_constant() for arg in args]
    if kind is NegExpression or kind is Promote:
        return is_any_rows(args[0])
    if kind is cp.AddExpression and all(arg.shape == expression.shape for arg in args):
        return all(map(is_any_rows, args))
    if kind in (cp.multiply, DivExpression) and sum(fixed) == 1:
        data, inner = args if fixed[0] else args[::-1]
        is_alike = inner.shape == expression.shape and data.shape in ((), inner.shape)
        is_alike = is_alike and (fixed[1] or kind is cp.multiply)
        return is_alike and is_plain(data) and is_any_rows(inner)
    if kind is cp.MulExpression and fixed[0] and len(args[1].shape) == 1 and args[0].ndim > 0:
        return is_plain(args[0]) and is_any_rows(args[1])
    return not any(type(node) in (cp.Constant, Promote) for node in nodes([expression]))


def is_plain(constant: Any) -> bool:
    """Whether a constant expression has its value from its leaves, of whatever shape these are."""
    kinds = (cp.Constant, Promote, *ENTRYWISE)
    return all(type(node) in kinds for node in nodes([constant]))


def nodes(parts: Iterable[Any]) -> Iterator[Any]:
    """All nodes of some expressions or constraints, in the order of a structure key."""
    left = [*parts][::-1]
    while left:
        node = left.pop()
        yield node
        left += node.args[::-1]
