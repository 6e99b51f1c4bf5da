"""Exemplar: the client that others are like but for their data."""

from __future__ import annotations

from typing import Any

from dald_model.compile.affine import affine_parts
from dald_model.compile.affine_maps import is_same
from dald_model.compile.lowered import Lowered, Read
from dald_model.declare.client import Client
from dald_model.declare.outline import Outlined

SMALL = 64
"""Entries up to which constants are compared, to find parts that are the same."""


class Exemplar:
    """A client that others are like but for their data, so that nothing else is asked of these.

    Attributes
    ----------
    lowered : Lowered
    variables : list of cp.Variable
        The client's own.
    count : int
        How many were like it so far.
    """

    def __init__(self, client: Client, known: Outlined, lowered: Lowered) -> None:
        self.lowered, self.variables, self.count = lowered, client.variables, 0
        self._constants = known.constants
        self._places = {id(constant): at for at, constant in enumerate(known.constants)}
        given = lowered.read.given
        self._of_pieces = [self._among(piece) for piece in given.pieces]
        self._fixed = {at for part in given.fixed for at in self._among(part)}

    def _among(self, part: Any) -> list[int]:
        """Which of the client's constants are in a part of it."""
        return [self._places[id(constant)] for constant in part.constants()]

    def read(self, client: Client) -> Read | None:
        """What cvxpy would make of a client of this outline; None if it takes another exemplar."""
        assert client.outlined is not None
        values = [constant.value for constant in client.outlined.constants]
        stays = [
            (at in self._fixed or known.size <= SMALL) and is_same(value, known.value)
            for at, (value, known) in enumerate(zip(values, self._constants, strict=True))
        ]
        if not all(stays[at] for at in self._fixed):
            return None

        def value(constant: Any) -> Any:
            at = self._places.get(id(constant))
            return constant.numeric(list(map(value, constant.args))) if at is None else values[at]

        read = self.lowered.read
        given = read.given.with_numbers(value) if read.given.sources else read.given
        if given is None or not read.template.accepts(given.numbers):
            return None
        parts = [
            part if all(stays[at] for at in among) else affine_parts(piece, value)
            for piece, part, among in zip(
                read.given.pieces, read.parts, self._of_pieces, strict=True
            )
        ]
        return read._replace(given=given, parts=parts, is_first=False)
