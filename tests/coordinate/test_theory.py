r"""Section IV as tests: what the theorems say of a run, and where they say too much.

A run is watched from inside and replayed with numpy: the augmented Lagrangian is the sum of the
clients' own cvxpy objectives plus :math:`\mu^\top\mathcal C + \|\rho\circ\mathcal C\|^2`, written
out in ``watched.py``. No tolerance is fitted; all follow from one number. A client's answer is
:math:`\delta` off, :math:`|x_j - x_j^*| \le e_j = \delta\max(1, |x_j|) / (1 - \delta)`, where
:math:`x^*` is best for its augmented Lagrangian :math:`\Lambda_i`. With a subgradient g of it at x,
by convexity

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

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import Answers, Average, Turn
from tests.coordinate.watched import (
    ROUNDING,
    At,
    Step,
    Watch,
    gradient_of,
    is_constrained,
    put,
    replay,
    side_of,
)
from tests.zoo import GRAPHS, PROBLEMS, Array, Built

EXACT = 1e-10
"""The accuracy asked for where a test is of exact minimisation."""


TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
"""Of the monolithic problems; their values are that far off, relative to max(1, size)."""
MONOLITHIC = 1e-9


# --- a run watched from inside --------------------------------------------------------------------


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Built, Watch, list[Any]]]:
    """Run a zoo problem; the server's closed form is watched as well, which no option replaces."""
    opened = Average.open

    def run(
        name: str,
        graph: str,
        sequence: str,
        accuracy: float = EXACT,
        turn_by_turn: bool = False,
        **options: Any,
    ) -> tuple[Built, Watch, list[Any]]:
        built = PROBLEMS[name]().on(GRAPHS[graph]())
        compiled = built.model.compile()
        given = {k: options.pop(k) for k in ("spread", "start", "grow", "loops") if k in options}
        watch = Watch(**given)

        def open_(self: Average, subproblems: Sequence[dm.Subproblem]) -> Any:
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
        return built, watch, list(replay(compiled, watch, accuracy, turn_by_turn))

    return run


# --- sequences ------------------------------------------------------------------------------------


def _backwards(compiled: dm.Compiled) -> list[Hashable]:
    """The clients last to first, then the servers."""
    return [n for n in reversed(list(compiled)) if n not in compiled.servers] + [*compiled.servers]


def _matrix(compiled: dm.Compiled) -> Array:
    """Definition 3 for every second client first."""
    names = list(compiled)
    rank = {n: at for at, n in enumerate([*names[0:-1:2], *names[1:-1:2], names[-1]])}
    matrix = np.array(
        [[compiled.graph.has_edge(a, b) and rank[a] < rank[b] for b in names] for a in names], int
    )
    return matrix + np.diag(matrix.sum(axis=1))


SEQUENCES: dict[str, Callable[[dm.Compiled], dm.Sequence]] = {
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
    """Every sequence with every second problem, and so the other way round; graphs take turns.

    One problem alone meets every sequence. Several meet three or four sequences each, on three or
    four graphs, not the product.
    """
    few = 1 if len(problems) == 1 else 2
    rows = [
        (name, graphs[((i + j) // few + i) % len(graphs)], sequence)
        for i, name in enumerate(problems)
        for j, sequence in enumerate(SEQUENCES)
        if (i + j) % few == 0
    ]
    return pytest.mark.parametrize(("name", "graph", "sequence"), rows)


# --- (25): descent --------------------------------------------------------------------------------


def _falls(steps: list[Step], compiled: dm.Compiled) -> None:
    for step in steps:
        if not (step.first and is_constrained(compiled[step.name])):
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
    built, _, found = watched(name, graph, sequence, turn_by_turn=True, stopping=dm.FixedBudget(4))
    for steps in found[::2]:
        _falls(steps, built.model.compile())


# Every pair of a problem, a sequence and an accuracy, not every triple.
@pytest.mark.parametrize(
    ("name", "sequence", "accuracy"),
    [
        (name, sequence, (1e-3, 1e-5)[(i + j) % 2])
        for i, name in enumerate(
            ["logistic", "group_lasso", "nuclear_norm", "portfolio", "semidefinite"]
        )
        for j, sequence in enumerate(["natural", "random"])
    ],
)
def test_inexact_turns_raise_it_by_no_more_than_their_error(
    watched: Any, name: str, sequence: str, accuracy: float
) -> None:
    """(25) less (I): newton, proximal, nuclear and conic stop early."""
    built, _, found = watched(
        name,
        "odd ring",
        sequence,
        accuracy=accuracy,
        turn_by_turn=True,
        stopping=dm.FixedBudget(5),
    )
    for steps in found[::2]:
        _falls(steps, built.model.compile())


@pytest.mark.slow
def test_descent_is_lost_where_turns_are_inexact(watched: Any) -> None:
    """(25) has no inexact version without an error: Clarabel's turns go up by 1e-7, and may.

    Newton and proximal steps begin at the old point and were not seen to rise; Clarabel's do not.
    """
    _, _, found = watched(
        "nearest_psd",
        "odd ring",
        "natural",
        accuracy=1e-2,
        turn_by_turn=True,
        stopping=dm.FixedBudget(40),
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
    r"""(A1-4) is false then: the sum is :math:`\sum 2\rho_i^2 \circ (x_i^{v-1} - x_i^v)`.

    It concerns an extension alone, an order of the user's: Algorithm 2 always has the server last.
    """
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
        sides[sub.rows, sub.entries] = side_of(at.compiled, name)
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

    It concerns the general form (23) alone. For (8) and (16) it holds by itself: :math:`f` is a sum
    over the clients and only :math:`\mu^\top\mathcal C + \|\rho\circ\mathcal C\|^2`, which is
    smooth, joins them. So Theorem 1 stands there.

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
    r"""Remark 1, and where (A2-8) is incomplete: the partial cycles of the paper's own Section V-A.

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
    shortest of them. It concerns the paper's own Algorithm 3: (28) needs full row rank, which for
    its sides, whole variables, means that the graph is a forest. A star is one, so Algorithm 2 is
    not concerned.
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
            put(sub, at)
            columns.append(gradient_of(sub, sub.client.cost)[:, 0])
        H[own, own] = np.array(columns[1:]).T - columns[0][:, None]
        slope[own] = H[own, own] @ built.points[client] + columns[0]
        given = [gradient_of(sub, e.side(client)) for e in compiled.edges if client in e.ends]
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

    def init(self, compiled: dm.Compiled) -> Array:
        return np.ones(compiled.size)

    def update(self, state: Any, outer: int) -> Array:
        return np.sqrt(2.0) * state.rho


@pytest.mark.slow
def test_theorem_2_is_false_where_the_tolerance_shrinks_more_slowly_than_the_penalty_grows() -> (
    None
):
    r"""(29) does not follow from :math:`\epsilon^k \to 0`: it needs :math:`\rho^2\epsilon^k \to 0`.

    One sweep a loop satisfies all that is assumed, with :math:`\epsilon^k = 2^{-k}`; but x moves by
    about :math:`\rho^{-2}` in a sweep, all in all too little to come to 1/2. By the two clients'
    optimality, 2 (x1 - 1) + mu = -2 rho^2 D and 2 x2 = mu, so that mu - 1 = -C - rho^2 D. The run's
    own tolerance is for :math:`\rho^2 \mathcal D` too, and there (B2) reaches mu* = 1.

    It concerns the paper's own Algorithm 3: two clients with :math:`x_1 = x_2`, all of Theorem 2's
    assumptions hold.
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
