"""Outcome: from how a run ended to the user's result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dald_model.compiler import Recovered
from dald_model.diagnose import Verdict
from dald_model.layer import Event
from dald_model.overlap import Overlap, Record
from dald_model.result import Result, Status
from dald_model.roster import Loop, Roster
from dald_model.state import State


class Best(NamedTuple):
    """The iterate that is the answer, and the round it is from; None and 0 if there is none.

    ``again`` is how to compute it, if it is not at hand: who does, the state before, and which of
    the inner loops from there end an outer loop.
    """

    state: State | None
    round: int
    again: tuple[Overlap, State, list[bool]] | None = None


def result(
    roster: Roster,
    best: Best,
    last: State,
    rows: list[dict[str, Any]],
    verdict: Verdict,
    tolerances: tuple[float, float],
    seconds: float,
    events: Sequence[Event],
) -> Result:
    """Turn the answer into the user's terms, and set values and dual values."""
    compiled = roster.compiled
    history = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="round"))
    recovered = Recovered({}, {}, {}, {})
    multipliers: dict[tuple[Hashable, Hashable], np.ndarray] = {}
    value = math.nan
    if best.state is not None:
        mu = best.state.estimate
        mu[roster.off] = 0.0  # what is not in the problem has no price
        points = {name: best.state.points[part] for name, part in compiled.columns.items()}
        origins = zip(compiled, best.state.origin, strict=True)
        duals = {name: at[0].duals(at[1]) if at else () for name, at in origins}
        recovered = compiled.recover(points, duals, mu, roster.gone)
        multipliers = {ends: mu[slot].copy() for ends, slot in compiled.slots.items()}
        value = objective(roster, best.state.objectives)
    if verdict.status == Status.INFEASIBLE:
        value = compiled.sense * math.inf
    if verdict.status == Status.UNBOUNDED:
        value = -compiled.sense * math.inf
    found = Result(
        verdict.status,
        value,
        len(rows),
        best.round,
        history,
        recovered,
        multipliers,
        compiled,
        seconds,
        *tolerances,
        verdict.culprit,
        verdict.detail,
        tuple(events),
        dict(roster.gone),
        dict(roster.cut),
        last,
    )
    found.apply()
    return found


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
