"""Models of the clients' responses that the clients send themselves."""

from __future__ import annotations

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.coordinates import Coordinates, Group
from dald_model.coordinate.acceleration.responses import Stiffness
from dald_model.eigen import eigh
from dald_model.solvers.exact.sensitivity import Sensitivity

RIGID = 1e-6
"""A response is kept this far from 0, a hard constraint."""
FLAT = 1e-10
"""A response is kept this far from 1, no curvature: less than of a learned one, as it is exact."""


class SentModels:
    """The responses of the clients of a group, of r shared directions each.

    A server sends nothing, as it has no curvature.
    """

    def __init__(self, compiled: Decomposition, coordinates: Coordinates, group: Group) -> None:
        size = group.columns.shape[1]
        self._response = np.tile((1 - FLAT) * np.eye(size), (len(group.names), 1, 1))
        self._columns = group.columns
        self._parts: list[tuple[np.ndarray, np.ndarray, Sensitivity]] = []
        subs = [] if group.is_server else [compiled[name] for name in group.names]
        sizes = np.array([sub.size for sub in subs])
        for own in np.unique(sizes):
            which = np.flatnonzero(sizes == own)
            chosen = [subs[at] for at in which.tolist()]
            maps = [coordinates.seen(sub.name) for sub in chosen]
            starts = np.array([compiled.columns[sub.name].start for sub in chosen])
            places = starts[:, None] + np.arange(own)
            self._parts.append((which, places, Sensitivity(chosen, np.stack(maps))))

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """See :class:`Models`: nothing is learned."""
        wrong = moved - np.einsum("nij,nj->ni", self._response, told)
        return float(np.vdot(wrong, wrong))

    def hear(self, points: np.ndarray, slopes: np.ndarray) -> None:
        """Take the responses at the clients' points, of all variables, and slopes, (N,)."""
        for which, places, sensitivity in self._parts:
            changed, found = sensitivity.changed(points[places], slopes[self._columns[which]])
            self._response[which[changed]] = found

    def stiffness(self) -> Stiffness:
        r""":math:`B = S^{-1} - I`, the Hessians of the clients along the directions."""
        values, vectors = eigh(self._response)
        return Stiffness.of(vectors, 1 / np.clip(values, RIGID, 1 - FLAT) - 1)
