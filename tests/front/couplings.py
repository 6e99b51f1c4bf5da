"""A zoo of couplings, each a model and the constraints whose multipliers are unique."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from tests.front.coupled import Coupled
from tests.front.flows import multi_commodity, power_flow, storage


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
    """Sixty clients of 5 to 80 rows, of two kinds, a norm on each of 125 edges."""
    rng = np.random.default_rng(1)
    graph = nx.gnm_random_graph(60, 125, seed=3)
    true = rng.normal(size=(2, 5))
    w = [cp.Variable(5, name=f"w{i}") for i in range(60)]
    model = dm.Model("network lasso")
    for i, v in enumerate(w):
        A = rng.normal(size=(int(rng.integers(5, 80)), 5))
        model.client(i, cp.sum_squares(A @ v - A @ true[i % 2] - 0.3 * rng.normal(size=len(A))))
    for i, j in graph.edges:
        model.couple(objective=cp.norm(w[i] - w[j]), name=f"{i}-{j}")
    return Coupled(model, [])


def network_logistic() -> Coupled:
    """Fifteen clients with labels of two kinds, a norm on each of thirty edges."""
    rng = np.random.default_rng(4)
    true = 2 * rng.normal(size=(2, 3))
    w = [cp.Variable(3, name=f"w{i}") for i in range(15)]
    model = dm.Model("network logistic")
    for i, v in enumerate(w):
        X = rng.normal(size=(int(rng.integers(10, 60)), 3))
        y = np.sign(X @ true[i % 2] + rng.logistic(size=len(X)))
        model.client(i, cp.sum(cp.logistic(cp.multiply(-y, X @ v))) + 0.1 * cp.sum_squares(v))
    for i, j in nx.random_regular_graph(4, 15, seed=4).edges:
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


ZOO: dict[str, Callable[[], Coupled]] = {
    build.__name__: build
    for build in (
        market,
        budget,
        box,
        cone,
        network_lasso,
        network_logistic,
        fairness,
        soft_consensus,
        power_flow,
        multi_commodity,
        storage,
    )
}
