"""Points at which solves of problems that are not convex start."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.values import flat

SEED = 0
"""Of the drawn starts, which are the same in every call."""


def bounds_of(variable: cp.Variable) -> tuple[Any, Any]:
    """Lower and upper bounds of a variable, which its attributes give."""
    found: Any = variable.get_bounds()
    return found


def starting_value(variable: cp.Variable) -> np.ndarray:
    """A variable's ``value``; without one the middle of its bounds, one from one of them, or zero.

    As ``problem.solve(nlp=True)``, so that distributed and all-in-one solves start alike.
    """
    if variable.value is not None:
        return flat(variable.value).reshape(variable.shape, order="F")
    low, high = (np.broadcast_to(bound, variable.shape) for bound in bounds_of(variable))
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    found = np.where(np.isfinite(low), low + 1, np.where(np.isfinite(high), high - 1, 0.0))
    return np.where(np.isfinite(low) & np.isfinite(high), middle, found)


def drawn(variables: list[cp.Variable], count: int) -> list[dict[int, np.ndarray]]:
    """Starting values by variable id: the variables' own first, then draws.

    Within ``sample_bounds`` or finite bounds a draw is uniform; elsewhere normal around the first
    start, with deviation 1 + |value|. They come in pairs, at opposite sides of the first start.
    """
    rng = np.random.default_rng(SEED)
    own = {v.id: starting_value(v) for v in variables}
    found = [own]
    while len(found) < count:
        found += [*map(dict, zip(*(_pair(rng, v, own[v.id]) for v in variables), strict=True))]
    return found[:count]


def _pair(
    rng: np.random.Generator, variable: cp.Variable, own: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """Two draws at opposite sides of a start, or of the middle of the bounds."""
    bounds: Any = getattr(variable, "sample_bounds", None)
    low, high = bounds_of(variable) if bounds is None else bounds
    low, high = np.broadcast_to(low, variable.shape), np.broadcast_to(high, variable.shape)
    inside = np.isfinite(low) & np.isfinite(high)
    ways = (1 + np.abs(own)) * rng.normal(size=variable.shape)
    least, most = np.where(inside, low, 0.0), np.where(inside, high, 1.0)
    one = rng.uniform(least, most)
    return [
        (variable.id, np.where(inside, within, np.clip(own + sign * ways, low, high)))
        for sign, within in ((1, one), (-1, least + most - one))
    ]
