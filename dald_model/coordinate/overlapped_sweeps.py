r"""Overlap: several sweeps at once, with the iterates of one after the other.

A client's turn in a sweep needs its neighbours' latest turns only, so later sweeps may begin
before earlier ones end (:mod:`dald_model.schedule.wavefront`). What the loop wants to know of each
sweep is gathered edge by edge: when the later end of an edge is solved in sweep v, the earlier end
still has its value of sweep v, so the edge's residuals of that sweep can be measured, and its
multiplier updated, there and then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.seams import Seams
from dald_model.coordinate.state import State
from dald_model.engines.batches import Group
from dald_model.engines.dispatch import Layer
from dald_model.schedule.moment import Residuals
from dald_model.schedule.network import Levels
from dald_model.schedule.wavefront import wavefront
from dald_model.solvers.arrays.selection_cache import SelectionCache
from dald_model.solvers.base import FOUND

Update = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

EXACT = 1e-10
"""The accuracy asked of solvers, which are exact, hence need not be told."""
PAYS = 0.75
"""Share of the steps of one sweep after the other below which overlapping them is worth it."""


class Record(NamedTuple):
    """What is known of one sweep: its residuals, and the clients' objectives, shape (n,)."""

    found: Residuals
    objectives: np.ndarray


class _Part(NamedTuple):
    """Clients of a step in one session, with the edges that they are the later end of.

    Attributes
    ----------
    group : Group
    places : ndarray of int
        Where in the step its clients stand.
    owners : ndarray of int
        Which clients of the group have such edges.
    seams : Seams
        Where these edges lie.
    """

    group: Group
    places: np.ndarray
    owners: np.ndarray
    seams: Seams


class Overlap:
    """Sweeps through constant stages, each client once in a sweep.

    Parameters
    ----------
    compiled : Decomposition
    layer : Layer
    stages : list of lists

    Attributes
    ----------
    steps : int
        How many steps were made so far.
    """

    def __init__(self, compiled: Decomposition, layer: Layer, stages: Levels) -> None:
        self.stages = stages
        self.steps = 0
        self._compiled, self._layer = compiled, layer
        self._rank = {name: at for at, stage in enumerate(stages) for name in stage}
        self._ends: dict[Hashable, np.ndarray] = {}
        self._parts = SelectionCache(self._made, len(compiled))

    @property
    def pays(self) -> bool:
        """Whether sweeps can overlap, and whether that saves enough steps."""
        rank, count = self._rank, 4
        solves = sum(map(len, self.stages))
        if len(self.stages) <= 2 or not len(rank) == solves == len(self._compiled):
            return False
        if any(rank[one] == rank[two] for one, two in self._compiled.slots):
            return False
        together = sum(1 for _ in wavefront(self._compiled.graph, self.stages, count))
        return together < PAYS * count * len(self.stages)

    def run(self, state: State, closes: list[bool], update: Update) -> list[Record]:
        """Run as many sweeps as ``closes`` has entries; none if a client could not be solved.

        Where ``closes`` says so the multipliers are updated after the sweep, but not after the
        last: that is left to the caller.
        """
        count = len(closes)
        measured = np.zeros((len(ROWS), count))
        objectives = np.zeros((count, len(self._compiled)))
        steep = np.max(state.gradient / state.rho, initial=0.0)
        updates = np.array([*closes[:-1], False])
        for step in wavefront(self._compiled.graph, self.stages, count):
            self.steps += 1
            parts = self._parts(step.clients)
            turns = [state.turn(part.group) for part in parts]
            for part, turn in zip(parts, turns, strict=True):
                group, sweeps = part.group, step.sweeps[part.places]
                answers = group.session.minimise(turn, EXACT)
                if not all(status in FOUND for status in answers.statuses):
                    return []
                pull = np.abs(state.put(group, turn, answers)) / turn.rho
                _raise(measured, "pull", sweeps, np.maximum.reduceat(pull, group.starts))
                if answers.slack.size:
                    _raise(measured, "slack", sweeps, answers.slack)
                    _raise(measured, "slack/rho", sweeps, state.slack[1, group.clients])
                objectives[sweeps, group.clients] = answers.objectives
                if part.owners.size:
                    _settle(state, part, sweeps[part.owners], measured, updates, update)
        rows = dict(zip(ROWS, measured, strict=True))
        steeps = np.maximum(steep, np.maximum.accumulate(rows["pull"]))
        left = np.maximum(rows["2 rho dual"], rows["slack/rho"])
        relative = np.divide(left, steeps, out=np.zeros(count), where=steeps > 0)
        columns = (
            rows["primal"],
            rows["dual"],
            rows["primal/size"],
            np.maximum(rows["dual/size"], relative),
            rows["slack"],
        )
        found = [Residuals(*row) for row in np.transpose(columns).tolist()]
        return [Record(*pair) for pair in zip(found, objectives, strict=True)]

    def _made(self, clients: tuple[Hashable, ...]) -> list[_Part]:
        place = {name: at for at, name in enumerate(clients)}
        return [self._part(group, place) for group in self._layer.groups(clients)]

    def _later(self, name: Hashable) -> np.ndarray:
        """The entries of edges that a client is the later end of, (q,) bool."""
        if name not in self._ends:
            self._ends[name] = self._compiled[name].later(self._rank)
        return self._ends[name]

    def _part(self, group: Group, place: dict[Hashable, int]) -> _Part:
        ends = [self._later(name) for name in group.names]
        lengths = np.array([end.sum() for end in ends])
        owners = np.flatnonzero(lengths)
        is_later = np.concatenate(ends)
        entries, later = group.ends.entries[is_later], group.ends.rows[is_later]
        return _Part(
            group,
            np.array([place[name] for name in group.names]),
            owners,
            Seams(entries, later, lengths[owners]),
        )


ROWS = (
    "primal",
    "dual",
    "primal/size",
    "dual/size",
    "2 rho dual",
    "pull",
    "slack",
    "slack/rho",
)
"""What is measured of each sweep, in the max norm; see :class:`Residuals`."""


def _raise(measured: np.ndarray, row: str, sweeps: np.ndarray, values: np.ndarray) -> None:
    np.maximum.at(measured[ROWS.index(row)], sweeps, values)


def _settle(
    state: State,
    part: _Part,
    sweeps: np.ndarray,
    measured: np.ndarray,
    updates: np.ndarray,
    update: Update,
) -> None:
    """Measure the edges whose later ends were just solved, and update their multipliers."""
    seams = part.seams
    tails, heads, rho = seams.get(state.sides[0]), seams.get(state.sides[1]), seams.get(state.rho)
    gap = tails - heads
    moved = seams.later(tails, heads) - seams.earlier(state.seen)
    np.abs(moved, out=moved)
    size = np.maximum(np.abs(tails), np.abs(heads))
    np.maximum(size, 1.0, out=size)
    apart = np.abs(gap)
    values = seams.largest(apart), seams.largest(moved)
    apart /= size
    values = *values, seams.largest(apart), seams.largest(np.divide(moved, size, out=size))
    moved *= rho
    for row, found in zip(measured, (*values, 2 * seams.largest(moved)), strict=False):
        np.maximum.at(row, sweeps, found)
    chosen = updates[sweeps]
    if chosen.any():
        mu = seams.get(state.mu)
        updated = update(mu, rho, gap)
        seams.set(state.mu, updated if chosen.all() else seams.where(chosen, updated, mu))
