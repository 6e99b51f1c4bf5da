"""Sweep: one inner loop, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Verdict
from dald_model.engines.dispatch import Layer
from dald_model.schedule.network import Levels
from dald_model.solvers.base import FOUND

Staged = Callable[[State, Iterable[Hashable]], None]


def sweep(
    state: State, stages: Levels, layer: Layer, tolerance: float, staged: Staged | None = None
) -> Verdict | None:
    """Solve the clients stage by stage, equations (13), (14) and (21).

    All clients of a stage are told the values of before it. ``staged`` is called after each.
    """
    for stage in stages:
        failure = solve(state, stage, layer, tolerance)
        if failure is not None:
            return failure
        if staged is not None:
            staged(state, stage)
    return None


def solve(
    state: State, stage: Iterable[Hashable], layer: Layer, tolerance: float
) -> Verdict | None:
    """Solve some clients side by side."""
    groups = layer.groups(stage)
    turns = [state.turn(group) for group in groups]
    for group, turn in zip(groups, turns, strict=True):
        for part, mine, answers in layer.answer(group, turn, tolerance):
            for name, status in zip(part.names, answers.statuses, strict=True):
                if status not in FOUND:
                    return _failure(name, status, answers.messages.get(0, ""))
            state.put(part, mine, answers)
    return None


def _failure(name: Hashable, said: str, message: str) -> Verdict:
    status = Status(said)
    what = {
        Status.INFEASIBLE: f"client {name!r} is infeasible: no point satisfies its own "
        "constraints and the domain of its objective; relax one of them",
        Status.UNBOUNDED: f"client {name!r} is unbounded below along a direction that no consensus "
        "constraint holds; bound its variables or add a regulariser",
        Status.SOLVER_ERROR: f"the solver failed on client {name!r}; choose another by the option "
        "solver, or scale the client's data",
    }[status]
    return Verdict(status, name, f"{what} ({message})")
