"""Clients a - b - c, each at a point of the plane: rounds and optima in closed form, and a spy."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.solvers import Answers, Solver, Turn
from tests.expect import near

TARGETS = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 2.0]])


def chain() -> tuple[dm.Model, list[cp.Variable]]:
    """Clients a - b - c, each at a point of the plane; the mean wins."""
    x = [cp.Variable(2, name=f"x{i}") for i in range(3)]
    model = dm.Model("chain")
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x


ONE = dm.FixedBudget(v_max=1)


def by_hand(rho: Any, rounds: int, v_max: int = 1, step: float = 1.0) -> list[np.ndarray]:
    """The paper's recursion (20)-(22) for ``chain`` in the order (a, c), b: closed forms."""
    rho = np.broadcast_to(np.asarray(rho, float), (2, 2))  # edges ab and bc, entry by entry
    weight = 2 * rho**2
    x, mu, found = np.zeros((3, 2)), np.zeros((2, 2)), []
    for round_ in range(1, rounds + 1):
        x[0] = (2 * TARGETS[0] - mu[0] + weight[0] * x[1]) / (2 + weight[0])
        x[2] = (2 * TARGETS[2] + mu[1] + weight[1] * x[1]) / (2 + weight[1])
        pull = mu[0] - mu[1] + weight[0] * x[0] + weight[1] * x[2]
        x[1] = (2 * TARGETS[1] + pull) / (2 + weight[0] + weight[1])
        if round_ % v_max == 0:
            mu = mu + step * weight * np.array([x[0] - x[1], x[1] - x[2]])
        found.append(x.copy())
    return found


def follows(expected: list[np.ndarray], **options: Any) -> None:
    """Each round's objective and residuals, and the last point, are those of the recursion."""
    model, x = chain()
    options = {"stopping": ONE} | options
    result = model.solve(max_rounds=len(expected), eps_pri=0, eps_dual=0, **options)
    history = result.history
    for at, points in enumerate(expected):
        row = history.iloc[at]
        assert row.objective == near(np.sum((points - TARGETS) ** 2))
        assert row.primal == near(np.abs(np.diff(points, axis=0)).max())
        moved = points[1] - (expected[at - 1][1] if at else 0)
        assert row.dual == near(np.abs(moved).max())
    assert np.array([result[v] for v in x]) == near(expected[-1])


def capped() -> tuple[dm.Model, list[cp.Variable], Any]:
    """``chain`` with x1[0] <= 7/2, where the mean is 4: 2 (12 - 3 * 7/2) = 3 is its dual value."""
    model, x = dm.Model("capped"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    rule = x[1][0] <= 3.5
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t), [rule] if name == "b" else [])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x, rule


def fenced() -> tuple[dm.Model, cp.Variable]:
    """Every client has the cap of ``capped``."""
    model, x = dm.Model("fenced"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t), [v[0] <= 3.5])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def diamond() -> tuple[dm.Model, cp.Variable]:
    """Every client in a ball of the 1-norm: the mean (4, 3) is shrunk by one to lie in it."""
    model, x = dm.Model("diamond"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t), [cp.norm1(v) <= 5])
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def grouped() -> tuple[dm.Model, cp.Variable]:
    """Each with the 2-norm: x (1 + 1/2 / |x|) is the mean (4, 3), so x is 9/10 of it."""
    model, x = dm.Model("grouped"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v - t) + cp.norm(v, 2))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def ranked() -> tuple[dm.Model, cp.Variable]:
    """The same as :func:`grouped`: of a matrix of one column the nuclear norm is that norm."""
    model, x = dm.Model("ranked"), [cp.Variable(2, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        norm = cp.normNuc(cp.reshape(v, (2, 1), order="F"))
        model.client(name, cp.sum_squares(v - t) + norm)
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def broad() -> tuple[dm.Model, cp.Variable]:
    """300 variables, least squares in the first two, with an l1 norm, and all others at zero."""
    model, x = dm.Model("broad"), [cp.Variable(300, name=f"x{i}") for i in range(3)]
    for name, v, t in zip("abc", x, TARGETS, strict=True):
        model.client(name, cp.sum_squares(v[:2] - t) + cp.norm1(v))
    model.consensus(x[0] == x[1], x[1] == x[2])
    return model, x[0]


def bounded() -> tuple[dm.Model, cp.Variable]:
    """The same as :func:`curved`, by bounds that each has for itself."""
    x, y, tops = cp.Variable(name="x"), cp.Variable(name="y"), cp.Variable(2)
    model = dm.Model("bounded")
    model.client("a", tops[0], [cp.exp(x) <= tops[0]])
    model.client("b", tops[1], [4 * cp.exp(-y) <= tops[1]])
    model.consensus(x == y)
    return model, x


def curved() -> tuple[dm.Model, cp.Variable]:
    """exp(x) + 4 exp(-x) is least at log 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    model = dm.Model("curved")
    model.client("a", cp.exp(x))
    model.client("b", 4 * cp.exp(-y))
    model.consensus(x == y)
    return model, x


def plain() -> tuple[dm.Model, cp.Variable]:
    model, x = chain()
    return model, x[0]


MEAN = TARGETS.mean(axis=0)

TAKEN: dict[str, tuple[Callable[[], tuple[dm.Model, cp.Variable]], Any]] = {
    "factor": (plain, MEAN),
    "active_set": (fenced, [3.5, MEAN[1]]),
    "semismooth": (grouped, 0.9 * MEAN),
    "conic": (diamond, MEAN - 1),
    "low_rank": (broad, np.append(MEAN - 1 / 2, np.zeros(298))),
    "newton": (curved, math.log(2)),
    "barrier": (bounded, math.log(2)),
    "nuclear": (ranked, 0.9 * MEAN),
}
"""Solver -> a model that it takes and is the fastest for, and where the optimum is."""


class Spy:
    """A solver, which writes down whose turn it was and how exact it was to be."""

    def __init__(self, solver: Solver) -> None:
        self.name, self.batches, self.is_exact = "spy", solver.batches, solver.is_exact
        self.refuses = solver.refuses
        self.solver = solver
        self.turns: list[tuple[Any, ...]] = []
        self.tolerances: list[float] = []

    def open(self, subproblems: Sequence[Any]) -> Any:
        session = self.solver.open(subproblems)

        def minimise(turn: Turn, tolerance: float) -> Answers:
            self.turns.append(tuple(subproblems[i].name for i in turn.which))
            self.tolerances.append(tolerance)
            return session.minimise(turn, tolerance)

        return SimpleNamespace(minimise=minimise)
