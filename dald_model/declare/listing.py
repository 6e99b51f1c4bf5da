"""The table of a model: its clients one by one or by kind, and what they have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality, Owners
from dald_model.declare.couplings import Coupling
from dald_model.declare.wording import sized, symbolic
from dald_model.lazy_imports import nx, pd
from dald_model.text import (
    FOLDED,
    SHOWN,
    Heading,
    Part,
    counted,
    folded,
    outline,
    parted,
    ranged,
    shortened,
    together,
)
from dald_model.values import number


class Listing(NamedTuple):
    """What is told of a declaration.

    Attributes
    ----------
    name : str
    clients, couplings : dict
        By name.
    agreements : list of ConsensusEquality
    owners : dict
        Variable id -> the clients that use it.
    shared : list of cp.Variable
        Those that several clients use.
    parts : list of list
        Names of clients and couplings by independent part, where there may be several.
    topology : networkx.Graph or None
    is_served : bool
        Whether there is a server also where none is needed.
    """

    name: str
    clients: Mapping[Hashable, Client]
    agreements: Sequence[ConsensusEquality]
    couplings: Mapping[Hashable, Coupling]
    owners: Owners
    shared: Sequence[cp.Variable]
    parts: Sequence[Sequence[Hashable]]
    topology: nx.Graph | None
    is_served: bool

    def report(self, *, wide: bool) -> list[Part]:
        """The table of clients, and the consensus equalities."""
        parts: list[Part] = [
            Heading(f"Model {self.name!r}: {counted(len(self.clients), 'client')}")
        ]
        if self.clients:
            parts.append(self._frame(120 if wide else 48))
        return [*parts, self._common()]

    def _frame(self, width: int) -> pd.DataFrame:
        """One row a client: what it minimises, its variables and constraints, cut to a width.

        Many clients have one row a kind.
        """
        frame = pd.DataFrame(self._rows())
        if len(self.clients) > FOLDED:
            same = ("constraints",)
            found = folded(frame, width, exact=same)
            if len(found) == SHOWN:  # perhaps as each has variables of other names
                found = folded(pd.DataFrame(self._rows(anonymous=True)), width, exact=same)
            return found
        frame["objective"] = [shortened(cell, width) for cell in frame.objective]
        frame["variables"] = [shortened(cell, width - 8) for cell in frame.variables]
        return frame

    def _rows(self, *, anonymous: bool = False) -> Iterator[dict[str, Any]]:
        """What is told of each client; anonymous, its own variables are called x_i."""
        shared = {v.id for v in self.shared}
        known: dict[Hashable, tuple[str, int]] = {}
        for client in self.clients.values():
            own = [v for v in client.variables if v.id not in shared]
            names: dict[int, str] = {}
            if anonymous:
                many = len(own) > 1
                names = {v.id: f"x{at}_i" if many else "x_i" for at, v in enumerate(own, start=1)}
            said = [names.get(v.id, v.name()) for v in client.variables]
            parts = [sized(v, name) for v, name in zip(client.variables, said, strict=True)]
            marks = ["*" if v.id in shared else "" for v in client.variables]
            key = _worded(client, said)
            if key not in known:
                goal = f"{client.objective.NAME} {symbolic(client.objective.expr, names)}"
                said_of = "at its site" if client.is_remote else goal
                known[key] = said_of, len(client.constraints)
            yield {
                "client": str(client.name),
                "objective": known[key][0],
                "variables": ", ".join(map(str.__add__, parts, marks)),
                "constraints": known[key][1],
            }

    def _common(self) -> list[str]:
        """What clients have in common: consensus, couplings, shared variables."""
        is_folded = len(self.clients) > FOLDED
        lines = _listed("consensus", list(map(str, self.agreements)), is_folded)
        couplings = [f"{n}: {shortened(str(c), 80)}" for n, c in self.couplings.items()]
        lines += _listed("couplings", couplings, is_folded)
        if self.shared:
            how = "through a server" if self.topology is None else f"over {self.topology}"
            most = max(len(self.owners[v.id]) for v in self.shared)
            is_asked = self.topology is not None or self.is_served
            if not is_asked and most == 2 < len(self.clients):
                how = "between two clients each"
            names = together((v.name() for v in self.shared), 80)
            lines.append(f"  * shared {how}: {names}")
        if len(self.parts) > 1:
            lines.append(f"  {len(self.parts)} independent parts: {parted(self.parts)}")
        return lines


def _worded(client: Client, said: Sequence[str]) -> Hashable:
    """The same of clients that read the same: of data the shapes are told, and single numbers."""
    if client.leaves is None:
        return client.name
    values = (constant.value for constant in client.leaves.constants)
    return client.alike, *said, *(number(value) for value in values if np.size(value) == 1)


def _listed(head: str, entries: list[str], is_folded: bool, most: int = 12) -> list[str]:
    """Lines under a head, no more than so many, or one a kind; nothing of nothing."""
    if not entries:
        return []
    if is_folded and len(entries) > 3:
        kinds: dict[str, list[str]] = {}
        for entry in entries:
            kinds.setdefault(outline(entry), []).append(entry)
        head, most = f"{head}: {len(entries)}", 3
        entries = [
            ranged(same) + (f" ({len(same)})" if len(same) > 1 else "") for same in kinds.values()
        ]
    more = [f"    ... and {len(entries) - most} more"] if len(entries) > most else []
    return [f"  {head}", *(f"    {entry}" for entry in entries[:most]), *more]
