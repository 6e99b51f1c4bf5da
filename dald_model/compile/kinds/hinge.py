r"""Squared hinge: :math:`\max(u, 0)^2 / 2`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised


class SquaredHinge(Kind):
    """See the module."""

    name = "hinge"
    most_curved = 1.0

    def read(self, component: Component) -> Recognised | None:
        r"""Rows t >= u, t >= 0, and curvature but no cost of t."""
        if component.maximum is None:
            return None
        top, pieces = component.maximum
        live = [piece for piece in pieces if piece[0]]
        if component.bend[top] <= 0 or component.q[top] or len(pieces) != 2:
            return None
        if len(live) != 1 or ({}, 0.0) not in pieces:
            return None
        return Recognised(self, live, None, top, 1.0)

    def sizes(
        self, found: Sequence[Recognised], diagonal: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Kind`; the weight is the curvature of t."""
        return diagonal[[one.epigraph for one in found]], np.zeros(len(found))

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        beyond = np.maximum(u, 0)
        return beyond**2 / 2, beyond, (u > 0).astype(float)
