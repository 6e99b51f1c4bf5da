r"""Consensus equalities and edges, as pairs of affine maps.

The consensus graph is the set of cvxpy equalities between clients. All equalities between the
same two clients form one :class:`Edge`, whose consensus constraint is

.. math:: \mathcal C_{ij} = (G_i x_i + g_i) - (G_j x_j + g_j),

flat, in cvxpy's column-major order, left side minus right side as the user wrote it. With
:math:`G = I` this is the constraint of the paper's problems (8) and (16); the multiplier
:math:`\mu_{ij}` then has the sign of cvxpy's dual value of the equality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cvxpy as cp

from dald_model._cvxpy import Equality
from dald_model.declare.checked import check_data, check_variable
from dald_model.declare.wording import short
from dald_model.errors import DeclarationError
from dald_model.not_picklable import NotPicklable
from dald_model.text import listed

Owners = Mapping[int, Sequence[Hashable]]
"""Variable id -> the clients that use the variable."""
UsersOf = Callable[[cp.Expression], Mapping[cp.Variable, Sequence[Hashable]]]
"""Expression -> the users of the entries of each of its variables."""


@dataclass(frozen=True, eq=False, slots=True)
class ConsensusEquality:
    """A consensus equality ``left == right`` whose sides have no known owner yet.

    ``constraint`` is the user's own object, which receives the dual value; it is ``None`` where
    the equality was made for a shared variable.
    """

    left: cp.Expression
    right: cp.Expression
    constraint: cp.Constraint | None = None

    def __str__(self) -> str:
        return short(self.constraint if self.constraint is not None else self.left == self.right)


class Part(NamedTuple):
    """The entries ``start:stop`` of one equality in its edge, and its orientation.

    ``sign`` is -1 where the equality's left side belongs to the edge's head.
    """

    agreement: ConsensusEquality
    start: int
    stop: int
    sign: int


@dataclass(eq=False, repr=False)
class Edge(NotPicklable):
    """The consensus between two clients: ``tail_side - head_side == 0``, flat.

    Attributes
    ----------
    tail, head : Hashable
        The two clients; the tail owns the left side of the first equality.
    parts : list of Part
        The equalities that make up the edge, in the order of their declaration.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> edge = common_number([0, 1, 2]).compile().edges[1]
    >>> edge.ends, edge.other("server")
    (('server', 1), 1)
    """

    tail: Hashable
    head: Hashable
    parts: list[Part] = field(default_factory=list)

    def __repr__(self) -> str:
        said = "; ".join(str(part.agreement) for part in self.parts[:3])
        more = f"; and {len(self.parts) - 3} more" if len(self.parts) > 3 else ""
        entries = "1 entry" if self.size == 1 else f"{self.size} entries"
        return f"Edge {self.tail!r} - {self.head!r}, {entries}: {said}{more}"

    @property
    def size(self) -> int:
        """The number of scalar equalities."""
        return self.parts[-1].stop if self.parts else 0

    @property
    def ends(self) -> tuple[Hashable, Hashable]:
        """The two clients, tail first."""
        return self.tail, self.head

    def side(self, name: Hashable) -> cp.Expression:
        """The flat affine expression that client ``name`` contributes, shape (size,)."""
        return cp.hstack([cp.vec(side, order="F") for side in self.given(name)])

    def given(self, name: Hashable) -> list[cp.Expression]:
        """The sides of client ``name`` as the user wrote them, one an equality."""
        is_tail = name == self.tail
        return [one.left if (sign > 0) == is_tail else one.right for one, _, _, sign in self.parts]

    def other(self, name: Hashable) -> Hashable:
        """The client at the other end."""
        return self.head if name == self.tail else self.tail

    def sign(self, name: Hashable) -> int:
        """How the side of ``name`` enters the consensus constraint: +1 tail, -1 head."""
        return 1 if name == self.tail else -1

    def add(self, agreement: ConsensusEquality, left_owner: Hashable) -> None:
        """Append an equality whose left side belongs to ``left_owner``."""
        start = self.size
        stop = start + math.prod(agreement.left.shape)
        self.parts.append(Part(agreement, start, stop, self.sign(left_owner)))


def read_equality(given: Any) -> ConsensusEquality:
    """Check what was passed to :meth:`Model.consensus` as far as it can be known by itself.

    Raises
    ------
    DeclarationError
        If it is not an equality of two affine, real, finite sides of one shape that both hold
        variables.
    """
    if not isinstance(given, Equality):
        kind = short(given) if isinstance(given, cp.Constraint) else repr(given)
        several = isinstance(given, Iterable) and not isinstance(given, cp.Expression | str)
        remedy = (
            "unpack several as in model.consensus(*equalities)"
            if several
            else "any other constraint between clients is model.couple(...)"
        )
        raise DeclarationError(
            f"consensus: given {kind} of type {type(given).__name__}, expected a cvxpy equality "
            f"such as x0 == x1; {remedy}"
        )
    agreement = ConsensusEquality(given.args[0], given.args[1], given)
    where = f"consensus {agreement}"
    for side in (agreement.left, agreement.right):
        if not side.is_affine():
            raise DeclarationError(
                f"{where}: the side {short(side)} is {side.curvature.lower()}, expected affine; "
                "introduce a variable for it in its client"
            )
        if not side.variables():
            raise DeclarationError(
                f"{where}: the side {short(side)} holds no variable, expected one client's "
                "variables on each side; put the equality into the client's constraints instead"
            )
        for variable in side.variables():
            check_variable(variable, where)
        check_data(side, where)
    if agreement.left.size == 0:
        raise DeclarationError(
            f"{where}: the sides have shape {agreement.left.shape} and hold nothing, expected at "
            "least one number on each side; check the slice"
        )
    if agreement.left.shape != agreement.right.shape:
        raise DeclarationError(
            f"{where}: the sides have shapes {agreement.left.shape} and {agreement.right.shape}, "
            "expected equal shapes; index or reshape one of them"
        )
    return agreement


def side_owner(
    side: cp.Expression, agreement: ConsensusEquality, users_of: UsersOf
) -> Hashable | None:
    """The one client that owns the variables of a side, ``None`` while nobody does.

    Raises
    ------
    DeclarationError
        If the side mixes clients, or holds a variable that several clients share.
    """
    found = users_of(side)
    for variable, users in found.items():
        if len(users) > 1:
            raise DeclarationError(
                f"consensus {agreement}: variable {variable.name()!r} is used by the clients "
                f"{listed(users)}, so it is in consensus already; expected the "
                "variables of one client on each side; give each client a variable of its own, "
                "or drop the equality"
            )
    names = {users[0] for users in found.values() if users}
    if len(names) > 1:
        owned = ", ".join(f"{v.name()} of {n[0]!r}" for v, n in found.items() if n)
        raise DeclarationError(
            f"consensus {agreement}: the side {short(side)} mixes the clients' variables {owned}; "
            "expected the variables of one client on each side; write x0 == x1 rather than "
            "x0 - x1 == 0, or declare an equality of several clients by model.couple(...)"
        )
    return names.pop() if names else None


def check_sides(
    agreement: ConsensusEquality, owners: Owners, users_of: UsersOf | None = None
) -> tuple[Hashable | None, Hashable | None]:
    """The owners of both sides as far as they are known.

    Of variables, or of the entries in use where ``users_of`` tells them.

    Raises
    ------
    DeclarationError
        If a side mixes clients, or both sides belong to one client.
    """
    users_of = users_of or (lambda side: {v: owners.get(v.id, ()) for v in side.variables()})
    left = side_owner(agreement.left, agreement, users_of)
    right = side_owner(agreement.right, agreement, users_of)
    if left is not None and left == right:
        raise DeclarationError(
            f"consensus {agreement}: both sides belong to client {left!r}, expected two clients; "
            f"put the equality into the constraints of {left!r}"
        )
    return left, right


def join(agreements: Iterable[tuple[ConsensusEquality, Hashable, Hashable]]) -> list[Edge]:
    """Gather equalities with the owners of their two sides into one :class:`Edge` a pair."""
    edges: dict[frozenset[Hashable], Edge] = {}
    for agreement, left, right in agreements:
        ends = frozenset((left, right))
        edge = edges.get(ends)
        if edge is None:
            edge = edges[ends] = Edge(left, right)
        edge.add(agreement, left)
    return list(edges.values())
