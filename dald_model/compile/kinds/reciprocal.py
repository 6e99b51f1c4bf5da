r"""Reciprocal: :math:`1/u`, as of fair shares of a network and of delays.

Source: J. Mo and J. Walrand, Fair end-to-end window-based congestion control, IEEE/ACM Transactions
on Networking 8(5), 2000: the utility :math:`u^{1-\alpha} / (1 - \alpha)` of alpha 2.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, combined, without


class Reciprocal(Kind):
    r""":math:`1/u`, the least t with :math:`\|(t - u, 2)\| \le t + u`."""

    name = "reciprocal"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        """See :class:`Kind`."""
        if len(component.columns) != 1 or [kind for kind, _ in component.cones] != ["soc"]:
            return None
        t, rows = component.columns[0], component.cones[0][1]
        if component.bend[t] or component.q[t] <= 0 or len(rows) != 3:
            return None
        one, two, three = rows
        own = without(one, t)
        if three != ({}, 2.0) or one[0].get(t) != 1.0:
            return None
        if two != combined((1.0, own), (1.0, ({t: -1.0}, 0.0))):
            return None
        return Recognised(self, [own], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        inverse = 1 / u
        value = np.where(u > 0, inverse, np.inf)
        return value, -(inverse**2), 2 * inverse**3
