"""Safety: which stopping condition goes with which order, and what is known of it."""

from __future__ import annotations

import math

from dald_model.roster import Roster
from dald_model.stopping import FixedBudget, ShrinkingTolerance, Stopping


def default_stopping(roster: Roster) -> Stopping:
    """The stopping condition that goes with a sequence when the user names none.

    One sweep for each multiplier update where that is two-block ADMM, hence safe. A partial cycle
    gets loops enough for everybody to have had a turn on average, and the full one. A graph with
    an odd cycle, or an order that breaks the two-colouring, has no such guarantee with one sweep;
    there the inner loop runs to a shrinking tolerance (B2), as Theorem 2 asks. Measured with
    start 0.1 and factor 0.9 on triangles, rings, complete and random graphs of 3 to 8 clients,
    against one sweep: least squares took 8 to 27 % more rounds, constrained least squares up to
    36 % more, and absolute losses on four of five graphs took 234 to 268 rounds where one sweep
    stalled or was not done within 600.
    """
    sequence, network = roster.sequence, roster.bound.network
    if sequence.per_loop is not None:
        return FixedBudget(1 + math.ceil(len(network) / sequence.per_loop))
    return FixedBudget(1) if network.is_two_block else ShrinkingTolerance()
