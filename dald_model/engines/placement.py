"""Clients of one run at the hosts of an engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.remote import RemoteClient
from dald_model.engines.engine import Engine
from dald_model.engines.failover import HostHandle, Loss
from dald_model.engines.members import Group, Shown, Spread
from dald_model.engines.place import Asked, Place, RemoteSession
from dald_model.errors import OptionError
from dald_model.solvers.base import Answers, Multipliers, Solver
from dald_model.solvers.interior.member import Member, Seen
from dald_model.solvers.registry import NUMERICAL


class Placement:
    """Clients of one run at the hosts of an engine.

    Attributes
    ----------
    losses : list of Loss
        Hosts that were lost so far.
    goes_on : bool
        Whether the run goes on without clients that do not answer.
    """

    def __init__(
        self, engine: Engine, goes_on: bool = False, leave_after: int | None = None
    ) -> None:
        self.losses: list[Loss] = []
        self.goes_on, self._leave_after = goes_on, leave_after
        self._engine = engine
        self._groups: list[Group] = []
        handles = [HostHandle(host) for host in engine.hosts()]
        self._turned = [handles[at:] + handles[:at] for at in range(len(handles))]
        self._places = [Place(mine, engine, self.losses) for mine in self._turned]

    def hosts(
        self,
        compiled: Decomposition,
        chains: Mapping[Hashable, Sequence[Solver]],
        alike: Mapping[Hashable, Hashable],
    ) -> dict[Hashable, int]:
        """Client -> the number of its host, of those who have one.

        Parameters
        ----------
        compiled : Decomposition
        chains : dict
            Client -> its solvers, in the order they are tried.
        alike : dict
            Client -> what the clients of a session have in common.

        Raises
        ------
        OptionError
            If nobody has.
        """
        sites = {
            name: sub.client.host
            for name, sub in compiled.items()
            if isinstance(sub.client, RemoteClient)
        }
        if sites:
            return sites
        levels = []
        for level in compiled.network.levels:
            groups: dict[Hashable, list[Subproblem]] = {}
            for name in level:
                sub = compiled[name]
                if chains[name][0] in NUMERICAL and not obstacle(sub):
                    groups.setdefault(alike[name], []).append(sub)
            levels.append(list(groups.values()))
        if not any(levels):
            name = next(iter(compiled))
            why = obstacle(compiled[name]) or f"its solver is {chains[name][0].name!r}"
            raise OptionError(
                f"engine: no client can be solved elsewhere, {name!r} because {why}; expected one "
                f"with a solver among {', '.join(repr(one.name) for one in NUMERICAL)}; leave "
                "engine out"
            )
        return self.shared_out(levels)

    def shared_out(self, levels: Iterable[Sequence[Sequence[Subproblem]]]) -> dict[Hashable, int]:
        """Client -> the number of its host, see :func:`shared_out`."""
        return shared_out(levels, len(self._places))

    def open(self, host: int, solver: str, subproblems: Sequence[Subproblem]) -> RemoteSession:
        """A session at a host."""
        return self._places[host].open(solver, subproblems)

    def ask(
        self, asked: Sequence[Asked], tolerance: float, round_: int
    ) -> list[Callable[[], Answers]]:
        """Begin to ask sessions, all hosts at once; gives what waits for each answer."""
        found: dict[int, Callable[[], Answers]] = {}
        for place in self._places:
            place.round = round_
            mine = [at for at, (session, _) in enumerate(asked) if session.place is place]
            if mine:
                found |= zip(mine, place.ask([asked[at] for at in mine], tolerance), strict=True)
        return [found[at] for at in range(len(asked))]

    def keep(self) -> None:
        for place in self._places:
            place.keep()

    def collect(self, host: int, names: Sequence[Hashable]) -> Multipliers:
        return self._places[host].collect(names)

    def reach(
        self, shown: Mapping[Hashable, Shown], hosts: Mapping[Hashable, int], here: Sequence[Member]
    ) -> tuple[list[Seen], Spread]:
        """Open members of an interior point at their hosts; gives what they tell, and all."""
        names = list(shown)
        places: dict[int, list[int]] = {}
        for at, name in enumerate(names):
            places.setdefault(hosts[name], []).append(at)
        self._groups = [
            Group(
                {names[at]: shown[names[at]] for at in place},
                self._turned[host],
                self._engine,
                self.losses,
            )
            for host, place in places.items()
        ]
        spread = Spread(self._groups, list(places.values()), here, self._waits)
        return spread.open(), spread

    def begin_round(self, number: int) -> None:
        """Say in messages on members that this round begins."""
        for group in self._groups:
            group.round = number

    def _waits(self, tried: int) -> bool:
        return self.goes_on and (self._leave_after is None or tried < self._leave_after)

    def close(self) -> None:
        """The run is over."""
        for each in (*self._places, *self._groups):
            each.close()


def shared_out(levels: Iterable[Sequence[Sequence[Subproblem]]], hosts: int) -> dict[Hashable, int]:
    """Client -> the number of its host.

    ``levels`` are the clients that are solved side by side, by session. Each level is shared out by
    itself, so that all hosts are busy at the same time; clients of a session that follow each other
    stay together.
    """
    found: dict[Hashable, int] = {}
    for level in levels:
        loads = np.zeros(hosts)
        for group in level:
            parts = np.array_split(np.arange(len(group)), hosts)
            order = np.argsort(loads, kind="stable")
            for host, part in zip(order.tolist(), parts, strict=True):
                found |= {group[at].name: host for at in part}
                loads[host] += sum(_weight(group[at]) for at in part)
    return found


def _weight(sub: Subproblem) -> int:
    """About what a client costs: the numbers that a product with its data takes."""
    form = sub.form
    if form is None:
        return 1
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    return sub.size * (sub.size + rows + sum(term.offset.size for term in form.terms))


def obstacle(sub: Subproblem) -> str:
    """Why a client cannot be solved elsewhere; empty if it can."""
    if sub.client.is_hub:
        return "it is a server, which has no data"
    if sub.client.is_coupling:
        return "it is a coupling, which has no data"
    return "" if sub.form is not None else "cvxpy's canonical form of it could not be read"
