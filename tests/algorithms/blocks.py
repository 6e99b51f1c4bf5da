"""Two blocks of a regression for the tests of block methods, as a model and in plain numpy.

min f1(x1) + f2(x2) + rho^2 |A1 x1 + A2 x2 - b|^2, a regression whose columns have two owners,
each with a regulariser of its own: the consensus A1 x1 == b - A2 x2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.algorithms.textbook import ROUNDS, Array, Loss, follow, logistic, squares, table


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
