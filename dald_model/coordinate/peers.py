r"""A run without a centre: each process has its own clients, and the edges that touch them.

Every process goes through the one loop of :class:`dald_model.coordinate.run.Run` with a state of
its part. Of an edge to a client of another process it has both sides, of which it is told the other
after each stage, and the multiplier, which both follow alike. The loop decides by
norms, sums and flags over all processes (:class:`AmongPeers`), so that all go through the same
rounds and end in the same one.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State, residuals
from dald_model.coordinate.status import ClientFailedError, Status, Termination
from dald_model.coordinate.sweeper import AnswersOnly, Record, minimise
from dald_model.engines.batches import Batch
from dald_model.engines.dispatch import SolverLayer
from dald_model.engines.mpi_ranks import Peers
from dald_model.schedule.network import Levels
from dald_model.solvers.base import Answers, Multipliers

ELSEWHERE = Termination(Status.SOLVER_ERROR, None, "a client of another process failed")


class _Ends(NamedTuple):
    """Ends of edges, in an order that both processes know: who moved, then whom it meets."""

    rows: np.ndarray
    entries: np.ndarray


class AmongPeers:
    """Reductions over all processes, see :class:`dald_model.coordinate.reductions.Reductions`.

    Parameters
    ----------
    peers : Peers
    compiled : Decomposition
        Of this process's clients and of their neighbours at others.
    owners : dict
        Client -> the number of its process: all clients, in one order for all processes.
    """

    def __init__(
        self, peers: Peers, compiled: Decomposition, owners: Mapping[Hashable, int]
    ) -> None:
        self._peers, self._compiled, self._owners = peers, compiled, owners
        self._places = {name: at for at, name in enumerate(owners)}
        self._meetings: dict[tuple[Hashable, ...], tuple[dict[int, _Ends], dict[int, _Ends]]] = {}
        self._counted = np.zeros(compiled.size, dtype=bool)
        for ends, slot in compiled.slots.items():
            self._counted[slot] = self.has(min(ends, key=self._places.__getitem__))

    def has(self, name: Hashable) -> bool:
        """Whether a client is of this process."""
        return self._owners[name] == self._peers.rank

    def largest(self, table: np.ndarray) -> np.ndarray:
        """See :class:`dald_model.coordinate.reductions.Reductions`; NaN is infinite."""
        mine = table.max(axis=1, keepdims=True, initial=0.0)
        return self._peers.largest(np.where(np.isnan(mine), np.inf, mine))

    def norm(self, values: np.ndarray) -> np.floating:
        squares = np.atleast_2d(values**2)[:, self._counted].sum(axis=1)
        return np.sqrt(self._peers.total(squares).sum())

    def products(self, tables: np.ndarray, values: np.ndarray) -> np.ndarray:
        mine = tables[:, :, self._counted].reshape(len(tables), -1)
        return self._peers.total(mine @ values[:, self._counted].reshape(-1))

    def any(self, flag: bool) -> bool:
        return bool(self._peers.largest(np.array([float(flag)]))[0])

    def sum(self, value: float) -> float:
        """The sum of a number of each process."""
        return float(self._peers.total(np.array([value]))[0])

    def agreed(self, termination: Termination) -> Termination:
        """The end of the first process with a failure.

        See :class:`dald_model.coordinate.reductions.Reductions`. A client of another process is
        called by its name alone.
        """
        said = ""
        if termination.culprit is not None:
            at = self._places[termination.culprit]
            said = json.dumps([termination.status, at, termination.detail])
        found = next(filter(None, self._peers.gathered(said.encode())))
        status, at, detail = json.loads(found)
        return Termination(Status(status), list(self._owners)[at], detail)

    def meet(self, stage: tuple[Hashable, ...], sides: np.ndarray) -> np.ndarray:
        """Tell others where own clients of a stage are now, and be told where theirs are.

        Gives the sides of theirs, (Q,), of the edges that they are on.
        """
        told, theirs = self._meeting(stage)
        sizes = {rank: ends.entries.size for rank, ends in theirs.items()}
        sent = {rank: sides[ends] for rank, ends in told.items()}
        values = np.full(self._compiled.size, np.nan)
        for rank, found in self._peers.swapped(sent, sizes).items():
            values[theirs[rank].entries] = found
        return values

    def _meeting(self, stage: tuple[Hashable, ...]) -> tuple[dict[int, _Ends], dict[int, _Ends]]:
        """Process -> the ends of cut edges that it is told after a stage, and tells."""
        if stage not in self._meetings:
            mine = [name for name in stage if self.has(name)]
            theirs = [name for name in stage if not self.has(name)]
            self._meetings[stage] = self._ends(mine), self._ends(theirs)
        return self._meetings[stage]

    def _ends(self, names: list[Hashable]) -> dict[int, _Ends]:
        """The other process -> the ends of these clients on cut edges to it."""
        place, slots = self._places.__getitem__, self._compiled.slots
        found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        for name in sorted(names, key=place):
            for other in sorted(self._compiled.graph[name], key=place):
                if self.has(name) == self.has(other):
                    continue
                is_tail = (name, other) in slots
                slot = slots[(name, other) if is_tail else (other, name)]
                entries = np.arange(slot.start, slot.stop)
                ends = np.full(entries.size, 1 - is_tail), entries
                found.setdefault(self._owners[other if self.has(name) else name], []).append(ends)
        joined = {rank: zip(*ends, strict=True) for rank, ends in found.items()}
        return {rank: _Ends(*map(np.concatenate, ends)) for rank, ends in joined.items()}


class PeerSweeper(AnswersOnly):
    """Inner loops among processes: after each stage neighbours tell each other where they are.

    A client that could not be solved ends the run of every process, after the stages of the round.

    Parameters
    ----------
    layer : SolverLayer
    among : AmongPeers
    """

    def __init__(self, layer: SolverLayer, among: AmongPeers) -> None:
        self._layer, self._among = layer, among

    def run(self, state: State, stages: Levels, tolerance: float) -> Record:
        failure: ClientFailedError | None = None
        for stage in stages:
            theirs = self._layer.batches([n for n in stage if not self._among.has(n)])
            told = [(batch, state.turn(batch)) for batch in theirs]
            try:
                mine = [n for n in stage if self._among.has(n)]
                minimise(self._layer, state, mine, tolerance)
            except ClientFailedError as error:
                failure = failure or error
            values = self._among.meet(tuple(stage), state.sides)
            for batch, turn in told:
                state.put(batch, turn, _moved(batch, values))
        if self._among.any(failure is not None):
            raise failure or ClientFailedError(ELSEWHERE)
        objective = self._among.sum(state.objectives.sum())
        return Record(residuals(state), np.array([objective]))


def _moved(batch: Batch, values: np.ndarray) -> Answers:
    """Where clients of others are now, of which no more is known."""
    count = len(batch.names)
    statuses, nothing = ["optimal"] * count, Multipliers.none(count)
    return Answers(values[batch.ends.entries], np.zeros(count), statuses, nothing, {})
