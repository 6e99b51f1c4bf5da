"""What many tests ask: that a number is near the known one, that a message says certain words."""

from typing import Any

import numpy as np
import pytest

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
