"""Primal and dual values of nonsmooth problems by accelerated steps in numpy: own certificates."""

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


def accelerated(step: Callable[[Array], Array], start: Array, count: int) -> Array:
    """The fixed point of a gradient step, accelerated by Nesterov and restarted by O'Donoghue."""
    x, y, t = start, start, 1.0
    for _ in range(count):
        new = step(y)
        if np.sum((y - new) * (new - x)) > 0:  # the momentum points uphill
            y, t = x, 1.0
            new = step(y)
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, x, t = new + (t - 1) / later * (new - x), new, later
    return x


def network_lasso_bounds(
    parts: Sequence[tuple[Array, Array]], edges: Sequence[tuple[int, int]], weight: float
) -> tuple[float, float]:
    """A lower and an upper bound of the network lasso's optimum, from a point of the dual.

    The dual is a maximum of quadratics over a ball of radius ``weight`` an edge, and
    x_i = (A_i' A_i)^-1 (A_i' b_i - (D' u)_i / 2) answers to u.
    """
    n, m = len(parts), parts[0][0].shape[1]
    D = np.zeros((len(edges), n))
    for row, (i, j) in enumerate(edges):
        D[row, [i, j]] = 1, -1
    inverses = np.array([np.linalg.inv(A.T @ A) for A, _ in parts])
    right = np.array([A.T @ b for A, b in parts])
    longest = max(np.linalg.norm(one, 2) for one in inverses)
    length = 2 / (longest * np.linalg.norm(D, 2) ** 2)

    def answer(u: Array) -> Array:
        return np.einsum("nij,nj->ni", inverses, right - D.T @ u / 2)

    def step(u: Array) -> Array:
        moved = u + length * (D @ answer(u))
        return moved / np.maximum(1, np.linalg.norm(moved, axis=1, keepdims=True) / weight)

    u = accelerated(step, np.zeros((len(edges), m)), 5_000)
    x = answer(u)
    fit = sum(float(np.sum((A @ one - b) ** 2)) for (A, b), one in zip(parts, x, strict=True))
    return (
        fit + float(np.sum(u * (D @ x))),
        fit + weight * float(np.linalg.norm(D @ x, axis=1).sum()),
    )


def nuclear_bounds(
    gradient: Callable[[Array], Array],
    value: Callable[[Array], float],
    conjugate: Callable[[Array], float],
    start: Array,
    weight: float,
    curvature: float,
) -> tuple[float, float]:
    """A lower and an upper bound of min value(X) + weight ||X||_*, for a quadratic value.

    A gradient scaled to a spectral norm of at most ``weight`` is a point of the dual.
    """

    def step(X: Array) -> Array:
        U, s, V = np.linalg.svd(X - gradient(X) / curvature, full_matrices=False)
        return U @ np.diag(np.maximum(s - weight / curvature, 0)) @ V

    X = accelerated(step, start, 2_000)
    slope = gradient(X)
    slope = slope * min(1, weight / np.linalg.norm(slope, 2))
    return -conjugate(slope), value(X) + weight * float(np.linalg.norm(X, "nuc"))
