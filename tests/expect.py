"""What many tests ask: that a number is near the known one, that a message says certain words."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

NEAR = 1e-5
"""How far a point may be from the known one: ten times the default tolerances of ``solve``."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR, abs=NEAR)


def says(said: object, *parts: str) -> None:
    """The message, or that of an exception, has all these parts."""
    for part in parts:
        assert part in str(said), f"{part!r} is not in: {said}"


def error(found: np.ndarray, true: np.ndarray) -> float:
    """The largest difference, relative to max(1, size)."""
    return float(np.max(np.abs(found - true) / np.maximum(1, np.abs(true))))


def flat(value: Any) -> np.ndarray:
    """A value of cvxpy's, dense or sparse, column by column."""
    dense = value.toarray() if sp.issparse(value) else value
    return np.asarray(dense, dtype=float).reshape(-1, order="F")


def number(value: Any) -> float:
    """A scalar value of cvxpy's; NaN where it has none."""
    return float("nan") if value is None else float(flat(value)[0])


def largest(value: Any) -> float:
    """The largest absolute entry; 0 of an empty value."""
    return float(np.abs(flat(value)).max(initial=0.0))


@contextmanager
def preserved(variables: Iterable[cp.Variable]) -> Iterator[None]:
    """Give variables their values back afterwards."""
    kept = [(v, v.value) for v in variables]
    yield
    for v, value in kept:
        v.save_value(value)
