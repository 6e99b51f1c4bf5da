"""Steps that fall, along subgradients, and steps that are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.small import peers, refused, shared
from tests.algorithms.test_decentralised import _matrix
from tests.algorithms.textbook import (
    Array,
    at_clients,
    clients,
    dimension,
    drawn,
    follow,
    lipschitz,
    of,
    on_graph,
    on_star,
    paw,
    run,
    same,
    smooth,
    total,
)


def falling(k: int) -> float:
    return 0.3 / k**0.6


@smooth
def test_decentralised_descent_with_steps_that_fall(kind: str) -> None:
    """Nedic and Ozdaglar (2009), IEEE Trans. Autom. Control 54(1), (5)."""
    losses, size, P = clients(kind), dimension(kind), _matrix(dm.metropolis(paw()))

    def step(x: Array, k: int) -> Array:
        slopes = np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])
        return P @ x - falling(k) * slopes

    model, w = on_graph(losses, size, paw())
    same(run(model, dm.DGD(falling), at_clients(w))[0], follow(step, np.zeros((4, size))))


@smooth
def test_stochastic_descent_with_steps_that_fall(kind: str) -> None:
    losses, size = clients(kind), dimension(kind)

    def step(x: Array, k: int) -> Array:
        batch = drawn(3, k, 2, 4)
        return x - falling(k) * np.mean([losses[i].gradient(x) for i in batch], axis=0)

    model, w = on_star(losses, size)
    algorithm = dm.MiniBatchGradientDescent(falling, k=2, seed=3)
    same(run(model, algorithm, of(w))[0], follow(step, np.zeros(size)))


def absolute() -> tuple[dm.Model, cp.Variable, Array, Array]:
    """Four clients |A_i w - b_i|_1 + |w|^2 / 8 + |w|_2 / 4, none of which has a gradient."""
    generator = np.random.default_rng(8)
    A, b = generator.normal(size=(4, 5, 3)), generator.normal(size=(4, 5))
    w = cp.Variable(3, name="w")
    model = dm.Model("absolute")
    for name, rows, right in zip("abcd", A, b, strict=True):
        rest = cp.sum_squares(w) / 8 + cp.norm(w) / 4
        model.client(name, cp.norm1(rows @ w - right) + rest)
    return model, w, A, b


def subgradient(A: Array, b: Array, x: Array) -> Array:
    length = np.linalg.norm(x)
    return A.T @ np.sign(A @ x - b) + x / 4 + (x / length / 4 if length else 0.0)


def test_subgradients_with_a_server_and_peer_to_peer() -> None:
    """Polyak's method on drawn clients, and Nedic and Ozdaglar's distributed one."""
    model, w, A, b = absolute()

    def one(x: Array, k: int) -> Array:
        (i,) = drawn(0, k, 1, 4)
        return x - falling(k) * subgradient(A[i], b[i], x)

    same(run(model, dm.StochasticGradientDescent(falling), of(w))[0], follow(one, np.zeros(3)))
    P = _matrix(dm.metropolis(paw()))

    def all_at_once(x: Array, k: int) -> Array:
        slopes = np.stack([subgradient(*own) for own in zip(A, b, x, strict=True)])
        return P @ x - falling(k) * slopes

    model.topology(paw())
    found = run(model, dm.DGD(falling), at_clients(w))[0]
    same(found, follow(all_at_once, np.zeros((4, 3))))


def test_steps_that_fall_lead_where_a_constant_one_does_not() -> None:
    """The median of three numbers, and the optimum of four smooth clients."""
    w, model = cp.Variable(name="w"), dm.Model("median")
    for name, value in enumerate([0.0, 1.0, 5.0]):
        model.client(name, cp.abs(w - value))
    model.topology(nx.path_graph(3))
    found = model.solve(algorithm=dm.DGD(lambda k: 1 / k), max_rounds=500)
    assert found["w"] == pytest.approx(1.0, abs=0.02)
    losses = clients("logistic")
    model, w = on_graph(losses, 8, paw())
    exact = total(losses).argmin(np.zeros(8), 0.0)
    off = [
        np.abs(model.solve(algorithm=dm.DGD(step), max_rounds=1500)[w] - exact).max()
        for step in (1.0, lambda k: 4 / (k + 3) ** 0.6)
    ]
    assert off[1] < off[0] / 4


def test_kinks_need_steps_that_fall_and_functions_need_positive_values() -> None:
    model, *_ = absolute()
    with pytest.raises(dm.OptionError, match="cannot take client 'a': its objective has abs"):
        model.solve(algorithm=dm.StochasticGradientDescent(0.1))
    refused(
        peers(cp.norm1, rules=lambda w: [w >= 0]),
        dm.DGD(falling),
        "algorithm: DGD cannot take client 'two': its objective has abs terms; choose an "
        "algorithm that minimises clients exactly, such as DALD, ConsensusADMM or FedProx, or "
        "one with proximal steps, such as BCPG",
    )
    with pytest.raises(dm.DaldError) as caught:
        peers().solve(algorithm=dm.DGD(lambda k: 2.0 - k), max_rounds=5)
    assert "the function `step` gave of round 2 0.0, expected a positive number" in str(
        caught.value
    )


# --- measured steps -------------------------------------------------------------------------------

MEASURED: dict[str, Callable[[float | None], Any]] = {
    "FedAvg": lambda step: dm.FedAvg(step, count=2),
    "mini-batch": lambda step: dm.MiniBatchGradientDescent(step, k=2),
}


@smooth
@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_step_is_one_over_the_largest_curvature_of_a_client(
    name: str, kind: str
) -> None:
    """These losses are curved most at zero, where ``lipschitz`` looks."""
    losses, size = clients(kind), dimension(kind)
    make = MEASURED[name]
    model, w = on_star(losses, size)
    step = 1 / max(lipschitz(f, size) for f in losses)
    assert make(None).measured(model.compile()).step == pytest.approx(step, rel=1e-9)
    same(run(model, make(None), of(w))[0], run(model, make(step), of(w))[0], 1e-9)


@smooth
def test_gradient_descent_measures_the_sum_and_peers_the_graph(kind: str) -> None:
    losses, size = clients(kind), dimension(kind)
    model, _ = on_star(losses, size)
    found = dm.GradientDescent().measured(model.compile()).step
    assert found == pytest.approx(1 / lipschitz(total(losses), size), rel=1e-9)
    model, _ = on_graph(losses, size, paw())
    least = np.linalg.eigvalsh(_matrix(dm.metropolis(paw())))[0]
    L = max(lipschitz(f, size) for f in losses)
    for method in (dm.EXTRA(), dm.DGD(), dm.AsynchronousDGD(k=2)):
        found = method.measured(model.compile()).step
        assert found == pytest.approx((1 + least) / (2 * L), rel=1e-9)


ARGUMENTS = np.linspace(-5, 5, 100_001)


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("logistic", lambda x: cp.logistic(x)),
        ("huber", lambda x: cp.huber(x, 2)),
        ("squared hinge", lambda x: cp.square(cp.pos(x))),
        ("squares", cp.square),
        ("log-sum-exp", lambda x: cp.log_sum_exp(cp.hstack([x, 2 - x, 1.0]))),
    ],
)
def test_no_kind_is_curved_more_than_it_says(kind: str, make: Callable[[Any], Any]) -> None:
    """Differences of cvxpy's own values; but for the sum of exponentials the bound is met."""
    w = cp.Variable(name="w")
    model = dm.Model(kind)
    model.client("one", make(w))
    model.client("two", cp.square(w) / 2)
    bound = 1 / (dm.GradientDescent().measured(_server(model)).step or 0.0) - 1

    def value(at: Array) -> Array:
        given = cp.Parameter(at.size)
        if kind == "log-sum-exp":
            return np.logaddexp(np.logaddexp(at, 2 - at), 1.0)
        given.value = at
        return np.asarray(make(given).value)

    h = ARGUMENTS[1] - ARGUMENTS[0]
    values = value(ARGUMENTS)
    most = (np.diff(values, 2) / h**2).max()
    assert most <= bound * (1 + 1e-4)
    assert most == pytest.approx(bound, rel=0.01) or kind == "log-sum-exp"


def _server(model: dm.Model) -> dm.Compiled:
    model.topology("server")
    return model.compile()


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (
            lambda w: cp.sum(cp.exp(w)),
            "the curvature of client 'two' has no bound: its objective has exp terms; give a step",
        ),
        (lambda w: cp.sum_squares(w) ** 1.5, "client 'two' is known to cvxpy only; give a step"),
    ],
)
def test_a_curvature_without_a_bound_asks_for_a_step(cost: Any, said: str) -> None:
    refused(
        shared(cost), dm.GradientDescent(), f"GradientDescent: step=None measures 1 / L, but {said}"
    )
