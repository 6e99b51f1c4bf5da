r"""Clients known twice, to cvxpy and as functions of numpy, and runs recorded round by round.

The textbook forms of the algorithms, in the tests that use this, know nothing of multipliers,
penalties or networks: they are written from the sources that the docstrings of the algorithms
name. Runs are of 25 rounds with tolerances zero, so that every round is run, and a metric records
what each found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

Array = np.ndarray
Function = Callable[[Array], Any]

ROUNDS = 25
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


# --- what several of them need --------------------------------------------------------------------

# Where a client is minimised by Newton's method its error is what its last step leaves: asked for
# 1e-12 of the variables' size, which are below 1 here, 25 rounds of a map that contracts keep it
# below 1e-10.
SHARP = {"least squares": {}, "logistic": {"accuracy": 1e-12}}


def shrunk(v: Array, by: float) -> Array:
    return np.sign(v) * np.maximum(np.abs(v) - by, 0.0)


def paw() -> nx.Graph:
    """A triangle with a tail: degrees 2, 2, 3 and 1."""
    return nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])


def minimised(
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
