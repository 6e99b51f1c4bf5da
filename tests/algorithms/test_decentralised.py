"""Decentralised gradients, (57), against their textbook form in numpy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

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
