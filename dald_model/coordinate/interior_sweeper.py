r"""Rounds of an interior point in the loop: one iteration is one round.

What the loop tests are the relative residuals of the conditions of optimality: how far constraints
are broken, in balanced units, or the gap between the value and what the multipliers prove, relative
to the value; and how far the gradient of the Lagrangian is from zero, in the same units.
"""

from __future__ import annotations

import numpy as np

from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.coordinate.status import ClientFailedError, Status, Termination
from dald_model.coordinate.sweeper import Record
from dald_model.schedule.moment import Residuals
from dald_model.schedule.network import Levels
from dald_model.solvers.base import Encoding, Multipliers
from dald_model.solvers.interior.coordinator import Aggregator, Found
from dald_model.solvers.interior.joint import Joint

SHARPER = 100.0
"""So many times smaller than the loop's tolerances the residuals become, two rounds more: prices
have half the digits of the value where a constraint is nearly active."""
WORTH = 1e-9
"""Least value that a gap is relative to, as a share of the value in the first round."""
SHORTEST = 1e-7
"""A step that is shorter moves nothing."""


class InteriorSweeper:
    """An iteration of the interior point each round.

    Parameters
    ----------
    compiled : Decomposition
    aggregator : Aggregator or None
        What adds the clients' arrays; None adds all rows at once.
    """

    def __init__(self, compiled: Decomposition, aggregator: Aggregator | None = None) -> None:
        self._compiled = compiled
        self._aggregator = aggregator
        self._joint: Joint | None = None
        self._first = 0.0
        self._best = np.inf

    @uncollected()
    def run(self, state: State, stages: Levels, tolerance: float, most: int) -> list[Record]:
        """See :class:`dald_model.coordinate.sweeper.Sweeper`.

        Raises
        ------
        ClientFailedError
            With a proof that the problem is infeasible or unbounded, or where the arithmetic ended
            before any accuracy.
        """
        if self._joint is None:
            apart = self._aggregator is not None
            self._joint = Joint(self._compiled, is_apart=apart, aggregator=self._aggregator)
            self._first = abs(self._joint.coordinator.found.value)
        found, is_stuck = self._iterate(self._joint)
        worst = self._worst(found)
        if np.isfinite(worst) and (worst < self._best or not state.complete):
            self._best = worst
            self._put(self._joint, state)
        elif is_stuck and not state.complete:
            said = "the interior point broke down in its first round: data are not finite"
            raise ClientFailedError(Termination(Status.SOLVER_ERROR, None, said))
        else:
            is_stuck = True
        sharper = 1.0 if is_stuck else SHARPER
        primal, dual = max(found.primal, self._relative(found)), found.dual
        scaled = (sharper * primal, sharper * dual) if not is_stuck else (self._best, self._best)
        apart = float(np.abs(state.primal).max(initial=0.0))
        residuals = Residuals(apart, dual, *scaled)
        objectives = np.zeros(len(self._compiled))
        objectives[0] = found.value
        return [Record(residuals, objectives)]

    def _iterate(self, joint: Joint) -> tuple[Found, bool]:
        """A round, and whether there is none that gains any more."""
        coordinator = joint.coordinator
        before = coordinator.found
        try:
            with np.errstate(all="ignore"):
                coordinator.iterate()
        except (np.linalg.LinAlgError, RuntimeError, ValueError):  # of a factor
            return before, True
        found = coordinator.found
        if coordinator.tau < coordinator.kappa:
            self._check(joint)
        is_stuck = found.step < SHORTEST or not np.isfinite(self._worst(found))
        return found, is_stuck

    def _check(self, joint: Joint) -> None:
        """End with a proof, if there is one."""
        if joint.coordinator.proves_infeasible:
            name = joint.heaviest()
            said = (
                "no point satisfies all constraints: multipliers of the clients' constraints prove "
                f"it, most of them of client {name!r}; relax one of these"
            )
            raise ClientFailedError(Termination(Status.INFEASIBLE, None, said))
        if joint.coordinator.proves_unbounded:
            said = (
                "the objective falls without bound along a direction that keeps all constraints; "
                "bound the variables or add a regulariser"
            )
            raise ClientFailedError(Termination(Status.UNBOUNDED, None, said))

    def _worst(self, found: Found) -> float:
        return float(np.max([found.primal, found.dual, self._relative(found)]))

    def _relative(self, found: Found) -> float:
        worth = max(min(abs(found.value), abs(found.bound)), WORTH * self._first)
        return abs(found.gap) / max(worth, np.finfo(float).tiny)

    def _put(self, joint: Joint, state: State) -> None:
        """Enter where the clients are and what their constraints and agreements cost."""
        compiled = self._compiled
        state.points = joint.point()
        state.sides = compiled.stacked.at(state.points)
        state.received = state.sides[::-1].copy()
        given, state.mu = joint.multipliers()
        nothing = (Encoding.ROWS, np.zeros(0))
        held = Multipliers.joined([given.get(name, nothing) for name in compiled.layout])
        state.hold(slice(0, len(compiled)), held)
