r"""Huber: :math:`u^2/2` up to :math:`|u| = \delta`, and :math:`\delta |u| - \delta^2/2` beyond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dald_model.compile.kinds.kind import Evaluated, Kind
from dald_model.compile.patterns import Component, Recognised, combined, without


class Huber(Kind):
    r"""See the module; the parameter is :math:`\delta`."""

    name = "huber"
    most_curved = 1.0

    def read(self, component: Component) -> Recognised | None:
        r"""Rows n + s = u, |s| <= t, cost n^2 p/2 + c t: p times huber of u, and c / p."""
        q, bend, columns, cones = component.q, component.bend, component.columns, component.cones
        zeros = [rows[0] for kind, rows in cones if kind == "zero"]
        pair = [rows[0] for kind, rows in cones if kind == "nonneg"]
        if len(columns) != 3 or len(cones) != 3 or len(zeros) != 1 or len(pair) != 2:
            return None
        curved = [c for c in columns if bend[c] > 0]
        tops = [c for c in columns if q[c] > 0 and bend[c] == 0]
        rest = [c for c in columns if c not in curved + tops]
        if len(curved) != 1 or len(tops) != 1 or len(rest) != 1 or q[curved[0]] or q[rest[0]]:
            return None
        n, t, s = curved[0], tops[0], rest[0]
        tie = zeros[0]
        if {c for c in tie[0] if c >= component.own} != {n, s}:
            return None
        if any(set(row) != {t, s} or constant for row, constant in pair):
            return None
        ratios = sorted(row[s] / row[t] for row, _ in pair)
        if any(row[t] <= 0 for row, _ in pair) or ratios[0] != -ratios[1] or ratios[1] <= 0:
            return None
        inner = combined((-1 / tie[0][s], without(without(tie, n), s)))
        return Recognised(self, [inner], None, t, ratios[1], n, (tie[0][s] / tie[0][n]) ** 2)

    def sizes(
        self, found: Sequence[Recognised], diagonal: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Kind`; the weight is the curvature of n, the parameter a ratio to it."""
        weight = diagonal[[one.curved for one in found]] * [one.factor for one in found]
        tops = q[[one.epigraph for one in found]]
        return weight, tops * [one.scale for one in found] / weight

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`."""
        near = np.clip(u, -parameter, parameter)
        return near * (u - near / 2), near, (np.abs(u) <= parameter).astype(float)

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`."""
        return np.clip(u, -parameter, parameter)
