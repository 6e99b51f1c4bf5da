"""A zoo of couplings, each a model and the constraints whose multipliers are unique."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm


class Coupled(NamedTuple):
    """A model, the constraints whose multipliers are unique, and whether all variables are."""

    model: dm.Model
    priced: list[cp.Constraint]
    is_unique: bool = True


def market() -> Coupled:
    """Twelve areas, one balance over all, and who buys nothing."""
    rng = np.random.default_rng(0)
    x = [cp.Variable(2, name=f"x{i}") for i in range(12)]
    model = dm.Model("market")
    for i, v in enumerate(x):
        model.client(f"area {i}", cp.sum_squares(v - rng.normal(size=2)), [v >= 0])
    balance: Any = cp.sum(sum(x)) == 15
    model.couple(balance, name="balance")
    return Coupled(model, [balance])


def budget() -> Coupled:
    """One weighted inequality over ten boxes, which binds."""
    rng = np.random.default_rng(1)
    x = [cp.Variable(3, name=f"x{i}") for i in range(10)]
    model = dm.Model("budget")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - 1 - rng.normal(size=3)), [v <= 1.5])
    spent: Any = sum(rng.uniform(0.5, 2, size=3) @ v for v in x) <= 4
    model.couple(spent, name="budget")
    return Coupled(model, [spent])


def box() -> Coupled:
    """A sum of eight vectors between two bounds."""
    rng = np.random.default_rng(2)
    x = [cp.Variable(4, name=f"x{i}") for i in range(8)]
    model = dm.Model("box")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - 1 - rng.normal(size=4)))
    bounds: list[Any] = [sum(x) <= 6, sum(x) >= 5]
    model.couple(*bounds, name="box")
    return Coupled(model, bounds)


def cone() -> Coupled:
    """Two second-order cones over three clients, one of them affine in all."""
    rng = np.random.default_rng(3)
    x = [cp.Variable(4, name=f"x{i}") for i in range(3)]
    model = dm.Model("cone")
    for i, v in enumerate(x):
        model.client(i, cp.sum_squares(v - i - rng.normal(size=4)))
    inside = sum(rng.normal(size=(2, 4)) @ v for v in x)
    rules = [cp.SOC(x[0][0] + x[1][1] + 2, inside), cp.norm(cp.hstack(x)) <= 4]
    model.couple(*rules, name="cone")
    return Coupled(model, rules)


def network_lasso() -> Coupled:
    """Twenty clients of unequal size, two kinds of them, a norm on each of thirty edges."""
    rng = np.random.default_rng(4)
    true = rng.normal(size=(2, 4))
    w = [cp.Variable(4, name=f"w{i}") for i in range(20)]
    model = dm.Model("network lasso")
    for i, v in enumerate(w):
        A = rng.normal(size=(int(rng.integers(5, 30)), 4))
        noise = 0.3 * rng.normal(size=len(A))
        model.client(i, cp.sum_squares(A @ v - A @ true[i % 2] - noise))
    for i, j in nx.random_regular_graph(3, 20, seed=4).edges:
        model.couple(objective=0.5 * cp.norm(w[i] - w[j]), name=f"edge {i}-{j}")
    return Coupled(model, [])


def fairness() -> Coupled:
    """The largest of twenty losses, beside a resource that all share."""
    rng = np.random.default_rng(5)
    t = cp.Variable(name="t")
    x = [cp.Variable(3, name=f"x{i}") for i in range(20)]
    model = dm.Model("fairness")
    for i, v in enumerate(x):
        model.client(i, 0.01 * cp.sum_squares(v), [v >= 0])
    rules: list[Any] = [cp.sum_squares(v - rng.normal(size=3)) <= t for v in x]
    share: Any = sum(cp.sum(v) for v in x) == 30
    model.couple(share, name="resource")
    model.couple(objective=t, constraints=rules, name="worst")
    return Coupled(model, [share, *rules])


def soft_consensus() -> Coupled:
    """Eight clients that agree with a centre of nobody's as far as it pays."""
    rng = np.random.default_rng(6)
    w = [cp.Variable(3, name=f"w{i}") for i in range(8)]
    centre = cp.Variable(3, name="centre")
    model = dm.Model("soft consensus")
    for i, v in enumerate(w):
        model.client(i, cp.sum_squares(rng.normal(size=(6, 3)) @ v - rng.normal(size=6)))
    model.couple(objective=2 * sum(cp.sum_squares(v - centre) for v in w), name="centre")
    return Coupled(model, [])


def power_flow() -> Coupled:
    """Four areas of a DC network, with angles of their own and limits on the lines between them."""
    rng = np.random.default_rng(7)
    model = dm.Model("power flow")
    angles = [cp.Variable(3, name=f"angle {a}") for a in range(4)]
    lines = [(0, 1), (1, 2), (2, 3), (3, 0)]
    flows = {line: cp.Variable(name=f"flow {line[0]}-{line[1]}") for line in lines}
    for a, angle in enumerate(angles):
        made, inside = cp.Variable(3, name=f"made {a}"), 5 * (angle - angle[[1, 2, 0]])
        out = inside - inside[[2, 0, 1]]
        across = sum(flows[line] for line in lines if line[0] == a)
        across = across - sum(flows[line] for line in lines if line[1] == a)
        demand = rng.uniform(0.5, 1.5, size=3)
        balance = made - demand - out - cp.hstack([across, 0, 0]) == 0
        rules = [balance, made >= 0, made <= 3, cp.abs(inside) <= 0.6]
        cost = rng.uniform(0.5, 2, size=3) @ cp.square(made) + 0.05 * cp.sum_squares(angle)
        model.client(f"area {a}", cost, rules)
    priced: list[cp.Constraint] = []
    for (a, b), flow in flows.items():
        rules = [flow == 4 * (angles[a][0] - angles[b][0]), flow <= 0.3, flow >= -0.3]
        model.couple(*rules, name=f"line {a}-{b}")
        priced += rules
    return Coupled(model, priced)


ZOO: dict[str, Callable[[], Coupled]] = {
    build.__name__: build
    for build in (
        market,
        budget,
        box,
        cone,
        network_lasso,
        fairness,
        soft_consensus,
        power_flow,
    )
}
