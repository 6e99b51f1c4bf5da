"""The conversion of a finished run to a result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dald_model.answer.result import Result
from dald_model.compile.decomposition import Recovered
from dald_model.coordinate.membership import Roster
from dald_model.coordinate.outcome import Best, objective
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Verdict
from dald_model.engines.dispatch import Event


def assemble(
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
