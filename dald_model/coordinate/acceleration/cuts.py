"""Linear lower bounds of the clients' objectives, one per round and group of clients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.coordinate.acceleration.coordinates import Coordinates
from dald_model.coordinate.acceleration.master import AgreedPoints

RECENT = 10
"""Rounds for which a bound is kept whether it is active or not."""
OLDEST = 50
"""Rounds of which any bounds are kept."""
GROUPS = 10
"""Groups of clients, times the numbers that all of these agree on. Least absolute deviations of
500 owners with ten columns take 50 rounds and 32 s with a bound for each, 31 rounds and 4.5 s by
100 groups, 186 rounds by ten; of 100 owners with nine columns they take 42 rounds with a bound for
each, and stall by 36 groups."""


class Rows(NamedTuple):
    """The bounds that are kept: a group ``owner`` is at least ``matrix`` z + ``height``.

    Attributes
    ----------
    matrix : csc_array, shape (rows, count of z)
    height : ndarray, shape (rows,)
    owner : ndarray of int
    is_likely : ndarray of bool
        Whether it was active when :meth:`Cuts.prune` was told last, or was not there yet.
    """

    matrix: sp.csc_array
    height: np.ndarray
    owner: np.ndarray
    is_likely: np.ndarray


class Cuts:
    r"""Lower bounds from the clients' answers: :math:`f(\xi) \ge h + \phi^\top \xi`.

    With :math:`\phi` a slope of the objective at :math:`\bar\xi`, the rest of the client minimised
    out, :math:`h = f(\bar\xi) - \phi^\top \bar\xi`: convexity itself. Bounds add up, so of many
    clients that agree on few numbers those of a group are kept as one.

    Attributes
    ----------
    count : int
        Groups.
    """

    def __init__(self, coordinates: Coordinates, agreed: AgreedPoints) -> None:
        self._coordinates, self._agreed = coordinates, agreed
        owners, self._clients = coordinates.owner, np.flatnonzero(coordinates.answers)
        # Coordinates of clients, servers left out, as columns of one sparse pattern
        self._mine = np.flatnonzero(coordinates.answers[owners])
        found = _groups(owners[self._mine], agreed.classes[self._mine])
        self.count = int(found.max(initial=-1)) + 1
        self._group = np.zeros(coordinates.answers.size, dtype=int)
        self._group[self._clients] = found
        self._owner = self._group[owners[self._mine]]
        self._slopes: list[np.ndarray] = []
        self._heights: list[np.ndarray] = []
        self._kept: list[np.ndarray] = []
        self._likely: list[np.ndarray] = []

    def add(self, points: np.ndarray, slopes: np.ndarray, objectives: np.ndarray) -> np.ndarray:
        """Bounds at the clients' points (N,), of slopes (N,) and objectives (n,); gives h."""
        of_clients = objectives - self._coordinates.sums(slopes * points)
        heights = self.sums(of_clients)
        # Of who was never solved nothing is kept
        self._slopes.append(slopes if np.isfinite(slopes).all() else np.nan_to_num(slopes))
        self._heights.append(heights)
        self._kept.append(np.isfinite(heights))
        self._likely.append(self._kept[-1])
        if len(self._kept) > OLDEST:
            self._forget_first()
        return heights

    def sums(self, of_clients: np.ndarray) -> np.ndarray:
        """The sums over each group of something of all clients, (n,)."""
        return np.bincount(self._group[self._clients], of_clients[self._clients], self.count)

    def rows(self) -> Rows:
        """All that are kept."""
        agreed, kept = self._agreed, np.array(self._kept)
        row = np.full(kept.shape, -1)
        row[kept] = np.arange(kept.sum())
        of_round, of_coordinate = np.nonzero(kept[:, self._owner])
        column = self._mine[of_coordinate]
        slopes = np.array(self._slopes)[of_round, column]
        where = row[of_round, self._owner[of_coordinate]], agreed.classes[column]
        shape = (int(kept.sum()), agreed.count)
        matrix = sp.coo_array((slopes * agreed.factor[column], where), shape=shape).tocsc()
        height = np.array(self._heights)[kept]
        height += np.bincount(where[0], slopes * agreed.constant[column], height.size)
        return Rows(matrix, height, np.nonzero(kept)[1], np.array(self._likely)[kept])

    def mixed(self, weights: np.ndarray) -> np.ndarray:
        """The slopes (N,) of the convex combinations of each group's bounds; zero for servers."""
        kept = np.array(self._kept)
        share = np.zeros(kept.shape)
        share[kept] = weights
        found = np.zeros(self._coordinates.size)
        for own, slopes in zip(share, self._slopes, strict=True):
            found[self._mine] += own[self._owner] * slopes[self._mine]
        return found

    def prune(self, is_active: np.ndarray) -> None:
        """Keep of the older ones only those that are active, a flag for each row."""
        at = 0
        for number, kept in enumerate(self._kept):
            count = int(kept.sum())
            self._likely[number] = kept.copy()
            self._likely[number][kept] = is_active[at : at + count]
            if number < len(self._kept) - RECENT:
                self._kept[number] = self._likely[number]
            at += count
        while self._kept and not self._kept[0].any():
            self._forget_first()

    def _forget_first(self) -> None:
        for one in (self._slopes, self._heights, self._kept, self._likely):
            del one[0]


def _groups(owner: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The group of each owner; of owners of the same coordinates so many as GROUPS says."""
    found = np.zeros(int(np.unique(owner).size), dtype=int)
    alike: dict[bytes, list[int]] = {}
    cuts = np.flatnonzero(np.diff(owner)) + 1
    for number, own in enumerate(np.split(classes, cuts) if owner.size else []):
        alike.setdefault(np.sort(own).tobytes(), []).append(number)
    count = 0
    for own, numbers in alike.items():
        most = max(1, GROUPS * np.frombuffer(own, classes.dtype).size)
        parts = np.array_split(numbers, min(most, len(numbers)))
        for part in parts:
            found[part] = count
            count += 1
    return found
