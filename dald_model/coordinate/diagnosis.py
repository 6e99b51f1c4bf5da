r"""Diagnosis of a run that does not converge: infeasible, unbounded, diverged or stalled."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status, Termination
from dald_model.schedule.moment import Residuals
from dald_model.values import REFUSALS, evaluated, largest, number, preserved

PERIOD = 25
"""Rounds between two looks."""
PATIENCE = 500
"""Rounds without improvement after which a run counts as stalled; kinks may take hundreds."""
GROWTH = 1e8
"""A residual this many times its size in the first rounds counts as diverged."""
STEADY = 2e-2
"""Relative change between two looks below which a residual counts as steady."""


@dataclass
class FailureMonitor:
    """Monitor for failure: every round briefly, every 25th with certificates."""

    compiled: Decomposition
    patience: float = PATIENCE
    _early: float = 0.0
    _best: float = np.inf
    _since: int = 0
    _looked: int = 0
    _inner: float = np.inf
    _looks: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def renew(self, round_: int) -> None:
        """The problem is another one from this round on."""
        self._best, self._since, self._looks = np.inf, round_, []

    def look(
        self, round_: int, inner: int, state: State, found: Residuals, merit: float
    ) -> Termination | None:
        """A termination if the run has failed, else None; ``inner`` counts from 1."""
        self.count(round_, inner, found, merit)
        worst = max(found.primal, found.dual)
        if round_ // PERIOD > self._looked and (termination := self._closely(state)):
            return termination
        self._looked = round_ // PERIOD
        if not np.isfinite(worst) or worst > GROWTH * self._early:
            edge = self._worst_edge(state)
            return Termination(
                Status.DIVERGED,
                edge,
                f"the residuals reached {worst:.1e}, the largest on edge {edge}; try a smaller "
                "dual step, the default rho, or a stopping condition with more inner loops",
            )
        if round_ - self._since >= self.patience:
            edge = self._worst_edge(state)
            return Termination(
                Status.STALLED,
                edge,
                f"no improvement for {self.patience} rounds; the largest residual is on edge "
                f"{edge}; ask for a larger eps_pri and eps_dual, a more accurate solver, or leave "
                "rho to its default",
            )
        return None

    def count(self, round_: int, inner: int, found: Residuals, merit: float) -> None:
        """Take note of a round."""
        worst = max(found.primal, found.dual)
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
        """What a client's failure means in the light of the run so far.

        Whether a client is feasible, and bounded along directions that no consensus holds, does
        not change from round to round; a solver that says so of a client it has solved before has
        met the numbers of a run that does not converge.
        """
        if not state.solved([self.compiled.places[failure.culprit]]):
            return failure
        closer = self._closely(state)
        if closer is not None or failure.status == Status.SOLVER_ERROR:
            return closer or failure
        return Termination(
            Status.SOLVER_ERROR,
            failure.culprit,
            f"the solver called client {failure.culprit!r} {failure.status}, which it had solved "
            "before; its iterate is too large or too badly scaled; scale the data or choose "
            "another solver by the option solver",
        )

    def _closely(self, state: State) -> Termination | None:
        now = state.primal.copy(), state.points.copy()
        self._looks = [*self._looks[-1:], now]
        if len(self._looks) < 2:
            return None
        (gap_before, points_before), (gap, points) = self._looks
        size = np.linalg.norm(gap)
        moved = np.abs(state.dual).max()
        if (
            size > 0
            and np.linalg.norm(gap - gap_before) <= STEADY * size
            and (moved <= STEADY * np.abs(gap).max())
        ):
            # The multipliers run away along this direction, so it is the one that separates.
            pull = state.rho**2 * gap
            excess = consensus_gap(self.compiled, state, pull / np.linalg.norm(pull))
            if excess is not None and excess > 0:
                edge = self._worst_edge(state)
                return Termination(
                    Status.INFEASIBLE,
                    edge,
                    f"every client is feasible, but they cannot agree: on edge {edge} the sides "
                    f"stay {np.abs(gap).max():.3g} apart; relax a constraint of one of them",
                )
        mover = falling(self.compiled, state, points - points_before)
        if mover is not None:
            return Termination(
                Status.UNBOUNDED,
                mover,
                f"the objective falls without bound along a direction on which all clients agree; "
                f"it falls fastest at client {mover!r}; add a constraint or a regulariser",
            )
        return None

    def _worst_edge(self, state: State) -> tuple[Hashable, Hashable]:
        gaps = np.nan_to_num(np.abs(state.primal), nan=np.inf)
        return max(self.compiled.slots, key=lambda ends: gaps[self.compiled.slots[ends]].max())


def consensus_gap(compiled: Decomposition, state: State, direction: np.ndarray) -> float | None:
    r"""A Farkas certificate that the consensus is infeasible, if positive.

    For a direction :math:`v` the sum over the clients of
    :math:`\min_{x_i \in X_i} \pm v^\top (G_i x_i + g_i)` bounds :math:`v^\top \mathcal C` from
    below; if it is positive, no choice of the clients makes :math:`\mathcal C = 0`. The minimum is
    taken over a box of 10,000 times the size of the iterate, so that a direction known to a few
    digits certifies. None if a client's problem could not be solved.
    """
    total = 0.0
    for name, sub in compiled.items():
        weight = sub.signs * direction[sub.entries]
        radius = 1e4 * (1 + np.abs(state.points[compiled.columns[name]]).max())
        least = _least_in_box(sub, weight, radius)
        if least is None:
            return None
        total += least
    return total if total > 1e-6 else 0.0


def _least_in_box(sub: Subproblem, weight: np.ndarray, radius: float) -> float | None:
    matrix, offset = sub.sides
    x = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    rules = [*sub.client.constraints, *_domain(sub), cp.abs(x) <= radius]
    problem = cp.Problem(cp.Minimize((matrix.T @ weight) @ x + weight @ offset), rules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver=cp.CLARABEL)
    except REFUSALS:
        return None
    return number(problem.value) if problem.status == "optimal" else None


def _domain(sub: Subproblem) -> list[cp.Constraint]:
    """Where the client's objective is finite, as far as cvxpy can say it by convex constraints.

    It says some domains by constraints that are not DCP, such as that of ``power(abs(x), 1.5)``.
    Without them the minimum over more points is no larger, so a certificate remains one.
    """
    try:
        return [rule for rule in sub.client.cost.domain if rule.is_dcp()]
    except REFUSALS:
        return []


def _broken(sub: Subproblem) -> float:
    """The largest violation of the client's constraints; infinite where cvxpy computes none."""
    try:
        return max((largest(rule.violation()) for rule in sub.client.constraints), default=0.0)
    except REFUSALS:
        return np.inf


def falling(compiled: Decomposition, state: State, drift: np.ndarray) -> Hashable | None:
    r"""The client whose objective falls fastest if the drift is a direction of unboundedness.

    It is one if, following it for 100 and 10,000 times the size of the iterate, the sum of the
    objectives keeps falling in proportion and by more than what the sides drift apart is worth,
    constraints hold and the sides stay together.
    """
    length = np.abs(drift).max()
    size = 1 + np.abs(state.points).max()
    apart = np.zeros(compiled.size)
    for name, sub in compiled.items():
        apart[sub.entries] += sub.signs * (sub.sides[0] @ drift[compiled.columns[name]])
    if state.channels is not None:
        apart[state.channels.off] = 0.0  # nothing has to stay together there
    if length <= 1e-2 * size or np.abs(apart).max() > STEADY * length:
        return None
    reaches = 1e2 * size / length, 1e4 * size / length
    falls: dict[Hashable, float] = {}
    for name, sub in compiled.items():
        mine, costs = compiled.columns[name], []
        with preserved(sub.variables):
            for far in reaches:
                there = sub.spread(state.points[mine] + far * drift[mine])
                for v, value in zip(sub.variables, there.values(), strict=True):
                    v.save_value(value)
                with np.errstate(over="ignore", invalid="ignore"):
                    cost = evaluated(sub.client.cost)
                broken = _broken(sub)
                if not np.isfinite(cost) or not broken <= 1e-6 * far * length:
                    return None
                costs.append(cost)
        # Between the two: what is bounded below falls no more there, though it fell before.
        falls[name] = (costs[1] - costs[0]) / (reaches[1] - reaches[0])
    # The multipliers price what the sides drift apart: as much of the fall may come from that.
    priced = float(np.abs(state.estimate) @ np.abs(apart))
    if sum(falls.values()) + priced >= -1e-6 * length:
        return None
    return min(falls, key=lambda name: falls[name])
