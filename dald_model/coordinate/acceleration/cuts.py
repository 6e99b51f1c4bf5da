"""Linear lower bounds of the clients' objectives, one per round and group of clients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.coordinate.acceleration.coordinates import Coordinates
from dald_model.coordinate.acceleration.master import AgreedPoints

RECENT = 10
"""Rounds for which a bound is kept whether it is active or not. With all of ``OLDEST`` the panel
takes as many rounds in the mean, 0.7 to 1.9 times, and more time for each."""
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
    matrix : csr_array, shape (rows, count of z)
        In each row the numbers that its group agrees on, in order.
    height : ndarray, shape (rows,)
    owner : ndarray of int
    is_likely : ndarray of bool
        Whether it was active when :meth:`Cuts.prune` was told last, or was not there yet.
    """

    matrix: sp.csr_array
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
        # Coordinates of clients, servers left out
        self._mine = np.flatnonzero(coordinates.answers[owners])
        classes = agreed.classes[self._mine]
        found = _groups(owners[self._mine], classes)
        self.count = int(found.max(initial=-1)) + 1
        self._group = np.zeros(coordinates.answers.size, dtype=int)
        self._group[self._clients] = found
        self._owner = self._group[owners[self._mine]]
        # Which z stand in the bounds of a group is the same in every round
        cells, self._cell = np.unique(self._owner * agreed.count + classes, return_inverse=True)
        self._groups, self._classes = np.divmod(cells, agreed.count)
        self._widths = np.bincount(self._groups, minlength=self.count)
        self._slopes: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._heights: list[np.ndarray] = []
        self._kept = self._likely = np.zeros((0, self.count), dtype=bool)
        self._told: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def note(self, points: np.ndarray, slopes: np.ndarray, objectives: np.ndarray) -> None:
        """Keep what :meth:`add` takes until somebody asks for bounds, as where all are smooth."""
        self._told = [*self._told[1 - OLDEST :], (points, slopes, objectives)]

    def add(self, points: np.ndarray, slopes: np.ndarray, objectives: np.ndarray) -> np.ndarray:
        """Bounds at the clients' points (N,), of slopes (N,) and objectives (n,); gives h."""
        told, self._told = self._told, []
        for one in told:
            self.add(*one)
        of_clients = objectives - self._coordinates.sums(slopes * points)
        heights, agreed = self.sums(of_clients), self._agreed
        # Of who was never solved nothing is kept
        is_known = np.isfinite(heights)
        mine = np.nan_to_num(slopes[self._mine])
        of_cells = mine * agreed.factor[self._mine]
        there = np.bincount(self._owner, mine * agreed.constant[self._mine], self.count)
        self._slopes.append(mine)
        self._rows.append(np.bincount(self._cell, of_cells, self._classes.size))
        self._heights.append(heights + there)
        self._kept = np.vstack([self._kept, is_known])
        self._likely = np.vstack([self._likely, is_known])
        if len(self._kept) > OLDEST:
            self._forget(1)
        return heights

    def sums(self, of_clients: np.ndarray) -> np.ndarray:
        """The sums over each group of something of all clients, (n,)."""
        return np.bincount(self._group[self._clients], of_clients[self._clients], self.count)

    def rows(self) -> Rows:
        """All that are kept."""
        if self._told:
            self.add(*self._told.pop())
        owner = self._kept.nonzero()[1]
        stands = self._kept[:, self._groups]
        starts = np.concatenate([[0], np.cumsum(self._widths[owner])])
        cells = np.array(self._rows)[stands], self._classes[stands.nonzero()[1]], starts
        matrix = sp.csr_array(cells, shape=(owner.size, self._agreed.count))
        heights = np.array(self._heights)[self._kept]
        return Rows(matrix, heights, owner, self._likely[self._kept])

    def mixed(self, weights: np.ndarray) -> np.ndarray:
        """The slopes (N,) of the convex combinations of each group's bounds; zero for servers."""
        share = np.zeros(self._kept.shape)
        share[self._kept] = weights
        found = np.zeros(self._coordinates.size)
        for at in np.unique(share.nonzero()[0]).tolist():
            found[self._mine] += share[at, self._owner] * self._slopes[at]
        return found

    def prune(self, is_active: np.ndarray) -> None:
        """Keep of the older ones only those that are active, a flag for each row."""
        self._likely = np.zeros_like(self._kept)
        self._likely[self._kept] = is_active
        older = max(0, len(self._kept) - RECENT)
        self._kept[:older] = self._likely[:older]
        live = self._kept.any(axis=1)
        self._forget(int(live.argmax()) if live.any() else live.size)

    def _forget(self, count: int) -> None:
        """Leave the first rounds out."""
        for one in (self._slopes, self._rows, self._heights):
            del one[:count]
        self._kept, self._likely = self._kept[count:], self._likely[count:]


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
