r"""Learned models of clients that are alike: what one shows of its curvature others begin with.

Clients that share all of some variables have objectives of these of about one shape, each of its
own size: :math:`\nabla^2 f_i \approx c_i H`. After k rounds n clients have shown n k secant pairs,
of which H follows long before any client has shown as many as it has directions. So each client's
response S is, after every round, the symmetric matrix nearest to that of :math:`c_i H` that agrees
with what the client has shown itself,

.. math::
    \min_{S = S^\top} \sum_k q^{2 (K - k)} |S \hat y_k - \hat x_k|^2 + \varepsilon |S - S_0|^2,
    \qquad S_0 = (I + c_i H)^{-1},

with pairs :math:`S y = x` as in :mod:`.responses`, divided by :math:`|y|`. Its optimum solves a
Lyapunov equation in :math:`\sum \hat y_k \hat y_k^\top`. The newest pair is then met exactly by
Powell's symmetric Broyden update, the nearest that does (Nocedal and Wright 2006, Section 6.2). A
correction of rank one does not take a good :math:`S_0`: what it divides by is as often nothing.
"""

from __future__ import annotations

import numpy as np

from dald_model.coordinate.acceleration.responses import (
    EDGE,
    Responses,
    Stiffness,
    known_sum,
    taught,
)
from dald_model.eigen import eigh

LOOSE = 1e-11
"""The weight of the distance from the first response, beside that of the newest pair."""
FORGETS = 0.8
"""The weight of a pair's error beside that of the pair one round newer, where they disagree: a
curvature that changed."""
FIRST = 1.0
"""The weight of the first response of all in that of H, beside one pair's."""
SIZES = 1e3
"""How many times smaller or larger a client's objective is than H at most."""
ROUNDS = 2
"""As many times as a client has directions: after so many rounds models go on by themselves."""
MOST = 2e6
"""Where the cubes of all clients' directions sum up to more nobody is pooled: it takes two more
eigenproblems of each, a round."""


class PooledResponses(Responses):
    """Models of alike clients, of r directions of the same variables each.

    Parameters
    ----------
    start, size :
        As of :class:`Responses`.
    factor : ndarray, shape (n, r)
        The clients' coordinates in units of the variables.
    """

    def __init__(self, start: np.ndarray, size: int, factor: np.ndarray) -> None:
        super().__init__(start, size)
        self._lines, self._inverses = None, None  # a model is found anew each round
        self._unit = np.exp(np.log(np.abs(factor)).mean(axis=0)) / np.abs(factor)
        self._middle = float(np.median(start))
        self._moved: list[np.ndarray] = []
        self._told: list[np.ndarray] = []
        self._is_pooled = True

    def recall(self, at: slice, stiffness: Stiffness) -> None:
        """See :class:`Responses`: who is known begins with that, and with nobody else's."""
        super().recall(at, stiffness)
        self._is_pooled = False

    def learn(self, points: np.ndarray, moved: np.ndarray, told: np.ndarray) -> float:
        """See :class:`Responses`."""
        if not self._is_pooled:
            return super().learn(points, moved, told)
        wrong = moved - np.einsum("nij,nj->ni", self.response, told)
        is_known = taught(points, told) & np.isfinite(wrong).all(axis=1)
        # In units of what they were told; of who was told nothing new, zeros
        sizes = np.sqrt(np.einsum("ni,ni->n", told, told))[:, None]
        units = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=is_known[:, None])
        self._moved.append(np.where(is_known[:, None], moved, 0.0) * units)
        self._told.append(np.where(is_known[:, None], told, 0.0) * units)
        self._response, self._stiffness = self._found(), None
        if len(self._told) >= ROUNDS * told.shape[1]:
            self._is_pooled = False
            self._moved, self._told = [], []
        return known_sum(np.einsum("ni,ni->n", wrong, wrong))

    def _found(self) -> np.ndarray:
        """The responses (n, r, r) by all pairs."""
        moved, told = np.array(self._moved), np.array(self._told)  # (k, n, r)
        found = self._common(moved, told)
        weight = (FORGETS ** np.arange(len(told))[::-1])[:, None, None]
        weighted = told * weight
        wrong = moved * weight - np.einsum("nij,knj->kni", found, weighted)
        found += _lyapunov(_gram(weighted, weighted), _gram(wrong, weighted), LOOSE)
        x, y = moved[-1], told[-1]
        left = x - np.einsum("nij,nj->ni", found, y)
        outer = left[:, :, None] * y[:, None, :]
        along = np.einsum("ni,ni->n", left, y)[:, None, None]
        return found + outer + _transposed(outer) - along * y[:, :, None] * y[:, None, :]

    def _common(self, moved: np.ndarray, told: np.ndarray) -> np.ndarray:
        """The responses of all clients by their common curvature, each in its own size."""
        unit, size = self._unit, told.shape[2]
        # Points and slopes along the same variables, in the same units
        x, slope = moved * unit, (told - moved) / unit
        curved = _ratio(np.einsum("kni,kni->n", x, slope), np.einsum("kni,kni->n", x, x))
        first = 1 / self._middle - 1
        y = x + slope * (first / np.where(np.isnan(curved), first, curved))[:, None]
        scale = np.sqrt(np.einsum("kni,kni->kn", y, y))[:, :, None]
        units = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        x_flat, y_flat = ((one * units).reshape(-1, size) for one in (x, y))
        wrong = x_flat - self._middle * y_flat
        response = self._middle * np.eye(size)
        response += _lyapunov((y_flat.T @ y_flat)[None], (wrong.T @ y_flat)[None], FIRST)[0]
        values, vectors = eigh(response)
        values = np.clip(values, EDGE, 1 - EDGE)
        # c_i, by errors of slopes in the metric of the response, in which stiff directions are few
        stiff = 1 / values - 1
        x, slope = x @ vectors, slope @ vectors
        top = np.einsum("kni,kni,i->n", x, slope, values * stiff)
        curved = _ratio(top, np.einsum("kni,kni,i->n", x, x, values * stiff**2))
        curved = np.where(np.isnan(curved), 1.0, curved)[:, None, None]
        common = (vectors * stiff) @ vectors.T
        own = curved * (unit[:, :, None] * common * unit[:, None, :])
        return np.linalg.inv(np.eye(size) + own)


def _ratio(top: np.ndarray, low: np.ndarray) -> np.ndarray:
    """How many times one is the other, within :data:`SIZES`; NaN where nothing is known."""
    found = np.full(top.size, np.nan)
    np.divide(top, low, out=found, where=(low > 0) & (top > 0))
    return np.clip(found, 1 / SIZES, SIZES)


def _gram(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return np.einsum("kni,knj->nij", one, two)


def _transposed(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, 1, 2)


def _lyapunov(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    r"""The symmetric S with :math:`(G + \epsilon I) S + S (G + \epsilon I) = R + R^\top`."""
    values, vectors = eigh(gram)
    values = np.maximum(values, 0.0) + ridge
    inner = _transposed(vectors) @ right @ vectors
    inner = (inner + _transposed(inner)) / (values[:, :, None] + values[:, None, :])
    return vectors @ inner @ _transposed(vectors)
