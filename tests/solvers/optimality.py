r"""How far a point is from optimal, worked out with numpy from a client's lowered numbers alone.

At a minimiser of a form plus :math:`\tfrac12 x^\top K x + c^\top x` the negative gradient of what
is smooth there is a force that active rows, kinks and balls can hold:

.. math::
    -g = E^\top \nu + A_{act}^\top \lambda + \sum_t B_t^\top s_t, \qquad
    \lambda \ge 0, \quad |s_t| \le w_t \text{ at a kink}, \quad
    s_t = \eta_t u_t, \; \eta_t \ge 0 \text{ at the edge of a ball}.

The nearest such force is a small least-squares problem of its own, whatever multipliers a solver
gave; what is left of g, relative to its largest part, is the residual.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import lsq_linear

ACTIVE = 1e-6
"""A row is active, and an argument at its kink, up to this share of its own numbers."""


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def smooth_gradient(form: Any, K: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of all but rows, kinks and balls."""
    found = form.quadratic.times(x) + form.quadratic.linear + K @ x + c
    return found + sum((term.subgradient(x) for term in form.smooth), np.zeros(x.size))


def violation(form: Any, x: np.ndarray) -> float:
    """By how much a point breaks rows and balls, relative to their numbers."""
    off = [0.0]
    for rows, is_equal in ((form.equalities, True), (form.inequalities, False)):
        for row, right in zip(rows.matrix, rows.rhs, strict=True):
            missed = row @ x - right
            size = np.abs(row) @ np.abs(x) + abs(right) + np.linalg.norm(row)
            off.append(abs(missed) / size if is_equal else missed / size)
    for term in form.terms:
        if term.is_set:
            off += list((_lengths(term, x)[1] - term.parameter) / (1 + term.parameter))
    return float(max(off))


def residual(form: Any, K: np.ndarray, c: np.ndarray, x: np.ndarray) -> float:
    """What no force of rows, kinks and balls holds, relative to the largest part of it."""
    left = smooth_gradient(form, K, c, x)
    parts = [np.abs(left), np.abs(c), np.abs(K) @ np.abs(x), np.abs(form.quadratic.linear)]
    forces: list[tuple[np.ndarray, str]] = [(row, "free") for row in form.equalities.matrix]
    rows = form.inequalities
    slack = rows.rhs - rows.matrix @ x
    near = ACTIVE * (1 + np.abs(rows.rhs) + np.abs(rows.matrix) @ np.abs(x))
    forces += [(row, "nonneg") for row in rows.matrix[slack <= near]]
    balls: list[tuple[np.ndarray, float]] = []
    for term in form.terms:
        if term.is_smooth:
            continue
        u, lengths = _lengths(term, x)
        blocks = dense(term.matrix).reshape(len(u), term.width, x.size)
        for own, block, length, weight, radius in zip(
            u, blocks, lengths, term.weight, term.parameter, strict=True
        ):
            size = 1 + np.linalg.norm(block) * np.linalg.norm(x)
            if term.is_set:
                if length >= radius - ACTIVE * (1 + radius):
                    forces.append((block.T @ own, "nonneg"))
            elif length <= ACTIVE * size:
                balls.append((block, float(weight)))
            else:
                push = weight * block.T @ own / length
                left = left + push
                parts.append(np.abs(push))
    scale = max(float(part.max()) for part in parts)
    return float(np.abs(_unheld(left / scale, forces, balls, scale)).max())


def _lengths(term: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = (dense(term.matrix) @ x + term.offset).reshape(-1, term.width)
    return u, np.linalg.norm(u, axis=1)


def _unheld(
    left: np.ndarray,
    forces: list[tuple[np.ndarray, str]],
    balls: list[tuple[np.ndarray, float]],
    scale: float,
) -> np.ndarray:
    """What the best forces leave of a gradient."""
    if not forces and not balls:
        return left
    if not balls or all(len(block) == 1 for block, _ in balls):
        rows = np.array([row for row, _ in forces] + [block[0] for block, _ in balls])
        lengths = np.linalg.norm(rows, axis=1)
        reach = np.array([weight for _, weight in balls]) * lengths[len(forces) :] / scale
        low = [-np.inf if kind == "free" else 0.0 for _, kind in forces]
        bounds = np.append(low, -reach), np.append(np.full(len(forces), np.inf), reach)
        share = lsq_linear(rows.T / lengths, -left, bounds, method="bvls").x
        return left + (rows.T / lengths) @ share
    total, rules = cp.Constant(left), []
    for row, kind in forces:
        length = float(np.linalg.norm(row)) or 1.0
        share = cp.Variable(nonneg=kind == "nonneg")
        total = total + share * (row / length)
    for block, weight in balls:
        share = cp.Variable(len(block))
        rules.append(cp.norm(share) <= weight / scale)
        total = total + block.T @ share
    problem = cp.Problem(cp.Minimize(cp.norm_inf(total)), rules)
    problem.solve(solver="CLARABEL")
    return np.asarray(total.value)
