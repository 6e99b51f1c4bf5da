"""Gradients and Newton, (36) to (52), whole and in batches, against textbook forms in numpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import dald_model as dm
from tests.algorithms.textbook import (
    EXACT,
    NAMES,
    ROUNDS,
    Array,
    clients,
    dimension,
    drawn,
    follow,
    iterates,
    lipschitz,
    of,
    on_star,
    run,
    same,
    smooth,
    squares,
    table,
    total,
)


@smooth
def test_gradient_descent(kind: str) -> None:
    losses, size = clients(kind), dimension(kind)
    whole = total(losses)
    step = 1 / lipschitz(whole, size)
    model, w = on_star(losses, size)
    by_hand = follow(lambda x, k: x - step * whole.gradient(x), np.zeros(size))
    same(iterates(model, dm.GradientDescent(step), w), by_hand)


def test_gradient_descent_stands_at_the_last_point() -> None:
    """(38): the clients copy, so the objective of a round is that of the point before."""
    losses = clients("least squares")
    model, w = on_star(losses, 10)
    seen, result = run(model, dm.GradientDescent(0.1), of(w), rounds=10)
    before = [np.zeros(10), *seen[:-1]]
    whole = total(losses)
    assert result.history.objective.tolist() == pytest.approx([whole.value(x) for x in before])
    assert result["b"][w] == pytest.approx(seen[-2], abs=1e-12)


def test_gradients_and_newton_with_a_server_in_another_order() -> None:
    """A server whose entries are the clients', but not in their order."""
    generator = np.random.default_rng(2)
    A, b = generator.normal(size=(2, 9, 5)), generator.normal(size=(2, 9))
    order = np.array([3, 0, 4, 1, 2])
    z, x, y = (cp.Variable(5, name=name) for name in "zxy")
    model = dm.Model("another order")
    model.client(0, cp.sum_squares(A[0] @ x - b[0]))
    model.client(1, cp.sum_squares(A[1] @ y - b[1]))
    model.consensus(z == x, z[order] == y)
    whole = total([squares(A[0], b[0]), squares(A[1] @ np.eye(5)[order], b[1])])
    gradients = follow(lambda v, k: v - 0.01 * whole.gradient(v), np.zeros(5))
    same(iterates(model, dm.GradientDescent(0.01), z), gradients)
    newton = follow(
        lambda v, k: v - 0.5 * np.linalg.solve(whole.hessian(v), whole.gradient(v)), np.zeros(5)
    )
    same(iterates(model, dm.NewtonMethod(damping=0.5), z), newton)


def test_gradients_and_newton_of_two_variables_of_which_one_is_a_matrix() -> None:
    generator = np.random.default_rng(2)
    p, Q = cp.Variable(3, name="p"), cp.Variable((2, 2), name="Q")
    model, losses = dm.Model("two variables"), []
    for i in range(2):
        A, b = generator.normal(size=(9, 3)), generator.normal(size=9)
        B, C = generator.normal(size=(9, 2)), generator.normal(size=(9, 2))
        model.client(i, cp.sum_squares(A @ p - b) + cp.sum_squares(B @ Q - C))
        wide = np.zeros((27, 7))
        wide[:9, :3], wide[9:18, 3:5], wide[18:, 5:] = A, B, B
        losses.append(squares(wide, np.concatenate([b, *C.T])))
    whole = total(losses)
    gradients = follow(lambda v, k: v - 0.01 * whole.gradient(v), np.zeros(7))
    same(iterates(model, dm.GradientDescent(0.01), p, Q), gradients)
    newton = follow(
        lambda v, k: v - 0.5 * np.linalg.solve(whole.hessian(v), whole.gradient(v)), np.zeros(7)
    )
    same(iterates(model, dm.NewtonMethod(damping=0.5), p, Q), newton)


def test_newton_of_a_fit_to_two_variables() -> None:
    generator = np.random.default_rng(2)
    A, b = generator.normal(size=(9, 5)), generator.normal(size=9)
    p, q = cp.Variable(3, name="p"), cp.Variable(2, name="q")
    model = dm.Model("two variables")
    model.client("a", cp.sum_squares(A[:, :3] @ p + A[:, 3:] @ q - b))
    model.client("b", cp.sum_squares(p) + cp.sum_squares(q))
    whole = total([squares(A, b), squares(np.eye(5), np.zeros(5))])
    newton = follow(
        lambda v, k: v - 0.5 * np.linalg.solve(whole.hessian(v), whole.gradient(v)), np.zeros(5)
    )
    same(iterates(model, dm.NewtonMethod(damping=0.5), p, q), newton)


def test_gradient_descent_of_a_maximisation_climbs() -> None:
    losses = clients("logistic")
    w = cp.Variable(8, name="w")
    model = dm.Model("likelihood")
    for name, loss in zip(NAMES, losses, strict=True):
        model.client(name, cp.Maximize(-loss.express(w)))
    whole = total(losses)
    by_hand = follow(lambda x, k: x - whole.gradient(x), np.zeros(8))
    seen, result = run(model, dm.GradientDescent(1.0), of(w))
    same(seen, by_hand)
    assert result.value == pytest.approx(-whole.value(np.asarray(w.value)))


def test_gradient_descent_of_variables_that_not_all_clients_have() -> None:
    generator = np.random.default_rng(3)
    target = generator.normal(size=(4, 2))
    u, v = cp.Variable(2, name="u"), cp.Variable(2, name="v")
    model = dm.Model("two of three")
    model.topology("server")
    model.client("a", cp.sum_squares(u - target[0]))
    model.client("b", cp.sum_squares(u - target[1]) + cp.sum_squares(v - target[2]))
    model.client("c", cp.sum_squares(v - target[3]))
    pull = np.concatenate([target[0] + target[1], target[2] + target[3]])
    by_hand = follow(lambda x, k: x - 0.05 * (4 * x - 2 * pull), np.zeros(4))
    same(iterates(model, dm.GradientDescent(0.05), u, v), by_hand)


def test_gradient_descent_of_a_server_in_other_units() -> None:
    """One client has the server's entries doubled: the gradient is that of f(x) + g(2 x)."""
    x, y, z = (cp.Variable(2, name=name) for name in "xyz")
    model = dm.Model("doubled")
    model.client("a", cp.sum_squares(x - 1))
    model.client("b", cp.sum_squares(y - 3))
    model.consensus(z == x, 2 * z == y)
    by_hand = follow(lambda v, k: v - 0.05 * (2 * (v - 1) + 4 * (2 * v - 3)), np.zeros(2))
    same(iterates(model, dm.GradientDescent(0.05), z), by_hand)


def test_newton_of_variables_that_not_all_clients_have() -> None:
    losses = clients("logistic")
    u, v = cp.Variable(4, name="u"), cp.Variable(4, name="v")
    model = dm.Model("two of three")
    model.topology("server")
    first, both, last = losses[0], losses[1], losses[2]
    pad = np.zeros(4)
    model.client("a", first.express(cp.hstack([u, pad])))
    model.client("b", both.express(cp.hstack([u, v])))
    model.client("c", last.express(cp.hstack([pad, v])))
    masks = [np.repeat([1.0, 0.0], 4), np.ones(8), np.repeat([0.0, 1.0], 4)]

    def step(x: Array, k: int) -> Array:
        g = sum(m * f.gradient(m * x) for m, f in zip(masks, losses, strict=False))
        H = sum(np.outer(m, m) * f.hessian(m * x) for m, f in zip(masks, losses, strict=False))
        return x - 0.5 * np.linalg.solve(H, g)

    same(iterates(model, dm.NewtonMethod(damping=0.5), u, v), follow(step, np.zeros(8)))


@smooth
@pytest.mark.parametrize("damping", [1.0, 0.3])
def test_newton(kind: str, damping: float) -> None:
    losses, size = clients(kind), dimension(kind)
    whole = total(losses)
    by_hand = follow(
        lambda x, k: x - damping * np.linalg.solve(whole.hessian(x), whole.gradient(x)),
        np.zeros(size),
    )
    model, w = on_star(losses, size)
    same(iterates(model, dm.NewtonMethod(damping=damping), w), by_hand)


@smooth
@pytest.mark.parametrize(("k", "seed"), [(1, 0), (3, 7)])
def test_mini_batches(kind: str, k: int, seed: int) -> None:
    losses, size = clients(kind), dimension(kind)

    def step(x: Array, round_: int) -> Array:
        batch = drawn(seed, round_, k, 4)
        return x - 0.2 * sum(losses[i].gradient(x) for i in batch) / k

    model, w = on_star(losses, size)
    algorithm = dm.MiniBatchGradientDescent(0.2, k=k, seed=seed)
    seen, result = run(model, algorithm, of(w))
    same(seen, follow(step, np.zeros(size)))
    assert (result.history.solved == k + 1).all()
    who = [[name for name in NAMES if name in said] for said in result.history.who]
    assert who == [[NAMES[i] for i in drawn(seed, r, k, 4)] for r in range(1, ROUNDS + 1)]


@pytest.mark.parametrize("k", [1, 5])
def test_stochastic_gradient_descent_with_a_client_for_each_sample(k: int) -> None:
    A, b = table("diabetes")
    A, b = A[:40], b[:40]
    w = cp.Variable(10, name="w")
    model = dm.Model("samples")
    for i in range(40):
        model.client(i, cp.square(A[i] @ w - b[i]))

    def step(x: Array, round_: int) -> Array:
        batch = drawn(5, round_, k, 40)
        return x - 0.01 * 2 * A[batch].T @ (A[batch] @ x - b[batch]) / k

    algorithm = dm.StochasticGradientDescent(0.01, k=k, seed=5)
    same(iterates(model, algorithm, w), follow(step, np.zeros(10)))


@smooth
@pytest.mark.parametrize(("k", "damping"), [(1, 0.5), (3, 1.0)])
def test_stochastic_newton(kind: str, k: int, damping: float) -> None:
    losses, size = clients(kind), dimension(kind)

    def step(x: Array, round_: int) -> Array:
        part = total([losses[i] for i in drawn(4, round_, k, 4)])
        return x - damping * np.linalg.solve(part.hessian(x), part.gradient(x))

    model, w = on_star(losses, size)
    algorithm = dm.StochasticNewton(k=k, seed=4, damping=damping)
    same(iterates(model, algorithm, w), follow(step, np.zeros(size)))


def test_stochastic_newton_with_singular_hessians_takes_the_shortest_step() -> None:
    """A batch of 3 rows in 10 variables: the pseudo-inverse is the least change."""
    A, b = table("diabetes")
    losses = [squares(A[3 * i : 3 * i + 3], b[3 * i : 3 * i + 3]) for i in range(4)]
    model, w = on_star(losses, 10)

    def step(x: Array, round_: int) -> Array:
        (i,) = drawn(0, round_, 1, 4)
        mine = slice(3 * i, 3 * i + 3)
        return x - np.linalg.pinv(A[mine]) @ (A[mine] @ x - b[mine])

    same(iterates(model, dm.StochasticNewton(), w), follow(step, np.zeros(10)))


@pytest.mark.parametrize("slopes", [(1.0, 2.0), (3.0, -1.0)])
def test_newton_does_not_call_an_unbounded_problem_optimal(slopes: tuple[float, float]) -> None:
    x = cp.Variable(2, name="x")
    model = dm.Model()
    for name, slope in zip("ab", slopes, strict=True):
        model.client(name, slope * cp.sum(x) + cp.square(x[0]))
    result = model.solve(algorithm=dm.NewtonMethod())
    assert result.status == "solver_error"
    assert "along some direction there is a slope but no curvature; add a regul" in result.detail


def test_newton_stays_where_there_is_neither_slope_nor_curvature() -> None:
    """The Hessian of (x0 - 1)^2 + (x0 - 3)^2 is singular, but slopes cancel in x1."""
    x = cp.Variable(2, name="x")
    model = dm.Model()
    model.client("a", cp.square(x[0] - 1) + 5 * x[1])
    model.client("b", cp.square(x[0] - 3) - 5 * x[1])
    result = model.solve(algorithm=dm.NewtonMethod())
    assert result.status == "optimal"
    assert result[x] == pytest.approx([2.0, 0.0], abs=1e-9)
    assert result.value == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("rules", ["box", "ball"])
def test_projected_gradients_of_constraints_that_every_client_states(
    rules: str, k: int | None
) -> None:
    """(40) and (50) with projections on a box and a ball, written by hand."""
    generator, w, model = np.random.default_rng(4), cp.Variable(3, name="w"), dm.Model(rules)
    data = [(generator.normal(size=(8, 3)), generator.normal(size=8) + 1) for _ in NAMES]
    for name, (A, b) in zip(NAMES, data, strict=True):
        stated = [w >= 0.05] if rules == "box" else [cp.norm(w) <= 0.1]
        model.client(name, cp.sum_squares(A @ w - b), stated)
    losses = [squares(A, b) for A, b in data]

    def step(x: Array, round_: int) -> Array:
        chosen = range(4) if k is None else drawn(3, round_, k, 4)
        slope = sum((losses[i].gradient(x) for i in chosen), np.zeros(3))
        x = x - 0.02 * slope / (1 if k is None else k)
        return np.maximum(x, 0.05) if rules == "box" else x * min(1, 0.1 / np.linalg.norm(x))

    algorithm = (
        dm.GradientDescent(0.02) if k is None else dm.MiniBatchGradientDescent(0.02, k=k, seed=3)
    )
    by_hand = follow(step, np.zeros(3))
    # The ball is projected on by an iterative solver, and a server with constraints stays tied to
    # its own last value by 1e-6 of an absent client's weight (LOOSE squared).
    digits = 2e-6 if k else 1e-7 if rules == "ball" else EXACT
    same(iterates(model, algorithm, w, accuracy=1e-12), by_hand, digits)
    held = by_hand[-1].min() == 0.05 if rules == "box" else np.linalg.norm(by_hand[-1]) > 0.0999
    assert held  # or nothing is tested
