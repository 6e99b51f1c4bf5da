r"""Every classical algorithm against its textbook form in plain numpy, iterate by iterate.

Each client is known twice: to cvxpy, and as functions of numpy (:class:`Loss`). The textbook forms
know nothing of multipliers, penalties or networks: they are written from the sources that the
docstrings of the algorithms name. Runs are of 50 rounds with tolerances zero, so that every round
is run, and a metric records what each found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import sklearn.datasets
import sklearn.linear_model

import dald_model as dm
from dald_model.coordinate.method import Algorithm, Goal, Method, kept
from dald_model.solvers import GradientSteps, NewtonSteps, ProximalGradientSteps

Array = np.ndarray
Function = Callable[[Array], Any]

ROUNDS = 50
EXACT = 1e-10
NAMES = ["a", "b", "c", "d"]


# --- data and clients -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A smooth objective: in numpy, and as a cvxpy expression."""

    value: Function
    gradient: Function
    hessian: Function
    express: Callable[[Any], Any]

    def argmin(self, linear: Array, weight: Any) -> Array:
        r"""Newton's method to the last digit on :math:`f(x) + c^\top x + \tfrac12 x^\top K x`."""
        K = weight * np.eye(linear.size) if np.ndim(weight) == 0 else weight
        x = np.zeros(linear.size)
        for _ in range(100):
            move = np.linalg.solve(self.hessian(x) + K, self.gradient(x) + linear + K @ x)
            x = x - move
            if np.abs(move).max() < 1e-15 * max(1.0, np.abs(x).max()):
                break
        return x

    def prox(self, centre: Array, alpha: float) -> Array:
        r"""The minimiser of :math:`f(x) + \|x - c\|^2 / (2 \alpha)`."""
        return self.argmin(-centre / alpha, 1 / alpha)


def squares(A: Array, b: Array, scale: float = 1.0) -> Loss:
    return Loss(
        lambda x: scale * np.sum((A @ x - b) ** 2),
        lambda x: 2 * scale * A.T @ (A @ x - b),
        lambda x: 2 * scale * A.T @ A,
        lambda x: scale * cp.sum_squares(A @ x - b),
    )


def logistic(A: Array, y: Array, ridge: float, scale: float = 1.0) -> Loss:
    """The logistic loss of labels -1 and 1, with ridge / 2 times the squared norm."""
    signed = -y[:, None] * A

    def hessian(x: Array) -> Array:
        p = scipy.special.expit(signed @ x)
        return scale * signed.T @ ((p * (1 - p))[:, None] * signed) + ridge * np.eye(x.size)

    return Loss(
        lambda x: scale * np.logaddexp(0, signed @ x).sum() + ridge / 2 * x @ x,
        lambda x: scale * signed.T @ scipy.special.expit(signed @ x) + ridge * x,
        hessian,
        lambda x: scale * cp.sum(cp.logistic(signed @ x)) + ridge / 2 * cp.sum_squares(x),
    )


def total(losses: list[Loss]) -> Loss:
    return Loss(
        lambda x: sum(one.value(x) for one in losses),
        lambda x: sum(one.gradient(x) for one in losses),
        lambda x: sum(one.hessian(x) for one in losses),
        lambda x: sum(one.express(x) for one in losses),
    )


@cache
def table(name: str) -> tuple[Array, Array]:
    """Scikit-learn's table with standardised columns; labels -1 and 1 where there are classes."""
    load = {
        "diabetes": sklearn.datasets.load_diabetes,
        "cancer": sklearn.datasets.load_breast_cancer,
    }
    A, b = load[name](return_X_y=True)
    A = A[:, ::4] if name == "cancer" else A
    b = 2.0 * b - 1 if name == "cancer" else (b - b.mean()) / b.std()
    return (A - A.mean(axis=0)) / A.std(axis=0), b


SIZES = {"diabetes": (17, 80, 125, 220), "cancer": (29, 70, 170, 300)}


@cache
def clients(kind: str) -> list[Loss]:
    """Four clients of unequal sizes, each with its share of the mean over all rows."""
    name = {"least squares": "diabetes", "logistic": "cancer"}[kind]
    A, b = table(name)
    stops = np.cumsum(SIZES[name])
    assert stops[-1] == len(A)
    rows = np.split(np.random.default_rng(1).permutation(len(A)), stops[:-1])
    if kind == "least squares":
        return [squares(A[r], b[r], 1 / len(A)) for r in rows]
    return [logistic(A[r], b[r], 0.02, 1 / len(A)) for r in rows]


KINDS = ["least squares", "logistic"]
smooth = pytest.mark.parametrize("kind", KINDS)


def dimension(kind: str) -> int:
    return 10 if kind == "least squares" else 8


def lipschitz(loss: Loss, size: int) -> float:
    """The largest eigenvalue of the Hessian, which is largest at zero for these."""
    return float(np.linalg.eigvalsh(loss.hessian(np.zeros(size)))[-1])


def on_star(losses: list[Loss], size: int) -> tuple[dm.Model, cp.Variable]:
    """One shared variable, for which a server is made."""
    w = cp.Variable(size, name="w")
    model = dm.Model("star")
    for name, loss in zip(NAMES, losses, strict=False):
        model.client(name, loss.express(w))
    return model, w


def alone(loss: Loss, size: int, rest: Callable[[Any], Any] = lambda x: 0) -> Any:
    """One client and its server; gives the model, the client's variable and the server's."""
    x, z = cp.Variable(size, name="x"), cp.Variable(size, name="z")
    model = dm.Model("one client")
    model.client("all", loss.express(x) + rest(x))
    model.consensus(z == x)
    return model, x, z


def on_graph(losses: list[Loss], size: int, graph: nx.Graph) -> tuple[dm.Model, cp.Variable]:
    model, w = on_star(losses, size)
    model.topology(graph)
    return model, w


# --- runs -----------------------------------------------------------------------------------------


def run(model: dm.Model, algorithm: Any, measure: Any, rounds: int = ROUNDS, **options: Any) -> Any:
    """What ``measure`` found of each round, stacked, and the result."""
    result = model.solve(
        algorithm=algorithm,
        metrics={"seen": measure},
        max_rounds=rounds,
        eps_pri=0.0,
        eps_dual=0.0,
        **options,
    )
    assert (result.status, result.rounds) == ("round_limit", rounds), result.detail
    return np.stack(result.history["seen"].to_list()), result


def of(*variables: cp.Variable) -> Callable[[dm.Iterate], Array]:
    """The values of some variables, one after the other."""
    return lambda at: np.concatenate([np.ravel(at[v], order="F") for v in variables])


def at_clients(w: cp.Variable) -> Callable[[dm.Iterate], Array]:
    """The clients' own copies, a row each."""
    return lambda at: np.stack([value.copy() for value in at.copies(w).values()])


def iterates(
    model: dm.Model, algorithm: Any, *variables: cp.Variable, rounds: int = ROUNDS, **options: Any
) -> Array:
    return run(model, algorithm, of(*variables), rounds, **options)[0]


def follow(step: Callable[[Any, int], Any], start: Any, rounds: int = ROUNDS) -> list[Any]:
    """The iterates of ``step(x, k)`` with k from 1."""
    found, x = [], start
    for k in range(1, rounds + 1):
        x = step(x, k)
        found.append(x)
    return found


def same(one: Any, other: Any, digits: float = EXACT) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    assert np.abs(one).max() > 1e-3, "nothing moved"
    worst = np.abs(one - other).max(axis=tuple(range(1, one.ndim)))
    assert worst.max() < digits, f"round {worst.argmax() + 1}: {worst.max():.1e} apart"


def drawn(seed: int, round_: int, k: int, count: int) -> list[int]:
    """The documented rule: who takes part in a round, of those who are no servers."""
    generator = np.random.default_rng((seed, round_))
    return sorted(generator.choice(count, size=k, replace=False).tolist())


@dataclass(frozen=True)
class Custom:
    """An algorithm made of a method."""

    method: Method

    def open(self, compiled: dm.Compiled) -> Method:
        return self.method

    def explain(self) -> str:
        return "custom"


# --- gradients and Newton, (36) to (52) -----------------------------------------------------------


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
    assert result.value == pytest.approx(-whole.value(seen[-2]))


def test_gradient_descent_of_variables_that_not_all_clients_have() -> None:
    generator = np.random.default_rng(3)
    target = generator.normal(size=(4, 2))
    u, v = cp.Variable(2, name="u"), cp.Variable(2, name="v")
    model = dm.Model("two of three")
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


# --- proximal and federated, (33) to (35) and (53) to (56) ----------------------------------------
#
# Where a client is minimised by Newton's method its error is what its last step leaves: asked for
# 1e-12 of the variables' size, which are below 1 here, 50 rounds of a map that contracts keep it
# below 1e-10.

SHARP = {"least squares": {}, "logistic": {"accuracy": 1e-12}}


@smooth
@pytest.mark.parametrize("alpha", [0.5, 20.0])
def test_the_proximal_point_method(kind: str, alpha: float) -> None:
    whole, size = total(clients(kind)), dimension(kind)
    model, x, z = alone(whole, size)
    by_hand = follow(lambda v, k: whole.prox(v, alpha), np.zeros(size))
    seen = iterates(model, dm.ProximalPoint(alpha), x, z, **SHARP[kind])
    same(seen, [np.tile(v, 2) for v in by_hand])


def shrunk(v: Array, by: float) -> Array:
    return np.sign(v) * np.maximum(np.abs(v) - by, 0.0)


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
    seen = iterates(model, dm.ProximalPoint(2.0), x, z)
    same(seen, [np.tile(v, 2) for v in by_hand])
    # Scikit-learn's has 1 / (2 N) before the squares, hence half the weight; its N is in A here.
    fit = sklearn.linear_model.Lasso(0.15 / len(A), fit_intercept=False, tol=1e-14)
    model.solve(algorithm=dm.ProximalPoint(2.0))
    assert z.value == pytest.approx(fit.fit(A, b).coef_, abs=1e-5)


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
    same(iterates(model, dm.FedProx(3.0), w, rounds=20), by_hand)


WEIGHTS = dict(zip(NAMES, map(float, SIZES["diabetes"]), strict=True))


def _fedavg(losses: list[Loss], z: Array, step: float, epochs: int) -> list[Array]:
    found = []
    for f in losses:
        x = z
        for _ in range(epochs):
            x = x - step * f.gradient(x)
        found.append(x)
    return found


@smooth
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "by rows"])
@pytest.mark.parametrize("epochs", [1, 5])
def test_fedavg(kind: str, weights: dict[Hashable, float] | None, epochs: int) -> None:
    losses, size = clients(kind), dimension(kind)
    p = np.array(list((weights or dict.fromkeys(NAMES, 1.0)).values()))
    p = p / p.sum()
    by_hand = follow(lambda z, k: p @ np.stack(_fedavg(losses, z, 0.2, epochs)), np.zeros(size))
    model, w = on_star(losses, size)
    same(iterates(model, dm.FedAvg(0.2, epochs=epochs, weights=weights), w), by_hand)


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
    algorithm = dm.FedAvg(0.2, epochs=3, k=2, seed=9, weights=weights)
    same(iterates(model, algorithm, w), follow(step, np.zeros(size)))


# --- decentralised, (57) --------------------------------------------------------------------------


def _paw() -> nx.Graph:
    """A triangle with a tail: degrees 2, 2, 3 and 1."""
    return nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])


def _matrix(weights: Mapping[tuple[Hashable, Hashable], float]) -> Array:
    P = np.zeros((4, 4))
    for (a, b), p in weights.items():
        i, j = NAMES.index(str(a)), NAMES.index(str(b))
        P[i, j] = P[j, i] = p
    return P + np.diag(1 - P.sum(axis=1))


GIVEN = {("b", "a"): 0.1, ("b", "c"): 0.2, ("a", "c"): 0.5, ("d", "c"): 0.3}


def test_metropolis_weights() -> None:
    """1 / (1 + max(d_i, d_j)), (Xiao and Boyd 2004)."""
    found = {frozenset(pair): p for pair, p in dm.metropolis(_paw()).items()}
    quarter = dict.fromkeys(map(frozenset, (("b", "c"), ("a", "c"), ("c", "d"))), 1 / 4)
    assert found == quarter | {frozenset("ab"): 1 / 3}


@smooth
@pytest.mark.parametrize("weights", [None, GIVEN], ids=["Metropolis", "given"])
def test_decentralised_gradient_descent(kind: str, weights: Any) -> None:
    losses, size = clients(kind), dimension(kind)
    P = _matrix(weights or dm.metropolis(_paw()))

    def step(x: Array, k: int) -> Array:
        return P @ x - 0.2 * np.stack([f.gradient(v) for f, v in zip(losses, x, strict=True)])

    model, w = on_graph(losses, size, _paw())
    seen, result = run(model, dm.DGD(0.2, weights=weights), at_clients(w))
    same(seen, follow(step, np.zeros((4, size))))
    assert result[w] == pytest.approx(seen[-1].mean(axis=0), abs=1e-12)


@smooth
@pytest.mark.parametrize(("k", "weights"), [(1, None), (3, GIVEN)])
def test_asynchronous_decentralised_gradient_descent(kind: str, k: int, weights: Any) -> None:
    losses, size = clients(kind), dimension(kind)
    P = _matrix(weights or dm.metropolis(_paw()))

    def step(x: Array, round_: int) -> Array:
        new = x.copy()
        for i in drawn(6, round_, k, 4):
            new[i] = P[i] @ x - 0.2 * losses[i].gradient(x[i])
        return new

    model, w = on_graph(losses, size, _paw())
    algorithm = dm.AsynchronousDGD(0.2, k=k, seed=6, weights=weights)
    seen, _ = run(model, algorithm, at_clients(w))
    same(seen, follow(step, np.zeros((4, size))))


# --- ADMM and DALD, (12) to (22) ------------------------------------------------------------------


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


def _minimised(
    losses: list[Loss], i: int, x: Array, mu: Mapping[tuple[int, int], Array], rho: Any
) -> Array:
    """(20): a client with its neighbours where they are, and mu of (i, j) times x_i - x_j."""
    linear, weight = np.zeros(x.shape[1]), 0.0
    for (a, b), m in mu.items():
        if i in (a, b):
            other, sign = (b, 1.0) if i == a else (a, -1.0)
            linear = linear + sign * m - 2 * rho[a, b] ** 2 * x[other]
            weight += 2 * rho[a, b] ** 2
    return losses[i].argmin(linear, weight)


def _dald(
    losses: list[Loss], size: int, rho: Any, order: list[list[int]], v_max: int, rounds: int
) -> list[Array]:
    """Algorithm 3 with (B4); ``order`` has levels of which each is solved side by side."""
    x = np.zeros((len(losses), size))
    mu = {pair: np.zeros(size) for pair in rho}
    found = []
    for round_ in range(1, rounds + 1):
        for level in order:
            new = {i: _minimised(losses, i, x, mu, rho) for i in level}
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


# --- one client and a term without a gradient, (62) to (64) ---------------------------------------


def _ista(loss: Loss, step: float, prox: Callable[[Array], Array], size: int) -> list[Array]:
    return follow(lambda x, k: prox(x - step * loss.gradient(x)), np.zeros(size))


@smooth
@pytest.mark.parametrize(
    ("rest", "prox"),
    [
        pytest.param(
            lambda x: 0.05 * cp.norm1(x), lambda v, a: shrunk(v, 0.05 * a), id="absolute values"
        ),
        pytest.param(
            lambda x: 0.1 * cp.norm(x),
            lambda v, a: max(0.0, 1 - 0.1 * a / max(np.linalg.norm(v), 1e-300)) * v,
            id="norm",
        ),
        pytest.param(lambda x: 0, lambda v, a: v, id="nothing"),
    ],
)
def test_the_proximal_gradient_method(
    kind: str, rest: Callable[[Any], Any], prox: Callable[[Array, float], Array]
) -> None:
    whole, size = total(clients(kind)), dimension(kind)
    step = 1 / lipschitz(whole, size)
    model, x, z = alone(whole, size, rest)
    by_hand = _ista(whole, step, lambda v: prox(v, step), size)
    seen = iterates(model, dm.ProximalGradient(step), x, z)
    same(seen, [np.tile(v, 2) for v in by_hand])


@smooth
@pytest.mark.parametrize(
    ("rules", "project"),
    [
        pytest.param(lambda x: [x <= 0], lambda v: np.minimum(v, 0), id="signs"),
        pytest.param(lambda x: [x >= -0.05, x <= 0.1], lambda v: np.clip(v, -0.05, 0.1), id="box"),
        pytest.param(
            lambda x: [cp.norm(x) <= 0.2],
            lambda v: v * min(1.0, 0.2 / max(np.linalg.norm(v), 1e-300)),
            id="ball",
        ),
    ],
)
def test_projected_gradients(
    kind: str, rules: Callable[[Any], Any], project: Callable[[Array], Array]
) -> None:
    """Constraints count as the part without a gradient: its prox is the projection."""
    whole, size = total(clients(kind)), dimension(kind)
    step = 1 / lipschitz(whole, size)
    x, z = cp.Variable(size, name="x"), cp.Variable(size, name="z")
    model = dm.Model("one client")
    model.client("all", whole.express(x), rules(x))
    model.consensus(z == x)
    by_hand = _ista(whole, step, project, size)
    same(iterates(model, dm.ProximalGradient(step), z), by_hand)


# --- blocks, (59) to (61) and (65) ----------------------------------------------------------------
#
# min f1(x1) + f2(x2) + rho^2 |A1 x1 + A2 x2 - b|^2, a regression whose columns have two owners,
# each with a regulariser of its own: the consensus A1 x1 == b - A2 x2.


@dataclass(frozen=True)
class Coupled:
    """Blocks whose sides meet: ``sum of f_i + rho^2 |sum of A_i x_i - b|^2``."""

    losses: list[Loss]
    A: list[Array]
    b: Array
    rho: float
    l1: float = 0.0

    @property
    def sizes(self) -> list[int]:
        return [A.shape[1] for A in self.A]

    def model(self) -> tuple[dm.Model, list[cp.Variable]]:
        x = [cp.Variable(m, name=f"x{i + 1}") for i, m in enumerate(self.sizes)]
        model = dm.Model("coupled")
        for i, (loss, v) in enumerate(zip(self.losses, x, strict=True), start=1):
            model.client(i, loss.express(v) + (self.l1 * cp.norm1(v) if self.l1 else 0))
        model.consensus(self.A[0] @ x[0] == self.b - self.A[1] @ x[1])
        return model, x

    def rest(self, x: list[Array], i: int) -> Array:
        """What the other blocks leave to block i."""
        return self.b - sum(A @ v for j, (A, v) in enumerate(zip(self.A, x, strict=True)) if j != i)

    def slope(self, x: list[Array], i: int) -> Array:
        """The partial gradient of the smooth part of the whole."""
        gap = self.A[i] @ x[i] - self.rest(x, i)
        return self.losses[i].gradient(x[i]) + 2 * self.rho**2 * self.A[i].T @ gap

    def bend(self, i: int) -> Array:
        return 2 * self.rho**2 * self.A[i].T @ self.A[i]

    def exact(self, x: list[Array], i: int) -> Array:
        """(59)."""
        return self.losses[i].argmin(-2 * self.rho**2 * self.A[i].T @ self.rest(x, i), self.bend(i))

    def value(self, v: Array) -> float:
        x = self.split(v)
        gap = sum(A @ one for A, one in zip(self.A, x, strict=True)) - self.b
        own = sum(f.value(one) for f, one in zip(self.losses, x, strict=True))
        return float(own + self.rho**2 * gap @ gap + self.l1 * np.abs(v).sum())

    def gradient(self, v: Array) -> Array:
        x = self.split(v)
        return np.concatenate([self.slope(x, i) for i in range(len(x))])

    def split(self, v: Array) -> list[Array]:
        return np.split(v, np.cumsum(self.sizes)[:-1])

    def minimiser(self) -> Array:
        """Newton's method on the smooth whole."""

        def hessian(v: Array) -> Array:
            own = [f.hessian(x) for f, x in zip(self.losses, self.split(v), strict=True)]
            return self._curvature(own)

        smooth = Loss(self.value, self.gradient, hessian, lambda x: None)
        return smooth.argmin(np.zeros(sum(self.sizes)), 0.0)

    def largest(self) -> float:
        """The largest eigenvalue of the Hessian of the whole, at zero."""
        own = [f.hessian(np.zeros(m)) for f, m in zip(self.losses, self.sizes, strict=True)]
        return float(np.linalg.eigvalsh(self._curvature(own))[-1])

    def _curvature(self, own: list[Array]) -> Array:
        """The Hessian of the whole, with those of the blocks' own losses."""
        wide, block_diagonal = np.hstack(self.A), np.zeros((sum(self.sizes),) * 2)
        at = 0
        for H in own:
            block_diagonal[at : at + len(H), at : at + len(H)] = H
            at += len(H)
        return block_diagonal + 2 * self.rho**2 * wide.T @ wide

    def sweeps(self, block: Callable[[list[Array], int], Array], rounds: int = ROUNDS) -> list[Any]:
        """Gauss-Seidel: one block after the other."""

        def step(x: list[Array], k: int) -> list[Array]:
            new = list(x)
            for i in range(len(x)):
                new[i] = block(new, i)
            return new

        found = follow(step, [np.zeros(m) for m in self.sizes], rounds)
        return [np.concatenate(x) for x in found]


@cache
def coupled(kind: str, l1: float = 0.0, rho: float = 1.0) -> Coupled:
    """Columns of the diabetes table with two owners; each has rows of its own to fit, too."""
    A, b = table("diabetes")
    A, b = A[:120] / np.sqrt(120), b[:120] / np.sqrt(120)
    generator = np.random.default_rng(8)
    losses = []
    for m in (6, 4):
        own = generator.normal(size=(15, m))
        if kind == "least squares":
            losses.append(squares(own, generator.normal(size=15), 1 / 15))
        else:
            losses.append(logistic(own, np.sign(generator.normal(size=15)), 0.05, 1 / 15))
    return Coupled(losses, [A[:, :6], A[:, 6:]], b, rho, l1)


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


def above(losses: Mapping[Any, Loss], size: float, below: float = 0.0) -> Any:
    """The quadratic upper bound of curvature ``size``, as a pair for :class:`dm.BSUM`."""

    def make(client: dm.Client, at: Mapping[cp.Variable, cp.Parameter]) -> Any:
        (x,) = client.variables
        linear, constant = cp.Parameter(x.size), cp.Parameter()
        loss = losses[client.name]

        def refresh(values: Mapping[cp.Variable, Array]) -> None:
            y = values[x]
            g = loss.gradient(y)
            linear.value = g - size * y
            constant.value = loss.value(y) - g @ y + size / 2 * y @ y - below

        return constant + linear @ x + size / 2 * cp.sum_squares(x), refresh

    return make


BOUND = 6.0
"""Above the largest curvature of the clients' losses."""


def _bsum(problem: Coupled, x: list[Array], i: int) -> Array:
    """The minimiser of the bound and the coupling: a linear system."""
    K = problem.bend(i) + BOUND * np.eye(x[i].size)
    right = BOUND * x[i] - problem.losses[i].gradient(x[i])
    return np.linalg.solve(K, right + 2 * problem.rho**2 * problem.A[i].T @ problem.rest(x, i))


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
    exact = seidel(lambda x, i: _minimised(losses, i, x, mu, edges))
    seen, _ = run(model, dm.BCD(), at_clients(w), **natural, **SHARP[kind])
    same(seen, follow(exact, start))
    steps = seidel(lambda x, i: x[i] - 0.3 * slope(x, i))
    same(run(model, dm.BCGD(0.3), at_clients(w), **natural)[0], follow(steps, start))
    same(run(model, dm.BCPG(0.3), at_clients(w), **natural)[0], follow(steps, start))
    jacobi = follow(lambda x, k: x - 0.3 * np.stack([slope(x, i) for i in range(3)]), start)
    same(run(model, dm.JacobiGradientDescent(0.3), at_clients(w), rho=rho)[0], jacobi)


# --- reductions, as equalities of iterates --------------------------------------------------------


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
def test_fedprox_with_the_update_of_the_multipliers_is_dald(kind: str) -> None:
    """What parts them is the update alone: kept here, (15) there."""
    model, w = on_star(clients(kind), dimension(kind))
    alpha = 2.0
    rho = np.sqrt(1 / (2 * alpha))
    still = Method(kept, rho=rho, stopping=dm.FixedBudget(1), goal=Goal.REST)
    moving = Method(dm.DALD().update, rho=rho, stopping=dm.FixedBudget(1))
    admm = {"rho": rho, "stopping": dm.FixedBudget(1)} | SHARP[kind]
    sharp = SHARP[kind]
    paired(model, w, Custom(still), dm.FedProx(alpha), sharp, sharp)
    paired(model, w, Custom(moving), dm.DALD(), sharp, admm)
    first, second = (iterates(model, Custom(m), w, **sharp) for m in (still, moving))
    assert np.abs(first[0] - second[0]).max() < 1e-13, "the first round knows no multipliers"
    assert np.abs(first[1] - second[1]).max() > 1e-4


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
    graph, w = on_graph(clients(kind), dimension(kind), _paw())
    paired(graph, w, dm.ConsensusADMM(), dm.DALD(), ours, ours | {"stopping": dm.FixedBudget(1)})


def test_admm_on_a_chain_of_two_colours_is_two_block_admm() -> None:
    """First a and c, then b and d, with x_a = x_b, x_b = x_c, x_c = x_d in scaled form."""
    losses = clients("least squares")
    pairs, rho = [(0, 1), (1, 2), (2, 3)], 0.5
    r = 2 * rho**2

    def step(at: tuple[Array, dict[Any, Array]], k: int) -> tuple[Array, dict[Any, Array]]:
        x, u = at[0].copy(), dict(at[1])
        for colour in ((0, 2), (1, 3)):
            new = {}
            for i in colour:  # sum of r / 2 |x_i - x_j +- u|^2
                targets = [x[b] - u[a, b] for a, b in pairs if a == i]
                targets += [x[a] + u[a, b] for a, b in pairs if b == i]
                new[i] = losses[i].argmin(-r * np.sum(targets, axis=0), r * len(targets))
            for i, value in new.items():
                x[i] = value
        return x, {(a, b): v + x[a] - x[b] for (a, b), v in u.items()}

    zeros = {pair: np.zeros(10) for pair in pairs}
    by_hand = [x for x, _ in follow(step, (np.zeros((4, 10)), zeros))]
    model, w = on_graph(losses, 10, nx.path_graph(NAMES))
    sequence = dm.Sequence.levels([["a", "c"], ["b", "d"]])
    seen, _ = run(model, dm.ConsensusADMM(), at_clients(w), rho=rho, sequence=sequence)
    same(seen, by_hand)


@smooth
def test_fedavg_is_the_limit_of_fedprox_with_gradient_steps(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    steps = GradientSteps(0.2, 3, from_neighbour=True)
    limit = iterates(model, dm.FedAvg(0.2, epochs=3), w)
    apart = []
    for alpha in (1e2, 1e4, 1e6):
        seen = iterates(model, dm.FedProx(alpha), w, solver=steps)
        apart.append(np.abs(seen - limit).max())
    # In proportion to 1 / alpha = 2 rho^2
    assert 80 < apart[0] / apart[1] < 125
    assert 80 < apart[1] / apart[2] < 125
    paired(model, w, dm.FedProx(1e13), dm.FedAvg(0.2, epochs=3), {"solver": steps}, digits=1e-11)


def test_fedprox_with_one_alpha_is_the_distributed_proximal_method() -> None:
    model, w = on_star(clients("least squares"), 10)
    paired(model, w, dm.FedProx(3.0), dm.DistributedProximal(dict.fromkeys(NAMES, 3.0)))
    paired(model, w, dm.FedProx(3.0), dm.DistributedProximal(3.0))


def test_fedprox_of_one_client_is_the_proximal_point_method() -> None:
    model, _, z = alone(total(clients("least squares")), 10)
    same(iterates(model, dm.FedProx(3.0), z), iterates(model, dm.ProximalPoint(3.0), z), 1e-13)


def test_block_coordinate_descent_with_a_server_is_fedprox() -> None:
    model, w = on_star(clients("least squares"), 10)
    alpha = 3.0
    paired(model, w, dm.FedProx(alpha), dm.BCD(), theirs={"rho": np.sqrt(1 / (2 * alpha))})


def test_fedavg_of_one_epoch_is_gradient_descent_on_the_mean() -> None:
    model, w = on_star(clients("least squares"), 10)
    one = iterates(model, dm.FedAvg(0.2), w)
    same(one, iterates(model, dm.GradientDescent(0.2 / 4), w), 1e-13)


@smooth
def test_all_clients_in_a_batch_is_the_full_method(kind: str) -> None:
    model, w = on_star(clients(kind), dimension(kind))
    paired(model, w, dm.MiniBatchGradientDescent(0.2, k=4), dm.GradientDescent(0.2 / 4))
    paired(model, w, dm.StochasticNewton(k=4, damping=0.5), dm.NewtonMethod(damping=0.5))
    paired(model, w, dm.FedAvg(0.2, epochs=2, k=4), dm.FedAvg(0.2, epochs=2))
    graph, w = on_graph(clients(kind), dimension(kind), _paw())
    paired(graph, w, dm.AsynchronousDGD(0.2, k=4), dm.DGD(0.2))


def test_stochastic_gradient_descent_is_mini_batches_of_one() -> None:
    model, w = on_star(clients("least squares"), 10)
    mini = dm.MiniBatchGradientDescent(0.2, k=1, seed=2)
    paired(model, w, dm.StochasticGradientDescent(0.2, seed=2), mini)


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


@smooth
def test_one_gradient_step_makes_block_descent_that_of_gradients(kind: str) -> None:
    """W = 1, and BCGD with more and more steps is BCD."""
    problem = coupled(kind)
    model, x = problem.model()
    step = 1 / problem.largest()
    given = iterates(model, dm.BCD(), *x, rho=1.0, solver=GradientSteps(step))
    same(given, iterates(model, dm.BCGD(step), *x, rho=1.0), 1e-13)

    exact = iterates(model, dm.BCD(), *x, rho=1.0, rounds=15, **SHARP[kind])
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


# --- where they end -------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1.0, 0.5])
@smooth
def test_blocks_come_to_rest_at_the_minimiser_of_the_coupled_objective(
    kind: str, rho: float
) -> None:
    problem = coupled(kind, rho=rho)
    model, x = problem.model()
    step = 1 / problem.largest()
    best = problem.minimiser()
    assert np.abs(problem.gradient(best)).max() < 1e-12
    known = scipy.optimize.minimize(
        problem.value, np.zeros(10), jac=problem.gradient, method="BFGS", options={"gtol": 1e-10}
    )
    assert best == pytest.approx(known.x, abs=1e-6)
    algorithms = [dm.BCD(), dm.BCGD(step), dm.JacobiGradientDescent(step), dm.BCPG(step, count=2)]
    for algorithm in algorithms:
        result = model.solve(algorithm=algorithm, rho=rho, eps_dual=1e-10, accuracy=1e-12)
        assert result.status == "settled", algorithm
        found = np.concatenate([result[v] for v in x])
        assert found == pytest.approx(best, abs=1e-7), algorithm
        gap = np.abs(problem.A[0] @ found[:6] + problem.A[1] @ found[6:] - problem.b).max()
        said = f"the clients are {gap:.1e} apart, as multipliers are not updated"
        assert result.detail == said
        assert not result.verify().ok, "the consensus does not hold"


def test_bsum_comes_to_rest_there_too() -> None:
    problem = coupled("logistic")
    model, x = problem.model()
    make = above(dict(enumerate(problem.losses, start=1)), BOUND)
    result = model.solve(algorithm=dm.BSUM(make), rho=1.0, accuracy=1e-10)
    assert result.status == "settled"
    found = np.concatenate([result[v] for v in x])
    assert found == pytest.approx(problem.minimiser(), abs=1e-4)


@smooth
def test_proximal_blocks_come_to_rest_at_the_minimiser_with_absolute_values(kind: str) -> None:
    problem = coupled(kind, l1=0.08)
    model, x = problem.model()
    u = [cp.Variable(m) for m in problem.sizes]
    own = sum(f.express(v) + 0.08 * cp.norm1(v) for f, v in zip(problem.losses, u, strict=True))
    gap = problem.A[0] @ u[0] + problem.A[1] @ u[1] - problem.b
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    whole = cp.Problem(cp.Minimize(own + cp.sum_squares(gap)))
    whole.solve(solver=cp.CLARABEL, **tight)
    result = model.solve(algorithm=dm.BCPG(1 / problem.largest()), rho=1.0, eps_dual=1e-9)
    assert result.status == "settled"
    for mine, best in zip(x, u, strict=True):
        assert mine.value == pytest.approx(best.value, abs=1e-5)


PRIVATE = {
    1: Loss(
        lambda v: (v[0] - 1) ** 2 + (v[1] - 5) ** 2 / 100,
        lambda v: np.array([2 * (v[0] - 1), (v[1] - 5) / 50]),
        lambda v: np.diag([2, 1 / 50]),
        lambda v: cp.square(v[0] - 1) + cp.square(v[1] - 5) / 100,
    ),
    2: Loss(
        lambda v: (v[0] + 1) ** 2,
        lambda v: 2 * (v + 1),
        lambda v: np.full((1, 1), 2.0),
        lambda v: cp.sum_squares(v + 1),
    ),
}
"""f1 = (a - 1)^2 + (y - 5)^2 / 100 with y private, f2 = (x + 1)^2."""


def _private() -> tuple[dm.Model, cp.Variable]:
    mine, x = cp.Variable(2, name="mine"), cp.Variable(1, name="x")
    model = dm.Model("private")
    model.client(1, PRIVATE[1].express(mine))
    model.client(2, PRIVATE[2].express(x))
    model.consensus(mine[:1] == x)
    return model, mine


@pytest.mark.parametrize(
    "algorithm",
    [dm.BCGD(0.1), dm.JacobiGradientDescent(0.1), dm.BCPG(0.1), dm.BSUM(above(PRIVATE, 3.0))],
    ids=["BCGD", "Jacobi", "BCPG", "BSUM"],
)
def test_private_variables_have_to_come_to_rest_too(algorithm: Algorithm) -> None:
    """With rho = 1 and multipliers zero: a = 1 / 3, x = -1 / 3, and y = 5 by itself."""
    model, mine = _private()
    result = model.solve(algorithm=algorithm, rho=1.0, max_rounds=5000, accuracy=1e-10)
    assert result.status == "settled"
    assert mine.value == pytest.approx([1 / 3, 5], abs=1e-2)


@pytest.mark.parametrize(
    "algorithm",
    [
        dm.BCGD(0.3, multipliers=True),
        dm.BCPG(0.3, multipliers=True),
        dm.BSUM(above(PRIVATE, 3.0), multipliers=True),
    ],
    ids=["BCGD", "BCPG", "BSUM"],
)
def test_private_variables_are_optimal_where_a_run_says_so(algorithm: Algorithm) -> None:
    model, mine = _private()
    result = model.solve(algorithm=algorithm, rho=1.0, max_rounds=10_000)
    assert result.status == "optimal"
    assert result.verify().ok
    assert mine.value == pytest.approx([0, 5], abs=1e-2)


def test_a_bound_that_keeps_the_absolute_values_is_optimal_where_a_run_says_so() -> None:
    """The bound has no gradient, so the movement tells how far it is from the objective."""
    mine, x = cp.Variable(2, name="mine"), cp.Variable(1, name="x")
    model = dm.Model("absolute values")
    loss = squares(np.diag([1.0, 0.1]), np.array([1.0, 0.5]))
    model.client(1, loss.express(mine) + 0.02 * cp.norm1(mine))
    model.client(2, cp.sum_squares(x + 1))
    model.consensus(mine[:1] == x)
    smooth_part = above({1: loss, 2: PRIVATE[2]}, 3.0)

    def make(client: dm.Client, at: Mapping[cp.Variable, cp.Parameter]) -> Any:
        bound, refresh = smooth_part(client, at)
        kinks = 0.02 * cp.norm1(client.variables[0]) if client.name == 1 else 0
        return bound + kinks, refresh

    result = model.solve(algorithm=dm.BSUM(make, multipliers=True), rho=1.0, max_rounds=10_000)
    assert result.status == "optimal"
    # y: 0.02 (y - 5) + 0.02 = 0, and a: 2 (a - 1) + 2 (a + 1) + 0.02 sign(a) = 0
    assert mine.value == pytest.approx([0, 4], abs=1e-2)


@pytest.mark.parametrize("name", ["FedProx", "BCD", "BSUM"])
def test_fixed_multipliers_settle_with_an_iterative_solver_and_default_options(name: str) -> None:
    if name == "BSUM":
        problem = coupled("logistic")
        model, x = problem.model()
        algorithm: Any = dm.BSUM(above(dict(enumerate(problem.losses, start=1)), BOUND))
        best = problem.minimiser()
    else:
        losses = clients("logistic")
        model, w = on_star(losses, 8)
        x = [w]
        algorithm = {"FedProx": dm.FedProx(2.0), "BCD": dm.BCD()}[name]
        z = follow(
            lambda z, k: np.mean([f.prox(z, 2.0) for f in losses], axis=0), np.zeros(8), 1000
        )
        best = z[-1]
    rho = {"FedProx": None, "BCD": 0.5, "BSUM": 1.0}[name]
    result = model.solve(algorithm=algorithm, rho=rho)
    assert result.status == "settled"
    assert np.concatenate([result[v] for v in x]) == pytest.approx(best, abs=1e-4)


SETTLING = {
    "distributed": dm.DistributedProximal(2.0),
    "FedProx": dm.FedProx(2.0),
    "FedAvg": dm.FedAvg(0.2, epochs=5),
}


@pytest.mark.parametrize(
    ("kind", "name"), [*(("logistic", name) for name in SETTLING), ("least squares", "FedProx")]
)
def test_fixed_multipliers_settle_and_the_distance_is_told(kind: str, name: str) -> None:
    losses, size = clients(kind), dimension(kind)
    model, w = on_star(losses, size)
    result = model.solve(algorithm=SETTLING[name], max_rounds=5000, accuracy=1e-10)
    assert (result.status, result.rounds < 5000) == ("settled", True)
    apart = max(np.abs(result[n][w] - result[w]).max() for n in NAMES)
    assert apart > 1e-2
    assert result.detail == f"the clients are {apart:.1e} apart, as multipliers are not updated"
    assert result.status.message.startswith("the iterates stopped moving")
    check = result.verify()
    assert not check.ok
    assert "consensus violation" in [row.check for row in check.failures]
    if name != "FedAvg":
        # Where sum grad f_i(x_i) = 0, at points that differ
        slopes = [f.gradient(result[n][w]) for f, n in zip(losses, NAMES, strict=True)]
        assert np.sum(slopes, axis=0) == pytest.approx(0, abs=1e-4)
        assert max(np.abs(g).max() for g in slopes) > 1e-3


def test_decentralised_descent_settles_at_a_distance_in_proportion_to_its_step() -> None:
    generator = np.random.default_rng(12)
    losses = [
        squares(generator.normal(size=(rows, 3)), generator.normal(size=rows), 1 / rows)
        for rows in (9, 12, 20, 31)
    ]
    model, w = on_graph(losses, 3, _paw())
    best = total(losses).argmin(np.zeros(3), 0.0)
    off = []
    for step in (0.02, 0.01):
        result = model.solve(algorithm=dm.DGD(step), eps_dual=1e-8, max_rounds=20_000)
        assert result.status == "settled"
        points = np.stack([result[name][w] for name in NAMES])
        apart = max(
            np.abs(points[i] - points[j]).max() for i, j in ((0, 1), (1, 2), (0, 2), (2, 3))
        )
        said = f"the clients are {apart:.1e} apart, as multipliers are not updated"
        assert result.detail == said
        off.append(np.abs(points - best).max())
    assert off[0] / off[1] == pytest.approx(2, abs=0.3)


OPTIMAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "gradient descent": (dm.GradientDescent(0.24), {}),
    "Newton": (dm.NewtonMethod(), {}),
    "damped Newton": (dm.NewtonMethod(damping=0.5), {}),
    "ADMM": (dm.ConsensusADMM(), {}),
    "ADMM, longer": (dm.ConsensusADMM(dual_step=1.6), {}),
    "DALD": (dm.DALD(), {}),
    "BCD": (dm.BCD(multipliers=True), {}),
    "BCGD": (dm.BCGD(0.2, multipliers=True), {"rho": 0.4}),
    "BCGD, five": (dm.BCGD(0.2, count=5, multipliers=True), {"rho": 0.4}),
    "BCPG": (dm.BCPG(0.2, multipliers=True), {"rho": 0.4}),
    "Jacobi": (dm.JacobiGradientDescent(0.3, multipliers=True), {"rho": 0.3}),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    # Steps on the first table take thousands of rounds: two of its columns are nearly parallel.
    [("logistic", name) for name in OPTIMAL]
    + [("least squares", name) for name in OPTIMAL if "C" not in name and name != "Jacobi"],
)
def test_the_others_end_at_the_optimum(kind: str, name: str) -> None:
    losses, size = clients(kind), dimension(kind)
    algorithm, options = OPTIMAL[name]
    model, w = on_star(losses, size)
    result = model.solve(algorithm=algorithm, max_rounds=20_000, **options)
    assert (result.status, result.detail) == ("optimal", "")
    check = result.verify()
    assert check.ok, check
    assert w.value == pytest.approx(total(losses).argmin(np.zeros(size), 0.0), abs=1e-3)


@pytest.mark.parametrize(
    "algorithm",
    [
        dm.ProximalPoint(5.0),
        dm.ProximalGradient(1.0),
        dm.BSUM(above({"all": total(clients("logistic"))}, 1.5), multipliers=True),
    ],
    ids=["PA", "PG", "BSUM"],
)
def test_one_client_ends_at_the_optimum(algorithm: Algorithm) -> None:
    whole = total(clients("logistic"))
    assert lipschitz(whole, 8) < 1.5
    model, _, z = alone(whole, 8)
    options = {"rho": 1.0} if isinstance(algorithm, dm.BSUM) else {}
    result = model.solve(algorithm=algorithm, eps_pri=1e-7, eps_dual=1e-7, **options)
    assert result.status == "optimal"
    assert result.verify().ok
    assert z.value == pytest.approx(whole.argmin(np.zeros(8), 0.0), abs=1e-3)


def test_proximal_gradients_end_at_the_lasso_of_scikit_learn() -> None:
    A, b = table("diabetes")
    whole = squares(A, b, 1 / (2 * len(A)))
    model, _, z = alone(whole, 10, lambda x: 0.05 * cp.norm1(x))
    step = 1 / lipschitz(whole, 10)
    result = model.solve(algorithm=dm.ProximalGradient(step), eps_dual=1e-9, max_rounds=20_000)
    assert result.status == "optimal"
    assert result.verify().ok
    fit = sklearn.linear_model.Lasso(0.05, fit_intercept=False, tol=1e-14, max_iter=100_000)
    assert z.value == pytest.approx(fit.fit(A, b).coef_, abs=1e-6)
    assert (z.value == 0).sum() == (fit.coef_ == 0).sum() > 0


def test_upper_bounds_with_multipliers_end_at_the_optimum() -> None:
    losses = clients("logistic")
    model, w = on_star(losses, 8)
    make = above(dict(zip(NAMES, losses, strict=True)), 1.5)
    result = model.solve(algorithm=dm.BSUM(make, multipliers=True), rho=0.2, eps_dual=1e-5)
    assert result.status == "optimal"
    assert result.verify().ok
    assert w.value == pytest.approx(total(losses).argmin(np.zeros(8), 0.0), abs=2e-3)


STOCHASTIC: dict[str, Any] = {
    "mini-batch": dm.MiniBatchGradientDescent(0.1, k=2),
    "SGD": dm.StochasticGradientDescent(0.1),
    "Newton": dm.StochasticNewton(k=2, damping=0.1),
    "FedAvg": dm.FedAvg(0.1, epochs=2, k=2),
}


@pytest.mark.parametrize("name", [*STOCHASTIC, "asynchronous"])
def test_stochastic_methods_run_every_round_and_answer_with_the_last(name: str) -> None:
    losses = clients("least squares")
    if name == "asynchronous":
        model, w = on_graph(losses, 10, _paw())
        algorithm: Any = dm.AsynchronousDGD(0.1, k=2)
    else:
        model, w = on_star(losses, 10)
        algorithm = STOCHASTIC[name]
    # Tolerances that any iterate meets
    result = model.solve(
        algorithm=algorithm, max_rounds=77, eps_pri=1e3, eps_dual=1e3, metrics={"x": of(w)}
    )
    assert (result.status, result.rounds, result.answer_round) == ("round_limit", 77, 77)
    assert result.detail == "77 rounds were run"
    assert result[w] == pytest.approx(result.history["x"].iloc[-1], abs=1e-14)
    again = model.solve(algorithm=algorithm, max_rounds=77)
    assert (again[w] == result[w]).all(), "the same seed has the same draws"


def test_steps_that_are_too_long_diverge() -> None:
    losses = clients("least squares")
    model, _ = on_star(losses, 10)
    step = 1 / lipschitz(total(losses), 10)
    for algorithm in (dm.GradientDescent(3 * step), dm.FedAvg(4 * 12 * step)):
        result = model.solve(algorithm=algorithm, max_rounds=5000)
        assert result.status == "diverged", algorithm
    problem = coupled("least squares")
    model, _ = problem.model()
    result = model.solve(algorithm=dm.JacobiGradientDescent(3 / problem.largest()), rho=1.0)
    assert result.status == "diverged"


def test_a_run_goes_on_from_another() -> None:
    """Fixed multipliers: 20 rounds and 30 more are 50 rounds."""
    losses = clients("least squares")
    model, w = on_star(losses, 10)
    for algorithm in (
        dm.GradientDescent(0.1),
        dm.NewtonMethod(0.3),
        dm.FedAvg(0.2, 3),
        dm.FedProx(2.0),
    ):
        whole = iterates(model, algorithm, w)
        _, first = run(model, algorithm, of(w), rounds=20)
        later, _ = run(model, algorithm, of(w), rounds=30, start=first)
        same(later, whole[20:], 1e-12)


# --- the inexact solver layer ---------------------------------------------------------------------


@pytest.mark.parametrize("W", [1, 3])
@pytest.mark.parametrize(
    "solver", [GradientSteps(0.4, 1), NewtonSteps(1), ProximalGradientSteps(0.4, 1)]
)
@pytest.mark.parametrize("graph", [None, _paw()], ids=["server", "peers"])
def test_an_inexact_layer_ends_at_the_optimum(graph: Any, solver: Any, W: int) -> None:
    losses = clients("logistic")
    model, w = on_star(losses, 8)
    if graph is not None:
        model.topology(graph)
    args = (W,) if isinstance(solver, NewtonSteps) else (solver.step, W)
    result = model.solve(
        solver=type(solver)(*args), rho=0.4, stopping=dm.FixedBudget(1), max_rounds=20_000
    )
    assert result.status == "optimal"
    assert result.verify().ok
    assert result[w] == pytest.approx(total(losses).argmin(np.zeros(8), 0.0), abs=1e-3)
    slack = result.history.slack
    assert slack.iloc[-1] < 1e-5
    assert slack.iloc[-1] < slack.iloc[0] / 50


def _augmented(losses: list[Loss], i: int, x: Array, z: Array, mu: Array, rho: float) -> Array:
    """The gradient of (12): mu' (z - x) + rho^2 |z - x|^2."""
    return losses[i].gradient(x) - mu[i] - 2 * rho**2 * (z - x)


@pytest.mark.parametrize("W", [1, 3])
@pytest.mark.parametrize("method", ["gradient", "newton", "proximal"])
def test_the_slack_is_the_norm_of_the_gradient_mapping(method: str, W: int) -> None:
    """Algorithm 2 with W local steps a turn by hand, (60) and (66), with the slack of each round.

    The slack of a turn is that of its last step: the gradient (mapping) where that began.
    """
    losses, rho, step, weight = clients("logistic"), 0.5, 0.6, 0.01
    w = cp.Variable(8, name="w")
    model = dm.Model("inexact")
    for name, loss in zip(NAMES, losses, strict=True):
        rough = weight * cp.norm1(w) if method == "proximal" else 0
        model.client(name, loss.express(w) + rough)

    def turn(i: int, x: Array, z: Array, mu: Array) -> tuple[Array, float]:
        slack = 0.0
        for _ in range(W):
            g = _augmented(losses, i, x, z, mu, rho)
            before = x
            if method == "gradient":
                x, slack = x - step * g, np.abs(g).max()
            elif method == "newton":
                H = losses[i].hessian(x) + 2 * rho**2 * np.eye(8)
                x, slack = x - np.linalg.solve(H, g), np.abs(g).max()
            else:
                x = shrunk(x - step * g, step * weight)
                slack = np.abs(before - x).max() / step
        return x, float(slack)

    x, z, mu = np.zeros((4, 8)), np.zeros(8), np.zeros((4, 8))
    points, slacks = [], []
    for _ in range(ROUNDS):
        turns = [turn(i, x[i], z, mu) for i in range(4)]
        x = np.stack([one for one, _ in turns])
        z = x.mean(axis=0) - mu.sum(axis=0) / (2 * 4 * rho**2)
        points.append(np.vstack([x, z]))
        slacks.append(max(s for _, s in turns))
        mu = mu + 2 * rho**2 * (z - x)
    solver = {
        "gradient": GradientSteps(step, W),
        "newton": NewtonSteps(W),
        "proximal": ProximalGradientSteps(step, W),
    }[method]
    options = {"rho": rho, "solver": solver, "stopping": dm.FixedBudget(1)}
    seen, result = run(model, dm.DALD(), at_clients(w), **options)
    same(seen, [p[:4] for p in points])
    same(iterates(model, dm.DALD(), w, **options), [p[4] for p in points])
    assert result.history.slack.tolist() == pytest.approx(slacks, abs=EXACT)
    assert slacks[-1] < slacks[0] / 10


def test_the_papers_proximal_steps_on_a_chain() -> None:
    """Section VI-B: Fed-DALD-DC with (B4), v_max = 1 and W = 1 soft-thresholded step, (66)."""
    losses, rho, step, weight = clients("logistic"), 0.5, 0.6, 0.01
    w = cp.Variable(8, name="w")
    model = dm.Model("chain")
    for name, loss in zip(NAMES, losses, strict=True):
        model.client(name, loss.express(w) + weight * cp.norm1(w))
    model.topology(nx.path_graph(NAMES))
    pairs = [(0, 1), (1, 2), (2, 3)]

    x, mu, points = np.zeros((4, 8)), {pair: np.zeros(8) for pair in pairs}, []
    for _ in range(ROUNDS):
        for i in range(4):
            g = losses[i].gradient(x[i])
            for a, b in pairs:
                if i in (a, b):
                    sign, other = (1, b) if i == a else (-1, a)
                    g = g + sign * mu[a, b] + 2 * rho**2 * (x[i] - x[other])
            x[i] = shrunk(x[i] - step * g, step * weight)
        mu = {(a, b): m + 2 * rho**2 * (x[a] - x[b]) for (a, b), m in mu.items()}
        points.append(x.copy())
    options = {"rho": rho, "sequence": dm.Sequence.natural()}
    by_bcpg, _ = run(model, dm.BCPG(step, multipliers=True), at_clients(w), **options)
    same(by_bcpg, points)
    steps = {"solver": ProximalGradientSteps(step), "stopping": dm.FixedBudget(1)}
    same(run(model, dm.DALD(), at_clients(w), **options, **steps)[0], points)


def test_exact_minimisation_leaves_no_slack() -> None:
    model, _ = on_star(clients("least squares"), 10)
    assert (model.solve(max_rounds=20).history.slack == 0).all()
