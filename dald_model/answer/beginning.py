"""What a run begins with: from nothing, or from an earlier result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dald_model.answer.extrapolation import Trail, present
from dald_model.answer.result import Result
from dald_model.answer.saved import SavedAnswer
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.penalty import (
    RHO_LEAST,
    RHO_MOST,
    PenaltyRule,
    ResidualBalancing,
    as_rule,
)
from dald_model.coordinate.scaling.reuse import Measured
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.errors import OptionError
from dald_model.sizes import ORDER
from dald_model.text import listed


def still_measured(compiled: Decomposition, start: Any) -> Measured | None:
    """What was measured for the start, where the problem is much the same."""
    known = start.measured if isinstance(start, Result) and start.compiled is compiled else None
    return known if known and known.holds(compiled) else None


def extrapolated(compiled: Decomposition, start: Any, state: State) -> bool:
    """Have a run begin where the answer is expected; whether that is known."""
    if not isinstance(start, Result) or start.compiled is not compiled or start.trail is None:
        return False
    return start.trail.extrapolate(present(p.value for p in compiled.model.parameters), state)


def trailed(result: Result, start: Any) -> Trail | None:
    """The answers that lead to this one, it included."""
    state = result.state
    if state is None or state.channels is not None or result.status is not Status.OPTIMAL:
        return None
    is_same = isinstance(start, Result) and start.compiled is result.compiled
    values = present(value for _, value in result.given)
    return Trail.after(start.trail if is_same else None, values, state, result.learnt)


def begin(compiled: Decomposition, rho: Any, start: Any, units: Units) -> tuple[State, PenaltyRule]:
    """The first state and the rule for the penalties.

    From another result, clients begin where they were, and the edges that both models have keep
    their multipliers and, unless ``rho`` is given, their penalties.

    Raises
    ------
    OptionError
        If ``start`` is no result of a model with some of these clients.
    """
    rule, first = as_rule(rho), None
    if isinstance(rule, ResidualBalancing) and rule.start is None:
        first = np.clip(units.penalty, RHO_LEAST, RHO_MOST)
        rule = replace(rule, start=first)
    if start is None:
        return State.start(compiled, rule.init(compiled), units), rule
    if not isinstance(start, Result):
        given = f"{start!r}, expected the result of an earlier solve of this model"
        if isinstance(start, SavedAnswer):
            given = "a saved answer, expected it on its model; take start=dm.load(path, model)"
        raise OptionError(f"start: given {given}")
    before, last = start.compiled, start.state
    if last is None or not any(name in before for name in compiled):
        raise OptionError(
            f"start: given the result of {before.model.name!r}, which has none of the clients "
            f"{listed(compiled)}; expected the result of an earlier solve of this "
            "model"
        )
    if before is compiled:
        state = last.begun_again(units)
        state.mu *= _grown(units.slopes, last.units.slopes)
        state.rho = last.rho * _grown(units.penalty, last.units.penalty)
        if rho is not None:
            state.rho = rule.init(compiled) if first is None else first.copy()
    else:
        points = {
            name: last.points[before.columns[name]]
            for name, sub in compiled.items()
            if name in before and before[name].size == sub.size
        }
        state = State.start(compiled, rule.init(compiled), units, points)
        for ends, slot in compiled.slots.items():
            sign = 1.0 if ends in before.slots else -1.0
            there = before.slots.get(ends, before.slots.get((ends[1], ends[0])))
            if there is not None and there.stop - there.start == slot.stop - slot.start:
                grown = _grown(units.slopes[slot], last.units.slopes[there])
                state.mu[slot] = sign * last.mu[there] * grown
                if rho is None:
                    grown = _grown(units.penalty[slot], last.units.penalty[there])
                    state.rho[slot] = last.rho[there] * grown
    if rho is None:
        rule = ResidualBalancing(start=state.rho.copy())
    return state, rule


def _grown(now: np.ndarray, before: np.ndarray) -> np.ndarray | float:
    """By what natural units have changed; one where they are much the same."""
    if now is before:
        return 1.0
    ratio = now / before
    return np.where((ratio > ORDER) | (ratio < 1 / ORDER), ratio, 1.0)
