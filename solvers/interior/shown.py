"""What clients of an interior point show in a round, were each at a place of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dald_model.solvers.interior.joint import Joint

BYTES = 8
"""Of a number."""
SUMS = 18
"""Numbers per client and round that are no array: nine of the residuals, two products of each of
three solutions, and three step lengths."""


def sent(compiled: Any) -> dict[Hashable, int]:
    """Client -> the bytes that it sends in a round: curvature, four vectors and sums."""
    shown = Joint(compiled, is_apart=True).shown
    return {name: BYTES * (n * (n + 1) // 2 + 4 * n + SUMS) for name, n in shown.items()}


def reveals(compiled: Any) -> str:
    """What clients show, in words and bytes."""
    most = max(sent(compiled).values(), default=0)
    return (
        "sums of curvature and gradients on shared variables, "
        f"at most {most:,} bytes per client and round"
    )
