"""Values of the sides of edges, points moved to meet them, and clients that see edges alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg as spla

from dald_model.compile.affine_maps import Sight
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.affine import MadeOnce
from dald_model.sizes import TOGETHER

_SINGLE = MadeOnce()


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
            np.array([sub.entries for sub in subs]),
            np.array([compiled.columns[sub.name].start for sub in subs])[:, None]
            + np.arange(subs[0].size),
        )
        for subs in parts
    ]


def sides_of(compiled: Decomposition, points: np.ndarray) -> np.ndarray:
    """The values of all sides, shape (2, Q); NaN where a point is."""
    return compiled.stacked.at(points)


def is_far(sides: np.ndarray, origin: np.ndarray, share: float) -> np.ndarray:
    """Entries of edges of which a side is far from these others, (Q,) bool.

    Where both sides have one origin the other is then as far, by ``share`` times how far they are
    apart; where these are two, one of them may be where its side is and says nothing of the other.
    """
    distance = np.abs(sides - origin)
    with np.errstate(invalid="ignore"):
        return distance.max(axis=0) > (1 + share) * np.abs(sides[0] - sides[1])


def place_missing(compiled: Decomposition, points: np.ndarray) -> None:
    """Put clients with a NaN where their neighbours are, as far as these say; servers first."""
    lacking = np.zeros(len(compiled), dtype=bool)
    lacking[compiled.owners[np.isnan(points)]] = True
    if not lacking.any():
        return
    sides = sides_of(compiled, points)
    names = [compiled.layout[at] for at in np.flatnonzero(lacking)]
    names.sort(key=lambda one: (not compiled[one].client.is_server, compiled.order[one]))
    while names:  # what one is told now, its neighbours are told next
        left = []
        for name in names:
            sub = compiled[name]
            point = move_to(sub, np.zeros(sub.size), sides[1 - sub.rows, sub.entries])
            if point is None:
                left.append(name)
                continue
            matrix, offset = sub.sides
            points[compiled.columns[name]] = point
            sides[sub.rows, sub.entries] = matrix @ point + offset
        if len(left) == len(names):
            return
        names = left


def _single(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows, columns and values of a matrix of which no row has two; None of another."""
    heights = np.diff(matrix.indptr)
    return None if (heights > 1).any() else (np.flatnonzero(heights), matrix.indices, matrix.data)


def move_to(sub: Subproblem, point: np.ndarray, told: np.ndarray) -> np.ndarray | None:
    """The point moved to where its sides are as told, the mean of these; None if all are NaN."""
    known = np.flatnonzero(np.isfinite(told))
    if not known.size:
        return None
    matrix, offset = sub.sides
    apart = told - (matrix @ point + offset if point.any() else offset)
    single = _SINGLE.of(id(matrix), [matrix], lambda: _single(matrix))
    if single is not None:
        rows, columns, data = single
        if known.size < told.size:
            is_known = np.isfinite(told[rows])
            rows, columns, data = rows[is_known], columns[is_known], data[is_known]
        counts = np.bincount(columns, data**2, point.size)
        moved = np.bincount(columns, data * apart[rows], point.size)
        return point + moved / np.where(counts > 0, counts, 1.0)
    return point + spla.lsqr(matrix[known], apart[known])[0]
