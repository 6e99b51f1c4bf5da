"""Kinds of terms: a new one is a class and a line, and each is what cvxpy says it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.compile import kinds
from dald_model.compile.components import Component, Recognised, combined
from dald_model.compile.form import Term
from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.engines.dispatch import SolverLayer
from dald_model.solvers.arrays import matrices
from dald_model.solvers.arrays.terms import Terms, shared
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


def test_no_two_kinds_have_one_name():
    names = [kind.name for kind in kinds.KINDS]
    assert len(set(names)) == len(names)
    assert all(kinds.named(kind.name) is kind for kind in kinds.KINDS)


# --- what each kind is ----------------------------------------------------------------------------

NORMS: dict[str, Callable[[Any], Any]] = {"abs": cp.abs, "norm": cp.norm2}


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.operator], ids=repr)
def test_proximal_operators_are_cvxpys_minimisers(kind: Kind, rng: np.random.Generator):
    width = 3 if kind.is_joint else 1
    u, weight, radius = rng.normal(size=(5, width)), rng.random(5), 0.5 + rng.random(5)
    found = kind.prox(u if kind.is_joint else u[:, 0], weight, radius).reshape(u.shape)
    for row, w, r, at in zip(u, weight, radius, found, strict=True):
        v = cp.Variable(width)
        rules = [cp.norm2(v) <= r] if kind.is_set else []
        cost = 0 if kind.is_set else w * NORMS[kind.name](v)
        cp.Problem(cp.Minimize(cost + cp.sum_squares(v - row) / 2), rules).solve(solver="CLARABEL")
        np.testing.assert_allclose(at, flat(v.value), atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.operator], ids=repr)
def test_a_multiple_of_the_argument_is_of_the_same_kind(kind: Kind, rng: np.random.Generator):
    u, weight, parameter = rng.normal(size=(5, 3)), rng.random(5), rng.random(5)
    u, size = (u if kind.is_joint else u[:, 0]), 0.5 + rng.random(5)
    own, other = kind.scaled(weight, parameter, size)
    spread = size[:, None] if kind.is_joint else size
    if kind.is_set:
        inside = kind.excess(spread * u, parameter) <= 0
        assert ((kind.excess(u, other) <= 0) == inside).all()
    else:
        wanted = weight * kind.value(spread * u, parameter)
        np.testing.assert_allclose(own * kind.value(u, other), wanted)


@pytest.mark.parametrize("name", ["logistic", "log", "huber", "entropy"])
def test_shortcuts_agree_with_the_whole(name: str, rng: np.random.Generator):
    kind, u, parameter = kinds.named(name), 3 * rng.normal(size=50), rng.random(50)
    u = np.abs(u) if kind.is_positive else u
    value, gradient, _ = kind.evaluate(u, parameter)
    np.testing.assert_allclose(kind.value(u, parameter), value, rtol=1e-14)
    np.testing.assert_allclose(kind.gradient(u, parameter), gradient, rtol=1e-14)


# --- clients of unequal sizes ---------------------------------------------------------------------

ATOMS: dict[str, Callable[[Any], Any]] = {
    "logistic": lambda u: cp.sum(cp.logistic(u)),
    "logsumexp": cp.log_sum_exp,
    "log": lambda u: -cp.sum(cp.log(u + 9)),
}


@pytest.mark.parametrize("name", ATOMS)
@pytest.mark.parametrize("density", [1.0, 0.1])
def test_terms_of_unequal_sizes_are_those_of_cvxpy(
    name: str, density: float, rng: np.random.Generator
):
    kind, size, heights = kinds.named(name), 6, (3, 1, 40, 7)
    terms, wanted = [], []
    x = 0.3 * rng.normal(size=(len(heights), size))
    for height, point in zip(heights, x, strict=True):
        A = rng.normal(size=(height, size)) * (rng.random((height, size)) < density)
        b = rng.normal(size=height)
        count, width = (1, height) if kind.is_joint else (height, 1)
        offset = b + 9 if kind.is_positive else b
        terms.append([Term(kind, np.ones(count), A, offset, np.zeros(count), width)])
        v = cp.Variable(size, value=point)
        atom = ATOMS[name](A @ v + b)
        slope = atom.grad[v]
        wanted.append((atom.value, np.ravel(slope.toarray())))
    together = Terms(terms, size)
    values, gradients, _ = together.evaluate(None, x)
    np.testing.assert_allclose(values, [value for value, _ in wanted], rtol=1e-12)
    np.testing.assert_allclose(gradients, [slope for _, slope in wanted], atol=1e-12)
    np.testing.assert_allclose(together.gradients(None, x), gradients, atol=1e-14)
    step = 1e-6 * rng.normal(size=x.shape)
    change = together.gradients(None, x + step) - together.gradients(None, x - step)
    turned = (together.hessians(None, x) @ step[:, :, None])[:, :, 0]
    np.testing.assert_allclose(2 * turned, change, atol=1e-9 * np.abs(change).max() + 1e-14)
    rise = together.along(np.arange(4), x, step)(np.zeros(4))
    np.testing.assert_allclose(rise, np.vecdot(gradients, step), rtol=1e-9, atol=1e-15)


def logistics(rng: np.random.Generator, count: int) -> dm.Model:
    """Clients with 2, 5, 8, ... labelled rows."""
    w = cp.Variable(3, name="w")
    model = dm.Model("hospitals of all sizes")
    for i in range(count):
        A, b = rng.normal(size=(2 + 3 * i, 3)), rng.choice((-1.0, 1.0), size=2 + 3 * i)
        cost = cp.sum(cp.logistic(cp.multiply(-b, A @ w))) + 0.05 * cp.sum_squares(w)
        model.client(f"hospital {i}", cost)
    return model


@pytest.mark.parametrize("spare", [0, matrices.SPARE])
def test_clients_of_any_number_of_rows_share_a_session(
    spare: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(matrices, "SPARE", spare)
    model = logistics(rng, 12)
    compiled = model.compile()
    assert len(SolverLayer(compiled, "auto").batches(list(model.clients))) == 1
    sizes = [sub.form.terms for sub in compiled.values() if sub.form]
    parts = shared(sizes, np.full(len(sizes), 3))
    assert (len(parts) == 1) == (spare > 0)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(12))
    result = model.solve()
    assert not result.fallbacks
    assert result.verify().ok
    drawn = model.solve(sequence=dm.Sequence.random(5, seed=1), max_rounds=400)
    assert drawn.value == pytest.approx(result.value, rel=1e-4)


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
