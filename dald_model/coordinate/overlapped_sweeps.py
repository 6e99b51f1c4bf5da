r"""Overlapped sweeps, with the iterates of one sweep after the other.

A client's turn in a sweep needs its neighbours' latest turns only, so later sweeps may begin
before earlier ones end (:mod:`dald_model.schedule.wavefront`). What the loop wants to know of each
sweep is gathered edge by edge: when the later end of an edge is solved in sweep v, the earlier end
still has its value of sweep v, so the edge's residuals of that sweep can be measured, and its
multiplier updated, there and then.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.later_ends import LaterEndView
from dald_model.coordinate.method import Goal, Method, Update
from dald_model.coordinate.residuals import LARGEST, Extremes, Scales, combined, extremes
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import Stopping, is_one_sweep
from dald_model.coordinate.sweeper import Record, SerialSweeper, check_found
from dald_model.engines.batches import Batch
from dald_model.engines.dispatch import SolverLayer
from dald_model.schedule.network import Levels
from dald_model.schedule.sequence import Sequence
from dald_model.schedule.wavefront import wavefront
from dald_model.solvers.arrays.selection_cache import SelectionCache

PAYS = 0.75
"""Share of the steps of one sweep after the other below which overlapping them is worth it."""
FIRST_BLOCK = 8
"""Sweeps of the first block of a run that is tested; each later one has twice as many, so that what
is computed beyond the end of a run is in proportion."""


def may_overlap(sequence: Sequence, stopping: Stopping, method: Method) -> bool:
    """Whether nothing between two sweeps depends on all clients at once."""
    return (
        sequence.is_constant
        and is_one_sweep(stopping)
        and method.after_stage is None
        and method.goal is not Goal.FIXED_POINT
    )


def pays(compiled: Decomposition, stages: Levels) -> bool:
    """Whether sweeps through these stages can overlap, and whether that saves enough steps."""
    rank = {name: at for at, stage in enumerate(stages) for name in stage}
    count, solves = 4, sum(map(len, stages))
    if len(stages) <= 2 or not len(rank) == solves == len(compiled):
        return False
    if any(rank[one] == rank[two] for one, two in compiled.slots):
        return False
    together = sum(1 for _ in wavefront(compiled.graph, stages, count))
    return together < PAYS * count * len(stages)


class OverlappedSweeper:
    """Blocks of overlapped sweeps through constant stages, each client once in a sweep.

    Parameters
    ----------
    compiled : Decomposition
    layer : SolverLayer
    stages : list of lists
    update : callable
        The multipliers of the next outer loop, see :class:`Method`.
    block : int
        Sweeps of the first block; the attribute is those of the next.
    """

    def __init__(
        self,
        compiled: Decomposition,
        layer: SolverLayer,
        stages: Levels,
        update: Update,
        block: int = FIRST_BLOCK,
    ) -> None:
        self._compiled, self._layer, self._update = compiled, layer, update
        self._serial = SerialSweeper(layer)
        rank = {name: at for at, stage in enumerate(stages) for name in stage}
        self._is_later = {name: compiled[name].later(rank) for name in rank}
        self.block = block
        self._known = layer.changes
        self._parts = SelectionCache(self._made, len(compiled))

    def run(self, state: State, stages: Levels, tolerance: float, most: int) -> list[Record]:
        """See :class:`Sweeper`; solvers that follow a tolerance have to see each round's."""
        count = min(most, self.block)
        if count < 2 or not self._layer.is_exact:
            return self._serial.run(state, stages, tolerance, most)
        self.block *= 2
        measured = _Measured(count, len(self._compiled), state.units.energy)
        for step in wavefront(self._compiled.graph, stages, count):
            parts = self._parts_of(step.clients)
            batches = [part.batch for part in parts]
            turns = [state.turn(batch) for batch in batches]
            for at, batch, mine, answers in self._layer.answers(batches, turns, tolerance):
                check_found(batch.names, answers.statuses, answers.messages)
                places = parts[at].places
                if batch is not parts[at].batch:  # one client after the other, as a solver failed
                    places = np.array([step.clients.index(name) for name in batch.names])
                sweeps = step.sweeps[places]
                state.put(batch, mine, answers)
                measured.solved(sweeps, answers.objectives, batch, state)
            for part in parts:
                if part.owners.size:
                    self._settle(state, part, step.sweeps[part.places[part.owners]], measured)
        return measured.records()

    def _settle(self, state: State, part: _Part, sweeps: np.ndarray, measured: _Measured) -> None:
        """Measure the edges whose later ends were just solved, and update their multipliers."""
        view = part.view
        tails, heads = view.get(state.sides[0]), view.get(state.sides[1])
        gap, rho = tails - heads, view.get(state.rho)
        moved = np.abs(view.later(tails, heads) - view.earlier(state.received))
        mu, units = view.get(state.mu), state.units
        prices = mu + 2 * rho**2 * gap
        scales = Scales(
            view.get(units.lengths), view.get(units.slopes), view.get(units.kinks), prices
        )
        force = 2 * rho**2 * moved
        found = extremes(np.abs(gap), moved, force, scales, view.largest, view.total)
        measured.settled(sweeps, found)
        updated = sweeps < measured.count - 1
        if updated.any():
            view.set(state.mu, view.where(updated, self._update(mu, rho, gap), mu))

    def _parts_of(self, clients: tuple[Hashable, ...]) -> list[_Part]:
        if self._known != self._layer.changes:
            self._parts = SelectionCache(self._made, len(self._compiled))
            self._known = self._layer.changes
        return self._parts(clients)

    def _made(self, clients: tuple[Hashable, ...]) -> list[_Part]:
        place = {name: at for at, name in enumerate(clients)}
        return [self._part(batch, place) for batch in self._layer.batches(clients)]

    def _part(self, batch: Batch, place: dict[Hashable, int]) -> _Part:
        ends = [self._is_later[name] for name in batch.names]
        lengths = np.array([end.sum() for end in ends])
        owners = np.flatnonzero(lengths)
        is_later = np.concatenate(ends)
        entries, later = batch.ends.entries[is_later], batch.ends.rows[is_later]
        places = np.array([place[name] for name in batch.names])
        return _Part(batch, places, owners, LaterEndView(entries, later, lengths[owners]))


class _Part(NamedTuple):
    """Clients of a step in one session, with the edges that they are the later end of.

    Attributes
    ----------
    batch : Batch
    places : ndarray of int
        Where in the step its clients stand.
    owners : ndarray of int
        Which clients of the batch have such edges.
    view : LaterEndView
        Where these edges lie.
    """

    batch: Batch
    places: np.ndarray
    owners: np.ndarray
    view: LaterEndView


class _Measured:
    """What was measured of each sweep of a block so far."""

    def __init__(self, count: int, clients: int, energy: float) -> None:
        self.count = count
        self._extremes = Extremes(*np.zeros((len(Extremes._fields), count)))
        self._energy = energy
        self._slack, self._slack_scaled = np.zeros((2, count))
        self._objectives = np.zeros((count, clients))

    def solved(
        self, sweeps: np.ndarray, objectives: np.ndarray, batch: Batch, state: State
    ) -> None:
        """Clients of a batch were solved in these sweeps."""
        np.maximum.at(self._slack, sweeps, state.slack[0, batch.clients])
        np.maximum.at(self._slack_scaled, sweeps, state.slack[1, batch.clients])
        self._objectives[sweeps, batch.clients] = objectives

    def settled(self, sweeps: np.ndarray, found: Extremes) -> None:
        """Edges have both their values of these sweeps."""
        for at, (row, values) in enumerate(zip(self._extremes, found, strict=True)):
            (np.maximum if at < LARGEST else np.add).at(row, sweeps, values)

    def records(self) -> list[Record]:
        """Sweep by sweep."""
        found = combined(self._extremes, self._energy, self._slack, self._slack_scaled)
        return [Record(*pair) for pair in zip(found, self._objectives, strict=True)]
