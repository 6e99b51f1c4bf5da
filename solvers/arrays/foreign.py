"""Clients whose objective cvxpy alone knows: its values and gradients, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.values import REFUSALS, evaluated, flat, preserved


def foreign_values(subproblems: Sequence[Subproblem], points: Sequence[np.ndarray]) -> np.ndarray:
    """The objectives, shape (k,)."""
    found = []
    for sub, point in zip(subproblems, points, strict=True):
        with _at(sub, point):
            found.append(evaluated(sub.client.cost))
    return np.array(found)


def foreign_gradients(
    subproblems: Sequence[Subproblem], points: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The gradients; NaN in the variables of which cvxpy gives none, outside of the domain."""
    found = []
    for sub, point in zip(subproblems, points, strict=True):
        with _at(sub, point):
            try:
                grads = sub.client.cost.grad
            except REFUSALS:
                grads = dict.fromkeys(sub.variables)
        parts = [grads.get(v, np.zeros(v.size)) for v in sub.variables]
        nothing = [np.full(v.size, np.nan) for v in sub.variables]
        pairs = zip(parts, nothing, strict=True)
        found.append(np.concatenate([flat(no if g is None else g) for g, no in pairs]))
    return found


@contextmanager
def _at(sub: Subproblem, point: np.ndarray) -> Iterator[None]:
    """Give the variables a point for their value, which is not checked against attributes."""
    with preserved(sub.variables), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of sparse variables and of domains
        values = sub.spread(point)
        for v in sub.variables:
            v.save_value(values[v.id])
        yield
