"""What clients of an interior point show in a round, each at a place of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dald_model.solvers.interior.clients import Here
from dald_model.solvers.interior.joint import Joint
from dald_model.solvers.interior.member import Seen
from dald_model.values import BYTES

SUMS = 26
"""Numbers per client and round that are no array, at most: of each of two steps of Newton's eleven
of the residuals and two products of the solution. With cones they are 20: eleven, two products of
each of three solutions, and three step lengths."""


def sent(joint: Joint) -> dict[Hashable, int]:
    """Client -> the bytes that it sends in a round: curvature, four vectors, sums and its answer.

    A step that is halved takes one vector and eleven numbers more.
    """
    return {
        name: BYTES * (k * (k + 1) // 2 + 4 * k + SUMS + 2 * points + rows)
        for name, (k, points, rows) in joint.shown.items()
    }


def foretold(compiled: Any) -> dict[Hashable, int]:
    """The same before anybody is asked; sites tell only later of equalities of shared variables."""
    sites = [name for name, sub in compiled.items() if sub.client.is_remote]

    def reach(openings: Any, here: Any) -> tuple[list[Seen], Here]:
        return [Seen(0, True, [], []) for _ in openings], Here(here)

    return sent(Joint(compiled, is_apart=True, elsewhere=sites, reach=reach))


def reveals(told: dict[Hashable, int]) -> str:
    """What clients show, in words and bytes."""
    return (
        "sums of curvature and gradients on shared variables, "
        f"at most {max(told.values(), default=0):,} bytes per client and round"
    )
