"""Learned symmetric models of how clients respond."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from dald_model.coordinate.acceleration.inverses import Inverses
from dald_model.eigen import eigh

DEPENDENT = 1e-8
"""A correction is left out where what it divides by is this share of what it could be."""
EDGE = 1e-6
"""A model's response is kept this far from 0 and 1 where its stiffness is asked for."""
AGAINST, MOST = 0.5, 0.25
"""Share of the size of a negative eigenvalue of a model that counts as a response, and how much of
one that is at most."""
LARGE = 50_000
"""From so many clients times the cube of their directions on eigenproblems are spared."""
FEW = 0.4
"""Share of the directions up to which a model is its first one and corrections of low rank."""
NOISE = 1e-14
"""A client that was told the same up to this share of its point teaches rounding errors."""


class Stiffness(NamedTuple):
    """Of each client of a group its B, (n, r, r)."""

    matrices: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray, values: np.ndarray) -> Stiffness:
        r"""Those of :math:`B = V \operatorname{diag}(d) V^\top`, (n, r, k) and (n, k)."""
        return cls((vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2))

    def times(self, change: np.ndarray) -> np.ndarray:
        """B times changes of the coordinates, (n, r)."""
        return np.einsum("nij,nj->ni", self.matrices, change)

    def responses(self) -> np.ndarray:
        r""":math:`S = (I + B)^{-1}`, (n, r, r)."""
        return np.linalg.inv(np.eye(self.matrices.shape[1]) + self.matrices)


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

    def stiffness(self) -> Stiffness:
        """The Hessians of the clients' objectives."""
        ...


class Responses:
    r"""Models of the clients of a group, of r shared directions each.

    A client that is told :math:`\tau` answers with the minimiser of its own objective and
    :math:`\frac12 |\xi - \tau|^2`; so :math:`\tau = \xi + \phi` with the slope :math:`\phi` of its
    objective there, and its response S, :math:`d \xi = S \, d \tau`, is symmetric with eigenvalues
    in [0, 1]: 0 along a hard constraint, 1 where it has no curvature. From two answers
    :math:`S y = x` with :math:`x = \Delta \xi, y = \Delta \xi + \Delta \phi`, the secant equation,
    which symmetric corrections of rank one follow (SR1; Nocedal and Wright 2006, Section 6.2):

    .. math:: u = x - S y, \qquad S \leftarrow S + \frac{u u^\top}{u^\top y}.

    Parameters
    ----------
    start : ndarray, shape (n,)
        The first response of each client, along all directions.
    size : int
        Directions r.
    is_angular : ndarray of bool, shape (n,), optional
        Whose responses are mostly 0 or 1, as of polyhedral objectives: a negative one is taken for
        zero there.
    """

    def __init__(self, start: np.ndarray, size: int, is_angular: np.ndarray | None = None) -> None:
        self._against = np.full((start.size, 1), AGAINST)
        if is_angular is not None:
            self._against[is_angular] = 0.0
        self._response: np.ndarray | None = start[:, None, None] * np.eye(size)
        self._stiffness: Stiffness | None = None
        is_large = start.size * size**3 >= LARGE
        self._start = start
        self._lines: list[tuple[np.ndarray, np.ndarray]] | None = [] if is_large else None
        self._inverses = Inverses(start.size, size, EDGE) if is_large else None

    @property
    def response(self) -> np.ndarray:
        """S of each client; of what was recalled only where it is asked for."""
        if self._response is None:
            assert self._stiffness is not None
            self._response = self._stiffness.responses()
        return self._response

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """Correct the models by what was told and how far they moved; gives the squared error.

        All arguments have shape (n, r), NaN where nothing is known; ``points`` are where they are
        now. A client that was told the same, or was not there, teaches nothing.
        """
        wrong = moved - np.einsum("nij,nj->ni", self.response, told)
        product = np.einsum("ni,ni->n", wrong, told)
        error, change = (np.einsum("ni,ni->n", one, one) for one in (wrong, told))
        is_sound = np.abs(product) > DEPENDENT * np.sqrt(error * change)
        # Told the same but for rounding errors: teaches these
        is_sound &= change > NOISE**2 * np.einsum("ni,ni->n", points, points)
        is_sound &= np.isfinite(product)  # of a run that diverges
        is_sound &= np.abs(product) > np.finfo(float).tiny  # or its inverse is no double
        scale = np.zeros(product.size)
        np.divide(1.0, product, out=scale, where=is_sound)
        wrong = np.where(is_sound[:, None], wrong, 0.0)
        response = self.response
        response += scale[:, None, None] * (wrong[:, :, None] * wrong[:, None, :])
        self._stiffness = None
        if self._lines is not None:
            self._lines.append((wrong, scale))
            if len(self._lines) > FEW * wrong.shape[1]:
                self._lines = None
        elif self._inverses is not None:
            self._inverses.correct(response, wrong, scale)
        return known_sum(error)

    def recall(self, at: slice, stiffness: Stiffness) -> None:
        r"""Begin with what is known of some of the clients: :math:`S = (I + B)^{-1}`."""
        self._lines = None
        if self._inverses is not None:
            self._inverses.is_known[at] = False
        if at == slice(None):
            self._stiffness, self._response = stiffness, None
        else:
            self.response[at] = stiffness.responses()
            self._stiffness = None

    def stiffness(self) -> Stiffness:
        r""":math:`B = S^{-1} - I`, with the eigenvalues of S taken from within (0, 1).

        No response is negative. Such an eigenvalue comes of answers on other sides of kinks or of
        bends, and says how wrong the model is; taken for zero it would be a hard constraint, of
        which two clients at two points are asked for anything. So its size is taken, as saddle-free
        Newton methods do (Dauphin and others 2014), but with caution.
        """
        if self._stiffness is None:
            if self._lines:
                self._stiffness = self._of_few(self._lines)
            else:
                self._stiffness = self._of_all(self._inverses)
        return self._stiffness

    def _of_all(self, inverses: Inverses | None) -> Stiffness:
        """By eigenvalues, but of whom the inverse is known."""
        if inverses is None:
            values, vectors = eigh(self.response)
            return Stiffness.of(vectors, self._bent(values, slice(None)))
        found = inverses.low - np.eye(inverses.low.shape[1])
        who = np.flatnonzero(~inverses.is_known)
        if who.size:
            values, vectors = eigh(self.response[who])
            found[who] = Stiffness.of(vectors, self._bent(values, who)).matrices
            inverses.set(who, values, vectors)
        return Stiffness(found)

    def _of_few(self, lines: list[tuple[np.ndarray, np.ndarray]]) -> Stiffness:
        """By eigenvalues along the corrections; across them the model is the first one."""
        wrong, scale = (np.stack(one, axis=-1) for one in zip(*lines, strict=True))
        basis, along = np.linalg.qr(wrong)
        inner = (along * scale[:, None, :]) @ np.swapaxes(along, 1, 2)
        values, vectors = eigh(inner + self._start[:, None, None] * np.eye(inner.shape[1]))
        rest = self._bent(self._start[:, None], slice(None))
        found = Stiffness.of(basis @ vectors, self._bent(values, slice(None)) - rest).matrices
        return Stiffness(found + rest[:, :, None] * np.eye(found.shape[1]))

    def _bent(self, values: np.ndarray, who: slice | np.ndarray) -> np.ndarray:
        """The eigenvalues of B for those of S, (k, r)."""
        sound = np.where(values < 0, np.minimum(-self._against[who] * values, MOST), values)
        return 1 / np.clip(sound, EDGE, 1 - EDGE) - 1
