"""Douglas-Rachford, PDHG and linearised ADMM against the recursions of their papers, in numpy."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import networkx as nx
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
    follow,
    iterates,
    lipschitz,
    of,
    on_graph,
    on_star,
    paw,
    run,
    same,
    shrunk,
    smooth,
    total,
)


@smooth
def test_douglas_rachford_of_two_clients(kind: str) -> None:
    """Eckstein and Bertsekas (1992), Math. Program. 55, equation (10) with two proximal maps."""
    g, f, size, t = *clients(kind)[:2], dimension(kind), 1.5
    model, w = on_graph([g, f], size, nx.path_graph(["a", "b"]))

    def step(at: tuple[Array, Array, Array], k: int) -> tuple[Array, Array, Array]:
        _, x, z = at
        y = g.prox(2 * x - z, t)
        z = z + y - x
        return y, f.prox(z, t), z

    by_hand = follow(step, (np.zeros(size),) * 3)
    found, _ = run(model, dm.DouglasRachford(t), at_clients(w), **SHARP[kind])
    same(found, [np.stack([y, x]) for y, x, _ in by_hand])


@smooth
def test_douglas_rachford_of_all_clients_and_their_mean(kind: str) -> None:
    """Spingarn (1985): the same in the product space, where the second map is the mean."""
    losses, size, t = clients(kind), dimension(kind), 1.5

    def step(at: tuple[Array, Array, Array], k: int) -> tuple[Array, Array, Array]:
        _, x, z = at
        y = np.broadcast_to((2 * x - z).mean(axis=0), x.shape)
        z = z + y - x
        return y[0], np.stack([f.prox(v, t) for f, v in zip(losses, z, strict=True)]), z

    zeros = np.zeros((4, size))
    by_hand = follow(step, (zeros[0], zeros, zeros))
    model, w = on_star(losses, size)
    found, _ = run(model, dm.DouglasRachford(t), at_clients(w), **SHARP[kind])
    same(found, [x for _, x, _ in by_hand])


def _pdhg(
    K: Array, smooth: Any, prox: Any, dual: Any, tau: float, sigma: float
) -> list[tuple[Array, Array, Array]]:
    """Condat (2013), J. Optim. Theory Appl. 158, Algorithm 3.2, the dual extrapolated."""

    def step(at: tuple[Array, Array, Array], k: int) -> tuple[Array, Array, Array]:
        x, mu, before = at
        x = prox(x - tau * smooth(x) - tau * K.T @ (2 * mu - before), tau)
        return x, dual(mu + sigma * K @ x, sigma), mu

    return follow(step, (np.zeros(K.shape[1]), *np.zeros((2, K.shape[0]))))


@pytest.mark.parametrize("ridge", [0.0, 0.7], ids=["Chambolle and Pock", "Condat and Vu"])
def test_pdhg(ridge: float) -> None:
    """A lasso whose data are the coupling: min |x|_1 + r/2 |x|^2 + |Kx - b|^2 / 2."""
    generator = np.random.default_rng(4)
    K, b = generator.normal(size=(6, 4)), generator.normal(size=6)
    sigma = 0.3
    tau = float(0.9 / (sigma * np.linalg.norm(K, 2) ** 2 + ridge / 2))
    x, y = cp.Variable(4, name="x"), cp.Variable(6, name="y")
    model = dm.Model("lasso")
    model.client("weights", 0.2 * cp.norm1(x) + ridge / 2 * cp.sum_squares(x))
    model.client("data", cp.sum_squares(y - b) / 2)
    model.consensus(K @ x == y)
    by_hand = _pdhg(
        K,
        lambda v: ridge * v,
        lambda v, t: shrunk(v, 0.2 * t),
        lambda v, s: (v - s * b) / (1 + s),  # of |y - b|^2 / 2 the conjugate is |m|^2 / 2 + b m
        tau,
        sigma,
    )
    same(iterates(model, dm.PDHG(tau, sigma), x), [one for one, *_ in by_hand])
    assert model.solve(algorithm=dm.PDHG(tau, sigma), max_rounds=5000).verify().ok


@smooth
def test_linearised_admm_with_a_server(kind: str) -> None:
    """Chang, Hong and Wang (2015), IEEE Trans. Signal Process. 63(2), IC-ADMM."""
    losses, size, c, eta = clients(kind), dimension(kind), 0.3, 4.0

    def step(at: tuple[Array, Array, Array], k: int) -> tuple[Array, Array, Array]:
        x, hat, mu = at
        slopes = np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])
        x = (eta * x + c * hat - slopes - mu) / (c + eta)
        hat = (x + mu / c).mean(axis=0)
        return x, hat, mu + c * (x - hat)

    zeros = np.zeros((4, size))
    by_hand = follow(step, (zeros, zeros[0], zeros))
    model, w = on_star(losses, size)
    same(run(model, dm.LinearisedADMM(c, eta), at_clients(w))[0], [x for x, *_ in by_hand])
    same(run(model, dm.LinearisedADMM(c, eta), of(w))[0], [hat for _, hat, _ in by_hand])
    near = max(lipschitz(f, size) for f in losses)
    measured = run(model, dm.LinearisedADMM(c), of(w))[0]
    same(measured, run(model, dm.LinearisedADMM(c, near), of(w))[0], 1e-9)


@smooth
def test_linearised_admm_peer_to_peer(kind: str) -> None:
    """Ling, Shi, Wu and Ribeiro (2015), IEEE Trans. Signal Process. 63(15), DLM."""
    losses, size, c, eta = clients(kind), dimension(kind), 0.2, 4.0
    A = nx.to_numpy_array(paw(), nodelist=["a", "b", "c", "d"])
    degree = A.sum(axis=1)[:, None]

    def step(at: tuple[Array, Array], k: int) -> tuple[Array, Array]:
        x, phi = at
        slopes = np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])
        x = x - (slopes + c * (degree * x - A @ x) + phi) / (2 * c * degree + eta)
        return x, phi + c * (degree * x - A @ x)

    zeros = np.zeros((4, size))
    model, w = on_graph(losses, size, paw())
    found, _ = run(model, dm.LinearisedADMM(c, eta), at_clients(w))
    same(found, [x for x, _ in follow(step, (zeros, zeros))])


@pytest.mark.parametrize(
    "algorithm", [dm.DouglasRachford(2.0), dm.LinearisedADMM(0.2)], ids=["DR", "linearised"]
)
def test_they_end_at_the_optimum(algorithm: Any) -> None:
    losses = clients("logistic")
    model, w = on_star(losses, 8)
    result = model.solve(algorithm=algorithm, max_rounds=20_000)
    assert result.status == "optimal"
    assert result.verify().ok
    assert w.value == pytest.approx(total(losses).argmin(np.zeros(8), 0.0), abs=1e-3)


def test_who_is_refused() -> None:
    two = "is for two clients that agree peer to peer, but"
    take = "DALD and ConsensusADMM take any"
    three = on_graph(clients("logistic")[:3], 8, nx.path_graph(["a", "b", "c"]))[0]
    for name, algorithm in (("PDHG", dm.PDHG(0.1, 0.1)), ("Douglas", dm.DouglasRachford(1.0))):
        said = f"algorithm: {type(algorithm).__name__} {two} 'star' has 3 clients; {take}"
        refused(three, algorithm, said)
        assert name in said
    star = shared()
    star.topology("server")  # left open, the two would be neighbours
    refused(
        star,
        dm.PDHG(0.1, 0.1),
        f"algorithm: PDHG {two} 'shared' has 3 clients and servers; {take}",
    )
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    scaled = dm.Model("scaled")
    scaled.client("one", cp.sum_squares(x))
    scaled.client("two", cp.sum_squares(y))
    scaled.consensus(x == 2 * y)
    refused(
        scaled,
        dm.PDHG(0.1, 0.1),
        "algorithm: PDHG needs client 'two' to share all its variables as they are, entry by "
        "entry, and with the first client alone: model.consensus(K @ x == y)",
    )
    refused(
        peers(cp.norm1),
        dm.LinearisedADMM(1.0),
        "algorithm: LinearisedADMM cannot take client 'two': its objective has abs terms; choose "
        "an algorithm that minimises clients exactly, such as DALD, ConsensusADMM or FedProx, or "
        "one with proximal steps, such as BCPG",
    )
