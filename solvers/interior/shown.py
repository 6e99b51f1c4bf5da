"""What clients of an interior point show in a round, each at a place of its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from dald_model.solvers.interior.agreement import Agreement
from dald_model.solvers.interior.joint import opened
from dald_model.solvers.interior.member import Member, Sizes
from dald_model.values import BYTES

SUMS = 26
"""Numbers per client and round that are no array, at most: of each of two steps of Newton's eleven
of the residuals and two products of the solution. With cones they are 20: eleven, two products of
each of three solutions, and three step lengths."""


def sent(sizes: Mapping[Hashable, Sizes]) -> dict[Hashable, int]:
    """Client -> the bytes that it sends in a round: curvature, four vectors, sums and its answer.

    A step that is halved takes one vector and eleven numbers more.
    """
    return {
        name: BYTES * (k * (k + 1) // 2 + 4 * k + SUMS + 2 * points + rows)
        for name, (k, points, rows) in sizes.items()
    }


def foretold(compiled: Any) -> dict[Hashable, int]:
    """The same before anybody is asked; sites tell only later of equalities of shared variables."""
    agreement, found = Agreement.of_sides(compiled.stacked), {}
    alike: dict[Hashable, Sizes] = {}
    for name, sub in compiled.items():
        _, (columns, seen) = opened(agreement, compiled.columns[name])
        if sub.client.is_remote:
            found[name] = Sizes(int(seen.sum()), columns.size, 0)
        elif (form := sub.form) is not None:
            key = sub.client.alike or name, columns.tobytes(), seen.tobytes()
            if key not in alike:
                alike[key] = Member({name: form}, {name: columns}, seen).sizes
            found[name] = alike[key]
    return sent(found)


def reveals(told: dict[Hashable, int]) -> str:
    """What clients show, in words and bytes."""
    return (
        "sums of curvature and gradients on shared variables, "
        f"at most {max(told.values(), default=0):,} bytes per client and round"
    )
