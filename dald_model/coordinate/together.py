"""Clients and parts of edges that are measured together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.sight import Sight
from dald_model.compile.subproblem import Subproblem

TOGETHER = 4096
"""Clients that are measured together: enough to be fast, few enough for memory."""


class Parts:
    """The parts of all edges, one equality of the user's each, one after the other."""

    def __init__(self, compiled: Decomposition) -> None:
        self._sizes = np.array([p.stop - p.start for edge in compiled.edges for p in edge.parts])
        self._starts = np.cumsum(self._sizes) - self._sizes

    def largest(self, given: np.ndarray) -> np.ndarray:
        """The largest entry of the part that an entry is in, for each; none is negative."""
        return np.repeat(np.maximum.reduceat(given, self._starts), self._sizes)


class Alike(NamedTuple):
    """Clients, or servers, whose edges see their variables alike, and where these and they lie.

    ``entries`` is of shape (k, q), ``columns`` of shape (k, m).
    """

    subs: list[Subproblem]
    sight: Sight
    entries: np.ndarray
    columns: np.ndarray


def together(compiled: Decomposition) -> list[Alike]:
    """All clients and servers; of clients that are alike at most ``TOGETHER`` at a time."""
    found: dict[tuple[int, bool], list[Subproblem]] = {}
    for sub in compiled.values():
        found.setdefault((id(sub.sight), sub.client.is_server), []).append(sub)
    parts = [
        subs[start : start + TOGETHER]
        for subs in found.values()
        for start in range(0, len(subs), TOGETHER)
    ]
    return [
        Alike(
            subs,
            subs[0].sight,
            np.stack([sub.entries for sub in subs]),
            np.array([compiled.columns[sub.name].start for sub in subs])[:, None]
            + np.arange(subs[0].size),
        )
        for subs in parts
    ]
