"""Clients of one run at the hosts of an engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from dald_model.compile.subproblem import Subproblem
from dald_model.engines.engine import Engine
from dald_model.engines.place import Asked, Loss, Place, RemoteSession
from dald_model.engines.seat import Seat
from dald_model.engines.shares import shared_out
from dald_model.solvers.base import Answers, Multipliers


class Placement:
    """Clients of one run at the hosts of an engine.

    Attributes
    ----------
    losses : list of Loss
        Hosts that were lost so far.
    goes_on : bool
        Whether the run goes on without clients that do not answer.
    """

    def __init__(self, engine: Engine, goes_on: bool = False) -> None:
        self.losses: list[Loss] = []
        self.goes_on = goes_on
        seats = [Seat(host) for host in engine.hosts()]
        turned = [seats[at:] + seats[:at] for at in range(len(seats))]
        self._places = [Place(mine, engine, self.losses) for mine in turned]

    def homes(self, levels: Iterable[Sequence[Sequence[Subproblem]]]) -> dict[Hashable, int]:
        """Client -> the number of its host, see :func:`dald_model.engines.shares.shared_out`."""
        return shared_out(levels, len(self._places))

    def open(self, home: int, solver: str, subproblems: Sequence[Subproblem]) -> RemoteSession:
        """A session at a host."""
        return self._places[home].open(solver, subproblems)

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
        """See :meth:`Place.keep`."""
        for place in self._places:
            place.keep()

    def collect(self, home: int, names: Sequence[Hashable]) -> Multipliers:
        """See :meth:`Place.collect`."""
        return self._places[home].collect(names)

    def close(self) -> None:
        """The run is over."""
        for place in self._places:
            place.close()
