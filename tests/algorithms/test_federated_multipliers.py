"""FedADMM and SCAFFOLD against the algorithms their papers print, in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.small import peers, refused, shared
from tests.algorithms.textbook import (
    SHARP,
    Array,
    at_clients,
    clients,
    dimension,
    drawn,
    follow,
    lipschitz,
    of,
    on_star,
    run,
    same,
    smooth,
    total,
)


@smooth
@pytest.mark.parametrize("k", [None, 2])
def test_fedadmm(kind: str, k: int | None) -> None:
    """Gong, Li and Freris (2022), ICDE, Algorithm 1, with exact local work and eta = |S| / m."""
    losses, size, c, count = clients(kind), dimension(kind), 0.4, k or 4

    def step(at: tuple[Array, ...], round_: int) -> tuple[Array, ...]:
        w, y, theta, _ = at
        w, y, gain = w.copy(), y.copy(), np.zeros(size)
        batch = range(4) if k is None else drawn(5, round_, k, 4)
        for i in batch:
            before = w[i] + y[i] / c
            w[i] = losses[i].argmin(y[i] - c * theta, c)
            y[i] = y[i] + c * (w[i] - theta)
            gain += w[i] + y[i] / c - before
        return w, y, theta + count / 4 * gain / count, theta

    zeros = np.zeros((4, size))
    by_hand = follow(step, (zeros, zeros, zeros[0], zeros[0]))
    model, w = on_star(losses, size)
    algorithm, options = dm.FedADMM(c, k, seed=5), SHARP[kind]
    same(run(model, algorithm, at_clients(w), **options)[0], [w for w, *_ in by_hand])
    # The server moves at the beginning of a round, to what FedADMM sends in it.
    same(run(model, algorithm, of(w), **options)[0], [sent for *_, sent in by_hand])


@smooth
@pytest.mark.parametrize("count", [1, 5])
def test_scaffold(kind: str, count: int) -> None:
    """Karimireddy et al. (2020), ICML, Algorithm 1, option II, all clients, eta_g = 1."""
    losses, size, eta = clients(kind), dimension(kind), 0.2

    def step(at: tuple[Array, Array, Array, Array], k: int) -> tuple[Array, ...]:
        x, c, own, _ = at
        y, new = np.empty_like(own), np.empty_like(own)
        for i, f in enumerate(losses):
            y[i] = x
            for _ in range(count):
                y[i] = y[i] - eta * (f.gradient(y[i]) - own[i] + c)
            new[i] = own[i] - c + (x - y[i]) / (count * eta)
        return x + (y - x).mean(axis=0), c + (new - own).mean(axis=0), new, y

    zeros = np.zeros((4, size))
    by_hand = follow(step, (zeros[0], zeros[0], zeros, zeros))
    model, w = on_star(losses, size)
    same(run(model, dm.SCAFFOLD(eta, count), of(w))[0], [x for x, *_ in by_hand])
    same(run(model, dm.SCAFFOLD(eta, count), at_clients(w))[0], [y for *_, y in by_hand])
    near = max(lipschitz(f, size) for f in losses)
    measured = run(model, dm.SCAFFOLD(count=count), of(w))[0]
    same(measured, run(model, dm.SCAFFOLD(1 / (count * near), count), of(w))[0], 1e-9)


@pytest.mark.parametrize(
    "algorithm", [dm.FedADMM(0.3, k=2), dm.SCAFFOLD(count=3)], ids=["FedADMM", "SCAFFOLD"]
)
def test_they_end_at_the_optimum_where_federated_averaging_does_not(algorithm: object) -> None:
    losses = clients("logistic")
    model, w = on_star(losses, 8)
    exact = total(losses).argmin(np.zeros(8), 0.0)
    result = model.solve(algorithm=algorithm, max_rounds=20_000)  # pyright: ignore[reportArgumentType]
    assert result.status == "optimal"
    assert result.verify().ok
    assert w.value == pytest.approx(exact, abs=1e-3)
    result = model.solve(algorithm=dm.FedAvg(count=3), max_rounds=20_000)
    assert result.status == "settled"
    assert np.abs(result[w] - exact).max() > 1e-2


def test_both_need_a_server_and_scaffold_gradients() -> None:
    for name, algorithm in (("FedADMM", dm.FedADMM(1.0)), ("SCAFFOLD", dm.SCAFFOLD(0.1))):
        refused(
            peers(),
            algorithm,
            f"algorithm: {name} is for clients that share their variables through one server, but "
            "'shared' has 0 servers; use one cp.Variable in all clients, without a graph, ask for "
            'a server by model.topology("server"), or declare one: model.consensus(z == x)',
        )
    refused(
        shared(rules=lambda w: [w >= 0]),
        dm.SCAFFOLD(),
        "algorithm: SCAFFOLD cannot take client 'two': it has constraints; choose an algorithm "
        "that minimises clients exactly, such as DALD, ConsensusADMM or FedProx, or one with "
        "proximal steps, such as BCPG",
    )
