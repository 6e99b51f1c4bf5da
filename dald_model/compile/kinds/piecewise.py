r"""Functions in pieces: absolute values, squared hinges, Huber functions and dead zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.components import Component, Recognised, Row, combined, without
from dald_model.compile.kinds.kind import Epigraph, Evaluated, Kind


class Linear(Kind):
    """One row t >= l with a cost on t: l itself, which is no term."""

    name = "linear"

    def read(self, component: Component) -> Recognised | None:
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
        return np.abs(u)

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        return np.sign(u)

    def epigraph(
        self, matrix: Any, offset: np.ndarray, parameter: np.ndarray, top: Any
    ) -> Epigraph:
        r"""See :class:`Kind`: :math:`A v + b \le t` and :math:`-A v - b \le t`."""
        rows = sp.vstack([matrix - top, -matrix - top], "csr")
        right = np.concatenate([-offset, offset])
        return Epigraph(rows, right, [("NonnegativeConeT", right.size)])

    def height(self, width: int) -> int:
        return 2


ABSOLUTE = Absolute()


class SquaredHinge(Kind):
    r""":math:`\max(u, 0)^2 / 2`."""

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
        beyond = np.maximum(u, 0)
        return beyond**2 / 2, beyond, (u > 0).astype(float)


class Huber(Kind):
    r""":math:`u^2/2` up to the parameter :math:`\delta`, :math:`\delta |u| - \delta^2/2` beyond."""

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
        near = np.clip(u, -parameter, parameter)
        return near * (u - near / 2), near, (np.abs(u) <= parameter).astype(float)

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        return np.clip(u, -parameter, parameter)


SQUARED = SquaredHinge()


def dead_zone(component: Component) -> list[Recognised]:
    r"""Rows s >= k t + c, s >= 0 and t >= l_1, t >= l_2, with a cost or curvature of s alone.

    Two kinks, or two squared hinges, of which at most one is up at any point:
    :math:`\max(a, b, 0) = \max(a, 0) + \max(b, 0)` where :math:`\min(a, b) \le 0`.

    Source: V. Vapnik, The Nature of Statistical Learning Theory, 1995, section 6.1, for the loss.
    """
    ends = _ends(component)
    if ends is None:
        return []
    s, sides = ends
    if component.bend[s]:
        return [Recognised(SQUARED, [side], None, s, 1.0) for side in sides]
    return [Recognised(ABSOLUTE, [side], side, s, 0.5) for side in sides]  # (l + |l|) / 2


def _ends(component: Component) -> tuple[int, list[Row]] | None:
    """The column s and the two affine functions of which s is the larger, or zero."""
    q, bend, columns = component.q, component.bend, component.columns
    if [kind for kind, _ in component.cones] != ["nonneg"] * 4 or len(columns) != 2:
        return None
    tops = [c for c in columns if q[c] or bend[c]]
    if len(tops) != 1 or q[tops[0]] < 0 or (q[tops[0]] and bend[tops[0]]):
        return None
    s, t = tops[0], columns[1 - columns.index(tops[0])]
    rows = [rows[0] for _, rows in component.cones]
    over = [_least(row, s) for row in rows if s in row[0]]
    under = [_least(row, t) for row in rows if s not in row[0]]
    if len(over) != 2 or None in (*over, *under) or ({}, 0.0) not in over:
        return None
    (factors, constant) = over[1 - over.index(({}, 0.0))] or ({}, 0.0)
    if set(factors) != {t} or factors[t] <= 0:
        return None
    one, two = (combined((factors[t], row or ({}, 0.0)), (1.0, ({}, constant))) for row in under)
    return (s, [one, two]) if _is_never_both(one, two) else None


def _least(row: Row, column: int) -> Row | None:
    """What a row says that a column is at least; None if it says no such thing."""
    factor = row[0].get(column, 0.0)
    return combined((-1 / factor, without(row, column))) if factor > 0 else None


def _is_never_both(one: Row, two: Row) -> bool:
    """Whether of two functions in opposite directions at most one is positive at any point."""
    if len(one[0]) != 1 or one[0].keys() != two[0].keys():
        return False
    (up,), (down,) = one[0].values(), two[0].values()
    return up * down < 0 and one[1] - up / down * two[1] <= 0
