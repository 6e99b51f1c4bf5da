r"""A solver in one file: clients that keep near to a point of their own, by the formula.

Of a client whose objective is :math:`\|x - t\|^2` and whose sides are :math:`x` itself, the
augmented Lagrangian is least at

.. math:: x = (2 t \mp \mu + 2 \rho^2 \circ z) / (2 + 2 \rho^2).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.solvers import Answers, Multipliers, Session, Turn


class ByFormula:
    """What ``solve(solver=...)`` takes: a name, three questions, and a session for each run."""

    name = "by formula"
    batches = False  # clients may have any sizes
    is_exact = True  # answers depend on the turn alone

    def __init__(self, targets: Mapping[Any, np.ndarray]) -> None:
        self.targets = targets

    def refuses(self, subproblem: dm.Subproblem) -> str:
        """Why a client cannot be taken; empty if it can."""
        known = subproblem.name in self.targets and subproblem.signs.size == subproblem.size
        return "" if known else "it has no target, or several edges"

    def open(self, subproblems: Sequence[dm.Subproblem]) -> Session:
        """Warm starts and factors of a run would live in what is returned."""
        return Formula([self.targets[sub.name] for sub in subproblems], subproblems)


class Formula:
    """One run over a list of clients."""

    def __init__(self, targets: list[np.ndarray], subproblems: Sequence[dm.Subproblem]) -> None:
        self.targets, self.subproblems = targets, subproblems

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """Answer for the clients of a turn."""
        clients = [self.subproblems[at] for at in turn.which]
        points, objectives = [], []
        for at, sub, one in zip(turn.which, clients, turn.each(clients), strict=True):
            target, weight = self.targets[at], 2 * one.rho**2
            point = (2 * target - sub.signs * one.mu + weight * one.neighbours) / (2 + weight)
            points.append(point)
            objectives.append(np.sum((point - target) ** 2))
        count = len(clients)
        return Answers(
            np.concatenate(points),
            np.array(objectives),
            ["optimal"] * count,
            Multipliers.none(count),
            {},
        )


if __name__ == "__main__":
    targets = {name: np.array([i, -i, 2.0]) for i, name in enumerate("abc")}
    w, model = cp.Variable(3, name="w"), dm.Model("near to a point")
    for name, target in targets.items():
        model.client(name, cp.sum_squares(w - target))
    result = model.solve(solver=ByFormula(targets))
    print(result.status, result["w"].round(4), result.verify().ok)  # optimal [ 1. -1.  2.] True
