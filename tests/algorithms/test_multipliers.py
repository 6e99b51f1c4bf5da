"""Consensus ADMM and DALD, (12) to (22), against their textbook forms in numpy."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.textbook import (
    NAMES,
    ROUNDS,
    SHARP,
    Array,
    Loss,
    at_clients,
    clients,
    dimension,
    follow,
    iterates,
    minimised,
    of,
    on_graph,
    on_star,
    run,
    same,
    smooth,
    squares,
)


def _scaled_admm(
    losses: list[Loss], size: int, r: float, sigma: float, rounds: int = ROUNDS
) -> list[tuple[Array, Array, Array]]:
    """Consensus ADMM in scaled form (Boyd et al. 2011, section 7.1), r / 2 |x - z + u|^2."""

    def step(at: tuple[Array, Array, Array], k: int) -> tuple[Array, Array, Array]:
        _, z, u = at
        x = np.stack([f.prox(z - v, 1 / r) for f, v in zip(losses, u, strict=True)])
        z = (x + u).mean(axis=0)
        return x, z, u + sigma * (x - z)

    zeros = np.zeros((len(losses), size))
    return follow(step, (zeros, np.zeros(size), zeros), rounds)


@smooth
@pytest.mark.parametrize("sigma", [1.0, 1.6])
def test_consensus_admm(kind: str, sigma: float) -> None:
    losses, size = clients(kind), dimension(kind)
    rho = 0.4  # the paper's: r / 2 = rho^2
    r = 2 * rho**2
    by_hand = _scaled_admm(losses, size, r, sigma)
    model, w = on_star(losses, size)
    algorithm = dm.ConsensusADMM(dual_step=sigma)
    options = {"rho": rho} | SHARP[kind]
    seen, result = run(model, algorithm, of(w), **options)
    same(seen, [z for _, z, _ in by_hand])
    same(run(model, algorithm, at_clients(w), **options)[0], [x for x, _, _ in by_hand])
    # mu' (z - x) here and r u' (x - z) there; the result has mu + 2 rho^2 C, a step of 1.
    x, z, u = by_hand[-1]
    before = by_hand[-2][2]
    for i, name in enumerate(NAMES):
        given = -r * (before[i] + x[i] - z)
        assert result.multipliers["server", name] == pytest.approx(given, abs=1e-9)
    assert u.sum(axis=0) == pytest.approx(0, abs=1e-9)


def _dald(
    losses: list[Loss], size: int, rho: Any, order: list[list[int]], v_max: int, rounds: int
) -> list[Array]:
    """Algorithm 3 with (B4); ``order`` has levels of which each is solved side by side."""
    x = np.zeros((len(losses), size))
    mu = {pair: np.zeros(size) for pair in rho}
    found = []
    for round_ in range(1, rounds + 1):
        for level in order:
            new = {i: minimised(losses, i, x, mu, rho) for i in level}
            for i, value in new.items():
                x[i] = value
        found.append(x.copy())
        if round_ % v_max == 0:
            mu = {(a, b): m + 2 * rho[a, b] ** 2 * (x[a] - x[b]) for (a, b), m in mu.items()}
    return found


EDGES = {(0, 1): 0.5, (1, 2): 0.3, (0, 2): 0.8, (2, 3): 0.4}


@smooth
@pytest.mark.parametrize("v_max", [1, 3])
@pytest.mark.parametrize(
    ("sequence", "order"),
    [
        pytest.param(dm.Sequence.natural(), [[0], [1], [2], [3]], id="natural"),
        pytest.param(
            dm.Sequence.levels([["b", "d"], ["c"], ["a"]]), [[1, 3], [2], [0]], id="levels"
        ),
    ],
)
def test_dald_peer_to_peer(
    kind: str, v_max: int, sequence: dm.Sequence, order: list[list[int]]
) -> None:
    losses, size = clients(kind), dimension(kind)
    model, w = on_graph(losses, size, nx.Graph([(NAMES[a], NAMES[b]) for a, b in EDGES]))
    seen, _ = run(
        model,
        dm.DALD(),
        at_clients(w),
        rho={(NAMES[a], NAMES[b]): value for (a, b), value in EDGES.items()},
        stopping=dm.FixedBudget(v_max),
        sequence=sequence,
        **SHARP[kind],
    )
    same(seen, _dald(losses, size, EDGES, order, v_max, ROUNDS))


@smooth
@pytest.mark.parametrize("v_max", [1, 4])
def test_dald_with_a_server(kind: str, v_max: int) -> None:
    """Algorithm 2: as on a star whose hub has the objective 0."""
    losses, size = clients(kind), dimension(kind)
    rho = {"a": 0.2, "b": 0.3, "c": 0.5, "d": 0.7}
    hub = squares(np.zeros((1, size)), np.zeros(1))
    edges = {(i, 4): value for i, value in enumerate(rho.values())}
    by_hand = _dald([*losses, hub], size, edges, [[0, 1, 2, 3], [4]], v_max, ROUNDS)
    model, w = on_star(losses, size)
    options = {"rho": rho, "stopping": dm.FixedBudget(v_max)} | SHARP[kind]
    same(iterates(model, dm.DALD(), w, **options), [x[4] for x in by_hand])
    same(run(model, dm.DALD(), at_clients(w), **options)[0], [x[:4] for x in by_hand])
