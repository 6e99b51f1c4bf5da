r"""Patterns: what each known function looks like as a component of a cone program.

A reader is given the cost q and the diagonal of the Hessian, the auxiliary columns of a component
and its cones, and says which function they stand for, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Row = tuple[dict[int, float], float]
"""One row of :math:`b - A v`: column -> coefficient, and the constant."""


class Recognised(NamedTuple):
    """One recognised function of y: ``weight * kind(arguments) + weight * linear``."""

    kind: str
    arguments: list[Row]
    linear: Row | None
    epigraph: int
    scale: float
    curved: int = -1
    factor: float = 0.0
    row: int = -1
    """The row that bounds a ball; its multiplier is ``gain`` times that of the norm."""
    gain: float = 0.0


Cones = list[tuple[str, list[Row]]]


def _maximum(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Recognised | None:
    r"""Two rows t >= l_1, t >= l_2: :math:`\max(l_1, l_2) = (l_1 + l_2 + |l_1 - l_2|)/2`."""
    if len(columns) != 1 or any(kind != "nonneg" for kind, _ in cones) or len(cones) > 2:
        return None
    top = columns[0]
    rows = [rows[0] for _, rows in cones]
    if not rows or any(row[0][top] <= 0 for row in rows):
        return None
    pieces = [combined((-1 / row[0][top], _without(row, top))) for row in rows]
    if bend[top] == 0.0 and q[top] > 0:
        if len(pieces) == 1:
            return Recognised("linear", [], pieces[0], top, 1.0)
        one, two = pieces
        gap, mean = combined((1.0, one), (-1.0, two)), combined((1.0, one), (1.0, two))
        return Recognised("abs", [gap], mean, top, 0.5)
    if bend[top] > 0 and q[top] == 0 and len(pieces) == 2:
        live = [piece for piece in pieces if piece[0]]
        if len(live) == 1 and ({}, 0.0) in pieces:
            return Recognised("hinge", live, None, top, 1.0)
    return None


def _huber(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Recognised | None:
    r"""Rows n + s = u, |s| <= t, cost n^2 p/2 + c t: p times huber of u with bound c / p."""
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
    if {c for c in tie[0] if c >= own} != {n, s}:
        return None
    if any(set(row) != {t, s} or constant for row, constant in pair):
        return None
    ratios = sorted(row[s] / row[t] for row, _ in pair)
    if any(row[t] <= 0 for row, _ in pair) or ratios[0] != -ratios[1] or ratios[1] <= 0:
        return None
    inner = combined((-1 / tie[0][s], _without(_without(tie, n), s)))
    return Recognised("huber", [inner], None, t, ratios[1], n, (tie[0][s] / tie[0][n]) ** 2)


def _exponential(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Recognised | None:
    r"""One exponential cone :math:`s_2 e^{s_1/s_2} \le s_3`: exp, -log or the entropy of y."""
    if len(columns) != 1 or [kind for kind, _ in cones] != ["exp"] or bend[columns[0]]:
        return None
    t, (one, two, three) = columns[0], cones[0][1]
    tops = three[0].get(t, 0.0)
    if q[t] > 0 and two == ({}, 1.0) and three == ({t: tops}, 0.0) and tops > 0 and t not in one[0]:
        return Recognised("exp", [one], None, t, 1 / tops)
    if set(one[0]) != {t} or one[1] or one[0][t] <= 0 or q[t] >= 0:
        return None
    scale = 1 / one[0][t]
    if two == ({}, 1.0) and t not in three[0]:
        return Recognised("log", [three], None, t, scale)
    if not three[0] and three[1] > 0 and t not in two[0]:
        return Recognised("entropy", [two], combined((-np.log(three[1]), two)), t, scale)
    return None


def _logsumexp(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Recognised | None:
    r""":math:`(u_k - t, 1, w_k) \in K_{exp}`, :math:`\sum w_k \le 1`: the least t is logsumexp."""
    exps = [rows for kind, rows in cones if kind == "exp"]
    rest = [rows[0] for kind, rows in cones if kind == "nonneg"]
    if len(rest) != 1 or len(exps) + 1 != len(cones) or len(exps) < 2 or any(bend.values()):
        return None
    tops = [c for c in columns if q[c] > 0]
    parts = [c for c in columns if c not in tops]
    if len(tops) != 1 or any(q[c] for c in parts) or len(parts) != len(exps):
        return None
    t = tops[0]
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
        arguments.append(_without(one, t))
    if len(seen) != len(parts):
        return None
    if len(arguments) == 2 and ({}, 0.0) in arguments:
        live = arguments[1 - arguments.index(({}, 0.0))]
        return Recognised("logistic", [live], None, t, 1.0)
    return Recognised("logsumexp", arguments, None, t, 1.0)


def _norm(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Recognised | None:
    r"""One second-order cone :math:`\|u\|_2 \le t` with cost on t."""
    if len(columns) != 1 or [kind for kind, _ in cones] != ["soc"] or bend[columns[0]]:
        return None
    t, (first, *others) = columns[0], cones[0][1]
    if set(first[0]) != {t} or first[1] or first[0][t] <= 0 or q[t] <= 0:
        return None
    if any(t in row for row, _ in others):
        return None
    return Recognised("norm", others, None, t, 1 / first[0][t])


def ball(columns: list[int], cones: Cones, at: list[int]) -> Recognised | None:
    r"""Rows :math:`\|u\|_2 \le t` or :math:`\|u\|_2^2 \le t`, and t <= r without cost on t."""
    if len(columns) != 1 or sorted(kind for kind, _ in cones) != ["nonneg", "soc"]:
        return None
    t = columns[0]
    limit = [kind for kind, _ in cones].index("nonneg")
    (bounding, room), (first, *others) = cones[limit][1][0], cones[1 - limit][1]
    if set(bounding) != {t} or bounding[t] >= 0 or room <= 0:
        return None
    most, factor = room / -bounding[t], -bounding[t]
    if set(first[0]) == {t} and not first[1] and first[0][t] > 0:
        if any(t in row for row, _ in others):
            return None
        reach = first[0][t]
        radius, unit = most * reach, factor / reach
        return Recognised("ball", others, None, t, radius, -1, unit, at[limit], 1 / unit)
    if first == ({t: 1.0}, 1.0) and others[0] == ({t: -1.0}, 1.0):
        halved = [combined((0.5, row)) for row in others[1:]]
        if not halved or any(t in row for row, _ in halved):
            return None
        radius = float(np.sqrt(most))
        gain = 0.5 / radius / factor
        return Recognised("square ball", halved, None, t, radius, -1, factor, at[limit], gain)
    return None


Reader = Callable[[np.ndarray, "dict[int, float]", "list[int]", Cones, int], "Recognised | None"]
READERS: tuple[Reader, ...] = (_maximum, _huber, _exponential, _logsumexp, _norm)
"""What a component without one of these may be besides: a ball, see :func:`ball`."""


def _without(row: Row, column: int) -> Row:
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
