"""Choice of a sweeper: one process or several, and whether its sweeps overlap."""

from __future__ import annotations

from collections.abc import Callable

from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.overlapped_sweeps import (
    FIRST_BLOCK,
    OverlappedSweeper,
    may_overlap,
    pays,
)
from dald_model.coordinate.peers import AmongPeers, PeerSweeper
from dald_model.coordinate.settings import Settings
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import Stopping
from dald_model.coordinate.sweeper import SerialSweeper, Sweeper
from dald_model.engines.dispatch import SolverLayer
from dald_model.schedule.moment import Moment


def chosen_sweeper(
    membership: Membership,
    method: Method,
    settings: Settings,
    layer: SolverLayer,
    state: State,
    stopping: Stopping,
    moment: Callable[[], Moment],
    is_accelerated: bool,
) -> Sweeper:
    """The sweeper of a run that begins with a state.

    ``moment`` gives the first of the run, for which the user's stopping condition is asked.
    """
    if isinstance(state.whole, AmongPeers):
        return PeerSweeper(layer, state.whole)
    serial = SerialSweeper(layer, method.after_stage, method.goal is Goal.FIXED_POINT)
    if state.channels or settings.metrics or settings.callback or is_accelerated:
        return serial
    if not may_overlap(membership.sequence, stopping, method):
        return serial
    stages = membership.bound.stages(moment())
    if not pays(membership.compiled, stages):
        return serial
    # Where no round is tested, nothing is computed beyond the end of the run.
    block = FIRST_BLOCK if settings.tests(method) else settings.max_rounds
    return OverlappedSweeper(membership.compiled, layer, stages, method.update, block)
