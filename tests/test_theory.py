r"""Section IV as tests: what the theorems say of a run, and where they say too much.

A run is watched from inside and replayed with numpy: the augmented Lagrangian is the sum of the
clients' own cvxpy objectives plus :math:`\mu^\top\mathcal C + \|\rho\circ\mathcal C\|^2`, written
out below. No tolerance is fitted; all follow from one number. A client's answer is :math:`\delta`
off, :math:`|x_j - x_j^*| \le e_j = \delta\max(1, |x_j|) / (1 - \delta)`, where :math:`x^*` is best
for its augmented Lagrangian :math:`\Lambda_i`. With a subgradient g of it at x, by convexity

.. math:: \Lambda_i(x) \le \Lambda_i(x^*) + \varepsilon, \qquad \varepsilon = |g|^\top e. \tag{I}

Let side :math:`s = Gx + g`. :math:`\Lambda_i` less :math:`\|\rho \circ s\|^2` is convex, so that

.. math:: \Lambda_i(y) \ge \Lambda_i(x^*) + \|\rho \circ G (y - x^*)\|^2 \quad\text{for } y \in X_i.
    \tag{II}

(I) at :math:`x + t(y - x)` and the best t in (0, 1] give, with :math:`q = \|\rho \circ G(y - x)\|`,

.. math:: f_i(y) \ge f_i(x) - \nabla\varphi_i(x)^\top (y - x) - \eta(\varepsilon, q), \qquad
    \eta = 2 q \sqrt\varepsilon \text{ if } \sqrt\varepsilon \le q, \text{ else } \varepsilon + q^2,
    \tag{III}

where :math:`\varphi_i` are the augmented terms as the client was told its neighbours.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.compiled import Compiled
from dald_model.coordinate.method import Method
from dald_model.coordinate.state import State
from dald_model.solvers import Answers, Average, Choice, Turn
from tests.zoo import GRAPHS, PROBLEMS, Array, Built

EXACT = 1e-10
"""The accuracy asked for where a test is of exact minimisation."""
CONIC = 2e-6
"""What can be had of Clarabel's points instead, see ``test_iterates``."""
ROUNDING = 1e-13
"""Some hundred additions in double precision, relative to the sum of the sizes of the terms."""
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
"""Of the monolithic problems; their values are that far off, relative to max(1, size)."""
MONOLITHIC = 1e-9


# --- a run watched from inside --------------------------------------------------------------------


@dataclass
class Watch:
    """Solver, algorithm and penalty rule at once: "auto", DALD and ``grow`` times the penalty."""

    spread: float = 2.0
    start: float = 1.0
    grow: float = 1.0
    loops: int = 2
    turns: list[tuple[int, Subproblem, Turn, Array]] = field(default_factory=list)
    outer: int = 0
    name, batches = "watch", False

    def refuses(self, subproblem: Subproblem) -> str:
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Any:
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
                lambda i: found[i].duals(0),
                {},
            )

        return SimpleNamespace(minimise=minimise)

    def init(self, compiled: Compiled) -> Array:
        """Uneven penalties, entry by entry, but for ``spread`` 1."""
        uneven = np.random.default_rng(0).uniform(-0.5, 0.5, compiled.size)
        return self.start * self.spread**uneven

    @property
    def algorithm(self) -> Any:
        return SimpleNamespace(open=lambda compiled: Method(self.multipliers))

    def multipliers(self, mu: Array, rho: Array, gap: Array) -> Array:
        self.outer += 1
        if self.outer == self.loops:
            raise KeyboardInterrupt  # that is enough; ends the run in good order
        return dm.DALD().update(mu, rho, gap)

    def update(self, state: State, outer: int) -> Array:
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
    compiled: Compiled

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


def _put(sub: Subproblem, point: Array) -> None:
    for variable in sub.variables:
        variable.save_value(sub.spread(point)[variable.id])


def _side(compiled: Compiled, name: Hashable) -> Array:
    """A client's sides at the values of its variables, from the user's own expressions."""
    mine: list[Any] = [edge.side(name).value for edge in compiled.edges if name in edge.ends]
    return np.concatenate(mine)


def _gradient(sub: Subproblem, expression: cp.Expression) -> Array:
    """Cvxpy's (sub)gradient at the values of the variables, shape (m, size)."""
    found = expression.grad
    blank = {v.id: np.zeros((v.size, expression.size)) for v in sub.variables}
    known = {v.id: (g.toarray() if hasattr(g, "toarray") else g) for v, g in found.items()}
    return np.vstack([np.reshape((blank | known)[v.id], blank[v.id].shape) for v in sub.variables])


def _constrained(sub: Subproblem) -> bool:
    return bool(sub.client.constraints) or any(v.is_psd() for v in sub.variables)


@dataclass
class Step:
    """One turn: the fall of the augmented Lagrangian, and what the module's (I), (II) promise."""

    name: Hashable
    first: bool
    fall: float
    promised: float
    rounding: float


def _slack(at: At, sub: Subproblem, G: Array, off: float, x: Array) -> tuple[float, Array]:
    """Epsilon of (I) where the client is at x now, and by how much its sides may be off."""
    slope = sub.signs * at.next[sub.entries]
    e = off * np.maximum(1.0, np.abs(x))
    return float(np.abs(_gradient(sub, sub.client.cost)[:, 0] + G.T @ slope) @ e), np.abs(G) @ e


def _cost(sub: Subproblem) -> float:
    cost: Any = sub.client.cost.value
    return float(cost or 0.0)  # a server has none


def replay(compiled: Compiled, watch: Watch, accuracy: float) -> Iterator[list[Step] | At]:
    """The steps of each inner loop, then where it ended."""
    zero = {name: np.zeros(sub.size) for name, sub in compiled.items()}
    sides, costs, maps, solvers = np.zeros((2, compiled.size)), {}, {}, {}
    for name, sub in compiled.items():
        _put(sub, zero[name])
        sides[sub.rows, sub.entries] = _side(compiled, name)
        costs[name] = _cost(sub)
        given = [_gradient(sub, e.side(name)) for e in compiled.edges if name in e.ends]
        maps[name] = np.hstack(given).T
        solvers[name] = Choice("auto").chain(sub)[0].name
    nothing = np.zeros(compiled.size)
    rho = watch.init(compiled)
    at = At(zero, sides, costs, nothing, rho, sides[::-1].copy(), {}, compiled)
    for outer in range(watch.loops):
        steps: list[Step] = []
        for _, sub, turn, point in (t for t in watch.turns if t[0] == outer):
            name, mine = sub.name, sub.entries
            np.testing.assert_allclose(turn.mu, at.mu[mine], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(turn.rho, at.rho[mine], rtol=1e-12)
            told = at.sides[1 - sub.rows, mine].copy()
            np.testing.assert_allclose(turn.neighbours, told, rtol=1e-12, atol=1e-12)
            off = max(accuracy, CONIC) if solvers[name] == "conic" else accuracy
            off = 0.0 if sub.client.is_server else off / (1 - off)
            before, first = at.value, name not in at.slack
            G, weight = maps[name], at.rho[mine]

            was, spare = at.sides[sub.rows, mine].copy(), 0.0
            if _constrained(sub) and not first:
                # The old point may be off its set; a point of the set is this near.
                _put(sub, at.points[name])
                spare, wide = _slack(at, sub, G, off, at.points[name])
                spare += float(weight**2 @ wide**2)
            _put(sub, point)
            own = _side(compiled, name)
            at.sides[sub.rows, mine] = own
            at.told[sub.rows, mine] = told
            at.costs[name] = _cost(sub)
            at.points[name] = point
            at.slack[name], wide = _slack(at, sub, G, off, point)
            moved = np.linalg.norm(weight * (own - was)) - np.linalg.norm(weight * wide)
            promised = max(0.0, float(moved)) ** 2 - at.slack[name] - spare
            steps.append(Step(name, first, before - at.value, promised, at.rounding))
        yield steps
        yield At(
            dict(at.points), at.sides.copy(), dict(at.costs), at.mu, at.rho, at.told.copy(),
            dict(at.slack), compiled,
        )  # fmt: skip
        at.mu, at.rho = at.next, watch.grow * at.rho


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Built, Watch, list[Any]]]:
    """Run a zoo problem; the server's closed form is watched as well, which no option replaces."""
    opened = Average.open

    def run(
        name: str, graph: str, sequence: str, accuracy: float = EXACT, **options: Any
    ) -> tuple[Built, Watch, list[Any]]:
        built = PROBLEMS[name]().on(GRAPHS[graph]())
        compiled = built.model.compile()
        given = {k: options.pop(k) for k in ("spread", "start", "grow", "loops") if k in options}
        watch = Watch(**given)

        def open_(self: Average, subproblems: Sequence[Subproblem]) -> Any:
            session = opened(self, subproblems)

            def minimise(turn: Turn, tolerance: float) -> Answers:
                answers = session.minimise(turn, tolerance)
                watch.turns.append((watch.outer, subproblems[0], turn, answers.points.copy()))
                return answers

            return SimpleNamespace(minimise=minimise)

        monkeypatch.setattr(Average, "open", open_)
        result = built.model.solve(
            algorithm=watch.algorithm, rho=watch, solver=watch, accuracy=accuracy,
            sequence=SEQUENCES[sequence](compiled), **{"max_rounds": 3000} | options,
        )  # fmt: skip
        assert result.status == "interrupted", str(result)
        return built, watch, list(replay(compiled, watch, accuracy))

    return run


# --- sequences ------------------------------------------------------------------------------------


def _backwards(compiled: Compiled) -> list[Hashable]:
    """The clients last to first, then the servers."""
    return [n for n in reversed(list(compiled)) if n not in compiled.servers] + [*compiled.servers]


def _matrix(compiled: Compiled) -> Array:
    """Definition 3 for every second client first."""
    names = list(compiled)
    rank = {n: at for at, n in enumerate([*names[0:-1:2], *names[1:-1:2], names[-1]])}
    matrix = np.array(
        [[compiled.graph.has_edge(a, b) and rank[a] < rank[b] for b in names] for a in names], int
    )
    return matrix + np.diag(matrix.sum(axis=1))


SEQUENCES: dict[str, Callable[[Compiled], dm.Sequence]] = {
    "natural": lambda c: dm.Sequence.natural(),
    "by colour": lambda c: dm.Sequence("by colour"),
    "levels": lambda c: dm.Sequence.levels([[name] for name in _backwards(c)]),
    "matrix": lambda c: dm.Sequence.from_matrix(_matrix(c)),
    "random": lambda c: dm.Sequence.random(2, seed=5),
    "greedy": lambda c: dm.Sequence.greedy(2),
    "repeat": lambda c: dm.Sequence.repeat(list(c)[:3:2], times=3),
}
ON = ("star", "chain", "odd ring", "grid")


def _cases(*problems: str, graphs: Sequence[str] = ON) -> Any:
    """Every problem with every sequence; the graphs take turns."""
    rows = [
        (name, graphs[(i + j) % len(graphs)], sequence)
        for i, name in enumerate(problems)
        for j, sequence in enumerate(SEQUENCES)
    ]
    return pytest.mark.parametrize(("name", "graph", "sequence"), rows)


# --- (25): descent --------------------------------------------------------------------------------


def _falls(steps: list[Step], compiled: Compiled) -> None:
    for step in steps:
        if not (step.first and _constrained(compiled[step.name])):
            assert step.fall >= step.promised - step.rounding, step


@_cases("logistic", "partial_overlap", "group_lasso", "nuclear_norm", "entropy", "semidefinite")
def test_the_augmented_lagrangian_falls_with_every_turn(
    watched: Any, name: str, graph: str, sequence: str
) -> None:
    r"""(25), in the stronger form (II): a turn lowers it by :math:`\|\rho\circ\Delta s\|^2`.

    So it holds turn by turn, whoever's turn it is: partial and repeated cycles need nothing more.
    It needs exact minimisation, and a start in :math:`X_i`, where (25) has none: a constrained
    client's first turn is left out.
    """
    built, _, found = watched(name, graph, sequence, stopping=dm.FixedBudget(4))
    for steps in found[::2]:
        _falls(steps, built.model.compile())


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5])
@pytest.mark.parametrize("sequence", ["natural", "random"])
@pytest.mark.parametrize(
    "name", ["logistic", "group_lasso", "nuclear_norm", "portfolio", "semidefinite"]
)
def test_inexact_turns_raise_it_by_no_more_than_their_error(
    watched: Any, name: str, sequence: str, accuracy: float
) -> None:
    """(25) less (I): newton, proximal and conic, in this order, stop early."""
    built, _, found = watched(
        name, "odd ring", sequence, accuracy=accuracy, stopping=dm.FixedBudget(5)
    )
    for steps in found[::2]:
        _falls(steps, built.model.compile())


def test_descent_is_lost_where_turns_are_inexact(watched: Any) -> None:
    """(25) has no inexact version without an error: Clarabel's turns go up by 1e-7, and may.

    Newton and proximal steps begin at the old point and were not seen to rise; Clarabel's do not.
    """
    _, _, found = watched(
        "nuclear_norm", "odd ring", "natural", accuracy=1e-2, stopping=dm.FixedBudget(40)
    )
    assert any(step.fall < -10 * step.rounding for steps in found[::2] for step in steps)


# --- (A1-4) ---------------------------------------------------------------------------------------


def _sum(at: At, mu: Array) -> tuple[Array, Array]:
    """Of the multipliers over a server's edges, and of the sizes of what they are made of."""
    parts = len(at.compiled.edges)
    sizes = np.abs(at.mu) + 2 * at.rho**2 * np.abs(at.sides).sum(axis=0)
    return mu.reshape(parts, -1).sum(axis=0), sizes.reshape(parts, -1).sum(axis=0)


@pytest.mark.parametrize("accuracy", [EXACT, 1e-3])
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("name", ["logistic"])
def test_multipliers_sum_to_zero_after_the_server(
    watched: Any, name: str, sequence: str, accuracy: float
) -> None:
    """(A1-4), which needs no limit in v: the server's own optimality is the statement.

    It needs that the server is last, and so the full cycle that ends a loop of partial ones. The
    clients may be as inexact as they like.
    """
    _, _, found = watched(
        name, "star", sequence, accuracy=accuracy, stopping=dm.FixedBudget(2), loops=3
    )
    for at in found[1::2]:
        total, sizes = _sum(at, at.next)
        assert (np.abs(total) <= ROUNDING * sizes).all()


def test_multipliers_do_not_sum_to_zero_where_the_server_is_not_last(
    watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""(A1-4) is false then: the sum is :math:`\sum 2\rho_i^2 \circ (x_i^{v-1} - x_i^v)`."""
    first = dm.Sequence.levels([["server"], ["n", "e", "s", "w"]])
    monkeypatch.setitem(SEQUENCES, "first", lambda _: first)
    _, _, found = watched("ridge", "star", "first", stopping=dm.FixedBudget(3))
    at = found[1]
    total, sizes = _sum(at, at.next)
    moved, _ = _sum(at, 2 * at.rho**2 * (at.told[0] - at.sides[1]))
    np.testing.assert_allclose(total, moved, atol=ROUNDING * sizes.max())
    assert np.abs(total).max() > 1e-3


# --- Theorem 1 ------------------------------------------------------------------------------------


def _monolithic(at: At, coupled: bool = False) -> tuple[float, Array, Array]:
    """Value, sides and duals of the augmented Lagrangian over all, or of the AIO problem (16)."""
    gaps = [edge.side(edge.tail) - edge.side(edge.head) for edge in at.compiled.edges]
    slots = [at.compiled.slots[edge.ends] for edge in at.compiled.edges]
    goal = sum(sub.client.cost for sub in at.compiled.values() if not sub.client.is_server)
    rules = [rule for sub in at.compiled.values() for rule in sub.client.constraints]
    ties = [gap == 0 for gap in gaps] if coupled else []
    if not coupled:
        for gap, slot in zip(gaps, slots, strict=True):
            goal += at.mu[slot] @ gap + cp.sum_squares(cp.multiply(at.rho[slot], gap))
    problem = cp.Problem(cp.Minimize(goal), [*rules, *ties])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert problem.status == "optimal"
    sides = np.zeros_like(at.sides)
    for name, sub in at.compiled.items():
        sides[sub.rows, sub.entries] = _side(at.compiled, name)
    found: list[Any] = [tie.dual_value for tie in ties]
    duals = np.concatenate(found) if coupled else np.zeros(0)
    value: Any = problem.value
    return float(value), sides, duals


def _near(at: At) -> float:
    """Check Theorem 1 at the end of an inner loop; how far it may be from the limit."""
    value, sides, _ = _monolithic(at)
    slack, short = MONOLITHIC * max(1.0, abs(value)) + at.rounding, at.short(sides)
    assert -slack <= at.value - value <= short + slack
    return short


@_cases("ridge", "lasso", "simplex", "portfolio")
def test_the_limit_of_an_inner_loop_minimises_the_augmented_lagrangian(
    watched: Any, name: str, graph: str, sequence: str
) -> None:
    """Theorem 1, against cvxpy on all clients at once, with multipliers zero and not zero.

    Away from the limit (III) says how far it is: by the dual residual, and by nothing else where
    clients are exact. (A1) holds because only the smooth coupling joins the clients.
    """
    options: dict[str, Any] = {"stopping": dm.FixedTolerance(), "eps_dual": 1e-3}
    _, _, found = watched(name, graph, sequence, start=0.5, eps_pri=0.0, **options)
    for at in found[1::2]:
        _near(at)
    assert np.abs(found[-1].mu).max() > 0.01


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5])
@pytest.mark.parametrize("name", ["logistic", "group_lasso", "nuclear_norm"])
def test_an_inexact_inner_loop_ends_as_near_as_its_turns_are_exact(
    watched: Any, name: str, accuracy: float
) -> None:
    r"""Theorem 1 with :math:`2 q_i \sqrt{\varepsilon_i}` of (III) for each client.

    That of an inexact run is no minimiser however long it is, but its distance falls with the
    accuracy. Clients without constraints, so that an inexact point is in :math:`X_i` too.
    """
    _, _, found = watched(
        name, "chain", "natural", accuracy=accuracy, start=0.5, stopping=dm.FixedBudget(25)
    )
    for at in found[1::2]:
        _near(at)


def test_theorem_1_needs_blocks_that_only_a_smooth_term_joins() -> None:
    r"""(A1) does not say so, but (26) takes :math:`\partial\Pi` for a product over the clients.

    :math:`\Psi = (x_1^2 + x_2^2) / 2` and :math:`\Pi = |x_1 - x_2|` satisfy (A1) and (A2), each
    of (1, 1) is best given the other, and (0, 0) is better.
    """
    line = np.linspace(-3, 3, 6001)
    best = line[np.argmin((line**2 + 1) / 2 + np.abs(line - 1))]
    assert best == pytest.approx(1.0, abs=1e-9)
    assert (1 + 1) / 2 + abs(1 - 1) > 0


def _pair() -> dm.Model:
    """(x1 - 1)^2 + x2^2 with x1 == x2: x* = 1/2 and mu* = 1."""
    x = [cp.Variable(name=f"x{i}") for i in (1, 2)]
    model = dm.Model()
    model.client(1, cp.square(x[0] - 1))
    model.client(2, cp.square(x[1]))
    model.consensus(x[0] == x[1])
    return model


def test_a_client_left_out_does_not_count_as_at_rest() -> None:
    r"""Remark 1, and where (A2-8) is incomplete: partial cycles.

    With client 2 left out x1 = (2 + 2 x2) / 4 rests at 1/2 from the first turn on, so that
    :math:`x^{k,v} - x^{k,v-1}`, the dual residual of (A2-8), is zero; yet x2 = 0 is not best. The
    run measures what a client's neighbours have moved since its turn, (A2-4), and goes on.
    """
    one = dm.Sequence.partial([1])
    options: dict[str, Any] = {"stopping": dm.FixedTolerance(), "eps_pri": 0.0}
    history = _pair().solve(rho=1.0, sequence=one, max_rounds=9, **options).history
    assert history.solved.tolist() == [1.0] * 9
    assert history.objective.tolist() == pytest.approx([0.25] * 9, abs=1e-9)
    assert history.dual.tolist() == pytest.approx([0.5] * 9, abs=1e-9)
    assert history.outer.max() == 1


# --- Theorem 2 ------------------------------------------------------------------------------------

GROWING: dict[str, Any] = {
    "spread": 1.0,
    "start": 0.3,
    "grow": 1.25,
    "loops": 6,
    "stopping": dm.ShrinkingTolerance(start=0.1, factor=0.4),
    "eps_pri": 0.0,
    "eps_dual": 1e-9,
}


@_cases("lasso", "simplex", "portfolio")
def test_multipliers_approach_every_aio_multiplier(
    watched: Any, name: str, graph: str, sequence: str
) -> None:
    r"""Theorem 2 with one penalty for all entries, which grows.

    (III) summed at x* and the saddle point (A3) give :math:`(\mu^{k+1} - \mu^*)^\top\mathcal C
    \le S`, and by (15)

    .. math:: \|\mu^{k+1} - \mu^*\|^2 + \|\mu^{k+1} - \mu^k\|^2
        \le \|\mu^k - \mu^*\|^2 + 4 \rho^2 S.

    So that multipliers are bounded is no assumption; what has to be summable is
    :math:`\rho^2 S`, of which the first part is :math:`\rho^2 \circ \mathcal D`.
    """
    _, _, found = watched(name, graph, sequence, **GROWING)
    ends = found[1::2]
    value, sides, best = _monolithic(ends[0], coupled=True)
    slack = MONOLITHIC * max(1.0, abs(value), float(np.abs(best).max()))
    for at in ends:
        room, size = slack + at.rounding, 4 * at.rho[0] ** 2
        after, before = at.next - best, at.mu - best
        step = at.next - at.mu
        short = at.short(sides)
        assert after @ at.gap <= short + room
        assert after @ after + step @ step <= before @ before + size * (short + room)


@_cases("ridge", graphs=("chain", "odd ring"))
def test_multipliers_reach_the_least_of_the_aio_multipliers(
    watched: Any, name: str, graph: str, sequence: str
) -> None:
    r"""Theorem 2 with its rate, where the clients are quadratics of Hessian H and C = A x + a.

    From (A1-5), (A2-3) :math:`Hx + c + A^\top\mu^{k+1} + r = 0`, with r the clients' dual residuals
    in units of the gradient, and from (15), for the error :math:`e^k = \mu^k - \mu^*`,

    .. math:: (I + 2\rho^2 A H^{-1} A^\top) e^{k+1} = e^k - 2\rho^2 A H^{-1} r.

    On a ring :math:`\nabla h \nabla h^\top = A A^\top` of (28) has no inverse, multipliers are not
    unique and the proof fails; but :math:`\mu^k` stays in the range of A, and so reaches the
    shortest of them.
    """
    built, _, found = watched(
        name, graph, sequence, **GROWING | {"start": 2.0, "grow": 1.3, "loops": 8}
    )
    compiled, ends = built.model.compile(), found[1::2]
    size = sum(sub.size for sub in compiled.values())
    A, H = np.zeros((compiled.size, size)), np.zeros((size, size))
    slope, maps = np.zeros(size), {}
    for client, sub in compiled.items():
        own, columns = compiled.columns[client], []
        for at in np.vstack([np.zeros(sub.size), np.eye(sub.size)]):
            _put(sub, at)
            columns.append(_gradient(sub, sub.client.cost)[:, 0])
        H[own, own] = np.array(columns[1:]).T - columns[0][:, None]
        slope[own] = H[own, own] @ built.points[client] + columns[0]
        given = [_gradient(sub, e.side(client)) for e in compiled.edges if client in e.ends]
        maps[client] = np.hstack(given)
        A[sub.entries, own] = sub.signs[:, None] * maps[client].T
    best = np.linalg.lstsq(A.T, -slope)[0]
    multipliers = {ends_: best[slot] for ends_, slot in compiled.slots.items()}
    for client, distance in built.distance.items():
        assert distance(built.force(client, multipliers)) <= 1e-9  # the zoo's own
    unique = np.linalg.matrix_rank(A) == len(A)
    assert unique == nx.is_tree(compiled.graph)
    bend = A @ np.linalg.solve(H, A.T)
    least = min(v for v in np.linalg.eigvalsh(bend) if v > 1e-9)
    bound = np.linalg.norm(best)
    for at in ends:
        square = at.rho[0] ** 2
        gaps = 2 * square * (at.told - at.sides[::-1])
        r = [maps[n] @ -gaps[sub.rows, sub.entries] for n, sub in compiled.items()]
        forced = 2 * square * A @ np.linalg.solve(H, np.concatenate(r))
        rounding = ROUNDING * np.linalg.cond(H) * 2 * square * (1 + np.linalg.norm(best))
        shrunk = 1 + 2 * square * least
        after, before = (np.linalg.norm(mu - best) for mu in (at.next, at.mu))
        assert after <= (before + np.linalg.norm(forced) + rounding) / shrunk
        bound = (bound + np.linalg.norm(forced) + rounding) / shrunk
    assert np.linalg.norm(ends[-1].next - best) <= bound < np.linalg.norm(best) / 100


@dataclass
class Doubling:
    """The square of the penalty is 1, 2, 4, ..."""

    def init(self, compiled: Compiled) -> Array:
        return np.ones(compiled.size)

    def update(self, state: State, outer: int) -> Array:
        return np.sqrt(2.0) * state.rho


def test_theorem_2_is_false_where_the_tolerance_shrinks_more_slowly_than_the_penalty_grows() -> (
    None
):
    r"""(29) does not follow from :math:`\epsilon^k \to 0`: it needs :math:`\rho^2\epsilon^k \to 0`.

    One sweep a loop satisfies all that is assumed, with :math:`\epsilon^k = 2^{-k}`; but x moves by
    about :math:`\rho^{-2}` in a sweep, all in all too little to come to 1/2. By the two clients'
    optimality, 2 (x1 - 1) + mu = -2 rho^2 D and 2 x2 = mu, so that mu - 1 = -C - rho^2 D. The run's
    own tolerance is for :math:`\rho^2 \mathcal D` too, and there (B2) reaches mu* = 1.
    """
    options: dict[str, Any] = {"rho": Doubling(), "eps_pri": 0.0, "eps_dual": 1e-12}
    swept = _pair().solve(stopping=dm.FixedBudget(1), max_rounds=40, **options)
    assert (swept.history.dual <= 0.5 ** np.arange(1, 41)).all()
    assert swept.history.primal[40] < 1e-9
    assert swept.history.rho[40] > 1e5
    assert 0.8 < swept.multipliers[1, 2] < 0.9
    tolerant = dm.ShrinkingTolerance(start=0.5, factor=0.5)
    result = _pair().solve(stopping=tolerant, max_rounds=4000, **options)
    last = result.history.iloc[-1]
    off = abs(result.multipliers[1, 2].item() - 1)
    assert off <= last.primal + last.rho**2 * last.dual + 1e-9
    # Outer loop 13 ended with 2 rho^2 D <= 2^-13 of the largest gradient, which is at most 2.
    assert last.outer == 14
    assert last.primal + last.rho**2 * last.dual < 2.0**-13
