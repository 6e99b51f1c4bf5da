r"""Safety: the Lyapunov function of one sweep an update, where it is none, and the defaults.

The saddle point that V is measured from is not this package's. Its points are the zoo's known
answers. Its multipliers are, where objectives have gradients, the shortest with
:math:`A^\top\mu = -\nabla f(x^*)` for :math:`\mathcal C = Ax`, by numpy; else the duals that
Clarabel gives :math:`\mathcal C = 0` in the all-in-one problem. The zoo's ``distance`` says how far
they are from being multipliers, :math:`d_i` for a client. A run's points are looked at through
``metrics``, its multipliers are replayed by (15) from these.

With a saddle point that is :math:`d_i` off, the proof of
:mod:`dald_model.coordinate.safeguards` gives

.. math:: V^+ \le V - \sum_e w |a^+ - b|^2 + 2 \sum_i d_i |x_i^+ - x_i^*|_1,

and so do clients that leave a gradient of :math:`d_i`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compiled import Compiled
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method
from dald_model.coordinate.safeguards import default_stopping
from dald_model.declare.consensus import Edge
from tests.zoo import GRAPHS, PROBLEMS, Array, Built

ONE = dm.FixedBudget(1)
NATURAL = dm.Sequence.natural()
COLOUR = dm.Sequence("by colour")
CLIENT = 1e-10
"""The gradient that an exact client leaves, relative to the largest met."""
ROUNDING = 1e-13
"""Of a few hundred products and sums in V, relative to its largest term."""
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)


# --- saddle points --------------------------------------------------------------------------------

SMOOTH = ("least_squares", "huber", "logistic", "partial_overlap", "unequal_dimensions")
ROUGH = ("lasso", "elastic_net", "quantile", "svm", "nonnegative", "simplex")


def _set(built: Built, compiled: Compiled) -> dict[Hashable, Array]:
    """Client -> its variables at the known answer, where they are left."""
    points = {}
    for name, sub in compiled.items():
        at = built.points.get(name, next(iter(built.points.values())))  # a server's is all clients'
        points[name] = np.concatenate([np.ravel(at, order="F")])
        for variable in sub.variables:
            variable.save_value(sub.spread(points[name])[variable.id])
    return points


def _map(compiled: Compiled, name: Hashable) -> tuple[Array, Array]:
    """A client's sides of its edges, G x + g, by cvxpy from what the user wrote: G and g."""
    sub, mine = compiled[name], [e for e in compiled.edges if name in e.ends]
    kept, columns = sub.point(), []

    def sides(x: Array) -> Array:
        for variable in sub.variables:
            variable.save_value(sub.spread(x)[variable.id])
        values: list[Any] = [e.side(name).value for e in mine]
        return np.concatenate([np.ravel(value) for value in values])

    offset = sides(np.zeros(sub.size))
    columns = [sides(x) - offset for x in np.eye(sub.size)]
    for variable in sub.variables:
        variable.save_value(sub.spread(kept)[variable.id])
    return np.array(columns).T, offset


def _slots(compiled: Compiled, name: Hashable) -> tuple[Array, Array]:
    """The entries of a client's edges, and +1 where it is the tail, -1 where the head."""
    mine = [e for e in compiled.edges if name in e.ends]
    places = [np.arange(compiled.size)[compiled.slots[e.ends]] for e in mine]
    signs = [np.full(e.size, 1.0 if name == e.tail else -1.0) for e in mine]
    return np.concatenate(places), np.concatenate(signs)


class Saddle(NamedTuple):
    points: dict[Hashable, Array]
    mu: Array
    off: dict[Hashable, float]
    maps: dict[Hashable, tuple[Array, Array]]


def _gap(edge: Edge) -> Any:
    return edge.side(edge.tail) - edge.side(edge.head)


def _saddle(name: str, built: Built, compiled: Compiled) -> Saddle:
    points = _set(built, compiled)
    maps = {client: _map(compiled, client) for client in compiled}
    if name in SMOOTH:
        A, slopes = [], []
        for client, sub in compiled.items():
            places, signs = _slots(compiled, client)
            part = np.zeros((compiled.size, sub.size))
            part[places] = signs[:, None] * maps[client][0]
            A.append(part)
            known = {} if sub.client.is_server else sub.client.cost.grad
            given = [np.ravel(known[v].toarray()) for v in sub.variables if v in known]
            slopes.append(np.concatenate(given) if given else np.zeros(sub.size))
        mu = np.linalg.lstsq(np.hstack(A).T, -np.concatenate(slopes))[0]
    else:
        clients = [sub.client for sub in compiled.values()]
        ties = [_gap(edge) == 0 for edge in compiled.edges]
        goal = sum(one.cost for one in clients if not one.is_server)
        rules = [rule for one in clients for rule in one.constraints]
        cp.Problem(cp.Minimize(goal), [*rules, *ties]).solve(solver=cp.CLARABEL, **TIGHT)
        duals: list[Any] = [tie.dual_value for tie in ties]
        mu = np.concatenate([np.ravel(dual) for dual in duals])
    by_edge = {ends: mu[slot] for ends, slot in compiled.slots.items()}
    off = {n: built.distance[n](built.force(n, by_edge)) for n in built.distance}
    for server in compiled.servers:
        places, signs = _slots(compiled, server)
        off[server] = float(np.abs(maps[server][0].T @ (signs * mu[places])).max())
    return Saddle(points, mu, off, maps)


# --- V along runs of the package ------------------------------------------------------------------


class Path(NamedTuple):
    """V before each sweep and after the last, what each is to fall by, and what it may lack."""

    V: Array
    falls: Array
    slack: Array


def _path(
    name: str,
    graph: str,
    sequence: dm.Sequence,
    rounds: int,
    spread: float = 3.0,
    scale: float = 1.0,
    **options: Any,
) -> Path:
    """Sweep after sweep; uneven penalties, entry by entry, but for ``spread`` 1."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    compiled = built.model.compile()
    saddle = _saddle(name, built, compiled)
    homes = {
        client: built.variables.get(client, next(iter(built.variables.values())))
        for client in compiled
    }

    def look(iterate: dm.Iterate) -> Any:
        found = {}
        for client, variable in homes.items():
            is_server = client in compiled.servers
            value = iterate[variable] if is_server else iterate.copies(variable)[client]
            found[client] = np.ravel(value, order="F").copy()
        return found

    uneven = np.random.default_rng(2).uniform(-0.5, 0.5, compiled.size)
    rho = scale * spread**uneven
    result = built.model.solve(
        sequence=sequence, rho=rho, metrics={"x": look}, max_rounds=rounds,
        **{"stopping": ONE, "accuracy": 1e-10, "eps_pri": 0.0, "eps_dual": 0.0} | options,
    )  # fmt: skip
    network = sequence.network(compiled.graph, compiled.servers)
    rank = {client: at for at, level in enumerate(network.levels) for client in level}
    later = np.zeros(compiled.size, dtype=int)
    for edge in compiled.edges:
        later[compiled.slots[edge.ends]] = int(rank[edge.head] > rank[edge.tail])

    def sides(points: dict[Hashable, Array]) -> Array:
        values = np.empty((2, compiled.size))
        for client, (G, g) in saddle.maps.items():
            places, signs = _slots(compiled, client)
            values[(signs < 0).astype(int), places] = G @ points[client] + g
        return values

    at, w, step = np.arange(compiled.size), 2 * rho**2, options.get("algorithm", dm.DALD())
    best = sides(saddle.points)
    np.testing.assert_allclose(best[0], best[1], atol=1e-12)

    def lyapunov(mu: Array, b: Array) -> float:
        return float(((mu - saddle.mu) ** 2 / w + w * (b - best[later, at]) ** 2).sum())

    mu = np.zeros(compiled.size)
    b = sides({client: np.zeros(sub.size) for client, sub in compiled.items()})[later, at]
    path, falls, slack, steep = [lyapunov(mu, b)], [], [], float(np.abs(saddle.mu).max())
    for points in result.history.x:
        now = sides(points)
        a = now[1 - later, at]
        falls.append(float((w * (a - b) ** 2).sum()))
        gap = now[0] - now[1]
        steep = max(steep, float(np.abs(mu + w * gap).max()), float((w * np.abs(a - b)).max()))
        away = {n: np.abs(points[n] - saddle.points[n]).sum() for n in points}
        lacks = sum(2 * (saddle.off[n] + CLIENT * steep) * away[n] for n in points)
        mu = mu + step.dual_step * w * gap
        b = now[later, at]
        path.append(lyapunov(mu, b))
        sizes = (np.abs(mu) + np.abs(saddle.mu)) ** 2 / w + w * (np.abs(now) + np.abs(best)).max(
            axis=0
        ) ** 2
        slack.append(lacks + ROUNDING * float(sizes.sum()))
    gap = np.subtract(*sides(result.history.x.iloc[-1]))
    ends = np.concatenate([result.multipliers[e] for e in compiled.slots])
    np.testing.assert_allclose(  # of the last round: one update, with step 1, ahead of mu
        ends, mu + (1 - step.dual_step) * w * gap, rtol=1e-9, atol=1e-9 * steep
    )
    return Path(np.array(path), np.array(falls), np.array(slack))


ORDERS: dict[str, Callable[[str], dm.Sequence]] = {
    "by colour": lambda graph: COLOUR,
    "natural": lambda graph: NATURAL,
    "from the root": lambda graph: dm.Sequence.from_root(list(GRAPHS[graph]())[-1]),
    "depth first": lambda graph: dm.Sequence.from_root(list(GRAPHS[graph]())[1], depth_first=True),
}
ON = ("odd ring", "complete", "random", "grid", "star")
CASES = [
    (name, graph, list(ORDERS)[((i + j) // 2 + i) % len(ORDERS)])
    for i, name in enumerate((*SMOOTH, *ROUGH))
    for j, graph in enumerate(ON)
    if graph != "star" or name not in ("partial_overlap", "unequal_dimensions")
    if (i + j) % 2 == 0
]
"""Every problem on every second graph, and so every graph with every second problem."""


@pytest.mark.parametrize(("name", "graph", "order"), CASES)
def test_v_falls_with_every_sweep_by_what_the_proof_says(name: str, graph: str, order: str) -> None:
    path = _path(name, graph, ORDERS[order](graph), rounds=40)
    lacks = path.V[1:] - path.V[:-1] + path.falls - path.slack
    assert lacks.max() <= 0
    assert path.slack.max() < 1e-5 * path.V[0], "the test can see a rise"
    assert path.V[-1] < path.V[0]


def test_v_rises_without_bound_where_the_dual_step_is_too_long() -> None:
    """Penalties are large beside the clients' curvature, so that the order is all there is."""
    given: dict[str, Any] = {"rounds": 120, "spread": 1.0, "scale": 30.0}
    with pytest.warns(dm.SequenceWarning):
        path = _path("least_squares", "odd ring", NATURAL, algorithm=dm.DALD(1.5), **given)
    assert path.V[-1] > 1e3 * path.V[0]
    path = _path("least_squares", "odd ring", NATURAL, **given)
    assert (np.diff(path.V) <= path.slack - path.falls).all()


# --- the spectrum ---------------------------------------------------------------------------------


def _sweep(curvatures: Array, edges: list[tuple[int, int]], step: float, w: float) -> Array:
    r"""The linear map of one sweep in natural order and one update: (x, mu) -> (x, mu).

    Scalar clients :math:`h_i x^2 / 2`; client after client, as the text says it: whoever is solved
    takes the newest of the others.
    """
    n, q = len(curvatures), len(edges)
    state = np.eye(n + q)
    for i in range(n):
        bend, row = curvatures[i], np.zeros(n + q)
        for at, (tail, head) in enumerate(edges):
            if i in (tail, head):
                other, sign = (head, 1.0) if i == tail else (tail, -1.0)
                bend += w
                row += w * state[other] - sign * state[n + at]
        state[i] = row / bend
    for at, (tail, head) in enumerate(edges):
        state[n + at] += step * w * (state[tail] - state[head])
    return state


def _radius(curvatures: Array, edges: list[tuple[int, int]], step: float, w: float) -> float:
    """Less the ones: multipliers that go round a cycle have no effect and never change."""
    n = len(curvatures)
    values = np.linalg.eigvals(_sweep(curvatures, edges, step, w))
    apart = np.sort(np.abs(values - 1))
    cycles = len(edges) - n + 1
    assert (apart[:cycles] < 1e-9).all()
    return float(np.abs(values[np.argsort(np.abs(values - 1))[cycles:]]).max())


def _ring(n: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % n) for i in range(n)]


LEAST = {
    "a ring of 4": (_ring(4), 1.51),
    "a triangle": (_ring(3), 1.56),
    "a ring of 5": (_ring(5), 1.28),
    "a ring of 7": (_ring(7), 1.19),
    "a ring of 15": (_ring(15), 1.08),
}
"""The least diverging dual steps on a grid of 0.01, as the docstring of safety has them."""


@pytest.mark.parametrize("name", LEAST)
def test_the_least_diverging_steps_of_the_docstring(name: str) -> None:
    edges, least = LEAST[name]
    n = 1 + max(map(max, edges))
    radii = {
        step: max(_radius(np.full(n, h), edges, step, 1.0) for h in (1e-4, 0.01, 0.1, 1.0))
        for step in (1.0, least - 0.01, least)
    }
    assert radii[1.0] < 1
    assert radii[least - 0.01] < 1 < radii[least]


# --- diverging instances --------------------------------------------------------------------------

WARNING = (
    "the dual step {step:g} with FixedBudget(v_max=1) on Sequence('{order}') may diverge: "
    "a step above 1 is covered by theory only where a sweep is two-block ADMM, and this "
    "network has {levels} levels and a cycle; take dual_step=1, the default stopping, or an order "
    "of two colours if the graph has one"
)


def ring(n: int) -> dm.Model:
    """Clients (x - i)^2 / 100, so that the curvature is 0.02 where 2 rho^2 is 2."""
    x = [cp.Variable(name=f"x{i}") for i in range(n)]
    model = dm.Model(f"ring of {n}")
    for i in range(n):
        model.client(i, 1e-2 * cp.square(x[i] - i))
    model.consensus(*[x[i] == x[(i + 1) % n] for i in range(n)])
    return model


def solve(n: int, step: float, **options: Any) -> dm.Result:
    given = {"rho": 1.0, "stopping": ONE, "max_rounds": 2000} | options
    return ring(n).solve(algorithm=dm.DALD(step), **given)


DIVERGING = {
    "a ring of 7": (7, 1.3, NATURAL, 1.111, "diverged"),
    "a ring of 5": (5, 1.5, NATURAL, 1.222, "diverged"),
    "an even ring in natural order": (4, 1.6, NATURAL, 1.054, "diverged"),
    "a triangle": (3, 1.6, COLOUR, 1.036, "stalled"),
}
"""Clients, step, order, spectral radius and how the run ends: 1.036 takes more than its patience to
grow by 1e8."""


@pytest.mark.parametrize("name", DIVERGING)
def test_long_dual_steps_diverge_as_the_spectrum_says_and_are_warned_of(name: str) -> None:
    n, step, order, radius, status = DIVERGING[name]
    assert _radius(np.full(n, 0.02), _ring(n), step, 2.0) == pytest.approx(radius, abs=1e-3)
    with pytest.warns(dm.SequenceWarning) as caught:
        result = solve(n, step, sequence=order)
    label = "natural" if order is NATURAL else "by colour"
    text = WARNING.format(step=step, order=label, levels=n)
    assert [str(one.message) for one in caught] == [text]
    assert result.status == status
    late = result.history.primal.to_numpy()[-60:]
    grown = (late[30:].max() / late[:30].max()) ** (1 / 30)
    assert grown == pytest.approx(radius, abs=0.02)


def test_the_warning_points_to_the_line_that_solves() -> None:
    with pytest.warns(dm.SequenceWarning) as caught:
        ring(3).solve(algorithm=dm.DALD(1.6), stopping=ONE, rho=1.0, max_rounds=1)
    assert caught[0].filename == __file__


SAFE: dict[str, tuple[int, float, dict[str, Any]]] = {
    "the step 1": (7, 1.0, {"sequence": NATURAL}),
    "a step below 1": (7, 0.9, {"sequence": NATURAL}),
    "two colours": (4, 1.6, {}),
    "two colours by name": (4, 1.6, {"sequence": dm.Sequence.levels([[0, 2], [1, 3]])}),
    "B2": (7, 1.3, {"sequence": NATURAL, "stopping": dm.ShrinkingTolerance()}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE)
def test_safe_ones_converge_and_are_not_warned_of(name: str) -> None:
    n, step, options = SAFE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(n, step, **options)
    assert result.status == "optimal"
    for variable in result.compiled.model.monolithic().variables():
        assert variable.value == pytest.approx((n - 1) / 2, abs=1e-3)
    if options.get("stopping", ONE) is ONE and options.get("sequence") is NATURAL:
        assert _radius(np.full(n, 0.02), _ring(n), step, 2.0) < 1


@pytest.mark.slow
@pytest.mark.parametrize(("n", "step"), [(7, 1.3), (3, 1.6)])
def test_the_default_converges_or_warns_where_the_dual_step_is_long(n: int, step: float) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(n, step, sequence=NATURAL, stopping=None)
    assert caught or result.status == "optimal"


def test_a_tree_is_two_block_in_every_order() -> None:
    """So that a step of 1.6 is covered; a model with a server is, too."""
    for graph in ("chain", "tree", "star"):
        model = PROBLEMS["ridge"]().on(GRAPHS[graph]()).model
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = model.solve(sequence=NATURAL, algorithm=dm.DALD(1.6), stopping=ONE)
        assert result.status == "optimal"


# --- the default stopping condition ---------------------------------------------------------------

FULL: dict[str, dm.Sequence] = {
    "default": COLOUR,
    "natural": NATURAL,
    "from the root": dm.Sequence.from_root(2),
    "jacobi": dm.Sequence.jacobi(),
    "repeat": dm.Sequence.repeat([0, 1], times=3),
    "twice": NATURAL + COLOUR,
    "in turn, all full": dm.Sequence.alternate(NATURAL, COLOUR),
    "partial and full": dm.Sequence.random(2) + NATURAL,
}
SOME: dict[str, tuple[dm.Sequence, int]] = {
    "one": (dm.Sequence.random(1), 7),
    "two": (dm.Sequence.random(2), 4),
    "four": (dm.Sequence.greedy(4), 3),
    "all of them": (dm.Sequence.random(6), 2),
    "lists": (dm.Sequence.partial([0, 1], [2, 3, 4]), 4),
    "packs": (dm.Sequence.essentially_cyclic(3), 3),
    "two halves": (dm.Sequence.random(2) + dm.Sequence.random(1), 3),
    "in turn": (dm.Sequence.alternate(NATURAL, dm.Sequence.random(2)), 4),
}
"""Budgets for six clients: one loop more than gives everybody a turn on average."""


def _roster(sequence: dm.Sequence) -> Membership:
    return Membership(ring(6).compile(), sequence, ())


@pytest.mark.parametrize("name", FULL)
def test_full_cycles_end_inner_loops_by_the_shrinking_tolerance(name: str) -> None:
    roster = _roster(FULL[name])
    chosen = default_stopping(roster, Method())
    assert chosen == dm.ShrinkingTolerance(start=1.0, factor=0.97)
    given = {"sequence": FULL[name], "max_rounds": 25, "eps_pri": 0.0, "rho": 1.0}
    default = ring(6).solve(**given)
    named = ring(6).solve(**given, stopping=chosen)
    assert default.history.outer.tolist() == named.history.outer.tolist()
    assert default.history.objective.tolist() == named.history.objective.tolist()


@pytest.mark.parametrize("name", SOME)
def test_partial_cycles_have_a_budget(name: str) -> None:
    sequence, budget = SOME[name]
    assert default_stopping(_roster(sequence), Method()) == dm.FixedBudget(budget)
    history = ring(6).solve(sequence=sequence, max_rounds=30, eps_pri=0.0, eps_dual=0.0).history
    assert history.inner.max() == budget
    assert history.groupby("outer").inner.max().iloc[:-1].eq(budget).all()


def test_the_condition_follows_a_sequence_that_changes() -> None:
    change = {10: dm.Change(sequence=dm.Sequence.random(2))}
    result = ring(6).solve(sequence=NATURAL, online=change, max_rounds=40, eps_pri=0.0)
    assert (result.history.inner.loc[20:] <= 4).all()


# Each kink on two graphs and each graph with two kinks; more of them are in ``test_zoo.py``.
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        (name, ("chain", "star", "ring", "grid", "tree")[(i + j) % 5])
        for i, name in enumerate(["lasso", "quantile", "svm", "group_lasso", "simplex"])
        for j in (0, 2)
    ],
)
def test_kinks_on_bipartite_graphs_are_solved_by_default(name: str, graph: str) -> None:
    """As test_zoo has it: objectives to 1e-5, as relative residuals of 1e-6 mean."""
    built = PROBLEMS[name]().on(GRAPHS[graph]())
    assert nx.is_bipartite(built.model.compile().graph)
    result = built.model.solve(max_rounds=2000)
    assert result.status == "optimal"
    assert result.value == pytest.approx(built.value, rel=1e-5, abs=1e-5)
