r"""Absolute values: :math:`|u|`; and what has one row only, which is linear."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.kinds.kind import Epigraph, Kind
from dald_model.compile.patterns import Component, Recognised, combined


class Linear(Kind):
    """One row t >= l with a cost on t: l itself, which is no term."""

    name = "linear"

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        if component.maximum is None:
            return None
        top, pieces = component.maximum
        if component.bend[top] or component.q[top] <= 0 or len(pieces) != 1:
            return None
        return Recognised(self, [], pieces[0], top, 1.0)


class Absolute(Kind):
    r""":math:`|u|`."""

    name = "abs"
    is_smooth = False
    is_polyhedral = True
    operator = "soft threshold"

    def read(self, component: Component) -> Recognised | None:
        r"""Rows t >= l_1, t >= l_2: :math:`\max(l_1, l_2) = (l_1 + l_2 + |l_1 - l_2|)/2`."""
        if component.maximum is None:
            return None
        top, pieces = component.maximum
        if component.bend[top] or component.q[top] <= 0 or len(pieces) != 2:
            return None
        one, two = pieces
        gap, mean = combined((1.0, one), (-1.0, two)), combined((1.0, one), (1.0, two))
        return Recognised(self, [gap], mean, top, 0.5)

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`."""
        return np.abs(u)

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`."""
        return np.sign(u)

    def prox(self, u: np.ndarray, weight: np.ndarray | float, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`."""
        inside = np.clip(u, -weight, weight)
        return np.subtract(u, inside, out=inside)

    def scaled(
        self, weight: np.ndarray, parameter: np.ndarray, size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Kind`."""
        return weight * size, parameter

    def epigraph(
        self, matrix: Any, offset: np.ndarray, parameter: np.ndarray, top: Any
    ) -> Epigraph:
        r"""See :class:`Kind`: :math:`A v + b \le t` and :math:`-A v - b \le t`."""
        rows = sp.vstack([matrix - top, -matrix - top], "csr")
        right = np.concatenate([-offset, offset])
        return Epigraph(rows, right, [("NonnegativeConeT", right.size)])

    def height(self, width: int) -> int:
        """See :class:`Kind`."""
        return 2


ABSOLUTE = Absolute()
