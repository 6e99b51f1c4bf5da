"""Assignment of clients to solvers in a run, and fallback where a solver fails."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.engines.batches import Batch, Layout
from dald_model.solvers.arrays.selection_cache import SelectionCache
from dald_model.solvers.base import FOUND, Answers, Session, Solver, Turn
from dald_model.solvers.registry import NUMERICAL, Choice, alike

PROVEN = ("infeasible", "unbounded")
"""Statuses that a client's most general solver is believed without asking another."""
COPIED = 4
"""How many times over the stages that are kept ready may hold the clients."""


class Event(NamedTuple):
    """Fallback of one client from a failed solver to the next."""

    round: int
    client: Hashable
    failed: str
    next: str
    message: str


class _Bench(NamedTuple):
    """A session, the clients it was opened with, and whether their numbers are around points."""

    session: Session
    places: dict[Hashable, int]
    is_centred: bool


class SolverLayer:
    """Solver layer of one run: the solvers of each client in the order they are tried.

    A client whose solver finds no point goes to its next solver and stays there until that one
    fails, when all others have their turn again. That a client is infeasible or unbounded is
    believed of the most general of its solvers only. Clients with one solver and one form share a
    session. With a ``centre`` it begins as :meth:`centre` would leave it.
    """

    def __init__(
        self, compiled: Decomposition, solver: Any, centre: np.ndarray | None = None
    ) -> None:
        self.compiled = compiled
        self.round = 0
        self.events: list[Event] = []
        choice = Choice(solver)
        choice.check(compiled)
        self._chains: dict[Hashable, list[Solver]] = {
            name: choice.chain(sub) for name, sub in compiled.items()
        }
        if centre is None:
            centre = np.zeros(sum(sub.size for sub in compiled.values()))
        self._centre = centre
        self._final = {name: solvers[-1] for name, solvers in self._chains.items()}
        self._benches: dict[Hashable, _Bench] = {}
        self._layout = Layout(compiled)
        together: dict[Any, list[Hashable]] = {}
        for name in compiled.layout:
            first = self._chains[name][0]
            key = id(first), alike(first, compiled[name])
            together.setdefault(key, []).append(name)
        for names in together.values():
            self._open(names)
        self._together = list(together.values())
        self._batches = self._forgotten()
        self._is_exact: bool | None = None

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
        for names in self._together:
            self._open(names)
        self._batches = self._forgotten()

    @property
    def is_exact(self) -> bool:
        """Whether no client's solver makes use of the accuracy that it is asked for."""
        if self._is_exact is None:
            first = {id(chain[0]): chain[0] for chain in self._chains.values()}
            self._is_exact = all(one.is_exact for one in first.values())
        return self._is_exact

    def solver(self, name: Hashable) -> Solver:
        """The solver that has the client now."""
        return self._chains[name][0]

    def batches(self, stage: Iterable[Hashable]) -> list[Batch]:
        """The clients of a stage by session."""
        return self._batches(tuple(stage))

    def _forgotten(self) -> SelectionCache[tuple[Hashable, ...], list[Batch]]:
        return SelectionCache(self._parted, len(self.compiled), COPIED)

    def _parted(self, stage: tuple[Hashable, ...]) -> list[Batch]:
        parted: dict[int, list[Hashable]] = {}
        for name in stage:
            parted.setdefault(id(self._benches[name].session), []).append(name)
        return [self._batch(names) for names in parted.values()]

    def answer(
        self, batch: Batch, turn: Turn, tolerance: float
    ) -> Iterator[tuple[Batch, Turn, Answers]]:
        """Let the batch's clients answer, each by the first of its solvers that can.

        Yields batches with their turns and answers: the whole at once, or where a solver failed
        each client by itself; a client that none of its solvers could solve has a status that
        says why.
        """
        answers = self.first_answer(batch, turn, tolerance)
        if all(status in FOUND for status in answers.statuses):
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
        solvers, verdict = self._chains[name], one
        for _ in solvers[1:]:
            is_final = solvers[0] is self._final[name]
            verdict = one if is_final else verdict
            if one.statuses[0] in FOUND or (is_final and one.statuses[0] in PROVEN):
                break
            self._next(name, one)
            one = self.first_answer(self._batch([name]), turn, tolerance)
        is_final = solvers[0] is self._final[name]
        return self._batch([name]), one if is_final or one.statuses[0] in FOUND else verdict

    def first_answer(self, batch: Batch, turn: Turn, tolerance: float) -> Answers:
        """What the clients' session answers, whether it found points or not."""
        centre = self._centre[batch.columns]
        if not centre.any() or not self._benches[batch.names[0]].is_centred:
            return batch.session.minimise(turn, tolerance)
        answers = batch.session.minimise(turn._replace(points=turn.points - centre), tolerance)
        return answers._replace(points=answers.points + centre)

    def _next(self, name: Hashable, failed: Answers) -> None:
        before = self._chains[name].pop(0)
        self._chains[name].append(before)
        message = failed.messages.get(0, failed.statuses[0])
        self.events.append(
            Event(self.round, name, before.name, self._chains[name][0].name, message)
        )
        self._open([name])
        self._batches = self._forgotten()
        self._is_exact = None

    def _open(self, names: list[Hashable]) -> None:
        solver, subs = self._chains[names[0]][0], [self.compiled[name] for name in names]
        is_centred = solver in NUMERICAL and bool(self._centre.any())
        if is_centred:
            columns = self.compiled.columns
            subs = [sub.around(self._centre[columns[sub.name]]) for sub in subs]
        places = {name: at for at, name in enumerate(names)}
        bench = _Bench(solver.open(subs), places, is_centred)
        self._benches |= dict.fromkeys(names, bench)

    def _batch(self, names: list[Hashable]) -> Batch:
        bench = self._benches[names[0]]
        which = np.array([bench.places[name] for name in names])
        return self._layout.batch(names, bench.session, which)
