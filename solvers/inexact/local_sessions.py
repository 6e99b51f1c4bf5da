"""The sessions of the inexact solvers: the steps of all clients of a turn together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import ROOM
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.smooth import Smooth
from dald_model.solvers.base import Answers, Multipliers, Turn
from dald_model.solvers.prox.operators import Landed, Prox


class _Session:
    """What the three share: the clients' data, never their points."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._smooth = Smooth(subproblems)
        self._augmented = Augmented(subproblems)
        self._sizes = self._smooth.sizes

    def _slopes(self, turn: Turn, points: np.ndarray, penalised: bool = True) -> np.ndarray:
        """The gradient of the smooth part, with the augmented terms or without."""
        slopes = self._smooth.gradients(turn.which, points)
        if penalised:
            self._augmented.add_gradients(turn, points, slopes)
        return slopes

    def _slack(self, turn: Turn, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest entries of the clients' gradients, also relative to the natural slopes."""
        scaled = gradients / turn.slopes if turn.slopes.size else gradients
        return self._largest(turn.which, gradients), self._largest(turn.which, scaled)

    def _largest(self, which: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The largest absolute entry of every client."""
        sizes = self._sizes[which]
        if (sizes == sizes[0]).all():
            table = values.reshape(which.size, -1)
            return np.maximum(table.max(axis=1), -table.min(axis=1))
        return np.maximum.reduceat(np.abs(values), np.cumsum(sizes) - sizes)

    def _answers(
        self,
        turn: Turn,
        points: np.ndarray,
        slack: tuple[np.ndarray, np.ndarray],
        reason: str,
        landed: Landed | None = None,
    ) -> Answers:
        """The answers at the last points; ``reason`` is why an iterate may be nowhere."""
        which = turn.which
        objectives = self._smooth.objectives(which, points)
        statuses, messages = ["optimal"] * which.size, {}
        failed = ~(np.isfinite(objectives) & np.isfinite(slack[0]))
        said = landed.messages if landed else {}
        if failed.any() or said:
            sizes = self._sizes[which]
            stops = np.cumsum(sizes)
            begins = self._smooth.objectives(which, turn.points)
            for i in sorted({*np.flatnonzero(failed).tolist(), *said}):
                part = slice(int(stops[i] - sizes[i]), int(stops[i]))
                is_finite = np.isfinite(points[part]).all()
                left = "the domain of its objective" if is_finite else "the finite numbers"
                told = "its point is outside of the domain of its objective"
                told = reason.format(left) if np.isfinite(begins[i]) else told
                statuses[i], messages[i] = said.get(i, ("solver_error", told))
                points[part] = objectives[i] = slack[0][i] = slack[1][i] = np.nan
        held = landed.multipliers() if landed else Multipliers.none(which.size)
        return Answers(points, objectives, statuses, held, messages, *slack)


@dataclass(frozen=True)
class Plan:
    """The steps of a turn, see :class:`dald_model.solvers.inexact.local.GradientSteps`."""

    step: float
    count: int
    penalised: bool
    from_neighbour: bool


class GradientSession(_Session):
    """Gradient steps by a plan."""

    def __init__(self, subproblems: Sequence[Subproblem], plan: Plan) -> None:
        super().__init__(subproblems)
        self._plan = plan
        self._reason = f"the step {plan.step:g} is too large: the iterate left {{}}"

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        plan, turn = self._plan, self._begun(turn)
        points = slopes = turn.points
        with np.errstate(all="ignore"):
            for _ in range(plan.count):
                slopes = self._slopes(turn, points, plan.penalised)
                points = points - plan.step * slopes
            slack = self._slack(turn, slopes)
            return self._answers(turn, points, slack, self._reason)

    def _begun(self, turn: Turn) -> Turn:
        # The sides of these clients are their variables, so a neighbour's value is a point
        return turn._replace(points=turn.neighbours) if self._plan.from_neighbour else turn


class CorrectedSession(GradientSession):
    """Gradient steps with the prices and without the penalties."""

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        return super().minimise(turn._replace(rho=np.zeros(turn.rho.size)), tolerance)


class NewtonStepsSession(_Session):
    """Newton's steps."""

    def __init__(self, subproblems: Sequence[Subproblem], count: int, damping: float) -> None:
        super().__init__(subproblems)
        self._count, self._damping = count, damping

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        points = slopes = turn.points
        with np.errstate(all="ignore"):
            for _ in range(self._count):
                slopes = self._slopes(turn, points)
                points = points - self._damping * self._directions(turn, points, slopes)
            slack = self._slack(turn, slopes)
            reason = "the Hessian is singular or the full step is too large: the iterate left {}"
            return self._answers(turn, points, slack, reason)

    def _directions(self, turn: Turn, points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The Hessians' solutions for the gradients, some clients of one size at a time."""
        found, sizes = np.empty(points.size), self._sizes[turn.which]
        starts = np.cumsum(sizes) - sizes
        for size in np.unique(sizes).tolist():
            alike = np.flatnonzero(sizes == size)
            at_once = max(1, ROOM // (8 * size**2))
            for part in np.array_split(alike, range(at_once, alike.size, at_once)):
                columns = starts[part][:, None] + np.arange(size)
                which = turn.which[part]
                hessians = np.stack(self._smooth.hessians(which, points[columns].ravel()))
                hessians += self._augmented.part_hessians(turn, part)
                found[columns] = _solved(hessians, slopes[columns])
        return found


class ProximalSession(GradientSession):
    """Proximal gradient steps by a plan."""

    def __init__(self, subproblems: Sequence[Subproblem], plan: Plan) -> None:
        super().__init__(subproblems, plan)
        self._prox = Prox(subproblems)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        plan, turn, landed = self._plan, self._begun(turn), None
        points = before = turn.points
        with np.errstate(all="ignore"):
            for _ in range(plan.count):
                ahead = self._slopes(turn, points, plan.penalised)
                ahead *= -plan.step
                ahead += points
                landed = self._prox(turn.which, ahead, plan.step)
                before, points = points, landed.points
            slack = self._slack(turn, (before - points) / plan.step)
            return self._answers(turn, points, slack, self._reason, landed)


def _solved(hessians: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The solutions of k systems; NaN where the matrix is singular."""
    try:
        return np.linalg.solve(hessians, slopes[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:  # does not say which one it was
        if len(hessians) == 1:
            return np.full(slopes.shape, np.nan)
        each = [_solved(h[None], g[None]) for h, g in zip(hessians, slopes, strict=True)]
        return np.concatenate(each)
