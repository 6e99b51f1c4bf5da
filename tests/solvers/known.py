"""Clients known twice: to cvxpy, and as functions of numpy written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.special

import dald_model as dm
from dald_model.compile.lowering import Lowering
from dald_model.declare.consensus import ConsensusEquality, Edge
from dald_model.solvers import Turn

Function = Callable[[np.ndarray], Any]


@dataclass
class Known:
    """A client as cvxpy knows it and as numpy does."""

    sub: dm.Subproblem
    value: Function
    gradient: Function
    hessian: Function | None = None
    prox: Callable[[np.ndarray, float], np.ndarray] = lambda v, alpha: v
    rough: Function = lambda x: 0.0

    @property
    def size(self) -> int:
        return self.sub.size


LOWER = Lowering()


def make_sub(
    cost: Any,
    sides: Sequence[Any] = (),
    rules: Sequence[Any] = (),
    *,
    heads: Sequence[int] = (),
    name: str = "client",
) -> dm.Subproblem:
    """A client with an edge for every side; of the edges ``heads`` it is the head."""
    client = dm.Client(name, cp.Minimize(cost), tuple(rules))
    edges, places, at = [], [], 0
    for k, side in enumerate(sides or [client.variables[0]]):
        other = cp.Variable(side.shape)
        if k in heads:
            edge = Edge(f"other {k}", name)
            edge.add(ConsensusEquality(other, side), f"other {k}")
        else:
            edge = Edge(name, f"other {k}")
            edge.add(ConsensusEquality(side, other), name)
        edges.append(edge)
        places.append(np.arange(at, at + edge.size))
        at += edge.size
    return dm.Subproblem(client, edges, places, LOWER)


def sigmoid(u: np.ndarray) -> np.ndarray:
    return scipy.special.expit(u)


def least_squares(
    rng: np.random.Generator,
    rows: int,
    size: int,
    sides: Sequence[Callable[[Any], Any]] = (),
    heads: Sequence[int] = (),
) -> Known:
    A, b = rng.normal(size=(rows, size)), rng.normal(size=rows)
    x = cp.Variable(size)
    cost = cp.sum_squares(A @ x - b) + 3 * x[0] + 1
    return Known(
        make_sub(cost, [side(x) for side in sides], heads=heads),
        lambda x: ((A @ x - b) ** 2).sum() + 3 * x[0] + 1,
        lambda x: 2 * A.T @ (A @ x - b) + 3 * np.eye(size)[0],
        lambda x: 2 * A.T @ A,
    )


def logistic(
    rng: np.random.Generator, rows: int, size: int, *, weight: float = 0.0, density: float = 1.0
) -> Known:
    A = rng.normal(size=(rows, size)) * (rng.random((rows, size)) < density)
    x = cp.Variable(size)
    # Two edges, of the second of which it is the head
    cost = cp.sum(cp.logistic(A @ x)) / 5 + cp.sum_squares(x) / 2
    cost = cost + weight * cp.norm1(x) if weight else cost
    return Known(
        make_sub(cost, [x, x], heads=[1]),
        lambda x: np.logaddexp(0, A @ x).sum() / 5 + x @ x / 2,
        lambda x: A.T @ sigmoid(A @ x) / 5 + x,
        lambda x: A.T @ np.diag(sigmoid(A @ x) * sigmoid(-A @ x)) @ A / 5 + np.eye(size),
        lambda v, alpha: np.sign(v) * np.maximum(np.abs(v) - alpha * weight, 0),
        lambda x: weight * np.abs(x).sum(),
    )


def everything(rng: np.random.Generator) -> list[Known]:
    """Clients of many shapes; all have gradients and Hessians."""
    found = [
        least_squares(rng, 3, 5),
        least_squares(rng, 9, 4, sides=[lambda x: x[:2], lambda x: 2 * x + 1], heads=[1]),
        *(logistic(rng, rows, 4) for rows in (3, 4, 5, 4)),
        *(logistic(rng, rows, 40, density=0.15) for rows in (7, 8, 9)),
        logistic(rng, 90, 60),
    ]
    A, b = rng.normal(size=(6, 3)), rng.normal(size=6)
    x = cp.Variable(3)
    found.append(
        Known(
            make_sub(cp.log_sum_exp(A @ x + b) + cp.sum(cp.exp(x)), [x, x[1]]),
            lambda x: scipy.special.logsumexp(A @ x + b) + np.exp(x).sum(),
            lambda x: A.T @ scipy.special.softmax(A @ x + b) + np.exp(x),
            lambda x: (
                A.T
                @ (
                    np.diag(scipy.special.softmax(A @ x + b))
                    - np.outer(*2 * [scipy.special.softmax(A @ x + b)])
                )
                @ A
                + np.diag(np.exp(x))
            ),
        )
    )
    y = cp.Variable((2, 2))
    found.append(
        Known(
            make_sub(cp.sum(cp.huber(2 * y - 2, 1)) / 4, [cp.vec(y, order="F"), cp.trace(y)]),
            lambda x: np.sum(2 * scipy.special.huber(0.5, x - 1)),
            lambda x: 2 * np.clip(x - 1, -0.5, 0.5),
            lambda x: 2 * np.diag((np.abs(x - 1) <= 0.5).astype(float)),
        )
    )
    return found


def quartic() -> Known:
    """A client whose gradient cvxpy alone knows."""
    x = cp.Variable(3)
    return Known(
        make_sub(cp.square(cp.sum_squares(x)) + x[0]),
        lambda x: (x @ x) ** 2 + x[0],
        lambda x: 4 * (x @ x) * x + np.eye(3)[0],
    )


def make_turn(
    known: Sequence[Known], which: np.ndarray, rng: np.random.Generator
) -> tuple[Turn, list[dict[str, np.ndarray]]]:
    """Random numbers for some clients: in one turn, and for each of them."""
    parts = []
    for at in which:
        q, m = known[at].sub.signs.size, known[at].size
        part = {name: rng.normal(size=q) for name in ("mu", "neighbours")}
        parts.append(part | {"rho": rng.uniform(0.1, 1, q), "points": rng.normal(size=m)})
    names = ("mu", "rho", "neighbours", "points")
    return Turn(which, *(np.concatenate([p[name] for p in parts]) for name in names)), parts


def pulled(one: Known, x: np.ndarray, part: dict[str, np.ndarray]) -> np.ndarray:
    """The gradient of the augmented terms, equations (12) and (20), edge entry by edge entry."""
    matrix, offset = one.sub.sides
    total = np.zeros(x.size)
    for row, own in enumerate(matrix.toarray()):
        sign = one.sub.signs[row]
        gap = sign * (own @ x + offset[row] - part["neighbours"][row])
        total += (part["mu"][row] + 2 * part["rho"][row] ** 2 * gap) * sign * own
    return total


def orders(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """All, ranges, strides, one, and any others, each more than once as runs ask for them."""
    some = [np.arange(count), np.arange(2, count - 1), np.arange(0, count, 2), np.array([3])]
    some += [rng.permutation(count)[: count - 2], rng.permutation(count)[:3]]
    return [which for which in some for _ in range(3)]
