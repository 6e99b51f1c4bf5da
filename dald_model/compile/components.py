r"""Components: what is left of a function in a cone program, and what it was recognised as.

cvxpy writes a function as the partial minimum of a cone program over auxiliary columns. The kinds
of :mod:`dald_model.compile.kinds` read components and tell which of them are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

Row = tuple[dict[int, float], float]
"""One row of :math:`b - A v`: column -> coefficient, and the constant."""

Cones = list[tuple[str, list[Row]]]


class Recognised(NamedTuple):
    """One recognised function of y: ``weight * kind(arguments) + weight * linear``.

    ``kind`` is a :class:`dald_model.compile.kinds.kind.Kind`.
    """

    kind: Any
    arguments: list[Row]
    linear: Row | None
    epigraph: int
    scale: float
    curved: int = -1
    factor: float = 0.0
    row: int = -1
    """The row that bounds a ball; its multiplier is ``gain`` times that of the norm."""
    gain: float = 0.0
    level: Row | None = None
    """What bounds it: a number, or data."""


@dataclass(frozen=True, eq=False)
class Component:
    """Auxiliary columns that share cones, with all that the program says of them.

    Attributes
    ----------
    q : ndarray
        Costs of all columns of the program.
    bend : dict
        Column -> its entry on the diagonal of the Hessian, which is all there is.
    columns : list of int
    cones : list
        Kind and rows of each cone that holds a column.
    own : int
        Columns from this one on are auxiliary.
    rows : list of int
        The program's first row of every cone.
    fixed : frozenset of int
        Columns that are data.
    """

    q: np.ndarray
    bend: dict[int, float]
    columns: list[int]
    cones: Cones
    own: int
    rows: list[int]
    fixed: frozenset[int] = frozenset()

    @cached_property
    def is_free(self) -> bool:
        """Whether its columns have neither cost nor curvature."""
        return not any(self.q[c] or self.bend[c] for c in self.columns)

    @cached_property
    def top(self) -> int | None:
        """The one column with a cost, which is positive, where no column has curvature."""
        costly = [c for c in self.columns if self.q[c]]
        is_one = len(costly) == 1 and self.q[costly[0]] > 0
        return costly[0] if is_one and not any(self.bend.values()) else None

    @cached_property
    def maximum(self) -> tuple[int, list[Row]] | None:
        r"""The column t and one or two affine functions of rows :math:`t \ge l_k`."""
        if len(self.columns) != 1 or not 1 <= len(self.cones) <= 2:
            return None
        top = self.columns[0]
        rows = [rows[0] for _, rows in self.cones]
        if any(kind != "nonneg" for kind, _ in self.cones) or any(r[0][top] <= 0 for r in rows):
            return None
        return top, [combined((-1 / row[0][top], without(row, top))) for row in rows]

    @cached_property
    def exponential(self) -> tuple[int, list[Row]] | None:
        r"""The column t and the rows of one exponential cone :math:`s_2 e^{s_1/s_2} \le s_3`."""
        if len(self.columns) != 1 or [kind for kind, _ in self.cones] != ["exp"]:
            return None
        top = self.columns[0]
        return None if self.bend[top] else (top, self.cones[0][1])

    @cached_property
    def half_line(self) -> int | None:
        """The row u of a logarithm of u that counts for nothing: all it says is that u >= 0."""
        if self.exponential is None or len(self.cones) != 1:
            return None
        t, (one, (second, count), (third, _)) = self.exponential
        if set(one[0]) != {t} or one[1] or one[0][t] <= 0 or second or t in third:
            return None
        is_void = count >= 0 if self.q[t] == 0 else count == 0 and self.q[t] < 0
        return self.rows[0] + 2 if is_void else None

    @cached_property
    def log_sum_exp(self) -> tuple[int, list[Row]] | None:
        r"""The column t and the :math:`u_k` of :math:`t \ge \log \sum_k e^{u_k}`.

        :math:`(u_k - t, 1, w_k) \in K_{exp}` and :math:`\sum w_k \le 1`.
        """
        columns, t = self.columns, self.top
        exps = [rows for kind, rows in self.cones if kind == "exp"]
        rest = [rows[0] for kind, rows in self.cones if kind == "nonneg"]
        if len(rest) != 1 or len(exps) + 1 != len(self.cones) or len(exps) < 2:
            return None
        parts = [c for c in columns if c != t]
        if t is None or len(parts) != len(exps):
            return None
        if set(rest[0][0]) != set(parts) or any(rest[0][0][c] != -rest[0][1] for c in parts):
            return None
        seen, arguments = set(), []
        for one, two, three in exps:
            if two != ({}, 1.0) or len(three[0]) != 1 or three[1] or one[0].get(t) != -1.0:
                return None
            column, scale = next(iter(three[0].items()))
            if column not in parts or scale != 1.0 or set(one[0]) & set(parts):
                return None
            seen.add(column)
            arguments.append(without(one, t))
        return (t, arguments) if len(seen) == len(parts) else None


def without(row: Row, column: int) -> Row:
    """A row without one of its columns."""
    return {c: a for c, a in row[0].items() if c != column}, row[1]


def combined(*parts: tuple[float, Row]) -> Row:
    """A linear combination of rows."""
    total: dict[int, float] = {}
    for factor, (row, _) in parts:
        for c, a in row.items():
            total[c] = total.get(c, 0.0) + factor * a
    constant = sum(factor * row[1] for factor, row in parts)
    # + 0.0: a minus sign before a zero would make equal rows differ
    return {c: a for c, a in total.items() if a != 0.0}, constant + 0.0
