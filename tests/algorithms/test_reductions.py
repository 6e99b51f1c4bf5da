"""Where one classical algorithm is a case of another their iterates are equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.solvers import GradientSteps
from tests.algorithms.blocks import above, coupled
from tests.algorithms.textbook import (
    EXACT,
    NAMES,
    ROUNDS,
    SHARP,
    Array,
    alone,
    at_clients,
    clients,
    dimension,
    follow,
    iterates,
    lipschitz,
    on_graph,
    on_star,
    paw,
    run,
    same,
    shrunk,
    smooth,
    total,
)


def paired(
    model: dm.Model,
    w: cp.Variable,
    one: Any,
    other: Any,
    ours: Mapping[str, Any] | None = None,
    theirs: Mapping[str, Any] | None = None,
    digits: float = 1e-13,
) -> None:
    """Two algorithms have the same iterates, at the server and at the clients."""
    same(
        iterates(model, one, w, **(ours or {})), iterates(model, other, w, **(theirs or {})), digits
    )
    mine = run(model, one, at_clients(w), **(ours or {}))[0]
    same(mine, run(model, other, at_clients(w), **(theirs or {}))[0], digits)


@smooth
def test_fedprox_is_the_first_outer_loop_of_dald(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    rho = np.sqrt(1 / (2 * 2.0))
    whole_loop = {"rho": rho, "stopping": dm.FixedBudget(ROUNDS)} | SHARP[kind]
    paired(model, w, dm.FedProx(2.0), dm.DALD(), SHARP[kind], whole_loop)


@smooth
def test_one_sweep_an_update_is_consensus_admm(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    ours = {"rho": 0.4} | SHARP[kind]
    paired(model, w, dm.ConsensusADMM(), dm.DALD(), ours, ours | {"stopping": dm.FixedBudget(1)})
    graph, w = on_graph(clients(kind), dimension(kind), paw())
    paired(graph, w, dm.ConsensusADMM(), dm.DALD(), ours, ours | {"stopping": dm.FixedBudget(1)})


@smooth
def test_fedavg_is_the_limit_of_fedprox_with_gradient_steps(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    steps = GradientSteps(0.2, 3, from_neighbour=True)
    limit = iterates(model, dm.FedAvg(0.2, count=3), w)
    apart = []
    for alpha in (1e2, 1e4, 1e6):
        seen = iterates(model, dm.FedProx(alpha), w, solver=steps)
        apart.append(np.abs(seen - limit).max())
    # In proportion to 1 / alpha = 2 rho^2
    assert 80 < apart[0] / apart[1] < 125
    assert 80 < apart[1] / apart[2] < 125
    paired(model, w, dm.FedProx(1e13), dm.FedAvg(0.2, count=3), {"solver": steps}, digits=1e-11)


@smooth
def test_all_clients_in_a_batch_is_the_full_method(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    paired(model, w, dm.MiniBatchGradientDescent(0.2, k=4), dm.GradientDescent(0.2 / 4))
    paired(model, w, dm.StochasticNewton(k=4, damping=0.5), dm.NewtonMethod(damping=0.5))
    paired(model, w, dm.FedAvg(0.2, count=2, k=4), dm.FedAvg(0.2, count=2))
    graph, w = on_graph(clients(kind), dimension(kind), paw())
    paired(graph, w, dm.AsynchronousDGD(0.2, k=4), dm.DGD(0.2))


def test_decentralised_descent_on_a_complete_graph_with_equal_weights_averages() -> None:
    losses = clients("least squares")
    complete = nx.complete_graph(NAMES)
    model, w = on_graph(losses, 10, complete)
    by_hand = follow(
        lambda x, k: (
            x.mean(axis=0) - 0.2 * np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])
        ),
        np.zeros((4, 10)),
    )
    equal = dm.DGD(0.2, weights=dict.fromkeys(complete.edges, 1 / 4))
    same(run(model, equal, at_clients(w))[0], by_hand)
    paired(model, w, equal, dm.DGD(0.2))  # Metropolis' are the same there
    # Of equal clients it is gradient descent on one of them.
    model, w = on_graph([losses[0]] * 4, 10, complete)
    alone_by_hand = follow(lambda x, k: x - 0.2 * losses[0].gradient(x), np.zeros(10))
    same(iterates(model, equal, w), alone_by_hand)


def test_a_server_is_a_client_of_a_star_with_the_objective_zero() -> None:
    """Fed-DALD-CC is Fed-DALD-DC on the star graph."""
    losses = clients("least squares")
    model, w = on_star(losses, 10)
    x = {name: cp.Variable(10, name=name) for name in [*NAMES, "hub"]}
    peers = dm.Model("peers")
    for name, loss in zip(NAMES, losses, strict=True):
        peers.client(name, loss.express(x[name]))
    peers.client("hub", 0 * cp.sum(x["hub"]))
    peers.consensus(*[x["hub"] == x[name] for name in NAMES])
    order: dict[str, Any] = {"sequence": dm.Sequence.levels([NAMES, ["hub"]])}
    for v_max in (1, 3):
        options: dict[str, Any] = {"rho": 0.4, "stopping": dm.FixedBudget(v_max)}
        ours = iterates(model, dm.DALD(), w, **options)
        same(ours, iterates(peers, dm.DALD(), x["hub"], **options | order), 1e-12)


def test_one_gradient_step_makes_block_descent_that_of_gradients() -> None:
    """W = 1, and BCGD with more and more steps is BCD."""
    problem = coupled("least squares")
    model, x = problem.model()
    step = 1 / problem.largest()
    given = iterates(model, dm.BCD(), *x, rho=1.0, solver=GradientSteps(step))
    same(given, iterates(model, dm.BCGD(step), *x, rho=1.0), 1e-13)

    exact = iterates(model, dm.BCD(), *x, rho=1.0, rounds=15)
    apart = [
        np.abs(iterates(model, dm.BCGD(step, count=W), *x, rho=1.0, rounds=15) - exact).max()
        for W in (1, 10, 100, 1000)
    ]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < EXACT


def test_without_a_rough_term_proximal_gradients_are_gradients() -> None:
    problem = coupled("least squares")
    model, x = problem.model()
    step = 1 / problem.largest()
    for count in (1, 3):
        rough = iterates(model, dm.BCPG(step, count=count), *x, rho=1.0)
        same(rough, iterates(model, dm.BCGD(step, count=count), *x, rho=1.0), 1e-13)
    whole = total(clients("least squares"))
    model, _, z = alone(whole, 10)
    same(
        iterates(model, dm.ProximalGradient(0.1), z),
        iterates(model, dm.GradientDescent(0.1), z),
        1e-12,
    )


def test_the_proximal_gradient_method_is_upper_bound_minimisation() -> None:
    """(62): the bound of curvature 1 / alpha with the rough term kept, for one client."""
    whole = total(clients("least squares"))
    size = 1.1 * lipschitz(whole, 10)
    prox = follow(lambda x, k: shrunk(x - whole.gradient(x) / size, 0.05 / size), np.zeros(10), 30)
    model, x, _ = alone(whole, 10, lambda x: 0.05 * cp.norm1(x))

    def make(client: dm.Client, at: Any) -> Any:
        bound, refresh = above({"all": whole}, size)(client, at)
        return bound + 0.05 * cp.norm1(client.variables[0]), refresh

    # A penalty that is next to nothing leaves the bound alone.
    seen = iterates(model, dm.BSUM(make), x, rho=1e-5, rounds=30, accuracy=1e-12)
    same(seen, prox, digits=1e-6)


def test_the_sequence_is_the_users() -> None:
    """Where one is named it is followed: here the second block first."""
    problem = coupled("least squares")
    model, x = problem.model()
    seen = iterates(model, dm.BCGD(0.1), *x, rho=1.0, sequence=dm.Sequence.levels([[2], [1]]))

    def step(v: list[Array], k: int) -> list[Array]:
        second = v[1] - 0.1 * problem.slope(v, 1)
        return [v[0] - 0.1 * problem.slope([v[0], second], 0), second]

    found = follow(step, [np.zeros(6), np.zeros(4)])
    same(seen, [np.concatenate(v) for v in found])
