"""A run watched from inside and replayed with numpy: what each turn did to the Lagrangian."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.solvers import Answers, Choice, Turn
from tests.duals import joined
from tests.zoo import Array

CONIC = 2e-6
"""What can be had of Clarabel's points instead, see ``test_iterates``."""
ROUNDING = 1e-13
"""Some hundred additions in double precision, relative to the sum of the sizes of the terms."""


@dataclass
class Watch:
    """Solver, algorithm and penalty rule at once: "auto", DALD and ``grow`` times the penalty."""

    spread: float = 2.0
    start: float = 1.0
    grow: float = 1.0
    loops: int = 2
    turns: list[tuple[int, dm.Subproblem, Turn, Array]] = field(default_factory=list)
    outer: int = 0
    name, batches, is_exact, period = "watch", False, False, 1

    def refuses(self, subproblem: dm.Subproblem) -> str:
        return ""

    def open(self, subproblems: Sequence[dm.Subproblem]) -> Any:
        choice = Choice("auto")
        sessions = [choice.chain(sub)[0].open([sub]) for sub in subproblems]

        def minimise(turn: Turn, tolerance: float) -> Answers:
            stops = np.cumsum([subproblems[at].entries.size for at in turn.which])
            parts = [np.split(vector, stops[:-1]) for vector in turn[1:4]]
            found: list[Answers] = []
            for at, *mine in zip(turn.which, *parts, strict=True):
                one = Turn(np.zeros(1, int), *mine)
                found.append(sessions[at].minimise(one, tolerance))
                assert found[-1].statuses == ["optimal"], found[-1].messages
                self.turns.append((self.outer, subproblems[at], one, found[-1].points.copy()))
            return Answers(
                np.concatenate([one.points for one in found]),
                np.concatenate([one.objectives for one in found]),
                ["optimal"] * len(found),
                joined(found),
                {},
            )

        return SimpleNamespace(minimise=minimise)

    def init(self, compiled: dm.Compiled) -> Array:
        """Uneven penalties, entry by entry, but for ``spread`` 1."""
        uneven = np.random.default_rng(0).uniform(-0.5, 0.5, compiled.size)
        return self.start * self.spread**uneven

    @property
    def algorithm(self) -> Any:
        own = {"update": self.multipliers, "accelerates": False}
        return SimpleNamespace(open=lambda compiled: replace(dm.DALD().open(compiled), **own))

    def multipliers(self, mu: Array, rho: Array, gap: Array) -> Array:
        self.outer += 1
        if self.outer == self.loops:
            raise KeyboardInterrupt  # that is enough; ends the run in good order
        return dm.DALD().update(mu, rho, gap)

    def update(self, state: Any, outer: int) -> Array:
        return self.grow * state.rho


@dataclass
class At:
    """All clients at one moment; ``told`` and ``slack`` are of each one's last turn."""

    points: dict[Hashable, Array]
    sides: Array
    costs: dict[Hashable, float]
    mu: Array
    rho: Array
    told: Array
    slack: dict[Hashable, float]
    compiled: dm.Compiled

    @property
    def gap(self) -> Array:
        return self.sides[0] - self.sides[1]

    @property
    def next(self) -> Array:
        """Equations (15) and (22)."""
        return self.mu + 2 * self.rho * self.rho * self.gap

    @property
    def value(self) -> float:
        """Equations (10) and (18)."""
        return sum(self.costs.values()) + float(self.mu @ self.gap + self.rho**2 @ self.gap**2)

    @property
    def rounding(self) -> float:
        sizes = np.abs(self.sides).sum(axis=0)
        terms = np.abs(list(self.costs.values())).sum() + np.abs(self.mu) @ sizes
        return ROUNDING * float(1 + terms + self.rho**2 @ sizes**2)

    def short(self, sides: Array) -> float:
        r"""S of (III) summed: :math:`\Lambda(x) - \Lambda(y) \le S` for any y with these sides.

        Each client's :math:`\nabla\varphi_i` is that of :math:`\Lambda` plus
        :math:`2\rho^2\circ` (its neighbour now less what it was told), see (A1-5) and (A2-3).
        """
        away = self.sides - sides
        total = float((2 * self.rho**2 * (self.told - self.sides[::-1]) * away).sum())
        for name, sub in self.compiled.items():
            q = float(np.linalg.norm(self.rho[sub.entries] * away[sub.rows, sub.entries]))
            root = np.sqrt(self.slack[name])
            total += 2 * q * root if root <= q else root**2 + q**2
        return total


def put(sub: dm.Subproblem, point: Array) -> None:
    for variable in sub.variables:
        variable.save_value(sub.spread(point)[variable.id])


def side_of(compiled: dm.Compiled, name: Hashable) -> Array:
    """A client's sides at the values of its variables, from the user's own expressions."""
    mine: list[Any] = [edge.side(name).value for edge in compiled.edges if name in edge.ends]
    return np.concatenate(mine)


def gradient_of(sub: dm.Subproblem, expression: cp.Expression) -> Array:
    """Cvxpy's (sub)gradient at the values of the variables, shape (m, size)."""
    found = expression.grad
    blank = {v.id: np.zeros((v.size, expression.size)) for v in sub.variables}
    known = {v.id: (g.toarray() if hasattr(g, "toarray") else g) for v, g in found.items()}
    return np.vstack([np.reshape((blank | known)[v.id], blank[v.id].shape) for v in sub.variables])


def is_constrained(sub: dm.Subproblem) -> bool:
    return bool(sub.client.constraints) or any(v.is_psd() for v in sub.variables)


@dataclass
class Step:
    """One turn: the fall of the augmented Lagrangian; what (I), (II) of ``test_theory`` promise."""

    name: Hashable
    first: bool
    fall: float
    promised: float
    rounding: float


def _slack(at: At, sub: dm.Subproblem, G: Array, off: float, x: Array) -> tuple[float, Array]:
    """Epsilon of (I) where the client is at x now, and by how much its sides may be off."""
    slope = sub.signs * at.next[sub.entries]
    e = off * np.maximum(1.0, np.abs(x))
    return float(np.abs(gradient_of(sub, sub.client.cost)[:, 0] + G.T @ slope) @ e), np.abs(G) @ e


def _cost(sub: dm.Subproblem) -> float:
    cost: Any = sub.client.cost.value
    return float(cost or 0.0)  # a server has none


def replay(
    compiled: dm.Compiled, watch: Watch, accuracy: float, turn_by_turn: bool
) -> Iterator[list[Step] | At | None]:
    """The steps of each inner loop, then where it ended.

    Without ``turn_by_turn`` the steps are None: each takes a gradient by cvxpy, and
    where a loop ended takes those of each client's last turn alone.
    """
    zero = {name: np.zeros(sub.size) for name, sub in compiled.items()}
    sides, costs, maps, solvers = np.zeros((2, compiled.size)), {}, {}, {}
    for name, sub in compiled.items():
        put(sub, zero[name])
        sides[sub.rows, sub.entries] = side_of(compiled, name)
        costs[name] = _cost(sub)
        given = [gradient_of(sub, e.side(name)) for e in compiled.edges if name in e.ends]
        maps[name] = np.hstack(given).T
        solvers[name] = Choice("auto").chain(sub)[0].name
    nothing = np.zeros(compiled.size)
    rho = watch.init(compiled)
    at = At(zero, sides, costs, nothing, rho, sides[::-1].copy(), {}, compiled)
    for outer in range(watch.loops):
        steps: list[Step] = []
        turns = [t for t in watch.turns if t[0] == outer]
        last = {sub.name: i for i, (_, sub, _, _) in enumerate(turns)}
        for i, (_, sub, turn, point) in enumerate(turns):
            name, mine = sub.name, sub.entries
            np.testing.assert_allclose(turn.mu, at.mu[mine], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(turn.rho, at.rho[mine], rtol=1e-12)
            told = at.sides[1 - sub.rows, mine].copy()
            np.testing.assert_allclose(turn.neighbours, told, rtol=1e-12, atol=1e-12)
            off = max(accuracy, CONIC) if solvers[name] == "conic" else accuracy
            off = 0.0 if sub.client.is_server else off / (1 - off)
            before, first = at.value if turn_by_turn else 0.0, name not in at.slack
            G, weight = maps[name], at.rho[mine]

            was, spare = at.sides[sub.rows, mine].copy(), 0.0
            if turn_by_turn and is_constrained(sub) and not first:
                # The old point may be off its set; a point of the set is this near.
                put(sub, at.points[name])
                spare, wide = _slack(at, sub, G, off, at.points[name])
                spare += float(weight**2 @ wide**2)
            put(sub, point)
            own = side_of(compiled, name)
            at.sides[sub.rows, mine] = own
            at.told[sub.rows, mine] = told
            at.costs[name] = _cost(sub)
            at.points[name] = point
            if not (turn_by_turn or last[name] == i):
                continue
            at.slack[name], wide = _slack(at, sub, G, off, point)
            if not turn_by_turn:
                continue
            moved = np.linalg.norm(weight * (own - was)) - np.linalg.norm(weight * wide)
            promised = max(0.0, float(moved)) ** 2 - at.slack[name] - spare
            steps.append(Step(name, first, before - at.value, promised, at.rounding))
        yield steps if turn_by_turn else None
        yield At(
            dict(at.points), at.sides.copy(), dict(at.costs), at.mu, at.rho, at.told.copy(),
            dict(at.slack), compiled,
        )  # fmt: skip
        at.mu, at.rho = at.next, watch.grow * at.rho
