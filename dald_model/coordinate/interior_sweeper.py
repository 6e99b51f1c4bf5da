r"""Rounds of an interior point in the loop: one iteration is one round.

What the loop tests are the relative residuals of the conditions of optimality: how far constraints
are broken, in balanced units, or the gap between the value and what the multipliers prove, relative
to the value; and how far the gradient of the Lagrangian is from zero, in the same units.
"""

from __future__ import annotations

import numpy as np

from dald_model.bulk import uncollected
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.certificates import proof
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
PATIENCE = 3
"""Rounds in which residuals do not halve after which rounding is at work: they fall by ten a round
near the end."""
BEHIND = 1e3
"""So many times the best residual is no progress that is left for later."""
INACCURATE = 1e-4
"""Residuals up to which an answer that rounding ended is one, if an inaccurate one."""


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
        self._first, self._has_ground = 0.0, False
        self._best, self._is_stuck, self._since = np.inf, False, 0
        self._found = Found(*6 * [np.inf])

    @uncollected()
    def run(self, state: State, stages: Levels, tolerance: float) -> Record:
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
        found, is_stuck = self._iterate(self._joint, state)
        worst = self._worst(found)
        self._since = 0 if worst < self._best / 2 else self._since + 1
        if worst < self._best:
            self._best, self._found = worst, found
            self._put(self._joint, state)
        is_stuck = is_stuck or (self._since >= PATIENCE and self._best <= INACCURATE)
        if is_stuck and self._is_stuck:
            self._give_up()
        self._is_stuck = is_stuck
        # Where rounding ends the progress, what was reached is held against what was asked for
        sharper = 1.0 if is_stuck else SHARPER
        primal = sharper * max(self._found.primal, self._relative(self._found))
        apart = float(np.abs(state.primal).max(initial=0.0))
        residuals = Residuals(apart, self._found.dual, primal, sharper * self._found.dual)
        objectives = np.zeros(len(self._compiled))
        objectives[0] = self._found.value
        return Record(residuals, objectives)

    def _give_up(self) -> None:
        """End a run that rounding keeps from its tolerances."""
        if self._best > INACCURATE:
            said = f"the interior point broke down with residuals of {self._best:.1e}"
            status = Status.STALLED if np.isfinite(self._best) else Status.SOLVER_ERROR
        else:
            status = Status.OPTIMAL_INACCURATE
            said = f"rounding ended the interior point with residuals of {self._best:.1e}"
        said += "; scale the data, or take the default algorithm, dm.DALD()"
        raise ClientFailedError(Termination(status, None, said))

    def _iterate(self, joint: Joint, state: State) -> tuple[Found, bool]:
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
            self._check(joint, state)
        worst = self._worst(found)
        is_stuck = found.step < SHORTEST or worst > max(BEHIND * self._best, 1e-6)
        return found, is_stuck and bool(np.isfinite(self._best) or not np.isfinite(worst))

    def _check(self, joint: Joint, state: State) -> None:
        """End with a proof, if there is one."""
        if joint.coordinator.proves_infeasible:
            name = joint.heaviest()
            said = (
                "no point satisfies all constraints: multipliers of the clients' constraints prove "
                f"it, most of them of client {name!r}; relax one of these"
            )
            raise ClientFailedError(Termination(Status.INFEASIBLE, None, said))
        if joint.coordinator.falls_along_a_ray and not self._has_ground:
            # Least squares of collinear columns fall along a ray by all digits of an iterate
            found = proof(self._compiled, state)
            if found is not None and found.status == Status.UNBOUNDED:
                said = (
                    "the objective falls without bound along a direction that keeps all "
                    f"constraints, fastest at client {found.client!r}; bound the variables or add "
                    "a regulariser"
                )
                raise ClientFailedError(Termination(Status.UNBOUNDED, None, said))
            self._has_ground = True

    def _worst(self, found: Found) -> float:
        worst = float(np.max([found.primal, found.dual, self._relative(found)]))
        return worst if np.isfinite(worst) else np.inf

    def _relative(self, found: Found) -> float:
        worth = max(min(abs(found.value), abs(found.bound)), WORTH * self._first)
        return abs(found.gap) / max(worth, np.finfo(float).tiny)

    def _put(self, joint: Joint, state: State) -> None:
        """Enter where the clients are and what their constraints and agreements cost."""
        compiled = self._compiled
        state.points, given, state.mu = joint.answer()
        state.sides = compiled.stacked.at(state.points)
        state.received = state.sides[::-1].copy()
        nothing = (Encoding.ROWS, np.zeros(0))
        held = Multipliers.joined([given.get(name, nothing) for name in compiled.layout])
        state.hold(slice(0, len(compiled)), held)
