"""What is declared of a model: clients, couplings, equalities and topology, to be read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain

import cvxpy as cp
import numpy as np

from dald_model.declare.by_entry import ByEntry, by_entry
from dald_model.declare.client import Client, all_in_one
from dald_model.declare.consensus import ConsensusEquality
from dald_model.declare.consensus_form import owners_of
from dald_model.declare.couplings import Coupling
from dald_model.declare.listing import Listing
from dald_model.lazy_imports import nx
from dald_model.not_picklable import NotPicklable
from dald_model.text import Part, Printed

Divided = tuple[cp.Constraint, Sequence[tuple[cp.Constraint, np.ndarray]]]


class Declared(NotPicklable, Printed):
    """The declarations of a model, as compilation and answers read them.

    Attributes
    ----------
    may_part : bool
        Whether clients may fall into independent parts, as those of
        :func:`dald_model.decompose` may; each is then solved by itself. Else who has no edge to
        the others is refused, as one whose edge was forgotten.
    divided : list
        Constraints of an ordinary problem that owners have entries of, each with its parts here and
        their entries.
    adopted : str
        What clients agree over where that is not what the model says but what an algorithm needs;
        else empty.
    """

    elsewhere = f"{NotPicklable.elsewhere}; a compiled client travels by dald_model.pack"
    again = f"{NotPicklable.again}, or take copy.copy(model), a model over the same variables"

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self._clients: dict[Hashable, Client] = {}
        self._agreements: list[ConsensusEquality] = []
        self._couplings: dict[Hashable, Coupling] = {}
        # Who uses a variable, and which equalities it stands in: a declaration looks only at what
        # it touches, so that declaring many clients stays linear.
        self._owners: dict[int, list[Hashable]] = {}
        self._standing: dict[int, list[ConsensusEquality]] = {}
        self._topology: nx.Graph | None = None
        self._is_served = False
        self._by_entry: ByEntry | None = None
        self.may_part = False
        self.adopted = ""
        self.divided: Sequence[Divided] = []

    @property
    def agreements(self) -> tuple[ConsensusEquality, ...]:
        """The declared consensus equalities, in order of declaration."""
        return tuple(self._agreements)

    @property
    def couplings(self) -> Mapping[Hashable, Coupling]:
        """The declared couplings by name, in order of declaration."""
        return dict(self._couplings)

    @property
    def stated(self) -> Mapping[Hashable, Client]:
        """Clients and couplings by name: who has constraints, as the user wrote them."""
        return {**self._clients, **self._couplings}

    @property
    def parts(self) -> list[list[Hashable]]:
        """The names of clients and couplings that hang together; one list unless it falls apart."""
        return independent_clients(self.stated.values(), self._agreements)

    @property
    def shared(self) -> list[cp.Variable]:
        """The variables of which several clients use an entry, in order of declaration."""
        if all(len(names) < 2 for names in self._owners.values()):
            return []
        place = self.by_entry.place()
        found = [place[v.id][0] if v.id in place else v for v in self._shared_pieces]
        return list({v.id: v for v in found}.values())

    @property
    def _shared_pieces(self) -> list[cp.Variable]:
        """The same with the pieces of arrays that several clients use."""
        clients = self.by_entry.clients.values()
        users = owners_of(clients)
        found = {v.id: v for client in clients for v in client.variables}
        return [v for key, v in found.items() if len(users[key]) > 1]

    @property
    def by_entry(self) -> ByEntry:
        """The same over pieces of arrays of which clients use different entries."""
        if self._by_entry is None:
            self._by_entry = by_entry(self._clients, self._couplings, self._agreements)
        return self._by_entry

    @property
    def variables(self) -> list[cp.Variable]:
        """All variables, each once: the clients', the couplings', then the servers'."""
        sides = (side for a in self._agreements for side in (a.left, a.right))
        owned = (v for client in self.stated.values() for v in client.variables)
        held = (v for side in sides for v in side.variables())
        return list({v.id: v for v in chain(owned, held)}.values())

    @property
    def constraints(self) -> list[cp.Constraint]:
        """All constraints, each once: the clients', the couplings', the consensus equalities."""
        stated = [rule for client in self.stated.values() for rule in client.constraints]
        stated += [a.constraint for a in self._agreements if a.constraint is not None]
        return list({rule.id: rule for rule in stated}.values())

    @property
    def parameters(self) -> list[cp.Parameter]:
        """The user's Parameters, each once, in order of declaration."""
        sides = (side for a in self._agreements for side in (a.left, a.right))
        found = [p for client in self.stated.values() for p in client.parameters]
        found += [p for side in sides for p in side.parameters()]
        return list({p.id: p for p in found}.values())

    @property
    def maximises(self) -> bool:
        """Whether all objectives are maximised; the whole is then a maximisation."""
        with_goals = (c for c in self._couplings.values() if c.has_objective)
        goals = (c.maximises for c in chain(self._clients.values(), with_goals))
        return next(goals, False) and all(goals)

    @property
    def graph(self) -> nx.Graph | None:
        """The graph given to :meth:`topology`; None where a server agrees with everybody."""
        return self._topology

    @property
    def is_served(self) -> bool:
        """Whether :meth:`topology` asked for a server also where none is needed."""
        return self._is_served

    def monolithic(self) -> cp.Problem:
        """The all-in-one (AIO) problem: one cvxpy problem over everybody's data.

        Returns
        -------
        cp.Problem
            The sum of the objectives under all constraints, the consensus equalities last. It is
            a maximisation if every client maximises.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> round(float(common_number([0, 1, 2]).monolithic().solve()), 6)
        2.0
        """
        return all_in_one(self.stated.values(), self.constraints, self.maximises)

    def report(self, *, wide: bool) -> list[Part]:
        """The table of clients, and the consensus equalities."""
        return Listing(
            self.name,
            self._clients,
            self._agreements,
            self._couplings,
            self._owners,
            self.shared,
            self.parts if self.may_part else [],
            self._topology,
            self._is_served,
        ).report(wide=wide)


def independent_clients(
    stated: Iterable[Client], agreements: Iterable[ConsensusEquality]
) -> list[list[Hashable]]:
    """The names of clients and couplings by part, in order of declaration."""
    together = nx.Graph()
    held = {client.name: [v.id for v in client.variables] for client in stated}
    sides = ((*a.left.variables(), *a.right.variables()) for a in agreements)
    for keys in (*held.values(), *([v.id for v in both] for both in sides)):
        nx.add_path(together, keys)
    pieces = nx.connected_components(together)
    home = {key: at for at, piece in enumerate(pieces) for key in piece}
    parts: dict[int, list[Hashable]] = {}
    for name, keys in held.items():
        parts.setdefault(home[keys[0]], []).append(name)
    return list(parts.values())
