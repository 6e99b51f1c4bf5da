"""Kinds of terms: a new one is a class and a line, and each is what cvxpy says it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile import kinds
from dald_model.compile.components import Component, Recognised, combined
from dald_model.compile.kinds.kind import Evaluated, Kind
from tests.expect import flat


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# --- a new kind -----------------------------------------------------------------------------------


class Root(Kind):
    r""":math:`-\sqrt u`, which cvxpy writes as :math:`\|(u - 1, 2t)\| \le u + 1`."""

    name = "root"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        if [kind for kind, _ in component.cones] != ["soc"] or len(component.columns) != 1:
            return None
        t, rows = component.columns[0], component.cones[0][1]
        if len(rows) != 3 or rows[2] != ({t: 2.0}, 0.0) or component.q[t] >= 0:
            return None
        gap = combined((1.0, rows[0]), (-1.0, rows[1]))
        inner = combined((0.5, rows[0]), (0.5, rows[1]))
        is_root = gap == ({}, 2.0) and t not in inner[0]
        return Recognised(self, [inner], None, t, 1.0) if is_root else None

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        root = np.sqrt(u)
        return np.where(u >= 0, -root, np.inf), -1 / (2 * root), 1 / (4 * u * root)


def roots(rng: np.random.Generator, heights: Sequence[int]) -> dm.Model:
    """Clients with so many terms -sqrt(a'x + b) each, who share x."""
    x = cp.Variable(3, name="x")
    model = dm.Model("roots")
    for i, height in enumerate(heights):
        A, b = rng.random((height, 3)), 4 + rng.random(height)
        cost = -rng.random(height) @ cp.sqrt(A @ x + b) + cp.sum_squares(x - rng.normal(size=3))
        model.client(i, cost)
    return model


def solvers(model: dm.Model) -> set[str]:
    return {one.solver for one in model.compile().explain() if one.what != "server"}


def test_a_new_kind_is_a_class_and_a_line(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    assert solvers(roots(rng, (2, 5, 3))) == {"conic"}
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, Root()))
    model = roots(rng, (2, 5, 3))
    assert solvers(model) == {"newton"}
    result = model.solve()
    assert result.status == "optimal"
    assert not result.fallbacks
    assert result.verify().ok  # against plain cvxpy, for which nothing has changed
    steps = dm.solvers.GradientSteps(0.05, 20)
    inexact = model.solve(solver=steps, eps_pri=1e-6, eps_dual=1e-6, max_rounds=500)
    wanted = model.monolithic().solve(solver="CLARABEL")
    assert inexact.value == pytest.approx(wanted, rel=1e-5)


# --- what each kind is ----------------------------------------------------------------------------


def test_derivatives_of_a_log_det_are_its_differences(rng: np.random.Generator):
    kind, step = kinds.named("log det"), 1e-5
    factor = rng.normal(size=(4, 4))
    matrix = factor @ factor.T + np.eye(4)
    row, column = np.array([(i, j) for j in range(4) for i in range(j + 1)]).T
    u = matrix[row, column] * np.where(row == column, 1.0, np.sqrt(2.0))
    nothing = np.zeros(())
    value, slope, bends = kind.evaluate(u, nothing)
    assert value == pytest.approx(-np.linalg.slogdet(matrix).logabsdet, abs=1e-12)
    ends = [[kind.evaluate(u + s * e, nothing) for s in (step, -step)] for e in np.eye(u.size)]
    rises = [(ahead[0] - behind[0]) / (2 * step) for ahead, behind in ends]
    hessian = np.array([(ahead[1] - behind[1]) / (2 * step) for ahead, behind in ends])
    np.testing.assert_allclose(slope, rises, atol=1e-8)
    np.testing.assert_allclose(bends, np.diag(hessian), atol=1e-8)
    root = kind.root(np.eye(u.size), u, np.ones(()), nothing)
    np.testing.assert_allclose(root.T @ root, hessian, atol=1e-8)
    for outside in (u - 30 * np.eye(u.size)[0], np.zeros(u.size), np.full(u.size, np.nan)):
        assert np.isinf(kind.evaluate(outside, nothing)[0])
    way = rng.normal(size=u.size)
    line: Any = kind.line(u, way)
    for t in (0.0, 0.1, 0.3):
        assert line(t) == pytest.approx(kind.evaluate(u + t * way, nothing)[1] @ way, rel=1e-9)
    assert line(100.0) == np.inf


def likelihood(rows: np.ndarray, precision: Any) -> Any:
    """What Gaussian rows of mean zero cost."""
    return cp.trace(rows.T @ rows / len(rows) @ precision) - cp.log_det(precision)


@pytest.mark.parametrize("attribute", ["symmetric", "PSD"])
def test_precisions_of_many_owners_are_the_inverse(rng: np.random.Generator, attribute: str):
    """Owners of unequal matrices, who share what both have: closed forms all."""
    mixing = rng.normal(size=(5, 5))
    parts = [rng.normal(size=(30, 5)) @ mixing for _ in range(3)]
    is_psd = attribute == "PSD"
    shared = cp.Variable((5, 5), symmetric=not is_psd, PSD=is_psd)
    model = dm.Model("precisions")
    for i, rows in enumerate(parts):
        model.client(i, likelihood(rows, shared))
    # The server holds the log det that all have in common, but of a variable that is declared PSD
    assert solvers(model) == ({"newton"} if is_psd else {"factor", "newton"})
    result = model.solve()
    assert result.status == "optimal"
    assert not result.fallbacks
    assert result.certificate().ok
    pooled = np.concatenate(parts)
    wanted = np.linalg.inv(pooled.T @ pooled / len(pooled))
    np.testing.assert_allclose(np.array(shared.value), wanted, atol=1e-5 * np.abs(wanted).max())


def test_matrices_of_unequal_sizes_are_one_batch(rng: np.random.Generator):
    """A trace in common is all that the owners share: the multiplier moves each closed form."""
    sizes, model, traces, parts = (2, 4, 3), dm.Model("traces"), [], []
    for i, size in enumerate(sizes):
        matrix, rows = cp.Variable((size, size), symmetric=True), rng.normal(size=(9, size))
        model.client(i, likelihood(rows, matrix))
        traces.append(cp.trace(matrix))
        parts.append((matrix, rows.T @ rows / 9))
    model.couple(sum(traces) <= 6, name="budget")
    result = model.solve()
    assert result.status == "optimal"
    found = [np.array(matrix.value) for matrix, _ in parts]
    assert sum(map(np.trace, found)) == pytest.approx(6, abs=1e-5)
    slopes = [np.linalg.inv(one) - rows for one, (_, rows) in zip(found, parts, strict=True)]
    price = slopes[0][0, 0]
    for slope in slopes:
        np.testing.assert_allclose(slope, price * np.eye(len(slope)), atol=1e-4 * price)


# --- clients of unequal sizes ---------------------------------------------------------------------


def test_flows_in_pipes_keep_the_energy_law() -> None:
    """Districts of a water network: the head lost is :math:`r q |q|`, and no loop gains any."""
    rng, grid = np.random.default_rng(2), nx.grid_2d_graph(4, 4)
    flow = {pipe: cp.Variable(name=f"q{pipe}") for pipe in grid.edges}
    loss = {pipe: float(rng.uniform(0.002, 0.02)) for pipe in grid.edges}
    heads = {(0, 0): 60.0, (3, 0): 50.0}
    feed = {source: cp.Variable(name=f"feed{source}") for source in heads}
    model = dm.Model("water network")
    for district in ((0, 0), (0, 1), (1, 0), (1, 1)):
        nodes = [node for node in grid if (node[0] // 2, node[1] // 2) == district]
        cost: Any = sum(
            loss[pipe] / 3 * cp.power(cp.abs(flow[pipe]), 3)
            for pipe in grid.edges
            if pipe[0] in nodes
        )
        rules: list[Any] = []
        for node in nodes:
            into: Any = sum(flow[p] if p[1] == node else -flow[p] for p in grid.edges if node in p)
            if node in heads:
                into, cost = into + feed[node], cost - heads[node] * feed[node]
                rules.append(feed[node] >= 0)
            rules.append(into == rng.uniform(2, 15))
        model.client(district, cost, rules)
    result = model.solve()
    assert result.status == "optimal"
    names, pipes = list(grid), list(grid.edges)
    incidence = np.zeros((len(pipes), len(names)))
    for row, (start, end) in enumerate(pipes):
        incidence[row, names.index(start)], incidence[row, names.index(end)] = 1.0, -1.0
    q = np.concatenate([flat(flow[pipe].value) for pipe in pipes])
    lost = np.array([loss[pipe] for pipe in pipes]) * q * np.abs(q)
    found = np.linalg.lstsq(incidence, lost)[0]
    np.testing.assert_allclose(incidence @ found, lost, atol=1e-4)  # metres
    # Both sources give, so their heads are what they were said to be
    assert all(flat(feed[source].value)[0] > 1 for source in heads)
    apart = found[names.index((0, 0))] - found[names.index((3, 0))]
    np.testing.assert_allclose(apart, 10.0, atol=1e-3)


def test_flows_of_least_delay_share_a_link_by_roots_of_their_weights() -> None:
    r"""Bytes a second: :math:`\min \sum w_i / x_i, \sum x_i \le c` at :math:`\sqrt{w_i}`."""
    weights = 1e6 * np.arange(1.0, 5.0)
    rates = [cp.Variable(name=f"x{i}") for i in range(4)]
    model = dm.Model("link")
    for i, rate in enumerate(rates):
        bounds = [rate >= 1e3, rate <= 5e7]
        model.client(i, cp.Maximize(-weights[i] * cp.inv_pos(rate)), bounds)
    total: Any = sum(rates)
    model.couple(total <= 4e6)
    result = model.solve()
    assert result.status == "optimal"
    found = [float(flat(rate.value)[0]) for rate in rates]
    np.testing.assert_allclose(found, 4e6 * np.sqrt(weights) / np.sqrt(weights).sum(), rtol=1e-4)


def test_fourth_powers_take_rounds_and_not_the_round_limit() -> None:
    """Residuals to the fourth power, in units of which Clarabel's cones are imprecise."""
    rng, w = np.random.default_rng(1), cp.Variable(5, name="w")
    model, data = dm.Model("fourth powers"), []
    for i, rows in enumerate((30, 60, 120)):
        X = rng.normal(size=(rows, 5))
        y = X @ np.arange(1, 6) + rng.normal(size=rows) * (1 + i)
        data.append((X, y))
        model.client(i, cp.sum(cp.power(cp.abs(X @ w - y), 4)) / rows)
    result = model.solve(max_rounds=100)
    assert result.status == "optimal"
    slope = sum(4 / len(y) * X.T @ (X @ w.value - y) ** 3 for X, y in data)
    size = sum(4 / len(y) * np.abs(X.T) @ np.abs(X @ w.value - y) ** 3 for X, y in data)
    assert (np.abs(slope) <= 1e-5 * size).all()


def test_support_vector_regression_is_batched_and_right() -> None:
    """The loss of a dead zone, of hospitals of unequal size, against cvxpy alone."""
    rng, w = np.random.default_rng(2), cp.Variable(4, name="w")
    model = dm.Model("regression")
    whole: Any = 0.0
    for i, rows in enumerate((20, 50, 90)):
        X = rng.normal(size=(rows, 4))
        y = X @ np.arange(4.0) + rng.normal(size=rows)
        loss = cp.sum(cp.pos(cp.abs(X @ w - y) - 0.5)) / 160 + 1e-3 * cp.sum_squares(w)
        model.client(i, loss)
        whole = whole + loss
    result = model.solve()
    problem = cp.Problem(cp.Minimize(whole))
    problem.solve(solver=cp.CLARABEL)
    assert result.status == "optimal"
    assert not result.fallbacks
    assert result.value == pytest.approx(problem.value, rel=1e-6)
    assert all(term.kind.name == "abs" for i in range(3) for term in model.compile()[i].form.terms)
