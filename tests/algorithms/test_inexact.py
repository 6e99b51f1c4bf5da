"""Steps instead of minimisation, and the slack they leave, against the same in numpy."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from dald_model.solvers import GradientSteps, NewtonSteps, ProximalGradientSteps
from tests.algorithms.textbook import (
    EXACT,
    NAMES,
    ROUNDS,
    Array,
    Loss,
    at_clients,
    clients,
    iterates,
    on_star,
    paw,
    run,
    same,
    shrunk,
    total,
)


# Every pair of a graph, a solver and a number of steps, not every triple.
@pytest.mark.parametrize(
    ("graph", "solver"),
    [
        (None, GradientSteps(0.4, 1)),
        (paw(), GradientSteps(0.4, 3)),
        (None, NewtonSteps(3)),
        (paw(), NewtonSteps(1)),
        (None, ProximalGradientSteps(0.4, 1)),
        (paw(), ProximalGradientSteps(0.4, 3)),
    ],
    ids=["server-G1", "peers-G3", "server-N3", "peers-N1", "server-P1", "peers-P3"],
)
def test_an_inexact_layer_ends_at_the_optimum(graph: Any, solver: Any) -> None:
    losses = clients("logistic")
    model, w = on_star(losses, 8)
    if graph is not None:
        model.topology(graph)
    result = model.solve(
        acceleration=None, solver=solver, rho=0.4, stopping=dm.FixedBudget(1), max_rounds=20_000
    )
    assert result.status == "optimal"
    assert result.verify().ok
    assert result[w] == pytest.approx(total(losses).argmin(np.zeros(8), 0.0), abs=1e-3)
    slack = result.history.slack
    assert slack.iloc[-1] < 1e-5
    assert slack.iloc[-1] < slack.iloc[0] / 50


def _augmented(losses: list[Loss], i: int, x: Array, z: Array, mu: Array, rho: float) -> Array:
    """The gradient of (12): mu' (z - x) + rho^2 |z - x|^2."""
    return losses[i].gradient(x) - mu[i] - 2 * rho**2 * (z - x)


@pytest.mark.parametrize("W", [1, 3])
@pytest.mark.parametrize("method", ["gradient", "newton", "proximal"])
def test_the_slack_is_the_norm_of_the_gradient_mapping(method: str, W: int) -> None:
    """Algorithm 2 with W local steps a turn by hand, (60) and (66), with the slack of each round.

    The slack of a turn is that of its last step: the gradient (mapping) where that began.
    """
    losses, rho, step, weight = clients("logistic"), 0.5, 0.6, 0.01
    w = cp.Variable(8, name="w")
    model = dm.Model("inexact")
    for name, loss in zip(NAMES, losses, strict=True):
        rough = weight * cp.norm1(w) if method == "proximal" else 0
        model.client(name, loss.express(w) + rough)

    def turn(i: int, x: Array, z: Array, mu: Array) -> tuple[Array, float]:
        slack = 0.0
        for _ in range(W):
            g = _augmented(losses, i, x, z, mu, rho)
            before = x
            if method == "gradient":
                x, slack = x - step * g, np.abs(g).max()
            elif method == "newton":
                H = losses[i].hessian(x) + 2 * rho**2 * np.eye(8)
                x, slack = x - np.linalg.solve(H, g), np.abs(g).max()
            else:
                x = shrunk(x - step * g, step * weight)
                slack = np.abs(before - x).max() / step
        return x, float(slack)

    x, z, mu = np.zeros((4, 8)), np.zeros(8), np.zeros((4, 8))
    points, slacks = [], []
    for _ in range(ROUNDS):
        turns = [turn(i, x[i], z, mu) for i in range(4)]
        x = np.stack([one for one, _ in turns])
        z = x.mean(axis=0) - mu.sum(axis=0) / (2 * 4 * rho**2)
        points.append(np.vstack([x, z]))
        slacks.append(max(s for _, s in turns))
        mu = mu + 2 * rho**2 * (z - x)
    solver = {
        "gradient": GradientSteps(step, W),
        "newton": NewtonSteps(W),
        "proximal": ProximalGradientSteps(step, W),
    }[method]
    options = {"rho": rho, "solver": solver, "stopping": dm.FixedBudget(1)}
    seen, result = run(model, dm.DALD(), at_clients(w), **options)
    same(seen, [p[:4] for p in points])
    same(iterates(model, dm.DALD(), w, **options), [p[4] for p in points])
    assert result.history.slack.tolist() == pytest.approx(slacks, abs=EXACT)
    assert slacks[-1] < slacks[0] / 10


def test_the_papers_proximal_steps_on_a_chain() -> None:
    """Section VI-B: Fed-DALD-DC with (B4), v_max = 1 and W = 1 soft-thresholded step, (66)."""
    losses, rho, step, weight = clients("logistic"), 0.5, 0.6, 0.01
    w = cp.Variable(8, name="w")
    model = dm.Model("chain")
    for name, loss in zip(NAMES, losses, strict=True):
        model.client(name, loss.express(w) + weight * cp.norm1(w))
    model.topology(nx.path_graph(NAMES))
    pairs = [(0, 1), (1, 2), (2, 3)]

    x, mu, points = np.zeros((4, 8)), {pair: np.zeros(8) for pair in pairs}, []
    for _ in range(ROUNDS):
        for i in range(4):
            g = losses[i].gradient(x[i])
            for a, b in pairs:
                if i in (a, b):
                    sign, other = (1, b) if i == a else (-1, a)
                    g = g + sign * mu[a, b] + 2 * rho**2 * (x[i] - x[other])
            x[i] = shrunk(x[i] - step * g, step * weight)
        mu = {(a, b): m + 2 * rho**2 * (x[a] - x[b]) for (a, b), m in mu.items()}
        points.append(x.copy())
    options = {"rho": rho, "sequence": dm.Sequence.natural()}
    by_bcpg, _ = run(model, dm.BCPG(step, multipliers=True), at_clients(w), **options)
    same(by_bcpg, points)
    steps = {"solver": ProximalGradientSteps(step), "stopping": dm.FixedBudget(1)}
    same(run(model, dm.DALD(), at_clients(w), **options, **steps)[0], points)


def test_exact_minimisation_leaves_no_slack() -> None:
    model, _ = on_star(clients("least squares"), 10)
    assert (model.solve(max_rounds=20).history.slack == 0).all()
