"""Assignment of clients to solvers: in what order each client's are tried."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from dald_model.compile.decomposition import Decomposition
from dald_model.solvers.base import FOUND, PROVEN, Answers, Solver
from dald_model.solvers.inexact.local import LocalSteps
from dald_model.solvers.registry import Choice, alike


class Event(NamedTuple):
    """Fallback of one client from a failed solver to the next."""

    round: int
    client: Hashable
    failed: str
    next: str
    message: str


class Assignment:
    """The solvers of each client in the order they are tried.

    A client whose solver finds no point goes to its next one and stays there until that one fails,
    when all others have their turn again. That a client is infeasible or unbounded is believed of
    the most general of its solvers only.

    Attributes
    ----------
    chains : dict
        Client -> its solvers; the first has the client now.
    kinds : dict
        Client -> what the clients of a session had in common at first, wherever they are.
    events : list of Event
    """

    def __init__(self, compiled: Decomposition, solver: Any) -> None:
        self._compiled = compiled
        self._choice = Choice(solver)
        self._choice.check(compiled)
        self._option = dict(solver) if isinstance(solver, Mapping) else solver
        self.chains: dict[Hashable, list[Solver]] = {
            name: self._choice.chain(sub) for name, sub in compiled.items()
        }
        self.kinds = {name: self._alike(name) for name in compiled.layout}
        self.events: list[Event] = []
        self._known = {name: (sub.lowered, sub.sides) for name, sub in compiled.items()}
        self._begun = {name: solvers[0] for name, solvers in self.chains.items()}
        self._final = {name: solvers[-1] for name, solvers in self.chains.items()}
        self._is_exact: bool | None = None

    def __getitem__(self, name: Hashable) -> Solver:
        """The solver that has the client now."""
        return self.chains[name][0]

    def _alike(self, name: Hashable) -> Hashable:
        first = self.chains[name][0]
        return id(first), alike(first, self._compiled[name])

    def is_of(self, solver: Any) -> bool:
        """Whether it would be the same if it were made now, with this option."""
        if solver != self._option or self.events:
            return False
        for name, sub in self._compiled.items():
            (lowered, sides), known = (sub.lowered, sub.sides), self._known[name]
            if sides is not known[1]:
                return False
            if lowered is known[0]:
                continue
            self._known[name] = lowered, sides
            if lowered is not None and known[0] is not None and lowered.is_like(known[0]):
                continue
            chain = self._choice.chain(sub)
            if chain != self.chains[name] or self._alike(name) != self.kinds[name]:
                return False
        return True

    @property
    def is_exact(self) -> bool:
        """Whether no client's solver makes use of the accuracy that it is asked for."""
        if self._is_exact is None:
            first = {id(chain[0]): chain[0] for chain in self.chains.values()}
            self._is_exact = all(one.is_exact for one in first.values())
        return self._is_exact

    @property
    def minimises(self) -> bool:
        """Whether clients are minimised, rather than brought some steps nearer to it."""
        first = {id(chain[0]): chain[0] for chain in self.chains.values()}
        return not any(isinstance(one, LocalSteps) for one in first.values())

    def is_final(self, name: Hashable) -> bool:
        """Whether the most general of a client's solvers has it."""
        return self.chains[name][0] is self._final[name]

    def is_believed(self, name: Hashable, status: str) -> bool:
        """Whether no other solver need be asked after such an answer of a client's."""
        return status in FOUND or (self.is_final(name) and status in PROVEN)

    def move_on(self, name: Hashable, round_: int, failed: Answers) -> None:
        """Give a client to its next solver."""
        chain = self.chains[name]
        before = chain.pop(0)
        chain.append(before)
        message = failed.messages.get(0, failed.statuses[0])
        self.events.append(Event(round_, name, before.name, chain[0].name, message))
        self._is_exact = None

    def tried(self) -> dict[Hashable, list[str]]:
        """The order, as a file holds it."""
        return {name: [one.name for one in solvers] for name, solvers in self.chains.items()}

    def restore(self, tried: Mapping[Hashable, list[str]], events: list[Event]) -> None:
        """Have the order that :meth:`tried` gave, and what had happened by then."""
        for name, order in tried.items():
            self.chains[name].sort(key=lambda one, order=order: order.index(one.name))
        self.events, self._is_exact = events, None

    def by_solver(self, names: Sequence[Hashable]) -> list[list[Hashable]]:
        """Clients that began with one solver: those who still have it, and each other by itself."""
        begun = self._begun[names[0]]
        still = [name for name in names if self[name] is begun]
        return ([still] if still else []) + [[n] for n in names if self[n] is not begun]
