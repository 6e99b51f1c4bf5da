"""Smooth constrained minima by scipy's SLSQP, to as many digits as it gives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

Array = np.ndarray
Function = Callable[[Array], tuple[float, Array]]
"""Point -> value and gradient."""

NO_DESCENT = 8
"""SLSQP's exit where a step no longer lowers the merit function: 1e-15 is below what doubles show
of some models, and whether it then calls itself converged depends on the machine."""


def slsqp(
    objective: Function, start: Array, nonneg: Sequence[Function] = (), bounds: Any = None
) -> float:
    """The least value where all of ``nonneg`` are at least 0."""
    rules: list[Any] = [
        {"type": "ineq", "fun": lambda x, f=f: f(x)[0], "jac": lambda x, f=f: f(x)[1]}
        for f in nonneg
    ]
    found = minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        constraints=rules,
        bounds=bounds,
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success or found.status == NO_DESCENT, found.message
    assert all(f(found.x)[0] > -1e-9 for f in nonneg)
    return float(found.fun)


def logistic(signed: Array, w: Array) -> tuple[float, Array]:
    """The sum of log(1 + exp(-z)) over z = signed w, and its gradient."""
    z = signed @ w
    return float(np.logaddexp(0, -z).sum()), signed.T @ (-1 / (1 + np.exp(z)))


def with_ones(features: Array) -> Array:
    """The features behind a column of ones."""
    return np.column_stack([np.ones(len(features)), features])
