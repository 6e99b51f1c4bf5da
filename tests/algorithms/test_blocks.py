"""Block methods, (59) to (61) and (65), against their textbook forms in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.blocks import BOUND, Coupled, above, coupled
from tests.algorithms.textbook import (
    NAMES,
    SHARP,
    Array,
    at_clients,
    clients,
    dimension,
    follow,
    iterates,
    lipschitz,
    minimised,
    on_graph,
    on_star,
    run,
    same,
    shrunk,
    smooth,
)


@smooth
def test_block_coordinate_descent(kind: str) -> None:
    """With two blocks: alternating minimisation."""
    problem = coupled(kind)
    model, x = problem.model()
    seen = iterates(model, dm.BCD(), *x, rho=1.0, **SHARP[kind])
    same(seen, problem.sweeps(problem.exact))


@smooth
@pytest.mark.parametrize("count", [1, 4])
def test_block_coordinate_gradient_descent(kind: str, count: int) -> None:
    problem = coupled(kind, rho=0.7)
    step = 1 / problem.largest()

    def block(x: list[Array], i: int) -> Array:
        x = list(x)
        for _ in range(count):
            x[i] = x[i] - step * problem.slope(x, i)
        return x[i]

    model, x = problem.model()
    seen = iterates(model, dm.BCGD(step, count=count), *x, rho=0.7)
    same(seen, problem.sweeps(block))


@smooth
def test_jacobi_gradient_descent_is_that_of_the_whole(kind: str) -> None:
    problem = coupled(kind, rho=0.7)
    step = 1 / problem.largest()
    model, x = problem.model()
    seen = iterates(model, dm.JacobiGradientDescent(step), *x, rho=0.7)
    same(seen, follow(lambda v, k: v - step * problem.gradient(v), np.zeros(10)))


@smooth
def test_jacobi_gradient_descent_with_a_server_steps_the_server_too(kind: str) -> None:
    losses, size = clients(kind), dimension(kind)
    rho, step = 0.6, 0.3

    def gradient(v: Array, k: int) -> Array:
        x = v.reshape(5, size)
        slopes = [f.gradient(u) + 2 * rho**2 * (u - x[4]) for f, u in zip(losses, x, strict=False)]
        return v - step * np.concatenate([*slopes, 2 * rho**2 * (4 * x[4] - x[:4].sum(axis=0))])

    model, w = on_star(losses, size)
    by_hand = [v.reshape(5, size) for v in follow(gradient, np.zeros(5 * size))]
    algorithm = dm.JacobiGradientDescent(step)
    same(iterates(model, algorithm, w, rho=rho), [x[4] for x in by_hand])
    same(run(model, algorithm, at_clients(w), rho=rho)[0], [x[:4] for x in by_hand])


@smooth
@pytest.mark.parametrize("count", [1, 3])
def test_block_coordinate_proximal_gradients(kind: str, count: int) -> None:
    problem = coupled(kind, l1=0.3)
    step = 1 / problem.largest()

    def block(x: list[Array], i: int) -> Array:
        x = list(x)
        for _ in range(count):
            x[i] = shrunk(x[i] - step * problem.slope(x, i), 0.3 * step)
        return x[i]

    model, x = problem.model()
    seen = iterates(model, dm.BCPG(step, count=count), *x, rho=1.0)
    same(seen, problem.sweeps(block))
    assert (seen[-1] == 0).any()


def _bsum(problem: Coupled, x: list[Array], i: int) -> Array:
    """The minimiser of the bound and the coupling: a linear system."""
    K = problem.bend(i) + BOUND * np.eye(x[i].size)
    right = BOUND * x[i] - problem.losses[i].gradient(x[i])
    return np.linalg.solve(K, right + 2 * problem.rho**2 * problem.A[i].T @ problem.rest(x, i))


@pytest.mark.slow
@smooth
def test_block_successive_upper_bound_minimisation(kind: str) -> None:
    """To 1e-6: Clarabel, whose gap is 1e-12 at best, leaves the root of it in a flat minimum."""
    problem = coupled(kind)
    for f, m in zip(problem.losses, problem.sizes, strict=True):
        assert lipschitz(f, m) < BOUND
    model, x = problem.model()
    make = above(dict(enumerate(problem.losses, start=1)), BOUND)
    seen = iterates(model, dm.BSUM(make), *x, rho=1.0, accuracy=1e-12)
    same(seen, problem.sweeps(lambda x, i: _bsum(problem, x, i)), digits=1e-6)


@pytest.mark.slow
@smooth
def test_an_upper_bound_that_needs_no_refresh(kind: str) -> None:
    """The objective and a proximal term about the last point, which the Parameter holds."""
    problem = coupled(kind)

    def make(client: dm.Client, at: Mapping[cp.Variable, cp.Parameter]) -> Any:
        (x,) = client.variables
        return client.cost + cp.sum_squares(x - at[x])

    def block(x: list[Array], i: int) -> Array:
        linear = -2 * x[i] - 2 * problem.rho**2 * problem.A[i].T @ problem.rest(x, i)
        return problem.losses[i].argmin(linear, problem.bend(i) + 2 * np.eye(x[i].size))

    model, x = problem.model()
    seen = iterates(model, dm.BSUM(make), *x, rho=1.0, accuracy=1e-12)
    same(seen, problem.sweeps(block), digits=1e-6)


@smooth
def test_three_blocks_along_a_chain(kind: str) -> None:
    """``sum f_i + sum over edges rho^2 |x_i - x_j|^2``, one after the other."""
    losses, size = clients(kind)[:3], dimension(kind)
    edges = {(0, 1): 0.4, (1, 2): 0.9}
    model, w = on_graph(losses, size, nx.path_graph(NAMES[:3]))
    rho = {(NAMES[a], NAMES[b]): value for (a, b), value in edges.items()}
    mu = {pair: np.zeros(size) for pair in edges}

    def slope(x: Array, i: int) -> Array:
        pulls = [
            2 * r**2 * (x[i] - x[b if i == a else a]) for (a, b), r in edges.items() if i in (a, b)
        ]
        return losses[i].gradient(x[i]) + sum(pulls)

    def seidel(block: Callable[[Array, int], Array]) -> Callable[[Array, int], Array]:
        def step(x: Array, k: int) -> Array:
            x = x.copy()
            for i in range(3):
                x[i] = block(x, i)
            return x

        return step

    natural = {"sequence": dm.Sequence.natural(), "rho": rho}
    start = np.zeros((3, size))
    exact = seidel(lambda x, i: minimised(losses, i, x, mu, edges))
    seen, _ = run(model, dm.BCD(), at_clients(w), **natural, **SHARP[kind])
    same(seen, follow(exact, start))
    steps = seidel(lambda x, i: x[i] - 0.3 * slope(x, i))
    same(run(model, dm.BCGD(0.3), at_clients(w), **natural)[0], follow(steps, start))
    same(run(model, dm.BCPG(0.3), at_clients(w), **natural)[0], follow(steps, start))
    jacobi = follow(lambda x, k: x - 0.3 * np.stack([slope(x, i) for i in range(3)]), start)
    same(run(model, dm.JacobiGradientDescent(0.3), at_clients(w), rho=rho)[0], jacobi)
