"""Cone programs whose numbers are extreme: closed forms, and the same model in good units."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dald_model as dm
from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.balance import balance, is_extreme


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


@pytest.mark.parametrize("unit", [1e8, 1e6, 1e4, 1e2, 1.0])
def test_a_gas_network_in_pascals_costs_what_it_costs_in_megapascals(unit: float) -> None:
    best = float(gas(1e12).monolithic().solve(solver="CLARABEL"))  # pyright: ignore[reportArgumentType]
    result = gas(unit).solve()
    assert result.status == "optimal", result.detail
    assert result.value == pytest.approx(best, rel=1e-5)
    found = result.certificate()
    assert found.ok, found
    assert found.bound <= best * (1 + 1e-7)


@pytest.mark.parametrize("unit", [1e6, 1e4, 1e2])
def test_a_gas_network_is_verified_where_cvxpy_s_solvers_fail(unit: float) -> None:
    found = gas(unit).solve().verify()
    assert found.ok, found


def rotated(scale: float) -> ConeProgram:
    """The least a + b with a b >= x^2 and x >= scale^2, of which a is to be scale^3 as large."""
    rows = np.array(
        [
            [0.0, 0.0, -1.0],
            [-1.0, -(scale**2), 0.0],
            [-1.0, scale**2, 0.0],
            [0.0, 0.0, -2.0],
        ]
    )
    rhs = np.array([-(scale**2), 0.0, 0.0, 0.0])
    cones = (("NonnegativeConeT", 1), ("SecondOrderConeT", 3))
    return ConeProgram(
        sp.csc_array((3, 3)), np.array([1.0, 0.0, 0.0]), 0.0, sp.csc_array(rows), rhs, cones
    )


@pytest.mark.parametrize("seed", range(5))
def test_multipliers_of_balanced_rows_mean_the_same_in_the_user_s_units(seed: int) -> None:
    cone, rng = rotated(1e4), np.random.default_rng(seed)
    found = balance(cone, np.full(3, np.nan))
    assert is_extreme(cone, np.ones(3))
    columns = np.repeat(found.lengths, np.diff(cone.rows.indptr))
    cells = cone.rows.data * found.cells * columns
    balanced = sp.csc_array((cells, cone.rows.indices, cone.rows.indptr), shape=cone.rows.shape)
    z = rng.normal(size=4)
    restored = found.restored(z)
    expected = found.lengths * (cone.rows.T @ restored)
    np.testing.assert_allclose(balanced.T @ z, expected, rtol=1e-10)  # sums of 1e8 times others
    assert found.rhs @ z == pytest.approx(cone.rhs @ restored, rel=1e-10)


def test_balanced_rows_are_near_one_and_powers_of_two_of_what_they_were() -> None:
    cone = rotated(1e4)
    found = balance(cone, np.full(3, np.nan))
    columns = np.repeat(found.lengths, np.diff(cone.rows.indptr))
    cells = np.abs(cone.rows.data * found.cells * columns)
    cells = cells[cells > 0]
    assert cells.max() <= 16 * cells.min()
    for factors in (found.cells, found.lengths, found.units):
        np.testing.assert_array_equal(np.log2(factors), np.round(np.log2(factors)))


def test_ordinary_rows_are_left_to_the_solver() -> None:
    assert not is_extreme(rotated(5.0), np.ones(3))
