"""Matrix variables, by closed forms."""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np

from tests.problems.base import ROWS, Array, Shared, Smooth


def _symmetric(size: int, seed: int) -> Array:
    raw = np.random.default_rng(seed).normal(size=(ROWS, size, size))
    return (raw + raw.transpose(0, 2, 1)) / 2


@cache
def matrix_least_squares() -> Shared:
    """Normal equations, one column of the unknown at a time."""
    generator = np.random.default_rng(14)
    A, B = generator.normal(size=(ROWS, 2)), generator.normal(size=(ROWS, 3))
    X = np.linalg.lstsq(A, B)[0]
    return Shared(
        "matrix least squares",
        (2, 3),
        lambda x, i, n: (cp.sum_squares(A[i::n] @ x - B[i::n]), []),
        float(np.sum((A @ X - B) ** 2)),
        X,
        Smooth(lambda i, n: 2 * A[i::n].T @ (A[i::n] @ X - B[i::n])),
    )


@cache
def nuclear_norm() -> Shared:
    """Shrinking the singular values of the mean (Cai, Candes, Shen 2010, theorem 2.1)."""
    truth = np.outer([1.0, 2.0], [1.0, -1.0])
    Y = truth + np.random.default_rng(15).normal(size=(ROWS, 2, 2)) / 2
    lam = 0.5 * ROWS
    U, sizes, V = np.linalg.svd(Y.mean(axis=0))
    kept = np.maximum(sizes - lam / ROWS, 0.0)
    assert kept[0] > 0 == kept[1]
    X = U @ np.diag(kept) @ V

    def distance(s: Array, i: int, n: int) -> float:
        rest = s.reshape(2, 2, order="F") - (X - Y[i::n]).sum(axis=0)
        seen = U.T @ rest @ V.T * n / lam  # diag(1, t) with |t| <= 1
        outside = max(0.0, abs(seen[1, 1]) - 1)
        return lam / n * float(max(*np.abs(seen - np.diag([1.0, seen[1, 1]])).flat, outside))

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        return sum(cp.sum_squares(x - y) for y in Y[i::n]) / 2 + lam / n * cp.normNuc(x), []

    value = np.sum((X - Y) ** 2) / 2 + lam * kept.sum()
    return Shared("nuclear norm", (2, 2), share, float(value), X, distance)


@cache
def semidefinite() -> Shared:
    """The least eigenvalue as a semidefinite programme; the last client alone has the trace."""
    costs = _symmetric(3, seed=16)
    values, vectors = np.linalg.eigh(costs.sum(axis=0))
    v = vectors[:, 0]

    def distance(s: Array, i: int, n: int) -> float:
        # Multipliers of the entries above and below the diagonal matter through their sum.
        given = s.reshape(3, 3, order="F")
        dual = costs[i::n].sum(axis=0) - (given + given.T) / 2  # of X >> 0, less that of the trace
        if i == n - 1:
            dual = dual - (v @ dual @ v) * np.eye(3)
        return float(max(np.abs(dual @ v).max(), -np.linalg.eigvalsh(dual)[0]))

    def share(x: cp.Variable, i: int, n: int) -> tuple[Any, list[Any]]:
        rules = [x >> 0, cp.trace(x) == 1] if i == n - 1 else [x >> 0]
        return cp.trace(costs[i::n].sum(axis=0) @ x), rules

    return Shared(
        "least eigenvalue",
        (3, 3),
        share,
        float(values[0]),
        np.outer(v, v),
        distance,
        {"symmetric": True},
        duals=lambda i, n: [None, -values[0]] if i == n - 1 else [None],
    )


@cache
def nearest_psd() -> Shared:
    """Clipping the eigenvalues of the mean (Higham 1988); a variable with an attribute."""
    given = _symmetric(2, seed=17)
    values, vectors = np.linalg.eigh(given.mean(axis=0))
    assert values[0] < 0 < values[1]
    X = values[1] * np.outer(vectors[:, 1], vectors[:, 1])

    def distance(s: Array, i: int, n: int) -> float:
        asked = s.reshape(2, 2, order="F")
        dual = (X - given[i::n]).sum(axis=0) - (asked + asked.T) / 2  # of the attribute
        return float(max(-np.linalg.eigvalsh(dual)[0], np.abs(dual @ vectors[:, 1]).max()))

    return Shared(
        "nearest PSD matrix",
        (2, 2),
        lambda x, i, n: (sum(cp.sum_squares(x - y) for y in given[i::n]) / 2, []),
        float(np.sum((X - given) ** 2) / 2),
        X,
        distance,
        {"PSD": True},
    )
