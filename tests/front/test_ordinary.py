"""Problems of cvxpy's own examples, taken apart in every way; the oracle is cvxpy's own solve."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.front.taken_apart import stated


def portfolio() -> cp.Problem:
    """By factors, with a limit on leverage."""
    rng, n, m = np.random.default_rng(1), 60, 6
    gain, noise = np.abs(rng.normal(size=n)), rng.uniform(0, 0.9, size=n)
    root, load = rng.normal(size=(m, m)), rng.normal(size=(n, m))
    w, f = cp.Variable(n, name="w"), cp.Variable(m, name="f")
    aversion = cp.Parameter(nonneg=True, value=0.1)
    risk = cp.sum_squares(root @ f) + cp.sum_squares(cp.multiply(np.sqrt(noise), w))
    rules: list[Any] = [cp.sum(w) == 1, f == load.T @ w, cp.norm1(w) <= 2]
    return cp.Problem(cp.Maximize(gain @ w - aversion * risk), rules)


def worst_case_risk() -> cp.Problem:
    rng, n = np.random.default_rng(2), 5
    w, root = rng.uniform(size=n), rng.normal(size=(n, n))
    covariance = cp.Variable((n, n), PSD=True, name="covariance")
    change = cp.Variable((n, n), symmetric=True, name="change")
    rules: list[Any] = [covariance == root @ root.T + change, cp.diag(change) == 0]
    return cp.Problem(cp.Maximize(w @ covariance @ w), [*rules, cp.abs(change) <= 0.2])


def support_vectors() -> cp.Problem:
    rng, n, m = np.random.default_rng(1), 8, 60
    X = rng.normal(size=(m, n))
    sides = np.sign(X @ rng.normal(size=n) + 0.5 + 0.5 * rng.normal(size=m))
    b, v = cp.Variable(n, name="b"), cp.Variable(name="v")
    loss = cp.sum(cp.pos(1 - cp.multiply(sides, X @ b - v))) / m
    return cp.Problem(cp.Minimize(loss + 0.1 * cp.norm1(b)))


def channel_capacity() -> cp.Problem:
    likely = np.array([[0.75, 0.25], [0.25, 0.75]])
    x = cp.Variable(2, name="x")
    bits = np.sum(likely * np.log2(likely), axis=0) @ x + cp.sum(cp.entr(likely @ x)) / np.log(2)
    return stated(cp.Maximize(bits), [cp.sum(x) == 1, x >= 0])


def value_at_risk() -> cp.Problem:
    rng = np.random.default_rng(1)
    gains, w = rng.normal(size=(60, 8)) + 0.1, cp.Variable(8, nonneg=True, name="w")
    return stated(
        cp.Minimize(cp.cvar(-gains @ w, 0.9) - 0.1 * cp.sum(gains @ w) / 60), [cp.sum(w) == 1]
    )


def control() -> cp.Problem:
    rng, n, steps = np.random.default_rng(1), 4, 12
    A, B = np.eye(n) + 0.2 * rng.normal(size=(n, n)), rng.normal(size=(n, 2))
    x = [cp.Variable(n, name=f"x{t}") for t in range(steps + 1)]
    u = [cp.Variable(2, name=f"u{t}") for t in range(steps)]
    cost = sum(cp.sum_squares(x[t + 1]) + cp.sum_squares(u[t]) for t in range(steps))
    rules: list[Any] = [x[0] == rng.normal(size=n)]
    for t in range(steps):
        rules += [x[t + 1] == A @ x[t] + B @ u[t], cp.norm(u[t], "inf") <= 1]
    return cp.Problem(cp.Minimize(cost), rules)


def largest_flow() -> cp.Problem:
    net, rng = nx.gnp_random_graph(10, 0.4, seed=1, directed=True), np.random.default_rng(1)
    flow = {edge: cp.Variable(name=f"f{edge}") for edge in net.edges}
    total = cp.Variable(name="total")
    ends = {0: total, 9: -total}
    rules: list[Any] = []
    for node in net:
        out = sum(flow[edge] for edge in net.out_edges(node))
        rules.append(out - sum(flow[edge] for edge in net.in_edges(node)) == ends.get(node, 0))
    for v in flow.values():
        rules += [v >= 0, v <= float(rng.integers(1, 9))]
    return cp.Problem(cp.Maximize(total), rules)


def power_flow() -> cp.Problem:
    """Angles have no cost, and stand ten to one beside the power in a balance."""
    rng, grid = np.random.default_rng(1), nx.cycle_graph(9)
    grid.add_edges_from([(0, 4), (2, 7)])
    angle = [cp.Variable(name=f"angle {i}") for i in grid]
    power = [cp.Variable(name=f"power {i}", nonneg=True) for i in grid]
    demand, price = rng.uniform(0.5, 1.5, size=9), rng.uniform(1, 3, size=9)
    rules: list[Any] = [angle[0] == 0]
    for i in grid:
        out = sum(5 * (angle[i] - angle[j]) for j in grid[i])
        rules += [power[i] - demand[i] == out, power[i] <= (3 if i % 3 == 0 else 0.4)]
    rules += [cp.abs(5 * (angle[i] - angle[j])) <= 1.2 for i, j in grid.edges]
    cost = sum(price[i] * power[i] + 0.2 * cp.square(power[i]) for i in grid)
    return cp.Problem(cp.Minimize(cost), rules)


def trades() -> cp.Problem:
    """A portfolio over several periods."""
    rng, n, periods = np.random.default_rng(1), 6, 5
    w = [cp.Variable(n, name=f"w{t}") for t in range(periods + 1)]
    gain, root = 0.1 * rng.normal(size=(periods, n)), rng.normal(size=(n, n)) / np.sqrt(n)
    goal = sum(
        gain[t] @ w[t + 1] - cp.sum_squares(root.T @ w[t + 1]) - 0.05 * cp.norm1(w[t + 1] - w[t])
        for t in range(periods)
    )
    rules: list[Any] = [w[0] == 1 / n]
    for v in w[1:]:
        rules += [cp.sum(v) == 1, v >= 0]
    return cp.Problem(cp.Maximize(goal), rules)


def floor_plan() -> cp.Problem:
    rng, n = np.random.default_rng(1), 4
    x = [cp.Variable(name=f"x{i}") for i in range(n)]
    w = [cp.Variable(name=f"w{i}", nonneg=True) for i in range(n)]
    h = [cp.Variable(name=f"h{i}", nonneg=True) for i in range(n)]
    width, height = cp.Variable(name="width"), cp.Variable(name="height")
    rules: list[Any] = []
    for i in range(n):
        area = cp.geo_mean(cp.hstack([w[i], h[i]])) >= np.sqrt(rng.uniform(1, 3))
        rules += [area, h[i] <= height, x[i] >= 0, x[i] + w[i] <= width, h[i] <= 5 * w[i]]
        if i:
            rules.append(x[i - 1] + w[i - 1] <= x[i])
    return cp.Problem(cp.Minimize(2 * (width + height)), rules)


def centre() -> cp.Problem:
    """Of the largest ball in a polyhedron."""
    radius, at = cp.Variable(name="radius"), cp.Variable(2, name="at")
    sides = np.array([[2.0, 1], [2, -1], [-1, 2], [-1, -2]])
    rules: list[Any] = [side @ at + np.linalg.norm(side) * radius <= 1 for side in sides]
    return cp.Problem(cp.Maximize(radius), rules)


def covariance() -> cp.Problem:
    seen = np.cov(np.random.default_rng(1).normal(size=(50, 5)).T)
    S = cp.Variable((5, 5), PSD=True, name="S")
    return stated(cp.Maximize(cp.log_det(S) - cp.trace(S @ seen)), [cp.sum(cp.abs(S)) <= 8])


def landing() -> cp.Problem:
    """With the least fuel: all steps are rows of the same three variables."""
    steps = 8
    at, speed = cp.Variable((steps + 1, 2), name="at"), cp.Variable((steps + 1, 2), name="speed")
    u = cp.Variable((steps, 2), name="u")
    rules: list[Any] = [at[0] == [5, 10], speed[0] == [0, -1], at[steps] == 0, speed[steps] == 0]
    for t in range(steps):
        rules += [
            at[t + 1] == at[t] + speed[t] + u[t] / 2,
            speed[t + 1] == speed[t] + u[t] - np.array([0, 0.2]),
            cp.norm(u[t]) <= 3,
        ]
    return cp.Problem(cp.Minimize(sum(cp.norm(u[t]) for t in range(steps))), rules)


def congestion() -> cp.Problem:
    """Flows that cost the more the nearer they come to capacities."""
    net = nx.DiGraph([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    flow = {edge: cp.Variable(nonneg=True, name=f"f{edge}") for edge in net.edges}
    most = {edge: 2 + 0.3 * at for at, edge in enumerate(net.edges)}
    rules: list[Any] = []
    for node in net:
        out = sum(flow[e] for e in net.out_edges(node)) - sum(flow[e] for e in net.in_edges(node))
        rules.append(out == {0: 1.5, 3: -1.5}.get(node, 0))
    cost = sum(most[edge] * cp.inv_pos(most[edge] - v) for edge, v in flow.items())
    return cp.Problem(cp.Minimize(cost), rules)


def moved_mass() -> cp.Problem:
    """From one histogram to another, smoothed by entropy."""
    rng = np.random.default_rng(15)
    a, b = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    plan = cp.Variable((4, 5), name="plan")
    cost = cp.sum(cp.multiply(rng.uniform(size=(4, 5)), plan)) - 0.1 * cp.sum(cp.entr(plan))
    rules: list[Any] = [cp.sum(plan, axis=1) == a, cp.sum(plan, axis=0) == b]
    return cp.Problem(cp.Minimize(cost), rules)


MAKERS: list[Callable[[], cp.Problem]] = [
    portfolio,
    worst_case_risk,
    support_vectors,
    channel_capacity,
    value_at_risk,
    control,
    largest_flow,
    power_flow,
    trades,
    floor_plan,
    centre,
    covariance,
    landing,
    congestion,
    moved_mass,
]


def ways(problem: cp.Problem) -> list[Any]:
    """By its summands, by halves of its variables, and by a number of clients."""
    found = problem.variables()
    half = len(found) // 2
    halves = [{"one": found[:half], "two": found[half:]}] if half else []
    return [None, *halves, *([3] if len(found) > 3 else [])]


@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_every_way_of_taking_a_problem_apart_has_the_problems_value(
    make: Callable[[], cp.Problem],
) -> None:
    problem = make()
    problem.solve(solver=cp.CLARABEL)
    known: Any = problem.value
    for clients in ways(problem):
        result = dm.decompose(problem, clients=clients).solve()
        assert result.status == "optimal"
        assert result.value == pytest.approx(known, rel=1e-5, abs=1e-5)
