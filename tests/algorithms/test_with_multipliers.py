"""EXTRA, FedDyn and D-ADMM against the iterations their papers print, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.small import peers, refused, shared
from tests.algorithms.test_decentralised import GIVEN, _matrix
from tests.algorithms.textbook import (
    NAMES,
    ROUNDS,
    SHARP,
    Array,
    at_clients,
    clients,
    dimension,
    follow,
    of,
    on_graph,
    on_star,
    paw,
    run,
    same,
    smooth,
)


@smooth
@pytest.mark.parametrize("weights", [None, GIVEN], ids=["Metropolis", "given"])
def test_extra(kind: str, weights: Any) -> None:
    """Shi, Ling, Wu and Yin (2015), SIAM J. Optim. 25(2), Algorithm 1, with (I + W) / 2."""
    losses, size, alpha = clients(kind), dimension(kind), 0.2
    W = _matrix(weights or dm.metropolis(paw()))

    def gradient(x: Array) -> Array:
        return np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])

    before = np.zeros((4, size))
    x = W @ before - alpha * gradient(before)
    by_hand = [x]
    for _ in range(ROUNDS - 1):
        new = (np.eye(4) + W) @ x - (np.eye(4) + W) / 2 @ before
        before, x = x, new - alpha * (gradient(x) - gradient(before))
        by_hand.append(x)
    model, w = on_graph(losses, size, paw())
    same(run(model, dm.EXTRA(alpha, weights), at_clients(w))[0], by_hand)


def test_extra_reaches_what_decentralised_descent_does_not() -> None:
    losses, size = clients("logistic"), dimension("logistic")
    model, w = on_graph(losses, size, paw())
    exact = model.solve()[w].copy()
    found = model.solve(algorithm=dm.EXTRA(2.0), max_rounds=5000)
    assert found.status == "optimal"
    assert found[w] == pytest.approx(exact, abs=1e-4)
    rest = model.solve(algorithm=dm.DGD(2.0), max_rounds=5000)
    assert np.abs(rest[w] - exact).max() > 1e-2


@smooth
def test_feddyn(kind: str) -> None:
    """Acar et al. (2021), ICLR, Algorithm 1, with all clients in each round."""
    losses, size, alpha = clients(kind), dimension(kind), 0.3

    def step(at: tuple[Array, Array, Array, Array], k: int) -> tuple[Array, Array, Array, Array]:
        _, theta, gradients, h = at
        x = np.stack(
            [f.argmin(-g - alpha * theta, alpha) for f, g in zip(losses, gradients, strict=True)]
        )
        gradients = gradients - alpha * (x - theta)
        h = h - alpha * (x - theta).mean(axis=0)
        return x, x.mean(axis=0) - h / alpha, gradients, h

    zeros = np.zeros((4, size))
    by_hand = follow(step, (zeros, zeros[0], zeros, zeros[0]))
    model, w = on_star(losses, size)
    options = SHARP[kind]
    same(run(model, dm.FedDyn(alpha), at_clients(w), **options)[0], [x for x, *_ in by_hand])
    # The server moves at the beginning of a round: what FedDyn has at the end of the one before.
    server = run(model, dm.FedDyn(alpha), of(w), **options)[0]
    same(server[1:], [theta for _, theta, *_ in by_hand[:-1]])


@smooth
def test_d_admm(kind: str) -> None:
    """Mota, Xavier, Aguiar and Püschel (2013), IEEE Trans. Signal Process. 61(10), Algorithm 1."""
    losses, size, r = clients(kind), dimension(kind), 0.3
    colours = [["b", "d"], ["a"], ["c"]]
    place = {NAMES.index(name): at for at, level in enumerate(colours) for name in level}
    near = {i: [NAMES.index(b) for b in paw()[NAMES[i]]] for i in range(4)}

    def step(at: tuple[Array, Array], k: int) -> tuple[Array, Array]:
        x, gamma = at
        new = x.copy()
        for p in sorted(range(4), key=lambda p: place[p]):
            earlier = sum(new[j] for j in near[p] if place[j] < place[p])
            later = sum(x[j] for j in near[p] if place[j] > place[p])
            new[p] = losses[p].argmin(gamma[p] - r * (earlier + later), r * len(near[p]))
        moves = np.stack([sum(new[p] - new[j] for j in near[p]) for p in range(4)])
        return new, gamma + r * moves

    zeros = np.zeros((4, size))
    model, w = on_graph(losses, size, paw())
    options = {"rho": np.sqrt(r / 2), "sequence": dm.Sequence.levels(colours)} | SHARP[kind]
    found, _ = run(model, dm.DADMM(), at_clients(w), **options)
    same(found, [x for x, _ in follow(step, (zeros, zeros))])


def test_what_is_peer_to_peer_refuses_a_server_and_the_other_its_absence() -> None:
    model = shared()
    model.topology("server")  # left open, it would be a ring
    for name, algorithm in (("EXTRA", dm.EXTRA(0.1)), ("DADMM", dm.DADMM())):
        refused(
            model,
            algorithm,
            f"algorithm: {name} is peer to peer, but 'shared' has the server 'server'; say who "
            "talks to whom by model.topology(graph)",
        )
    refused(
        peers(),
        dm.FedDyn(1.0),
        "algorithm: FedDyn is for clients that share their variables through one server, but "
        "'shared' has 0 servers; use one cp.Variable in all clients, without a graph, ask for a "
        'server by model.topology("server"), or declare one: model.consensus(z == x)',
    )
