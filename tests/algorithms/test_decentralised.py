"""Decentralised gradients, (57), against their textbook form in numpy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.textbook import (
    NAMES,
    Array,
    at_clients,
    clients,
    dimension,
    drawn,
    follow,
    iterates,
    on_graph,
    paw,
    run,
    same,
    smooth,
)


def _matrix(weights: Mapping[tuple[Hashable, Hashable], float]) -> Array:
    P = np.zeros((4, 4))
    for (a, b), p in weights.items():
        i, j = NAMES.index(str(a)), NAMES.index(str(b))
        P[i, j] = P[j, i] = p
    return P + np.diag(1 - P.sum(axis=1))


GIVEN = {("b", "a"): 0.1, ("b", "c"): 0.2, ("a", "c"): 0.5, ("d", "c"): 0.3}


def test_metropolis_weights() -> None:
    """1 / (1 + max(d_i, d_j)), (Xiao, Boyd and Lall 2005)."""
    found = {frozenset(pair): p for pair, p in dm.metropolis(paw()).items()}
    quarter = dict.fromkeys(map(frozenset, (("b", "c"), ("a", "c"), ("c", "d"))), 1 / 4)
    assert found == quarter | {frozenset("ab"): 1 / 3}


@smooth
@pytest.mark.parametrize("weights", [None, GIVEN], ids=["Metropolis", "given"])
def test_decentralised_gradient_descent(kind: str, weights: Any) -> None:
    losses, size = clients(kind), dimension(kind)
    P = _matrix(weights or dm.metropolis(paw()))

    def step(x: Array, k: int) -> Array:
        return P @ x - 0.2 * np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])

    model, w = on_graph(losses, size, paw())
    seen, result = run(model, dm.DGD(0.2, weights=weights), at_clients(w))
    same(seen, follow(step, np.zeros((4, size))))
    assert result[w] == pytest.approx(seen[-1].mean(axis=0), abs=1e-12)


@smooth
@pytest.mark.parametrize(("k", "weights"), [(1, None), (3, GIVEN)])
def test_asynchronous_decentralised_gradient_descent(kind: str, k: int, weights: Any) -> None:
    losses, size = clients(kind), dimension(kind)
    P = _matrix(weights or dm.metropolis(paw()))

    def step(x: Array, round_: int) -> Array:
        new = x.copy()
        for i in drawn(6, round_, k, 4):
            new[i] = P[i] @ x - 0.2 * losses[i].gradient(x[i])
        return new

    model, w = on_graph(losses, size, paw())
    algorithm = dm.AsynchronousDGD(0.2, k=k, seed=6, weights=weights)
    seen, _ = run(model, algorithm, at_clients(w))
    same(seen, follow(step, np.zeros((4, size))))


# --- constraints: projected, (64) -----------------------------------------------------------------


def _boxed(peers: bool) -> tuple[dm.Model, cp.Variable, list[tuple[Array, Array]], Array]:
    """Least squares in boxes that differ; client d has none."""
    generator, w = np.random.default_rng(4), cp.Variable(3, name="w")
    model, data = dm.Model("boxes"), []
    high = np.array([[0.2, 0.5, 9.0], [0.3, 0.4, 0.1], [0.25, 9.0, 0.6], [np.inf] * 3])
    for name, most in zip(NAMES, high, strict=True):
        A, b = generator.normal(size=(8, 3)) / 3, generator.normal(size=8) + 1
        rules = [w <= most] if np.isfinite(most).all() else []
        model.client(name, cp.sum_squares(A @ w - b), rules)
        data.append((A, b))
    model.topology(paw() if peers else "server")
    return model, w, data, high


def _slopes(data: list[tuple[Array, Array]], x: Array) -> Array:
    return np.stack([2 * A.T @ (A @ v - b) for (A, b), v in zip(data, x, strict=True)])


def test_projected_decentralised_gradient_descent() -> None:
    """x_i <- P_i(sum_j p_ij x_j - a grad f_i(x_i)), P_i the projection on the client's own box."""
    model, w, data, high = _boxed(peers=True)
    P = _matrix(dm.metropolis(paw()))

    def step(x: Array, k: int) -> Array:
        return np.minimum(P @ x - 0.1 * _slopes(data, x), high)

    seen, _ = run(model, dm.DGD(0.1), at_clients(w))
    by_hand = follow(step, np.zeros((4, 3)))
    same(seen, by_hand)
    assert (by_hand[-1] == high).any()  # or nothing is tested
    falling, _ = run(model, dm.DGD(lambda k: 0.1 / k), at_clients(w))
    same(
        falling,
        follow(lambda x, k: np.minimum(P @ x - 0.1 / k * _slopes(data, x), high), np.zeros((4, 3))),
    )


def test_projected_local_steps_of_fedavg() -> None:
    """W projected gradient steps from the server's value, and the mean of what they give."""
    model, w, data, high = _boxed(peers=False)

    def step(x: Array, k: int) -> Array:
        local = np.tile(x, (4, 1))
        for _ in range(3):
            local = np.minimum(local - 0.1 * _slopes(data, local), high)
        return local.mean(axis=0)

    same(iterates(model, dm.FedAvg(0.1, count=3), w), follow(step, np.zeros(3)))
