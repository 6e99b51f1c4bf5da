"""Couplings of flows: lines of a power network, commodities on one network, energy over time."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from tests.front.coupled import Coupled


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


def multi_commodity() -> Coupled:
    """Four commodities on one network of 40 arcs, whose capacities and congestion they share."""
    rng = np.random.default_rng(9)
    graph = nx.random_regular_graph(4, 10, seed=8).to_directed()
    arcs = np.array(graph.edges)
    incidence = np.zeros((10, len(arcs)))
    incidence[arcs[:, 0], np.arange(len(arcs))] = 1
    incidence[arcs[:, 1], np.arange(len(arcs))] = -1
    model = dm.Model("multi-commodity flow")
    flows = [cp.Variable(len(arcs), name=f"flow {k}") for k in range(4)]
    for k, flow in enumerate(flows):
        supply = rng.normal(size=10)
        length = rng.uniform(1, 2, size=len(arcs))
        cost = length @ flow + 0.1 * cp.sum_squares(flow)
        model.client(
            f"commodity {k}", cost, [incidence @ flow == supply - supply.mean(), flow >= 0]
        )
    capacity: Any = sum(flows) <= 1.1
    congestion = 0.2 * cp.sum_squares(sum(flows))
    model.couple(capacity, objective=congestion, name="arcs")
    return Coupled(model, [capacity])


def storage() -> Coupled:
    """A battery over four windows of six hours, and a price on the largest power of the day."""
    rng = np.random.default_rng(9)
    model = dm.Model("storage")
    level = [cp.Variable(7, name=f"level {k}") for k in range(4)]
    bought = [cp.Variable(6, name=f"bought {k}") for k in range(4)]
    peak = cp.Variable(name="peak")
    for k in range(4):
        hours = np.arange(6 * k, 6 * k + 6)
        load = 2 + np.sin(hours / 24 * 2 * np.pi - 2) + 0.1 * rng.normal(size=6)
        price = 1 + 0.5 * np.sin(hours / 24 * 2 * np.pi - 1.5)
        charged = level[k][1:] - level[k][:-1]
        cost = price @ bought[k] + 0.05 * cp.sum_squares(charged)
        rules = [
            bought[k] == load + charged,
            level[k][1:] >= 0,
            level[k][1:] <= 4,
            cp.abs(charged) <= 1,
        ]
        model.client(f"window {k}", cost, rules)
    passed: list[Any] = [level[k][6] == level[k + 1][0] for k in range(3)]
    for k, rule in enumerate(passed):
        model.couple(rule, name=f"passed {k}")
    cycle: Any = level[0][0] == level[3][6]
    model.couple(cycle, name="cycle")
    limits: list[Any] = [power <= peak for power in bought]
    model.couple(objective=2 * peak, constraints=limits, name="peak")
    return Coupled(model, [*passed, cycle, *limits])
