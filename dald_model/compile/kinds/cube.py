r"""Cube: :math:`|u|^3`, as of the head that flows lose in pipes, which grows with their square."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, combined, without


class Cube(Kind):
    """See the module."""

    name = "cube"

    def read(self, component: Component) -> Recognised | None:
        r"""Rows :math:`|u| \le a`, and cones :math:`a^2 \le s` and :math:`s^2 \le t a`."""
        columns, q = component.columns, component.q
        tops = [c for c in columns if q[c]]
        pair = [rows[0] for kind, rows in component.cones if kind == "nonneg"]
        cones = [rows for kind, rows in component.cones if kind == "soc"]
        if len(columns) != 3 or len(pair) != 2 or len(cones) != 2 or len(component.cones) != 4:
            return None
        if any(component.bend.values()) or len(tops) != 1 or q[tops[0]] < 0:
            return None
        t = tops[0]
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
