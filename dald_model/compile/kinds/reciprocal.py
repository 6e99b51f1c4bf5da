r"""Reciprocal and root: :math:`1/u` and :math:`-\sqrt u`, as of fair shares of a network.

Source: J. Mo and J. Walrand, Fair end-to-end window-based congestion control, IEEE/ACM Transactions
on Networking 8(5), 2000: the utilities :math:`u^{1-\alpha} / (1 - \alpha)` of alpha 2 and 1/2.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, Row, combined, without


class Reciprocal(Kind):
    r""":math:`1/u`, the least t with :math:`\|(t - u, 2)\| \le t + u`."""

    name = "reciprocal"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        cone = _cone(component)
        if cone is None:
            return None
        t, (one, two, three) = cone
        own = without(one, t)
        if three != ({}, 2.0) or one[0].get(t) != 1.0 or component.q[t] < 0:
            return None
        if two != combined((1.0, own), (1.0, ({t: -1.0}, 0.0))):
            return None
        return Recognised(self, [own], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        inverse = 1 / u
        value = np.where(u > 0, inverse, np.inf)
        return value, -(inverse**2), 2 * inverse**3


class Root(Kind):
    r""":math:`-\sqrt u`, the least -t with :math:`\|(u - 1, 2 t)\| \le u + 1`."""

    name = "root"
    is_positive = True
    is_of_entries = True

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        cone = _cone(component)
        if cone is None:
            return None
        t, (one, two, three) = cone
        own: Row = combined((1.0, one), (1.0, ({}, -1.0)))
        if three != ({t: 2.0}, 0.0) or t in one[0] or component.q[t] > 0:
            return None
        if two != combined((1.0, own), (1.0, ({}, -1.0))):
            return None
        return Recognised(self, [own], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; finite at zero."""
        root = np.sqrt(u)
        value = np.where(u >= 0, -root, np.inf)
        return value, -0.5 / root, 0.25 / (u * root)


def _cone(component: Component) -> tuple[int, list[Row]] | None:
    """The only column, which has a cost, and the three rows of its second-order cone."""
    if len(component.columns) != 1 or [kind for kind, _ in component.cones] != ["soc"]:
        return None
    t, rows = component.columns[0], component.cones[0][1]
    if component.bend[t] or not component.q[t] or len(rows) != 3:
        return None
    return t, rows
