"""Proximal and federated methods, (33) to (35), (53) to (56), against textbook forms in numpy."""

from __future__ import annotations

from collections.abc import Hashable

import cvxpy as cp
import numpy as np
import pytest
import sklearn.datasets
import sklearn.linear_model

import dald_model as dm
from tests.algorithms.textbook import (
    NAMES,
    SHARP,
    SIZES,
    Array,
    Loss,
    alone,
    at_clients,
    clients,
    dimension,
    drawn,
    follow,
    iterates,
    on_star,
    run,
    same,
    shrunk,
    smooth,
    squares,
    table,
    total,
)


@smooth
@pytest.mark.parametrize("alpha", [0.5, 20.0])
def test_the_proximal_point_method(kind: str, alpha: float) -> None:
    whole, size = total(clients(kind)), dimension(kind)
    model, x, z = alone(whole, size)
    by_hand = follow(lambda v, k: whole.prox(v, alpha), np.zeros(size))
    seen = iterates(model, dm.ProximalPoint(alpha), x, z, **SHARP[kind])
    same(seen, [np.tile(v, 2) for v in by_hand])


def lasso(A: Array, b: Array, weight: float, centre: Array, alpha: float) -> Array:
    r"""Coordinate descent on :math:`\|Ax - b\|^2 + w\|x\|_1 + \|x - c\|^2 / (2\alpha)`."""
    x = np.zeros(A.shape[1])
    for _ in range(10_000):
        before = x.copy()
        for j in range(x.size):
            rest = b - A @ x + A[:, j] * x[j]
            bend = 2 * A[:, j] @ A[:, j] + 1 / alpha
            x[j] = shrunk(2 * A[:, j] @ rest + centre[j] / alpha, weight) / bend
        if np.abs(x - before).max() < 1e-16:
            break
    return x


def test_the_proximal_point_method_on_the_lasso() -> None:
    A, b = table("diabetes")
    A, b = A / np.sqrt(len(A)), b / np.sqrt(len(A))
    model, x, z = alone(squares(A, b), 10, lambda x: 0.3 * cp.norm1(x))
    by_hand = follow(lambda v, k: lasso(A, b, 0.3, v, 2.0), np.zeros(10))
    seen = iterates(model, dm.ProximalPoint(2.0), x, z, accuracy=1e-12)
    same(seen, [np.tile(v, 2) for v in by_hand])
    # Scikit-learn's has 1 / (2 N) before the squares, hence half the weight; its N is in A here.
    fit = sklearn.linear_model.Lasso(0.15 / len(A), fit_intercept=False, tol=1e-14)
    model.solve(algorithm=dm.ProximalPoint(2.0))
    assert z.value == pytest.approx(fit.fit(A, b).coef_, abs=1e-5)


WEIGHTS = dict(zip(NAMES, map(float, SIZES["diabetes"]), strict=True))
ALPHAS: dict[Hashable, float] = {"a": 0.3, "b": 1.0, "c": 4.0, "d": 10.0}


@smooth
def test_the_distributed_proximal_method(kind: str) -> None:
    """Also the clients' own points: (54), and (55) with the weights 1 / alpha."""
    losses, size = clients(kind), dimension(kind)
    alphas = np.array(list(ALPHAS.values()))
    p = (1 / alphas) / (1 / alphas).sum()

    def step(at: tuple[Array, Array], k: int) -> tuple[Array, Array]:
        x = np.stack([f.prox(at[1], a) for f, a in zip(losses, alphas, strict=True)])
        return x, p @ x

    by_hand = follow(step, (np.zeros((4, size)), np.zeros(size)))
    model, w = on_star(losses, size)
    algorithm = dm.DistributedProximal(ALPHAS)
    same(iterates(model, algorithm, w, **SHARP[kind]), [hat for _, hat in by_hand])
    mine, _ = run(model, algorithm, at_clients(w), **SHARP[kind])
    same(mine, [x for x, _ in by_hand])


@smooth
def test_fedprox(kind: str) -> None:
    losses, size = clients(kind), dimension(kind)
    by_hand = follow(lambda z, k: np.mean([f.prox(z, 2.0) for f in losses], axis=0), np.zeros(size))
    model, w = on_star(losses, size)
    same(iterates(model, dm.FedProx(2.0), w, **SHARP[kind]), by_hand)


@smooth
@pytest.mark.parametrize("k", [None, 2])
def test_fedprox_by_rows_and_with_some_clients_a_round(kind: str, k: int | None) -> None:
    """Li et al. (2020): one alpha for all, and an average by the numbers of rows."""
    losses, size = clients(kind), dimension(kind)
    share = np.array(list(WEIGHTS.values()))

    def step(z: Array, round_: int) -> Array:
        batch = list(range(4)) if k is None else drawn(7, round_, k, 4)
        x = np.stack([losses[i].prox(z, 2.0) for i in batch])
        return share[batch] @ x / share[batch].sum()

    model, w = on_star(losses, size)
    algorithm = dm.FedProx(2.0, k=k, seed=7, weights=WEIGHTS)
    same(iterates(model, algorithm, w, **SHARP[kind]), follow(step, np.zeros(size)))
    equal = iterates(model, dm.FedProx(2.0, k=k, seed=7), w, **SHARP[kind])
    alike = dict.fromkeys(NAMES, 3.0)
    same(equal, iterates(model, dm.FedProx(2.0, k, 7, alike), w, **SHARP[kind]), 1e-12)


def test_fedprox_on_the_lasso() -> None:
    A, b = table("diabetes")
    rows = np.split(np.arange(len(A)), np.cumsum(SIZES["diabetes"])[:-1])
    data = [(A[r] / np.sqrt(len(A)), b[r] / np.sqrt(len(A))) for r in rows]
    w = cp.Variable(10, name="w")
    model = dm.Model("lasso")
    for name, (mine, own) in zip(NAMES, data, strict=True):
        model.client(name, cp.sum_squares(mine @ w - own) + 0.02 * cp.norm1(w))
    by_hand = follow(
        lambda z, k: np.mean([lasso(*one, 0.02, z, 3.0) for one in data], axis=0), np.zeros(10), 20
    )
    same(iterates(model, dm.FedProx(3.0), w, rounds=20, accuracy=1e-12), by_hand)


def _fedavg(losses: list[Loss], z: Array, step: float, count: int) -> list[Array]:
    found = []
    for f in losses:
        x = z
        for _ in range(count):
            x = x - step * f.gradient(x)
        found.append(x)
    return found


@smooth
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "by rows"])
@pytest.mark.parametrize("count", [1, 5])
def test_fedavg(kind: str, weights: dict[Hashable, float] | None, count: int) -> None:
    losses, size = clients(kind), dimension(kind)
    p = np.array(list((weights or dict.fromkeys(NAMES, 1.0)).values()))
    p = p / p.sum()
    by_hand = follow(lambda z, k: p @ np.stack(_fedavg(losses, z, 0.2, count)), np.zeros(size))
    model, w = on_star(losses, size)
    same(iterates(model, dm.FedAvg(0.2, count=count, weights=weights), w), by_hand)


@smooth
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "by rows"])
def test_fedavg_with_some_clients_a_round(kind: str, weights: dict[Hashable, float] | None) -> None:
    losses, size = clients(kind), dimension(kind)
    share = np.array(list((weights or dict.fromkeys(NAMES, 1.0)).values()))

    def step(z: Array, round_: int) -> Array:
        batch = drawn(9, round_, 2, 4)
        x = np.stack(_fedavg([losses[i] for i in batch], z, 0.2, 3))
        return share[batch] @ x / share[batch].sum()

    model, w = on_star(losses, size)
    algorithm = dm.FedAvg(0.2, count=3, k=2, seed=9, weights=weights)
    same(iterates(model, algorithm, w), follow(step, np.zeros(size)))
