r"""Powers: :math:`u^2`, :math:`|u|^3`, :math:`u^4` and :math:`1/u`."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from dald_model.compile.components import Component, Recognised, Row, combined, without
from dald_model.compile.kinds.kind import Evaluated, Kind


class Square(Kind):
    r""":math:`u^2 / 2`."""

    name = "square"
    most_curved = 1.0

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        return u * u / 2, u, np.ones(u.shape)


SQUARE = Square()


class Cube(Kind):
    r""":math:`|u|^3`, as of the head that flows lose in pipes, which grows with their square."""

    name = "cube"

    def read(self, component: Component) -> Recognised | None:
        r"""Rows :math:`|u| \le a`, and cones :math:`a^2 \le s` and :math:`s^2 \le t a`."""
        columns, t = component.columns, component.top
        pair = [rows[0] for kind, rows in component.cones if kind == "nonneg"]
        cones = [rows for kind, rows in component.cones if kind == "soc"]
        counts = len(columns), len(pair), len(cones), len(component.cones)
        if counts != (3, 2, 2, 4) or t is None:
            return None
        for a, s in permutations(c for c in columns if c != t):
            square = [({s: 1.0}, 1.0), ({s: -1.0}, 1.0), ({a: 2.0}, 0.0)]
            cubic = [({t: 1.0, a: 1.0}, 0.0), ({t: 1.0, a: -1.0}, 0.0), ({s: 2.0}, 0.0)]
            if square not in cones or cubic not in cones:
                continue
            if any(row.get(a, 0.0) <= 0 for row, _ in pair):
                return None
            one, two = (combined((1 / row[0][a], without(row, a))) for row in pair)
            is_size = combined((1.0, one), (1.0, two)) == ({}, 0.0)
            is_own = not set(one[0]) & set(columns)
            return Recognised(self, [one], None, t, 1.0) if is_size and is_own else None
        return None

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        size = np.abs(u)
        return size**3, 3 * u * size, 6 * size


class Quartic(Kind):
    r""":math:`u^4`."""

    name = "quartic"

    def read(self, component: Component) -> Recognised | None:
        r"""Cones :math:`u^2 \le s` and :math:`s^2 \le t`."""
        columns, t = component.columns, component.top
        if [kind for kind, _ in component.cones] != ["soc", "soc"] or len(columns) != 2:
            return None
        if t is None:
            return None
        s = columns[1 - columns.index(t)]
        cones = [rows for _, rows in component.cones]
        outer = [({t: 1.0}, 1.0), ({t: 1.0}, -1.0), ({s: 2.0}, 0.0)]
        inner = [rows for rows in cones if rows[:2] == [({s: 1.0}, 1.0), ({s: -1.0}, 1.0)]]
        if outer not in cones or len(inner) != 1 or len(inner[0]) != 3:
            return None
        row, constant = inner[0][2]
        if set(row) & set(columns):
            return None
        half: Row = {c: a / 2 for c, a in row.items()}, constant / 2
        return Recognised(self, [half], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        square = u * u
        return square * square, 4 * u * square, 12 * square


class Reciprocal(Kind):
    r""":math:`1/u`, the least t with :math:`\|(t - u, 2)\| \le t + u`.

    Source: J. Mo and J. Walrand, Fair end-to-end window-based congestion control, IEEE/ACM
    Transactions on Networking 8(5), 2000: the utility :math:`u^{1-\alpha} / (1 - \alpha)`, alpha 2.
    """

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
