r"""Norms, their squares, and balls: :math:`\|u\|_2`, :math:`\|u\|_2^2`, and limits of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.components import Component, Recognised, Row, combined
from dald_model.compile.kinds.kind import Epigraph, Evaluated, Kind


class _Euclidean(Kind):
    """What norms and balls share: second-order cones."""

    is_smooth = False
    is_joint = True

    def epigraph(
        self, matrix: Any, offset: np.ndarray, parameter: np.ndarray, top: Any
    ) -> Epigraph:
        """See :class:`Kind`; the row of t, or of the radius, before those of the arguments."""
        count = top.shape[0]
        width = offset.size // count
        order = np.arange(count * width).reshape(count, width) + count
        order = np.hstack([np.arange(count)[:, None], order]).ravel()
        radius = parameter if self.is_set else np.zeros(count)
        rows = sp.csr_array(sp.vstack([-top, -matrix], "csr"))[order]
        right = np.concatenate([radius, offset])[order]
        return Epigraph(rows, right, [("SecondOrderConeT", width + 1)] * count)

    def height(self, width: int) -> int:
        return width + 1


class Norm(_Euclidean):
    r""":math:`\|u\|_2`."""

    name = "norm"

    def read(self, component: Component) -> Recognised | None:
        r"""One second-order cone :math:`\|u\|_2 \le t` with cost on t."""
        q, columns, cones = component.q, component.columns, component.cones
        if len(columns) != 1 or [kind for kind, _ in cones] != ["soc"]:
            return None
        t, (first, *others) = columns[0], cones[0][1]
        if component.bend[t] or q[t] <= 0 or not _is_multiple(first, t):
            return None
        if any(t in row for row, _ in others):
            return None
        return Recognised(self, others, None, t, 1 / first[0][t])

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        return np.linalg.norm(u, axis=-1)

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; zero at zero."""
        length = np.linalg.norm(u, axis=-1, keepdims=True)
        return u / np.maximum(length, np.finfo(float).tiny)


class Squares(Kind):
    r""":math:`\|u\|_2^2`, the least t with :math:`\|(1 - t, 2u)\| \le 1 + t`."""

    name = "squares"
    is_joint = True
    most_curved = 2.0

    def read(self, component: Component) -> Recognised | None:
        if component.top is None or [kind for kind, _ in component.cones] != ["soc"]:
            return None
        t, (first, second, *others) = component.top, component.cones[0][1]
        if component.columns != [t] or first != ({t: 1.0}, 1.0) or second != ({t: -1.0}, 1.0):
            return None
        halved = [combined((0.5, row)) for row in others]
        if not halved or any(t in row for row, _ in halved):
            return None
        return Recognised(self, halved, None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        return np.vecdot(u, u), 2 * u, np.full(u.shape, 2.0)

    def root(
        self, rows: np.ndarray, u: np.ndarray, weight: np.ndarray, parameter: np.ndarray
    ) -> np.ndarray:
        return np.sqrt(2 * weight)[..., None, None] * rows


SQUARES = Squares()


class Ball(_Euclidean):
    r"""The constraint :math:`\|u\|_2 \le r`; the parameter is r."""

    name = "ball"
    is_set = True

    def read(self, component: Component) -> Recognised | None:
        r"""Rows :math:`\|u\|_2 \le t` and t <= r without cost on t."""
        limit = _limit(component)
        if limit is None:
            return None
        (first, *others), level, slope, row = limit
        t = component.columns[0]
        if not _is_multiple(first, t) or any(t in row for row, _ in others):
            return None
        unit = slope / first[0][t]
        return Recognised(self, others, None, t, first[0][t], -1, unit, row, 1 / unit, level)

    def sizes(
        self, found: Sequence[Recognised], diagonal: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Kind`: what the user multiplied both sides by, and r if it is no data."""
        levels = np.array([one.level[1] if one.level else 0.0 for one in found])
        return np.array([one.factor for one in found]), self.radii(found, levels)

    def radii(self, found: Sequence[Recognised], levels: np.ndarray) -> np.ndarray:
        return levels * [one.scale for one in found]

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; constraints add nothing."""
        return np.zeros(u.shape[:-1])

    def excess(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        return np.linalg.norm(u, axis=-1) - parameter


class SquareBall(Ball):
    r"""The same constraint written as :math:`\|u\|_2^2 \le r^2`."""

    name = "square ball"

    def read(self, component: Component) -> Recognised | None:
        r"""Rows :math:`\|u\|_2^2 \le t`, as :math:`\|(1 - t, 2u)\| \le 1 + t`, and t <= r^2."""
        limit = _limit(component)
        if limit is None:
            return None
        (first, *others), level, slope, row = limit
        t = component.columns[0]
        if first != ({t: 1.0}, 1.0) or others[0] != ({t: -1.0}, 1.0):
            return None
        halved = [combined((0.5, row)) for row in others[1:]]
        if not halved or any(t in row for row, _ in halved):
            return None
        return Recognised(self, halved, None, t, 1.0, -1, slope, row, 0.5 / slope, level)

    def radii(self, found: Sequence[Recognised], levels: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(levels, 0.0))

    def gains(self, found: Sequence[Recognised], radii: np.ndarray) -> np.ndarray:
        return super().gains(found, radii) / radii

    def excess(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        return np.vecdot(u, u) - parameter**2


def _is_multiple(row: Row, column: int) -> bool:
    """Whether a row is a positive multiple of one column."""
    return set(row[0]) == {column} and not row[1] and row[0][column] > 0


def _limit(component: Component) -> tuple[list[Row], Row, float, int] | None:
    """The rows of a second-order cone, and the limit of its free column: level, slope and row.

    The level is a number, or is in columns that are data.
    """
    kinds = [kind for kind, _ in component.cones]
    if len(component.columns) != 1 or sorted(kinds) != ["nonneg", "soc"] or not component.is_free:
        return None
    t, at = component.columns[0], kinds.index("nonneg")
    bounding, room = component.cones[at][1][0]
    data = bounding.keys() - {t}
    if not bounding.get(t, 0.0) < 0 or not data <= component.fixed or not (data or room > 0):
        return None
    slope = -bounding[t]
    level = {c: bounding[c] / slope for c in data}, room / slope
    return component.cones[1 - at][1], level, slope, component.rows[at]
