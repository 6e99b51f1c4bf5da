r"""Quartic: :math:`u^4`, as of robust design and of fourth moments."""

from __future__ import annotations

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, Row


class Quartic(Kind):
    """See the module."""

    name = "quartic"

    def read(self, component: Component) -> Recognised | None:
        r"""Cones :math:`u^2 \le s` and :math:`s^2 \le t`."""
        columns, q = component.columns, component.q
        tops = [c for c in columns if q[c]]
        if [kind for kind, _ in component.cones] != ["soc", "soc"] or len(columns) != 2:
            return None
        if any(component.bend.values()) or len(tops) != 1 or q[tops[0]] < 0:
            return None
        t, s = tops[0], columns[1 - columns.index(tops[0])]
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
