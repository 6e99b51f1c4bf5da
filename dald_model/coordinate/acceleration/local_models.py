"""Learned symmetric models of how clients respond, and their state for a run that continues."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dald_model.coordinate.acceleration.coordinates import Coordinates
from dald_model.coordinate.acceleration.master import Master
from dald_model.eigen import eigh
from dald_model.sizes import ROUNDING

NO_CORRECTION = 1e-8
"""A correction is left out where what it divides by is this share of what it could be."""
MARGIN = 1e-6
"""A model's response is kept this far from 0 and 1 where its stiffness is asked for."""
AGAINST, MOST_AGAINST = 0.5, 0.25
"""Share of the size of a negative eigenvalue of a model that counts as a response, and how much of
one that is at most."""


def composed(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    r"""The matrices :math:`V \operatorname{diag}(d) V^\top` of V (n, r, r) and d (n, r)."""
    return (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def known_sum(values: np.ndarray) -> float:
    """The sum of those that are no NaN."""
    total = float(values.sum())
    return float(np.nansum(values)) if math.isnan(total) else total


class Models(Protocol):
    """Models of the clients of a group."""

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """Correct the models, if that is how they are found; gives their squared error before.

        All arguments have shape (n, r); ``points`` are where they are now.
        """
        ...

    def stiffness(self) -> np.ndarray:
        """The Hessians B of the clients' objectives, (n, r, r)."""
        ...


class LocalModels:
    r"""Models of the clients of a group, of r shared directions each.

    A client that is told :math:`\tau` answers with the minimiser of its own objective and
    :math:`\frac12 |\xi - \tau|^2`; so :math:`\tau = \xi + \phi` with the slope :math:`\phi` of its
    objective there, and its response S, :math:`d \xi = S \, d \tau`, is symmetric with eigenvalues
    in [0, 1]: 0 along a hard constraint, 1 where it has no curvature. From two answers
    :math:`S y = x` with :math:`x = \Delta \xi, y = \Delta \xi + \Delta \phi`, the secant equation,
    which symmetric corrections of rank one follow (SR1; Nocedal and Wright 2006, Section 6.2):

    .. math:: u = x - S y, \qquad S \leftarrow S + \frac{u u^\top}{u^\top y}.

    Attributes
    ----------
    response : ndarray, shape (n, r, r)
        S of each client.

    Parameters
    ----------
    start : ndarray, shape (n,)
        The first response of each client, along all directions.
    size : int
        Directions r.
    """

    def __init__(self, start: np.ndarray, size: int) -> None:
        self.response = start[:, None, None] * np.eye(size)
        self._stiffness: np.ndarray | None = None

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """Correct the models by what was told and how far they moved; gives the squared error.

        All arguments have shape (n, r), NaN where nothing is known; ``points`` are where they are
        now. A client that was told the same, or was not there, teaches nothing.
        """
        wrong = moved - np.einsum("nij,nj->ni", self.response, told)
        product = np.einsum("ni,ni->n", wrong, told)
        error, change = (np.einsum("ni,ni->n", one, one) for one in (wrong, told))
        is_sound = np.abs(product) > NO_CORRECTION * np.sqrt(error * change)
        # Told the same but for rounding errors: teaches these
        is_sound &= change > ROUNDING**2 * np.einsum("ni,ni->n", points, points)
        is_sound &= np.isfinite(product)  # of a run that diverges
        is_sound &= np.abs(product) > np.finfo(float).tiny  # or its inverse is no double
        scale = np.zeros(product.size)
        np.divide(1.0, product, out=scale, where=is_sound)
        wrong = np.where(is_sound[:, None], wrong, 0.0)
        self.response += scale[:, None, None] * (wrong[:, :, None] * wrong[:, None, :])
        self._stiffness = None
        return known_sum(error)

    def recall(self, at: slice, stiffness: np.ndarray) -> None:
        r"""Begin with the B of some clients that is known: :math:`S = (I + B)^{-1}`."""
        self.response[at] = np.linalg.inv(np.eye(stiffness.shape[1]) + stiffness)
        self._stiffness = stiffness if at == slice(None) else None

    def stiffness(self) -> np.ndarray:
        r""":math:`B = S^{-1} - I`, with the eigenvalues of S taken from within (0, 1).

        No response is negative. Such an eigenvalue comes of answers on other sides of kinks or of
        bends, and says how wrong the model is; taken for zero it would be a hard constraint, of
        which two clients at two points are asked for anything. So its size is taken, as saddle-free
        Newton methods do (Dauphin and others 2014), but with caution.
        """
        if self._stiffness is None:
            values, vectors = eigh(self.response)
            positive = np.where(values < 0, np.minimum(-AGAINST * values, MOST_AGAINST), values)
            self._stiffness = composed(vectors, 1 / np.clip(positive, MARGIN, 1 - MARGIN) - 1)
        return self._stiffness


@dataclass(frozen=True, eq=False)
class ModelState:
    """The clients' models at the end of a run.

    A model says how a client responds whatever its neighbours, so it stays useful where the
    penalties, the values of Parameters or the graph change.

    Attributes
    ----------
    master : Master
        That of the run, with its coordinates.
    stiffness : sequence of ndarray
        Of each group of the coordinates.
    """

    master: Master
    stiffness: Sequence[np.ndarray]

    @property
    def coordinates(self) -> Coordinates:
        """Those of the run."""
        return self.master.coordinates

    def of(self) -> dict[int, np.ndarray]:
        """First coordinate of a client -> its matrix B, (r, r)."""
        return {
            int(columns[0]): matrix
            for group, one in zip(self.coordinates.groups, self.stiffness, strict=True)
            if not group.is_server
            for columns, matrix in zip(group.columns, one, strict=True)
        }


def recall(
    now: Coordinates, models: Sequence[LocalModels], learnt: ModelState | None
) -> tuple[Hashable, ...]:
    """Begin models with those of an earlier run, in the present coordinates.

    Gives the clients with such a model: none where edges see other directions now.
    """
    if learnt is None:
        return ()
    then = learnt.coordinates
    if then is now:
        for model, stiffness in zip(models, learnt.stiffness, strict=True):
            model.recall(slice(None), stiffness)  # of servers it is what it always is
        return tuple(now.clients)
    known, columns = learnt.of(), then.clients
    places = {
        int(group.columns[at, 0]): (model, at)
        for group, model in zip(now.groups, models, strict=True)
        for at in range(len(group.columns))
    }
    found = []
    for name, mine in now.clients.items():
        change = now.change(then, name)
        if change is not None:
            model, at = places[mine.start]
            matrix = change.T @ known[columns[name].start] @ change
            model.recall(slice(at, at + 1), matrix[None])
            found.append(name)
    return tuple(found)
