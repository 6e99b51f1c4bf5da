r"""Inner loops: the clients solved stage by stage, equations (13), (14) and (21)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dald_model.coordinate.method import AfterStage
from dald_model.coordinate.state import State, residuals
from dald_model.coordinate.status import ClientFailedError, Status, Termination
from dald_model.engines.dispatch import SolverLayer
from dald_model.schedule.network import Levels
from dald_model.schedule.round_state import Residuals
from dald_model.solvers.base import FOUND


class Record(NamedTuple):
    """Residuals of one inner loop, and the clients' objectives, shape (n,)."""

    found: Residuals
    objectives: np.ndarray


class Sweeper(Protocol):
    """Strategy for running an inner loop."""

    def run(self, state: State, stages: Levels, tolerance: float) -> Record:
        """Solve the clients stage by stage.

        Raises
        ------
        ClientFailedError
            If a client could not be solved.
        """
        ...

    @property
    def shown(self) -> dict[Hashable, int]:
        """Client -> the bytes of curvature that it sends per round."""
        ...

    def finish(self, states: Iterable[State]) -> bool:
        """Enter the best iterate of a run that ended, where it is not in its states yet."""
        ...

    def rest(self) -> tuple[np.ndarray, ...]:
        """Where an interior point ended, of each participant of this process.

        What it was computed with stays for the next run.
        """
        ...

    def kept(self) -> dict[str, Any]:
        """Its data between two rounds, for a checkpoint file."""
        ...

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take the data that :meth:`kept` gave for the same options."""
        ...


class AnswersOnly:
    """A sweeper whose clients send answers alone, which the state holds."""

    @property
    def shown(self) -> dict[Hashable, int]:
        """See :class:`Sweeper`."""
        return {}

    def finish(self, states: Iterable[State]) -> bool:
        """See :class:`Sweeper`."""
        return False

    def rest(self) -> tuple[np.ndarray, ...]:
        """See :class:`Sweeper`."""
        return ()

    def kept(self) -> dict[str, Any]:
        """See :class:`Sweeper`."""
        return {}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See :class:`Sweeper`."""


class SerialSweeper(AnswersOnly):
    """The stages of an inner loop one after the other, in one process.

    The clients of a stage see the values from before the stage.

    Parameters
    ----------
    layer : SolverLayer
    after_stage : callable or None
        Called with the state and the clients of a stage after they were solved.
    to_rest : bool
        Whether the run ends where the iterates stop moving: ``eps_dual`` then bounds their move.
    """

    def __init__(
        self, layer: SolverLayer, after_stage: AfterStage | None = None, to_rest: bool = False
    ) -> None:
        self._layer, self._after_stage, self._to_rest = layer, after_stage, to_rest

    def run(self, state: State, stages: Levels, tolerance: float) -> Record:
        """See :class:`Sweeper`."""
        before = state.points.copy() if self._to_rest else state.points
        for stage in stages:
            minimise(self._layer, state, stage, tolerance)
            if self._after_stage is not None:
                self._after_stage(state, stage)
        found = residuals(state)
        if self._to_rest:
            moved = float((np.abs(state.points - before) / state.units.point_lengths).max())
            found = found._replace(dual_scaled=moved)
        return Record(found, state.objectives)


def minimise(layer: SolverLayer, state: State, names: Iterable[Hashable], tolerance: float) -> None:
    """Minimise clients side by side, each told the present values, and enter their answers.

    Raises
    ------
    ClientFailedError
        If a client could not be solved.
    """
    batches = layer.batches(names)
    turns = [state.turn(batch) for batch in batches]
    for _, part, mine, answers in layer.answers(batches, turns, tolerance):
        check_found(part.names, answers.statuses, answers.messages)
        state.put(part, mine, answers)


def check_found(
    names: Sequence[Hashable], statuses: Sequence[str], messages: Mapping[int, str]
) -> None:
    """Refuse answers without a point.

    Raises
    ------
    ClientFailedError
        Naming the first client and why there is none.
    """
    if statuses.count("optimal") == len(names):
        return
    for i, (name, status) in enumerate(zip(names, statuses, strict=True)):
        if status not in FOUND:
            raise ClientFailedError(_failure(name, Status(status), messages.get(i, "")))


def _failure(name: Hashable, status: Status, message: str) -> Termination:
    what = {
        Status.INFEASIBLE: f"client {name!r} is infeasible: no point satisfies its own "
        "constraints and the domain of its objective; relax one of them",
        Status.UNBOUNDED: f"client {name!r} is unbounded below along a direction that no consensus "
        "constraint holds; bound its variables or add a regulariser",
        Status.SOLVER_ERROR: f"the solver failed on client {name!r}; choose another by the option "
        "solver, or scale the client's data",
    }[status]
    return Termination(status, name, f"{what} ({message})")
