"""Membership of clients and edges in a run, and the plan of each round."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Asking
from dald_model.errors import OptionError
from dald_model.gc_pause import gc_paused
from dald_model.schedule.changes import Change, Online, Schedule
from dald_model.schedule.coordination import Bound
from dald_model.schedule.network import Levels
from dald_model.schedule.round_state import Moment
from dald_model.schedule.sequence import Sequence
from dald_model.validate import check_clients

Pair = tuple[Hashable, Hashable]


@dataclass(eq=False)
class RoundPlan:
    """Plan of one round: the clients to solve, their order, and the messages that are lost.

    Attributes
    ----------
    stages : list of lists
        The clients that are solved, those of a stage side by side.
    absent : int
        How many live clients do not take part because of a failure.
    stale_inputs : ndarray of bool, shape (2, Q), or None
        Ends that are told nothing new.
    lost_messages : ndarray of bool, shape (Q,), or None
        Edges on which a message is lost.
    changed : bool
        Whether the sequence, the clients or the edges are others than in the loop before.
    closing : bool
        Whether it may be the last of its outer loop.
    """

    stages: Levels
    absent: int = 0
    stale_inputs: np.ndarray | None = None
    lost_messages: np.ndarray | None = None
    changed: bool = False
    closing: bool = True

    @cached_property
    def who(self) -> tuple[Hashable, ...]:
        """The clients that are solved, in order; again where they are solved again."""
        return tuple(name for stage in self.stages for name in stage)


class Membership:
    """Clients and edges that are present while a run goes on.

    Attributes
    ----------
    sequence : Sequence
    gone : dict
        Client -> the round before which it left.
    cut : dict
        Ends of an edge -> the round before which it was dropped.
    off : ndarray of bool, shape (Q,)
        The entries of edges that are not in the problem now: dropped, or with an end that left.
    away : ndarray of bool, shape (2, Q)
        The ends of who left.
    """

    def __init__(
        self, compiled: Decomposition, sequence: Sequence, online: tuple[Online, ...]
    ) -> None:
        self.compiled = compiled
        self.online = online
        self.gone: dict[Hashable, int] = {}
        self.cut: dict[Pair, int] = {}
        self.off = np.zeros(compiled.size, dtype=bool)
        self.away = np.zeros((2, compiled.size), dtype=bool)
        self._pending: list[Change] = []
        self._first = sequence
        self.follow(sequence)

    @cached_property
    def _neighbours(self) -> dict[Hashable, tuple[Hashable, ...]]:
        return {name: tuple(self.compiled.graph[name]) for name in self.compiled}

    def kept(self) -> dict[str, Any]:
        """Its data for a checkpoint file.

        Raises
        ------
        OptionError
            If the order is one that a function chose, or counts its own loops.
        """
        if _counts(self.sequence):
            raise _unkept(self.sequence, "counts loops of its own")
        at = None
        if self.sequence is not self._first:
            at = next((at for at, one in self._planned().items() if one is self.sequence), None)
            if at is None:
                raise _unkept(self.sequence, "was chosen by a function of a moment")
        lasting = {name: getattr(self, name) for name in ("gone", "cut", "off", "away")}
        return lasting | {"pending": self._pending, "order": at}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take the data that :meth:`kept` gave for the same options."""
        if kept["order"] is not None:
            self.follow(self._planned()[kept["order"]])
        self._pending = kept["pending"]
        for name in ("gone", "cut", "off", "away"):
            setattr(self, name, kept[name])

    def _planned(self) -> dict[tuple[int, int], Sequence]:
        """The sequences that schedules have for later rounds."""
        return {
            (at, round_): change.sequence
            for at, one in enumerate(self.online)
            if isinstance(one, Schedule)
            for round_, change in one.changes.items()
            if change.sequence is not None
        }

    @gc_paused
    def follow(self, sequence: Sequence) -> None:
        """Take another sequence."""
        self.sequence = sequence
        self.__dict__.pop("bound", None)
        if not sequence.is_plain:
            _ = self.bound  # or say now why it does not fit
        self._steady: RoundPlan | None = None

    @cached_property
    def bound(self) -> Bound:
        """The sequence on the consensus graph."""
        compiled = self.compiled
        return self.sequence.bind(compiled.graph, compiled.servers, compiled.network)

    @property
    def live(self) -> tuple[Hashable, ...]:
        """The clients that are present, in the order of declaration, servers last."""
        return tuple(name for name in self.compiled if name not in self.gone)

    def is_final(self, round_: int) -> bool:
        """Whether no known change comes after a round."""
        schedules = (one for one in self.online if isinstance(one, Schedule))
        last = max((one.last for one in schedules), default=0)
        return round_ >= last and not self._pending

    @property
    def whole(self) -> bool:
        """Whether all clients and edges are there."""
        return not (self.gone or self.cut)

    @property
    def graph(self) -> nx.Graph:
        """The consensus graph of those who are there."""
        graph = nx.Graph(self.compiled.graph.subgraph(self.live))
        graph.remove_edges_from(self.cut)
        return graph

    @property
    def parts(self) -> list[list[Hashable]]:
        """The connected parts of that graph; one if all can agree."""
        found = [set(part) for part in nx.connected_components(self.graph)]
        return [[name for name in self.live if name in part] for part in found]

    def complete(self, state: State) -> bool:
        """Whether everybody who is there was solved at least once."""
        if not self.gone:
            return state.complete
        return state.solved(self.compiled.places[name] for name in self.live)

    def taking_part(self, stages: Levels) -> np.ndarray:
        """The entries of edges with both ends among the stages, (Q,) bool."""
        who = {name for stage in stages for name in stage}
        found = np.zeros(self.compiled.size, dtype=bool)
        for (one, two), slot in self.compiled.slots.items():
            found[slot] = one in who and two in who
        return found

    def open(self, now: Callable[[], Moment]) -> RoundPlan:
        """Ask for changes and begin an inner loop; nobody is asked where all loops are alike."""
        if self._steady is not None:
            return self._steady
        moment = now()
        if not self.online:
            is_closing = moment.closing or not self.sequence.is_partial
            plan = RoundPlan(self._stages(moment), closing=is_closing)
            self._steady = plan if self.sequence.is_constant else None
            return plan
        found = []
        for one in self.online:
            with Asking("online", one):
                found.append(one.before(moment, self._neighbours))
        changes = [change for change in found if change is not None]
        before = self.sequence, dict(self.gone), dict(self.cut)
        for change in changes:
            self._last(change, moment.round)
        if moment.inner == 1:
            for change in [*self._pending, *changes]:
                self._edges(change, moment.round)
            self._pending = []
        else:
            self._pending += [c for c in changes if c.disconnect or c.connect]
        changed = before != (self.sequence, self.gone, self.cut)
        if changed:
            self._mask()
        there = replace(moment, live=self.live, everybody=not self.gone)
        plan = self._loop(there, changes)
        plan.changed, plan.closing = changed, moment.closing or not self.sequence.is_partial
        return plan

    def _last(self, change: Change, round_: int) -> None:
        named = (*change.leave, *change.join, *change.absent, *change.stale)
        check_clients("online: ", named, self._neighbours)
        for pair in (*change.lost, *change.connect, *change.disconnect):
            self._ends(pair)
        for name in change.join:
            self.gone.pop(name, None)
        for name in change.leave:
            self.gone.setdefault(name, round_)
        away = [*self.gone, *change.disconnect]
        if away and self.compiled.form.common.cost is not None:
            raise OptionError(
                f"online: {away[0]!r} is to go, expected clients and edges that stay, as "
                f"{self.compiled.holder!r} holds what all objectives have in common; "
                'model.topology("server") leaves it with the clients'
            )
        if not self.live:
            raise OptionError(
                f"online: after dm.Change(leave={change.leave!r}) before round {round_} nobody is "
                "left; keep one client"
            )
        if change.sequence is not None and change.sequence is not self.sequence:
            self.follow(change.sequence)

    def _edges(self, change: Change, round_: int) -> None:
        for pair in change.connect:
            self.cut.pop(self._ends(pair), None)
        for pair in change.disconnect:
            self.cut.setdefault(self._ends(pair), round_)

    def _mask(self) -> None:
        self.off = np.zeros(self.compiled.size, dtype=bool)
        self.away = np.zeros((2, self.compiled.size), dtype=bool)
        for name in self.gone:
            sub = self.compiled[name]
            self.away[sub.rows, sub.entries] = True
        for ends, slot in self.compiled.slots.items():
            self.off[slot] = ends in self.cut or ends[0] in self.gone or ends[1] in self.gone

    def _loop(self, moment: Moment, changes: list[Change]) -> RoundPlan:
        stages = self._stages(moment)
        absent = {name for change in changes for name in change.absent}
        stale = {name for change in changes for name in change.stale}
        lost = {pair for change in changes for pair in change.lost}
        if absent:
            kept = ([name for name in stage if name not in absent] for stage in stages)
            stages = [stage for stage in kept if stage]
        stale_inputs = lost_messages = None
        if stale or lost:
            stale_inputs = np.zeros((2, self.compiled.size), dtype=bool)
            lost_messages = np.zeros(self.compiled.size, dtype=bool)
            for name in stale:
                sub = self.compiled[name]
                stale_inputs[sub.rows, sub.entries] = True
            for sender, receiver in lost:
                ends = self._ends((sender, receiver))
                slot = self.compiled.slots[ends]
                stale_inputs[int(receiver == ends[1]), slot] = True
                lost_messages[slot] = True
        return RoundPlan(stages, len(absent - set(self.gone)), stale_inputs, lost_messages)

    def _stages(self, moment: Moment) -> Levels:
        if self.sequence.is_plain and moment.everybody:
            return self.compiled.levels
        with Asking("sequence", self.sequence):
            return self.bound.stages(moment)

    def _ends(self, pair: Any) -> Pair:
        if isinstance(pair, tuple | list) and len(pair) == 2:
            one, two = pair
            if isinstance(one, Hashable) and isinstance(two, Hashable):
                for known in ((one, two), (two, one)):
                    if known in self.compiled.slots:
                        return known
        raise OptionError(
            f"online: {pair!r} is no consensus edge; expected pairs of neighbours such as "
            f"{self.compiled.edges[0].ends!r}; declare every edge that may ever be there, and "
            "disconnect it before round 1 if it is to come later"
        )


def _unkept(sequence: Sequence, why: str) -> OptionError:
    return OptionError(
        f"checkpoint: {sequence!r} {why}, which no file can hold; expected an order that "
        "the number of the round says, such as dm.Sequence.random(k) or a dict of rounds as "
        "online; leave checkpoint out"
    )


def _counts(sequence: Sequence) -> bool:
    """Whether an order goes through its parts in turn, and so counts them."""
    return sequence.in_turn or any(map(_counts, sequence.parts))
