"""Patterns of couplings: what was taken apart once for all that differ in their variables alone.

The norms on the edges of a graph, for instance, are one pattern. Of the later ones nothing is made
anew but the variable that they share, and the expressions that hold it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp

from dald_model._cvxpy import with_parts
from dald_model.compile.pieces import product
from dald_model.declare.client import Client
from dald_model.declare.consensus import Owners
from dald_model.declare.consensus_form import Link
from dald_model.declare.couplings import Coupling
from dald_model.values import flat

SMALL = 64
"""Entries up to which the constants of couplings are compared."""
Party = Mapping[int, Hashable]
"""Variable id -> the client that speaks for it."""


class Apart(NamedTuple):
    """A coupling taken apart, of whose parties nothing is asked but affine sides.

    Attributes
    ----------
    client : Client
        What is left of it, over one variable.
    shared : cp.Variable
        What the parties share, one after the other.
    sides : list
        Of each party its position among all, and the matrix of its side.
    """

    client: Client
    shared: cp.Variable
    sides: list[tuple[int, Any]]


class CouplingPatterns:
    """The couplings of a model by pattern; ``owners`` are those of all variables."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._known: dict[Hashable, Apart] = {}

    def key(self, coupling: Coupling, party: Party) -> Hashable:
        """Equal for couplings of one pattern; None of one that stands for itself.

        As where several clients use a variable, or none, and where data are more than a few.
        """
        known = coupling.outlined
        if known is None or any(constant.size > SMALL for constant in known.constants):
            return None
        if any(len(self._owners.get(v.id, ())) != 1 for v in known.variables):
            return None
        place = {name: at for at, name in enumerate(dict.fromkeys(party.values()))}
        values = [flat(constant.value).tobytes() for constant in known.constants]
        parties = tuple(place[party[v.id]] for v in known.variables)
        return known.outline, known.shapes, parties, tuple(values)

    def learn(self, key: Hashable, apart: Apart) -> None:
        """Remember how the first of a pattern was taken apart."""
        if key is not None:
            self._known[key] = apart

    def again(
        self, key: Hashable, coupling: Coupling, party: Party
    ) -> tuple[Client, cp.Variable, list[Link]] | None:
        """What is left of a coupling, what is shared, and its edges; None if there is no other."""
        known = self._known.get(key)
        if known is None:
            return None
        names = list(dict.fromkeys(party.values()))
        shared = cp.Variable(known.shared.size, name=shared_name(coupling))
        links, start = [], 0
        for at, basis in known.sides:
            own = [v for v in coupling.variables if party[v.id] == names[at]]
            side = product(basis, own)
            local = shared[start : start + side.size]
            links.append(Link(local, coupling.name, side, names[at]))
            start += side.size
        instead = {id(known.shared): shared}
        goal = type(coupling.objective)(with_parts(known.client.objective.expr, instead))
        rules = tuple(with_parts(rule, instead) for rule in known.client.constraints)
        return Coupling(coupling.name, goal, rules), shared, links


def shared_name(coupling: Coupling) -> str:
    """What a variable that the parties share is called."""
    return f"shared@{coupling.name}"
