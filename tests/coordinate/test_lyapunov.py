r"""The proof of :mod:`dald_model.coordinate.convergence`: descent of V, and what comes of it.

Of quadratics in closed form :math:`\tfrac{h_i}2 (x_i - c_i)^2` everything is known, also what the
proof gives away where it uses that gradients are monotone: exactly :math:`2 h_i (x_i^+ - x^*)^2`
for a client. So there the inequality (2) is an equality,

.. math::
    V^+ = V - \sum_e w |a^+ - b|^2 - (1 - \sigma) \sum_e w |r|^2
    - 2 \sum_i h_i (x_i^+ - x^*)^2.

Zoo problems, kinked and constrained ones among them, are held against the inequality.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.coordinate.saddle import ONE, SMOOTH, path_of
from tests.zoo import GRAPHS, Array

NATURAL = dm.Sequence.natural()
COLOUR = dm.Sequence("by colour")
STEPS = (1.0, 0.5, 0.1)

# --- quadratics, where all is known ---------------------------------------------------------------

SHAPES: dict[str, nx.Graph] = {
    "a ring of 3": nx.cycle_graph(3),
    "a ring of 5": nx.cycle_graph(5),
    "a ring of 7": nx.cycle_graph(7),
    "a star": nx.star_graph(4),
    "a chain": nx.path_graph(5),
}
ROUNDS = 40
EXACT = 1e-11
"""Of sums of squares of exact answers, relative to V at the start."""


class Sweep(NamedTuple):
    """One sweep: sides of the earlier and later ends before and after, multipliers before."""

    a: Array
    b_old: Array
    b: Array
    mu: Array
    points: Array


class Quadratics(NamedTuple):
    """Clients on a graph, the order of their turns, and a run of theirs."""

    h: Array
    x: float
    mu: Array
    w: Array
    pairs: list[tuple[int, int]]
    """Of each edge the earlier and the later end."""
    sweeps: list[Sweep]


def _run(shape: str, step: float, seed: int = 0) -> Quadratics:
    """Curvatures, centres, penalties and the order are drawn; multipliers are replayed by (15)."""
    graph, rng = SHAPES[shape], np.random.default_rng(seed)
    n, edges = len(graph), list(graph.edges)
    h, c = rng.uniform(0.1, 3, n), rng.normal(size=n)
    rho = rng.uniform(0.3, 2, len(edges))
    order = rng.permutation(n).tolist()
    rank = {client: at for at, client in enumerate(order)}
    x = [cp.Variable(name=f"x{i}") for i in range(n)]
    model = dm.Model()
    for i in range(n):
        model.client(i, h[i] / 2 * cp.square(x[i] - c[i]))
    model.consensus(*[x[p] == x[q] for p, q in edges])
    result = model.solve(
        algorithm=dm.DALD(step), sequence=dm.Sequence.levels([[i] for i in order]),
        rho=dict(zip(edges, rho.tolist(), strict=True)), stopping=ONE, eps_pri=0.0, eps_dual=0.0,
        max_rounds=ROUNDS, metrics={"x": lambda at: np.array([float(at[v]) for v in x])},
    )  # fmt: skip
    pairs = [(p, q) if rank[p] < rank[q] else (q, p) for p, q in edges]
    best, w = float(h @ c / h.sum()), 2 * rho**2
    A = np.zeros((len(edges), n))
    for at, (early, late) in enumerate(pairs):
        A[at, early], A[at, late] = 1, -1
    mu_best = np.linalg.lstsq(A.T, -h * (best - c))[0]
    np.testing.assert_allclose(A.T @ mu_best, -h * (best - c), atol=1e-12)
    early, late = np.array(pairs).T
    sweeps, mu, before = [], np.zeros(len(edges)), np.zeros(n)
    for points in result.history.x:
        sweeps.append(Sweep(points[early], before[late], points[late], mu, points))
        mu = mu + step * w * (points[early] - points[late])
        before = points
    return Quadratics(h, best, mu_best, w, pairs, sweeps)


@pytest.fixture(scope="module")
def run() -> Callable[[str, float], Quadratics]:
    known: dict[tuple[str, float], Quadratics] = {}

    def of(shape: str, step: float) -> Quadratics:
        if (shape, step) not in known:
            known[shape, step] = _run(shape, step, seed=len(known))
        return known[shape, step]

    return of


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_v_falls_by_exactly_what_the_proof_says(
    run: Callable[[str, float], Quadratics], shape: str, step: float
) -> None:
    q = run(shape, step)

    def lyapunov(mu: Array, b: Array) -> float:
        return float(((mu - q.mu) ** 2 / (step * q.w) + q.w * (b - q.x) ** 2).sum())

    assert len(q.sweeps) == ROUNDS
    first = lyapunov(q.sweeps[0].mu, q.sweeps[0].b_old)
    for one in q.sweeps:
        r = one.a - one.b
        moved = (q.w * (one.a - one.b_old) ** 2).sum()
        extra = (1 - step) * (q.w * r**2).sum()
        convex = 2 * (q.h * (one.points - q.x) ** 2).sum()
        after = lyapunov(one.mu + step * q.w * r, one.b)
        expected = lyapunov(one.mu, one.b_old) - moved - extra - convex
        assert after == pytest.approx(expected, abs=EXACT * first)


@pytest.mark.parametrize("shape", SHAPES)
def test_with_step_1_the_targets_of_later_ends_change_by_what_goes_to_zero(
    run: Callable[[str, float], Quadratics], shape: str
) -> None:
    """Those s = a + mu / w change by a - b, and no client's sides move more than its targets do."""
    q = run(shape, 1.0)
    size = max(float(np.abs(one.a + one.mu / q.w).max()) for one in q.sweeps)
    for before, after in pairwise(q.sweeps):
        s, s_next = before.a + before.mu / q.w, after.a + after.mu / q.w
        np.testing.assert_allclose(s_next - s, after.a - after.b_old, atol=EXACT * size)
        t = before.b_old - before.mu / q.w
        t_next = after.b_old - after.mu / q.w
        for client in range(len(q.h)):
            late = np.array([pair[1] == client for pair in q.pairs])
            early = np.array([pair[0] == client for pair in q.pairs])
            targets = np.where(late, s_next - s, t_next - t)[late | early]
            weights = q.w[late | early]
            moved = after.points[client] - before.points[client]
            assert weights.sum() * moved**2 <= weights @ targets**2 + EXACT * size**2


# --- zoo problems ---------------------------------------------------------------------------------

ROUGH = ("lasso", "elastic_net", "quantile", "svm", "nonnegative", "simplex")
ORDERS: dict[str, Callable[[str], dm.Sequence]] = {
    "by colour": lambda graph: COLOUR,
    "natural": lambda graph: NATURAL,
    "from the root": lambda graph: dm.Sequence.from_root(list(GRAPHS[graph]())[-1]),
    "depth first": lambda graph: dm.Sequence.from_root(list(GRAPHS[graph]())[1], depth_first=True),
}
ON = ("odd ring", "complete", "random", "grid", "star")
CASES = [
    (name, graph, list(ORDERS)[((i + j) // 2 + i) % len(ORDERS)], STEPS[(i + 2 * j) % 3])
    for i, name in enumerate((*SMOOTH, *ROUGH))
    for j, graph in enumerate(ON)
    if graph != "star" or name not in ("partial_overlap", "unequal_dimensions", "simplex")
    if (i + j) % 2 == 0
]
"""Every problem on every second graph, and so every graph with every second problem."""


@pytest.mark.parametrize(("name", "graph", "order", "step"), CASES)
def test_v_falls_with_every_sweep_by_what_the_proof_says(
    name: str, graph: str, order: str, step: float
) -> None:
    path = path_of(name, graph, ORDERS[order](graph), rounds=40, algorithm=dm.DALD(step))
    lacks = path.V[1:] - path.V[:-1] + path.falls - path.slack
    assert lacks.max() <= 0
    assert path.slack.max() < 1e-5 * path.V[0], "the test can see a rise"
    assert path.V[-1] < path.V[0]


def test_v_rises_without_bound_where_the_dual_step_is_too_long() -> None:
    """Penalties are large beside the clients' curvature, so that the order is all there is."""
    given: dict[str, Any] = {"rounds": 120, "spread": 1.0, "scale": 30.0}
    with pytest.warns(dm.SequenceWarning):
        path = path_of("least_squares", "odd ring", NATURAL, algorithm=dm.DALD(1.5), **given)
    assert path.V[-1] > 1e3 * path.V[0]
    path = path_of("least_squares", "odd ring", NATURAL, **given)
    assert (np.diff(path.V) <= path.slack - path.falls).all()
