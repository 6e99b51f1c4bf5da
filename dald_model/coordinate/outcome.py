"""Outcome: from how a run ended to the user's result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dald_model.coordinate.membership import Loop, Roster
from dald_model.coordinate.overlapped_sweeps import Overlap, Record
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Verdict


class Best(NamedTuple):
    """The iterate that is the answer, and the round it is from; None and 0 if there is none.

    ``again`` is how to compute it, if it is not at hand: who does, the state before, and which of
    the inner loops from there end an outer loop.
    """

    state: State | None
    round: int
    again: tuple[Overlap, State, list[bool]] | None = None


def objective(roster: Roster, mine: np.ndarray) -> float:
    """The sum of the objectives of those who are there, in the user's sense."""
    if roster.gone:
        mine = mine[[roster.compiled.order[name] for name in roster.live]]
    return roster.compiled.sense * float(mine.sum())


def converged(roster: Roster, state: State) -> Verdict:
    """What it means that the tolerances were met."""
    compiled = roster.compiled
    origins = zip(compiled, state.origin, strict=True)
    short = [n for n, at in origins if at and at[0].statuses[at[1]] == "optimal_inaccurate"]
    if not roster.whole:
        return Verdict(Status.REDUCED, _missing(roster), told(roster))
    if short:
        named = ", ".join(map(repr, short))
        return Verdict(
            Status.OPTIMAL_INACCURATE, short[0], f"inaccurate in the last round: {named}"
        )
    return Verdict(Status.OPTIMAL, None, "")


def _missing(roster: Roster) -> Any:
    return next(iter(roster.gone or roster.cut))


def told(roster: Roster) -> str:
    """What is missing, and what the answer then means; empty where nothing is."""
    said = [f"client {name!r} left before round {round_}" for name, round_ in roster.gone.items()]
    said += [
        f"edge {ends!r} was dropped before round {round_}" for ends, round_ in roster.cut.items()
    ]
    if not said:
        return ""
    if roster.gone:
        servers = roster.compiled.servers
        who = ", ".join(repr(name) for name in roster.live if name not in servers)
        said.append(
            f"what was computed is the problem of {who}, without the objectives and "
            "constraints of who left"
        )
    parts = roster.parts
    if len(parts) > 1:
        named = "; ".join(", ".join(map(repr, part)) for part in parts)
        said.append(
            f"the consensus graph fell into {len(parts)} parts, which agree within themselves "
            f"only: {named}"
        )
    elif roster.cut:
        said.append("the others are still connected, so all agree")
    return "; ".join(said)


def row(roster: Roster, record: Record, rho: np.ndarray, loop: Loop) -> dict[str, Any]:
    """The columns of the history that an inner loop tells."""
    return {
        **record.found._asdict(),
        "objective": objective(roster, record.objectives),
        "rho": float(np.exp(np.log(rho).mean())),
        "solved": sum(map(len, loop.stages)),
        "absent": loop.absent,
        "who": loop.who,
    }
