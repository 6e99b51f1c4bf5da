r"""Diagnosis of a run that does not converge: infeasible, unbounded, diverged or stalled."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.certificates import conflict_of, has_point, is_proved_infeasible, proof
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Termination
from dald_model.schedule.round_state import Residuals

LOOK_EVERY = 25
"""Rounds between two looks."""
ROUNDS_STALLED = 500
"""Rounds without improvement after which a run counts as stalled; kinks may take hundreds."""
ROUNDS_DOUBTED = 50
"""The same after which it is asked, once, whether there is an optimum at all: proposals of an
acceleration keep the residuals of an infeasible problem from being steady."""
DIVERGED_BY = 1e8
"""A residual this many times its size in the first rounds counts as diverged."""
STEADY = 2e-2
"""Relative change between two looks below which a residual counts as steady."""
REMEDY = "disclose='curvature', if clients may show sums of their curvature"
"""The way out for owners whose answers jump with the prices, as those of linear programmes do."""
LASTING = 0.9
"""Share of their speed between two looks that points drift which go on like that the same way."""


class _Look(NamedTuple):
    """Round, gaps and points in natural lengths."""

    round: int
    gap: np.ndarray
    points: np.ndarray


@dataclass
class FailureMonitor:
    """Monitor for failure: every round briefly, every 25th with certificates.

    ``remedy`` is what to try where the residuals grow. ``proves`` says whether a problem without an
    optimum is a failure: one that ends at rest is coupled by its penalties alone.
    """

    compiled: Decomposition
    remedy: str
    proves: bool = True
    patience: float = ROUNDS_STALLED
    _early: float = 0.0
    _best: float = np.inf
    _since: int = 0
    _looked: int = 0
    _inner: float = np.inf
    _looks: list[_Look] = field(default_factory=list)
    _is_sound: bool = False

    def renew(self, round_: int) -> None:
        """The problem is another one from this round on."""
        self._best, self._since = np.inf, round_
        self._looks, self._is_sound = [], False

    def look(
        self, round_: int, inner: int, state: State, found: Residuals, merit: float
    ) -> Termination | None:
        """A termination if the run has failed, else None; ``inner`` counts from 1."""
        self.count(round_, inner, found, merit)
        worst = max(found.primal_scaled, found.dual_scaled)
        if round_ // LOOK_EVERY > self._looked and (termination := self._closely(round_, state)):
            return termination
        self._looked = round_ // LOOK_EVERY
        is_out = not math.isfinite(worst) or worst > DIVERGED_BY * self._early
        is_stuck = round_ - self._since >= self.patience
        is_doubtful = is_stuck or round_ - self._since >= ROUNDS_DOUBTED
        if (is_out or is_doubtful) and (termination := self.prove(state)):
            return termination
        if is_out:
            edge = self._worst_edge(state)
            return Termination(
                Status.DIVERGED,
                edge,
                f"the residuals reached {worst:.1e}, the largest on edge {edge}; try {self.remedy}",
            )
        if is_stuck:
            edge = self._worst_edge(state)
            return Termination(
                Status.STALLED,
                edge,
                f"no improvement for {self.patience} rounds; the largest residual is on edge "
                f"{edge}; see result.diagnose(), then try another solver (solver='CLARABEL'), rho "
                f"left to its default, or solve(start=result), or {REMEDY}; last, a larger "
                "eps_pri and eps_dual",
            )
        return None

    def count(self, round_: int, inner: int, found: Residuals, merit: float) -> None:
        """Count a round."""
        worst = max(found.primal_scaled, found.dual_scaled)
        if round_ <= 10:
            self._early = max(self._early, worst, 1.0)
        if merit < 0.99 * self._best:
            self._best, self._since = merit, round_
        # Multipliers stay within an inner loop, so there only the dual residual has to fall.
        if inner == 1:
            self._inner = found.dual_scaled
        elif found.dual_scaled < 0.99 * self._inner:
            self._inner, self._since = found.dual_scaled, round_

    def explain(self, state: State, failure: Termination) -> Termination:
        """The end of a run by a client's failure, explained by the run so far.

        Whether a client is feasible, and bounded along directions that no consensus holds, does
        not change from round to round; a solver that says so of a client it has solved before has
        met the numbers of a run that does not converge.
        """
        name = failure.culprit
        if name is None:
            return failure
        if not state.solved([self.compiled.places[name]]):
            sub = self.compiled[name]
            if failure.status == Status.INFEASIBLE and not is_proved_infeasible(sub):
                said = (
                    f"the solver called client {name!r} infeasible, which cannot be proved; scale"
                )
                told = f"{said} the client's data or choose another solver by the option solver"
                if has_point(sub):
                    told = (
                        f"client {name!r} is feasible, but its solver finds no minimiser of its "
                        f"objective alone; bound its variables, or solve with {REMEDY}"
                    )
                return Termination(Status.SOLVER_ERROR, name, told)
            if failure.status == Status.INFEASIBLE:
                told = conflict_of(self.compiled, sub)
                known = f", since {told}; relax" if told else "; relax"
                return failure._replace(detail=failure.detail.replace("; relax", known))
            return failure
        closer = self.prove(state)
        if closer is not None or failure.status == Status.SOLVER_ERROR:
            return closer or failure
        return Termination(
            Status.SOLVER_ERROR,
            failure.culprit,
            f"the solver called client {failure.culprit!r} {failure.status}, which it had solved "
            "before; its iterate is too large or too badly scaled; scale the data or choose "
            "another solver by the option solver",
        )

    def _closely(self, round_: int, state: State) -> Termination | None:
        """A proof of infeasibility or unboundedness, tried where the iterates suggest one."""
        units = state.units
        now = _Look(round_, state.primal / units.lengths, state.points / units.point_lengths)
        if not self._looks:  # runs begin at the clients' own answers
            self._looks = [_Look(0, 0 * now.gap, units.start / units.point_lengths)]
        self._looks = [*self._looks[-2:], now]
        before, moved = self._looks[-2], np.abs(state.dual / state.units.lengths).max()
        gap, most = np.linalg.norm(now.gap), np.abs(now.gap).max()
        apart = gap > 0 and np.linalg.norm(now.gap - before.gap) <= STEADY * gap
        if (apart and moved <= STEADY * most) or self._drifts():
            return self.prove(state)
        return None

    def _drifts(self) -> bool:
        """Whether the points moved as far between the last two looks as before, and the same way.

        Those of a run that converges move less and less.
        """
        if len(self._looks) < 3:
            return False
        one, two, three = self._looks
        first = (two.points - one.points) / (two.round - one.round)
        last = (three.points - two.points) / (three.round - two.round)
        before, now = np.linalg.norm(first), np.linalg.norm(last)
        return bool(now >= LASTING * before > 0 and first @ last >= LASTING * before * now)

    def prove(self, state: State) -> Termination | None:
        """A proof that the problem has no solution; tried once, as the problem stays the same."""
        if self._is_sound or not self.proves:
            return None
        found = proof(self.compiled, state)
        self._is_sound = found is None
        if found is None:
            return None
        if found.status == Status.UNBOUNDED:
            goes = "falls" if self.compiled.sense > 0 else "rises"
            return Termination(
                Status.UNBOUNDED,
                found.client,
                f"the objective {goes} without bound along a direction on which all clients agree; "
                f"it {goes} fastest at client {found.client!r}; add a constraint or a regulariser",
            )
        edge, gaps = self._worst_edge(state), np.abs(state.primal)
        said = f": on edge {edge} the sides stay {gaps.max():.3g} apart; relax a constraint of one"
        if found.conflict:
            said = f" on edge {edge}, since {found.conflict}; relax a constraint by more than that"
        told = f"every client is feasible, but they cannot agree{said}"
        return Termination(Status.INFEASIBLE, edge, told)

    def _worst_edge(self, state: State) -> tuple[Hashable, Hashable]:
        """The edge whose ends are farthest apart; the first of those that are as far."""
        gaps = np.nan_to_num(np.abs(state.primal), nan=np.inf)
        far = {ends: gaps[slot].max() for ends, slot in self.compiled.slots.items()}
        # The first of those that are as far apart as any: gaps still move by so much
        return next(ends for ends, gap in far.items() if gap >= (1 - STEADY) * max(far.values()))
