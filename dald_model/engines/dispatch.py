"""Solver layer of a run: sessions of clients, here or at hosts, and fallback where one fails."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.deadline import check_time
from dald_model.engines.assignment import Assignment, Event
from dald_model.engines.batches import Batch, Given, Layout, OpenSession
from dald_model.engines.failover import Loss
from dald_model.engines.place import RemoteSession
from dald_model.engines.placement import Placement
from dald_model.errors import LostError
from dald_model.gc_pause import gc_paused
from dald_model.solvers.arrays.indexing import SelectionCache
from dald_model.solvers.base import (
    FOUND,
    Answers,
    Encoding,
    Multipliers,
    Session,
    Solver,
    Turn,
)
from dald_model.solvers.registry import NUMERICAL, AtSite

MEMORYLESS = ("average", "factor")
"""Solvers whose answers do not depend on earlier ones, down to the last bit."""
STAGES_COPIED = 4
"""How many times over the stages that are kept ready may hold the clients."""


class SolverLayer:
    """Solver layer of one run: sessions of clients, each with the solver that it is assigned.

    A client whose solver finds no point goes to the next of its
    :class:`dald_model.engines.assignment.Assignment`. Clients with one solver and one form share a
    session. With a ``centre`` it begins as :meth:`centre` would leave it.

    With a ``placement`` the sessions of clients are at the hosts of an engine, one a host, as far
    as solvers know them by their numbers alone. Servers and couplings, which have no data, stay
    here, and so does whoever needs cvxpy or a solver of the user's own.
    """

    def __init__(
        self,
        compiled: Decomposition,
        solver: Any,
        centre: np.ndarray | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.compiled = compiled
        self.round = 0
        self._assignment = Assignment(compiled, solver)
        self._centre = self._points(centre)
        self._open_sessions: dict[Hashable, OpenSession] = {}
        self._layout = Layout(compiled)
        self._placement = placement
        kinds = self._assignment.kinds
        self._hosts = (
            {} if placement is None else placement.hosts(compiled, self._assignment.chains, kinds)
        )
        together: dict[Any, list[Hashable]] = {}
        for name in compiled.layout:
            together.setdefault((kinds[name], self._hosts.get(name)), []).append(name)
        for names in together.values():
            self._open(names)
        self._together = list(together.values())
        self._batches = self._forgotten()
        self._unanswered: dict[Hashable, tuple[int, ...]] = {}

    def renew(self) -> None:
        """Begin all sessions anew: factors are made again, warm starts are gone.

        Answers then depend on the arguments alone, in this run and in one that goes on from here.
        """
        for opened in {id(opened): opened for opened in self._open_sessions.values()}.values():
            names = [name for name in opened.places if self._open_sessions[name] is opened]
            solver = self._assignment[names[0]]
            if solver.name in MEMORYLESS:
                continue
            if isinstance(opened.session, RemoteSession):
                opened.session.renew()
            else:
                anew = opened._replace(session=solver.open(opened.given.clients))
                self._open_sessions |= dict.fromkeys(names, anew)
        self._batches = self._forgotten()

    def again(self, solver: Any, centre: np.ndarray | None) -> bool:
        """Be as a layer that is made now, with what is kept of the numbers that stayed.

        False where that cannot be: the option is another, or the solver of a client.
        """
        if self._placement is not None or not self._assignment.is_of(solver):
            return False
        self.round, self._centre = 0, self._points(centre)
        if sum([self._open(names) for names in self._together]):
            self._batches = self._forgotten()
        return True

    def _points(self, centre: np.ndarray | None) -> np.ndarray:
        size = sum(sub.size for sub in self.compiled.values())
        return np.zeros(size) if centre is None else centre

    @property
    def events(self) -> list[Event]:
        """Clients that fell back on another solver so far."""
        return self._assignment.events

    def kept(self) -> dict[str, Any]:
        """The state of the layer, as a file holds it."""
        return {
            "tried": self._assignment.tried(),
            "centre": self._centre,
            "events": self.events,
            "losses": self.losses,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Be as a layer of the same options was when it was kept, with sessions of its own."""
        self._assignment.restore(kept["tried"], kept["events"])
        self._centre = kept["centre"]
        if self._placement is not None:
            self._placement.losses[:0] = kept["losses"]
        for names in self._together:
            for apart in self._assignment.by_solver(names):
                self._open(apart)
        self._batches = self._forgotten()

    @property
    def is_elsewhere(self) -> bool:
        """Whether clients are at the hosts of an engine."""
        return self._placement is not None

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on without clients that an engine has no answer from."""
        return self._placement is not None and self._placement.goes_on

    @property
    def unanswered(self) -> dict[Hashable, int]:
        """Client -> in how many rounds in a row it did not answer, of those that last did not."""
        missed = self._unanswered.items()
        return {name: len(rounds) for name, rounds in missed if rounds[-1] == self.round}

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Hosts that were lost so far."""
        return () if self._placement is None else tuple(self._placement.losses)

    @property
    def is_centred(self) -> bool:
        """Whether the clients' numbers are around points, see :meth:`centre`."""
        return bool(self._centre.any())

    @property
    def middle(self) -> np.ndarray:
        """These points, all variables one after the other; zeros where they are not."""
        return self._centre

    def centre(self, points: np.ndarray) -> None:
        """Have the clients' numbers around these points, all variables one after the other.

        Of the clients whose solvers know nothing but numbers; NaN where there is no point.
        """
        self._centre = np.nan_to_num(points)
        if sum([self._open(names) for names in self._together]):
            self._batches = self._forgotten()

    @property
    def is_exact(self) -> bool:
        """Whether no client's solver makes use of the accuracy that it is asked for."""
        return self._assignment.is_exact

    @property
    def minimises(self) -> bool:
        """Whether clients are minimised, rather than brought some steps nearer to it."""
        return self._assignment.minimises

    def solver(self, name: Hashable) -> Solver:
        """The solver that has the client now."""
        return self._assignment[name]

    def batches(self, stage: Iterable[Hashable]) -> list[Batch]:
        """The clients of a stage by session."""
        return self._batches(tuple(stage))

    def _forgotten(self) -> SelectionCache[tuple[Hashable, ...], list[Batch]]:
        return SelectionCache(self._parted, len(self.compiled), STAGES_COPIED)

    def _parted(self, stage: tuple[Hashable, ...]) -> list[Batch]:
        parted: dict[int, list[Hashable]] = {}
        for name in stage:
            parted.setdefault(id(self._open_sessions[name].session), []).append(name)
        return [self._batch(names) for names in parted.values()]

    def answers(
        self, batches: Sequence[Batch], turns: Sequence[Turn], tolerance: float
    ) -> Iterator[tuple[int, Batch, Turn, Answers]]:
        """Let the clients of batches answer, each by the first of its solvers that can.

        Hosts are asked all at once. Yields positions, batches, their turns and answers: the whole
        batch at once, or where a solver failed each client by itself; a client that none of its
        solvers could solve has a status that says why. Of a host that is lost nothing comes where
        the run goes on without.

        Raises
        ------
        LostError
            If a host is lost, and it does not.
        """
        waiting = self._asked(batches, turns, tolerance)
        for at, (batch, turn, wait) in enumerate(zip(batches, turns, waiting, strict=True)):
            try:
                answers = wait()
            except LostError:
                if not self.goes_on:
                    raise
                for name in batch.names:
                    missed = self._unanswered.get(name, ())
                    self._unanswered[name] = tuple(dict.fromkeys((*missed, self.round)))
                continue
            if self._unanswered:
                for name in batch.names:
                    self._unanswered.pop(name, None)
            for found in self._answered(batch, turn, answers, tolerance):
                yield at, *found

    def _asked(
        self, batches: Sequence[Batch], turns: Sequence[Turn], tolerance: float
    ) -> list[Callable[[], Answers]]:
        """Functions that return the first answers of each batch; hosts are already asked."""
        if self._placement is None:
            pairs = zip(batches, turns, strict=True)
            return [partial(self.first_answer, *pair, tolerance) for pair in pairs]
        remote = [isinstance(batch.session, RemoteSession) for batch in batches]
        asked = [
            (batch.session, turn)
            for batch, turn in zip(batches, turns, strict=True)
            if isinstance(batch.session, RemoteSession)
        ]
        sent = iter(self._placement.ask(asked, tolerance, self.round))
        return [
            partial(self._around, batch, next(sent))
            if is_remote
            else partial(self.first_answer, batch, turn, tolerance)
            for batch, turn, is_remote in zip(batches, turns, remote, strict=True)
        ]

    def _around(self, batch: Batch, wait: Callable[[], Answers]) -> Answers:
        """Answers from elsewhere, in the user's coordinates."""
        answers, centre = wait(), self._centre[batch.columns]
        if not centre.any() or not self._open_sessions[batch.names[0]].given.is_centred:
            return answers
        return answers._replace(points=answers.points + centre)

    def keep(self) -> None:
        """The last iterate is the best so far: its multipliers are wanted at the end."""
        if self._placement is not None:
            self._placement.keep()

    def collect(self, encodings: np.ndarray) -> Iterator[tuple[np.ndarray, Multipliers]]:
        """The multipliers of the best iterate that are elsewhere: places in the layout, and they.

        ``encodings`` are those of its state.
        """
        if self._placement is None:
            return
        layout = self.compiled.layout
        missing = np.flatnonzero(encodings == Encoding.ELSEWHERE)
        for host in sorted({self._hosts[layout[at]] for at in missing}):
            places = np.array([at for at in missing if self._hosts[layout[at]] == host])
            names = [layout[at] for at in places]
            if not all(name in self._unanswered for name in names):
                yield places, self._placement.collect(host, names)

    def _answered(
        self, batch: Batch, turn: Turn, answers: Answers, tolerance: float
    ) -> Iterator[tuple[Batch, Turn, Answers]]:
        """The answers, or where a solver failed those of each client by itself."""
        statuses = answers.statuses
        if statuses.count("optimal") == len(statuses) or all(one in FOUND for one in statuses):
            yield batch, turn, answers
            return
        subs = [self.compiled[name] for name in batch.names]
        pairs = zip(batch.names, turn.each(subs), answers.each(subs), strict=True)
        for name, mine, one in pairs:
            alone = mine._replace(which=np.zeros(1, dtype=int))  # in a session of its own
            part, found = self._alone(name, one, alone, tolerance)
            yield part, alone, found

    def _alone(
        self, name: Hashable, one: Answers, turn: Turn, tolerance: float
    ) -> tuple[Batch, Answers]:
        """Ask a client's other solvers where its own found nothing."""
        assigned, verdict = self._assignment, one
        for _ in assigned.chains[name][1:]:
            verdict = one if assigned.is_final(name) else verdict
            if assigned.is_believed(name, one.statuses[0]):
                break
            assigned.move_on(name, self.round, one)
            self._open([name])
            self._batches = self._forgotten()
            one = self.first_answer(self._batch([name]), turn, tolerance)
        is_last = assigned.is_final(name) or one.statuses[0] in FOUND
        return self._batch([name]), one if is_last else verdict

    def first_answer(self, batch: Batch, turn: Turn, tolerance: float) -> Answers:
        """The answers of the clients' session, with or without points."""
        check_time()
        centre = self._centre[batch.columns]
        if not centre.any() or not self._open_sessions[batch.names[0]].given.is_centred:
            return batch.session.minimise(turn, tolerance)
        answers = batch.session.minimise(turn._replace(points=turn.points - centre), tolerance)
        return answers._replace(points=answers.points + centre)

    def _open(self, names: list[Hashable]) -> bool:
        """Have a session of some clients with their present numbers; whether it is another one."""
        solver, before = self._assignment[names[0]], self._open_sessions.get(names[0])
        if before is not None and (before.solver is not solver or list(before.places) != names):
            before = None
        subs = [self.compiled[name] for name in names]
        given = Given(subs, [])
        if solver in NUMERICAL and self._centre.any():
            columns = [self.compiled.columns[name] for name in names]
            given = Given.around(subs, self._centre, columns, before and before.given)
        # Of Lasting, but to ask for a protocol takes longer than to begin again
        begin_again = getattr(before and before.session, "begin_again", None)
        if before and begin_again is not None and begin_again(given.clients):
            self._open_sessions |= dict.fromkeys(names, before._replace(given=given))
            return False
        places = {name: at for at, name in enumerate(names)}
        host = self._hosts.get(names[0])
        is_elsewhere = solver in NUMERICAL or isinstance(solver, AtSite)
        if self._placement is not None and host is not None and is_elsewhere:
            session: Session = self._placement.open(host, solver.name, given.clients)
        else:
            session = solver.open(given.clients)
        opened = OpenSession(session, solver, places, given)
        self._open_sessions |= dict.fromkeys(names, opened)
        return True

    def _batch(self, names: list[Hashable]) -> Batch:
        opened = self._open_sessions[names[0]]
        which = np.array([opened.places[name] for name in names])
        return self._layout.batch(names, opened.session, which)


@gc_paused
def rested(
    compiled: Decomposition,
    solver: Any,
    centre: np.ndarray | None = None,
    placement: Placement | None = None,
) -> SolverLayer:
    """The layer that the last run of a decomposition left, begun again, or another.

    It is taken away: a run inside of a run has its own.
    """
    left, compiled.resting = compiled.resting, None
    is_its = isinstance(left, SolverLayer) and left.compiled is compiled
    if is_its and placement is None and left.again(solver, centre):
        return left
    return SolverLayer(compiled, solver, centre, placement)
