"""Outcome of a run, before it is put in the user's terms, and its best iterate."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Termination
from dald_model.engines.assignment import Event
from dald_model.engines.failover import Loss
from dald_model.errors import DaldError
from dald_model.text import counted, listed


@dataclass
class Best:
    """Best iterate so far, and the round it is from; None and 0 if there is none.

    Attributes
    ----------
    state : State or None
    round : int
    """

    state: State | None = None
    round: int = 0
    _merit: float = math.inf

    def offer(self, state: State, round_: int, merit: float) -> bool:
        """Keep the iterate if it is better than the one before; gives whether it is.

        ``merit`` is the larger of both residuals relative to their tolerances.
        """
        if not merit <= self._merit:
            return False
        self.take(state.snapshot(), round_)
        self._merit = merit
        return True

    def take(self, state: State, round_: int) -> None:
        """Keep the iterate, whatever its residuals."""
        self.state, self.round = state, round_


class Outcome(NamedTuple):
    """Termination, answer, last state and history of a run.

    Attributes
    ----------
    termination : Termination
    best : Best
        The answer.
    last : State or None
        The last iterate, to go on from; None where the run did not begin.
    rows : list of dict
        The history.
    membership : Membership
        The clients and edges that are present in the end.
    events : tuple of Event
        Which solvers failed.
    error : DaldError or None
        The error that ended the run, raised once the result is made.
    learnt : ModelState or None
        The models of the clients.
    recalled : tuple
        The clients that it knew something of at the beginning.
    unaccelerated : str
        Why there was none in the end; "" where there was.
    losses : tuple of Loss
        Which hosts of an engine were lost.
    shown : dict
        Client -> the bytes of curvature that it sent per round.
    interior : tuple of ndarray
        Where an interior point ended, of each participant of this process.
    """

    termination: Termination
    best: Best
    last: State | None
    rows: list[dict[str, Any]]
    membership: Membership
    events: tuple[Event, ...]
    error: DaldError | None = None
    learnt: ModelState | None = None
    recalled: tuple[Hashable, ...] = ()
    unaccelerated: str = ""
    losses: tuple[Loss, ...] = ()
    shown: Mapping[Hashable, int] = MappingProxyType({})
    interior: tuple[np.ndarray, ...] = ()


def ended_before(membership: Membership, termination: Termination | None = None) -> Outcome:
    """The outcome of a run that ended before it began: by an interrupt, or by this."""
    termination = termination or Termination(Status.INTERRUPTED, None, "before the first round")
    return Outcome(termination, Best(), None, [], membership, ())


def out_of_time(rounds: int) -> Termination:
    """The end of a run after its time limit, with so many complete rounds."""
    said = "before the end of the first round; give more seconds, or time_limit=None"
    if rounds:
        said = f"after {counted(rounds, 'complete round')}; model.solve(start=result) goes on"
    return Termination(Status.TIME_LIMIT, None, said)


def objective(membership: Membership, mine: np.ndarray) -> float:
    """The sum of the objectives of those who are there, in the user's sense."""
    if membership.gone:
        mine = mine[[membership.compiled.order[name] for name in membership.live]]
    return membership.compiled.sense * float(mine.sum())


def converged(membership: Membership, state: State) -> Termination:
    """The end of a run whose residuals met their tolerances."""
    short = [
        n for n, is_short in zip(membership.compiled, state.inaccurate, strict=True) if is_short
    ]
    if not membership.whole:
        first = next(iter(membership.gone or membership.cut))
        return Termination(Status.REDUCED, first, missing(membership))
    if state.reduce.any(bool(short)):
        said = f"inaccurate in the last round: {listed(short) if short else 'at another process'}"
        return Termination(Status.OPTIMAL_INACCURATE, short[0] if short else None, said)
    if not membership.compiled.is_convex:
        return Termination(Status.STATIONARY, None, "")
    return Termination(Status.OPTIMAL, None, "")


def missing(membership: Membership) -> str:
    """The missing clients and edges, and what the answer then means; "" if none is."""
    said = [f"client {name!r} left before round {at}" for name, at in membership.gone.items()]
    said += [f"edge {ends!r} was dropped before round {at}" for ends, at in membership.cut.items()]
    if not said:
        return ""
    if membership.gone:
        said.append(
            f"what was computed is the problem of {_named(membership.live, membership)}, without "
            "the objectives and constraints of who left"
        )
    parts = membership.parts
    if len(parts) > 1:
        named = "; ".join(map(listed, parts[:5]))
        named += f"; and {len(parts) - 5} more" if len(parts) > 5 else ""
        said.append(
            f"the consensus graph fell into {len(parts)} parts, which agree within themselves "
            f"only: {named}"
        )
    elif membership.cut:
        said.append("the others are still connected, so all agree")
    return "; ".join(said)


def _named(names: tuple[Hashable, ...], membership: Membership) -> str:
    servers = membership.compiled.servers
    return listed(name for name in names if name not in servers)
