"""Paths that nothing was chosen on: other losses, couplings and owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from tests.benchmarks import owners
from tests.front.resolving import Resolving, predictive_control

STEPS = 50


def _weighed(
    name: str, costs: Callable[[cp.Parameter], Sequence[Any]], weights: np.ndarray
) -> Resolving:
    """Clients' costs with a weight that goes along a path."""
    weight = cp.Parameter(nonneg=True, name="weight")
    model, made = dm.Model(name), costs(weight)
    for at, cost in enumerate(made):
        model.client(at, cost)

    def step(at: int) -> None:
        weight.value = weights[at]

    return Resolving(model, made, [], step, len(weights))


def _drawn(clients: int, size: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    truth, found = rng.normal(size=size), []
    for _ in range(clients):
        A = rng.normal(size=(40, size))
        found.append((A, A @ truth + 0.5 * rng.normal(size=40)))
    return found


def elastic_net() -> Resolving:
    """Half of the weight on the squares, half on the sizes."""
    x, parts = cp.Variable(8), _drawn(10, 8, 3)

    def costs(weight: cp.Parameter) -> list[Any]:
        paid = weight * cp.norm1(x) + weight * cp.sum_squares(x)
        return [cp.sum_squares(A @ x - b) + paid for A, b in parts]

    return _weighed("elastic net", costs, np.geomspace(20, 0.2, STEPS))


def huber() -> Resolving:
    """Robust losses with a weight on the squares."""
    x, parts = cp.Variable(8), _drawn(10, 8, 4)

    def costs(weight: cp.Parameter) -> list[Any]:
        return [cp.sum(cp.huber(A @ x - b)) + weight * cp.sum_squares(x) for A, b in parts]

    return _weighed("huber", costs, np.geomspace(10, 0.1, STEPS))


def support_vectors() -> Resolving:
    """The price C of margins that are missed."""
    x, parts = cp.Variable(6), _drawn(8, 6, 5)

    def costs(weight: cp.Parameter) -> list[Any]:
        return [
            cp.sum_squares(x) / 16 + weight * cp.sum(cp.pos(1 - cp.multiply(np.sign(b), A @ x)))
            for A, b in parts
        ]

    return _weighed("support vectors", costs, np.geomspace(0.01, 1, STEPS))


def network_lasso() -> Resolving:
    """Regions that become fewer as their borders become dear."""
    weight = cp.Parameter(nonneg=True, name="weight")
    graph = nx.random_regular_graph(3, 12, seed=0)
    model, x, costs = dm.Model("network lasso"), {}, []
    for at, (A, b) in enumerate(_drawn(12, 3, 6)):
        x[at] = cp.Variable(3)
        costs.append(cp.sum_squares(A @ x[at] - (b + (at % 2) * A[:, 0])))
        model.client(at, costs[-1])
    for here, there in graph.edges:
        costs.append(weight * cp.norm(x[here] - x[there]))
        model.couple(objective=costs[-1], name=f"{here}-{there}")
    weights = np.geomspace(0.1, 10, STEPS)

    def step(at: int) -> None:
        weight.value = weights[at]

    return Resolving(model, costs, [], step, STEPS)


def portfolio() -> Resolving:
    """Risk aversion of six desks that share a budget."""
    rng = np.random.default_rng(7)
    averse = cp.Parameter(nonneg=True, name="averse")
    model, costs, rules, x = dm.Model("portfolio"), [], [], []
    for desk in range(6):
        x.append(cp.Variable(5))
        returns, F = 0.1 * rng.normal(size=5) + 0.1, rng.normal(size=(5, 5)) / 3
        costs.append(averse * cp.sum_squares(F @ x[-1]) - returns @ x[-1])
        rules.append(x[-1] >= 0)
        model.client(desk, costs[-1], [rules[-1]])
    rules.append(sum(cp.sum(one) for one in x) == 1)
    model.couple(rules[-1], name="budget")
    values = np.geomspace(0.1, 10, STEPS)

    def step(at: int) -> None:
        averse.value = values[at]

    return Resolving(model, costs, rules, step, STEPS)


def real_owners(people: str, kind: str) -> Resolving:
    """Real owners of unequal size, a weight on what all pay."""
    found = owners.owners(people, False)
    parts = [(one.A, one.b) for one in found]
    x = cp.Variable(parts[0][0].shape[1])
    share = 1.0 / len(parts)

    def costs(weight: cp.Parameter) -> list[Any]:
        paid = cp.norm1(x) if kind == "lasso" else cp.sum_squares(x)
        losses = [
            cp.sum(cp.logistic(-cp.multiply(np.where(b > 0, 1.0, -1.0), A @ x)))
            if kind == "logistic"
            else cp.sum_squares(A @ x - b)
            for A, b in parts
        ]
        return [loss + share * weight * paid for loss in losses]

    return _weighed(f"{kind}, {people}", costs, np.geomspace(100, 1, STEPS))


def scattered_tanks() -> Resolving:
    """Tanks from states that have nothing to do with each other."""
    given, rng = predictive_control(), np.random.default_rng(5)

    def step(at: int) -> None:
        for one in given.parameters:
            one.value = rng.uniform(0, 2)

    given.step = step
    return given


MAKERS: dict[str, Callable[[], Resolving]] = {
    "elastic net, 10 clients": elastic_net,
    "huber, 10 clients": huber,
    "support vectors, 8 clients": support_vectors,
    "network lasso, 12 clients": network_lasso,
    "portfolio, 6 clients": portfolio,
    "tanks, 5 clients, from states of their own": scattered_tanks,
    "ridge, exam": lambda: real_owners("exam", "ridge"),
    "lasso, wines": lambda: real_owners("wines", "lasso"),
    "logistic, hospitals": lambda: real_owners("hospitals", "logistic"),
}
REAL = ("ridge, exam", "lasso, wines", "logistic, hospitals")
"""Those that need data."""
