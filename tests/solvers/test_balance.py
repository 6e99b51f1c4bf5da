"""Cone programs whose numbers are extreme: closed forms, and the same model in good units."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm


def desks(unit: float) -> tuple[dm.Model, cp.Variable, float]:
    """Two that pay the power 3/2 of what they trade, from positions; in so many dollars a unit."""
    sizes, costs, price = np.array([1.0, 2.0]), np.array([2e-5, 1e-5]), 0.03
    model = dm.Model("desks")
    x = [cp.Variable(3, name=f"x{i}") for i in range(2)]
    for xi, k, size in zip(x, costs, sizes, strict=True):
        earned = unit * price * size * cp.sum(xi)
        paid = k * unit**1.5 * cp.sum(cp.power(cp.abs(xi), 1.5))
        model.client(f"desk {size:g}", cp.Maximize(earned - paid), [cp.abs(xi) <= 1e9 / unit])
    model.consensus(x[0] == x[1])
    return model, x[0], float((price * sizes.sum() / (1.5 * costs.sum())) ** 2)


@pytest.mark.parametrize("unit", [1e6, 1e3, 1.0, 1e-3])
def test_powers_of_dollars_are_traded_as_their_derivative_says(unit: float) -> None:
    model, x, best = desks(unit)
    result = model.solve()
    assert result.status == "optimal", result.detail
    np.testing.assert_allclose(x.value * unit, best, rtol=1e-4)  # pyright: ignore[reportOptionalOperand]
    assert result.value == pytest.approx(0.09 * best, rel=1e-6)  # a third of what is earned
    assert result.verify().ok


def gas(unit: float) -> dm.Model:
    """A network of pipes, flow^2 <= K (difference of squared pressures), these in units of Pa^2."""
    rng = np.random.default_rng(12)
    pipes = [*pairwise(range(6)), (2, 6), (6, 7)]
    net = nx.DiGraph(pipes)
    model = dm.Model("gas")
    squared = {n: cp.Variable(name=f"pi{n}") for n in net}
    flow = {e: cp.Variable(name=f"f{e}", nonneg=True) for e in net.edges}
    for n in net:
        rules = [squared[n] >= (4e6) ** 2 / unit, squared[n] <= (7e6) ** 2 / unit]
        for e in net.out_edges(n):
            K = rng.uniform(1.0, 3.0) * 1e-9 * unit
            rules.append(cp.square(flow[e]) <= K * (squared[n] - squared[e[1]]))
        balance = cp.Constant(0.0) + sum(flow[e] for e in net.in_edges(n))
        balance = balance - sum(flow[e] for e in net.out_edges(n))
        cost = 0
        if n in (0, 4):
            supply = cp.Variable(name=f"s{n}", nonneg=True)
            cost = (3.0 if n == 0 else 4.0) * supply + 0.01 * cp.square(supply)
            balance = balance + supply
        wanted = 0.0 if n in (0, 4) else rng.uniform(2, 12)
        rules += [balance == wanted]
        model.client(f"node {n}", cost, rules)
    return model


@pytest.mark.parametrize("unit", [1e8, 1e6, 3e4, 1e4, 1e3, 56.0, 1.0])
def test_a_gas_network_in_pascals_costs_what_it_costs_in_megapascals(unit: float) -> None:
    best = float(gas(1e12).monolithic().solve(solver="CLARABEL"))  # pyright: ignore[reportArgumentType]
    result = gas(unit).solve()
    assert result.status == "optimal", result.detail
    assert result.value == pytest.approx(best, rel=1e-5)
    found = result.certificate()
    assert found.ok, found
    assert found.bound <= best * (1 + 1e-7)
    check = result.verify()  # where cvxpy's solvers fail
    assert check.ok, check
