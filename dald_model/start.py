"""Start: where a run begins, from zero or from the end of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from dald_model.compiler import Compiled
from dald_model.errors import OptionError
from dald_model.penalty import PenaltyRule, ResidualBalancing, as_rule
from dald_model.result import Result
from dald_model.state import State


def begin(compiled: Compiled, rho: Any, start: Any) -> tuple[State, PenaltyRule]:
    """The first state and the rule for the penalties.

    From another result, clients begin where they were, and the edges that both models have keep
    their multipliers and, unless ``rho`` is given, their penalties.

    Raises
    ------
    OptionError
        If ``start`` is no result of a model with some of these clients.
    """
    rule = as_rule(rho)
    if start is None:
        return State.start(compiled, rule.init(compiled)), rule
    if not isinstance(start, Result):
        raise OptionError(
            f"start: given {start!r}, expected the result of an earlier solve of this model"
        )
    before, last = start.compiled, start.state
    if last is None or not any(name in before for name in compiled):
        raise OptionError(
            f"start: given the result of {before.model.name!r}, which has none of the clients "
            f"{', '.join(map(repr, compiled))}; expected the result of an earlier solve of this "
            "model"
        )
    if before is compiled:
        state = last.snapshot()
        state.links = None
        if rho is not None:
            state.rho = rule.init(compiled)
    else:
        points = {
            name: last.points[before.columns[name]]
            for name, sub in compiled.items()
            if name in before and before[name].size == sub.size
        }
        state = State.start(compiled, rule.init(compiled), points)
        for ends, slot in compiled.slots.items():
            sign = 1.0 if ends in before.slots else -1.0
            there = before.slots.get(ends, before.slots.get((ends[1], ends[0])))
            if there is not None and there.stop - there.start == slot.stop - slot.start:
                state.mu[slot] = sign * last.mu[there]
                state.gradient[slot] = last.gradient[there]
                if rho is None:
                    state.rho[slot] = last.rho[there]
    if rho is None:
        rule = ResidualBalancing(start=state.rho.copy())
    state.origin = [None] * len(compiled)
    state.slack = np.zeros_like(state.slack)
    return state, rule
