r"""Recognise: which scalar functions the auxiliary variables of a cone program stand for.

cvxpy writes a function as the partial minimum of a cone program over auxiliary variables, for
example :math:`|u| = \min \{t : -t \le u \le t\}`. Auxiliary variables that share a cone belong
together. Each such component is compared, coefficient by coefficient, with what the functions of
:class:`dald_model.form.Term` look like; a component that is none of them is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

Row = tuple[dict[int, float], float]
"""One row of :math:`b - A v`: column -> coefficient, and the constant."""


class Canonical(NamedTuple):
    r"""A cone program over :math:`v = (y, \text{auxiliary})` in Clarabel's form.

    :math:`\min \tfrac12 v^\top P v + q^\top v + d` subject to :math:`b - A v \in K`; ``cones``
    lists (kind, first row, rows) with the kinds "zero", "nonneg" (one row each), "soc", "exp",
    "psd", "pow", "genpow", and ``arguments`` what Clarabel's cones take.
    """

    P: Any
    q: np.ndarray
    d: float
    A: Any
    b: np.ndarray
    cones: list[tuple[str, int, int]]
    arguments: tuple[tuple[str, object], ...]
    own: int
    """How many of the columns are y."""


class Found(NamedTuple):
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


class Block(NamedTuple):
    r"""All recognised functions of one kind and width: :math:`\sum_t w_t \varphi(M y + o)`.

    ``linear`` and ``shift`` give the affine functions of y that are added with the same weights.
    """

    kind: str
    width: int
    matrix: sp.csr_array
    offset: np.ndarray
    linear: sp.csr_array
    shift: np.ndarray
    found: list[Found]

    def weights(self, P: sp.csc_array, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights, and the bounds of huber functions, for this objective; each (T,)."""
        tops = np.array([f.epigraph for f in self.found])
        scale = np.array([f.scale for f in self.found])
        if self.kind == "ball":
            return np.array([f.factor for f in self.found]), scale
        diagonal = P.diagonal()
        if self.kind == "huber":
            weight = diagonal[[f.curved for f in self.found]] * [f.factor for f in self.found]
            return weight, q[tops] * scale / weight
        weight = (diagonal[tops] if self.kind == "hinge" else np.abs(q[tops])) * scale
        return weight, np.zeros(tops.size)


class Structure(NamedTuple):
    """What was recognised: blocks, and the rows and columns that they do not explain."""

    blocks: list[Block]
    zero: np.ndarray
    """Rows of y and of the extra columns that must vanish."""
    nonneg: np.ndarray
    """Rows of y and of the extra columns that must be nonnegative."""
    extra: np.ndarray
    """Auxiliary columns without cost that stand in linear rows only, as for norm1(x) <= 1."""
    complete: bool
    """Whether nothing else is left."""


def recognise(problem: Canonical) -> Structure:
    """Explain the auxiliary variables and rows of a cone program as far as possible."""
    stated = _rows(problem)
    cones = [[stated[r] for r in range(at, at + size)] for _, at, size in problem.cones]
    touched = [sorted({c for row, _ in cone for c in row if c >= problem.own}) for cone in cones]
    found: list[Found] = []
    complete = True
    extra: list[int] = []
    linear: list[int] = []
    for columns, members in _components(problem, touched):
        one = _explain(
            problem, columns, [(problem.cones[k][0], cones[k]) for k in members], members
        )
        if one is not None:
            found.append(one)
        elif _is_linear(problem, columns, members):
            extra += columns
            linear += members
        else:
            complete = False
    plain = [
        cone
        for cone, columns, own in zip(problem.cones, touched, cones, strict=True)
        if not columns and not _holds(cone[0], own)
    ]
    plain = sorted([*plain, *(problem.cones[k] for k in linear)], key=lambda cone: cone[1])
    zero = [at for kind, at, _ in plain if kind == "zero"]
    nonneg = [at for kind, at, _ in plain if kind == "nonneg"]
    complete &= len(zero) + len(nonneg) == len(plain)
    kinds = dict.fromkeys((f.kind, len(f.arguments)) for f in found)
    blocks = [
        _block([f for f in found if (f.kind, len(f.arguments)) == key], problem.own)
        for key in kinds
    ]
    rows = np.array(zero, int), np.array(nonneg, int)
    return Structure(blocks, *rows, np.array(extra, int), complete)


def _is_linear(problem: Canonical, columns: list[int], members: list[int]) -> bool:
    """Whether a component is a polyhedron: linear rows, and neither cost nor curvature."""
    if any(problem.cones[k][0] not in ("zero", "nonneg") for k in members):
        return False
    return not problem.q[columns].any() and not problem.P[:, columns].count_nonzero()


def _holds(kind: str, rows: list[Row]) -> bool:
    """Whether a cone says nothing about the variables and is met."""
    (row, constant), *others = rows
    if others or row:
        return False
    return constant == 0.0 if kind == "zero" else kind == "nonneg" and constant >= 0.0


def _rows(problem: Canonical) -> list[Row]:
    """The rows of b - A v."""
    A, found = problem.A, []
    for at, (start, stop) in enumerate(zip(A.indptr[:-1], A.indptr[1:], strict=True)):
        entries = zip(A.indices[start:stop].tolist(), A.data[start:stop].tolist(), strict=True)
        found.append(({c: -a for c, a in entries if a != 0.0}, float(problem.b[at])))
    return found


def _components(
    problem: Canonical, touched: list[list[int]]
) -> Iterable[tuple[list[int], list[int]]]:
    """Auxiliary columns that belong together, with the cones that hold them."""
    extra = problem.q.size - problem.own
    if not extra:
        return []
    pairs = [(c - problem.own, k) for k, columns in enumerate(touched) for c in columns]
    coupled = sp.coo_array(problem.P[problem.own :, problem.own :])
    from_cones = np.array(pairs, dtype=int).reshape(-1, 2)
    graph = sp.coo_array(
        (
            np.ones(len(pairs) + coupled.nnz),
            (
                np.concatenate([from_cones[:, 0], coupled.coords[0]]),
                np.concatenate([from_cones[:, 1] + extra, coupled.coords[1]]),
            ),
        ),
        shape=(extra + len(touched), extra + len(touched)),
    )
    labels = connected_components(graph, directed=False)[1]
    members: dict[int, tuple[list[int], list[int]]] = {}
    for column, label in enumerate(labels[:extra]):
        members.setdefault(label, ([], []))[0].append(column + problem.own)
    for cone, label in enumerate(labels[extra:]):
        if label in members:
            members[label][1].append(cone)
    return members.values()


Cones = list[tuple[str, list[Row]]]


def _explain(
    problem: Canonical, columns: list[int], cones: Cones, members: list[int]
) -> Found | None:
    """The function that a component stands for, None if it is none of ours."""
    P, own = problem.P, problem.own
    block = P[:, columns].tocoo()
    if any(problem.own > r or columns[c] != r for r, c in zip(*block.coords, strict=True)):
        return None  # only a diagonal quadratic of its own is known
    bend = {c: float(P[c, c]) for c in columns}
    for reader in READERS:
        one = reader(problem.q, bend, columns, cones, own)
        if one is not None:
            return one
    if any(problem.q[c] or bend[c] for c in columns):
        return None
    return _ball(columns, cones, [problem.cones[k][1] for k in members])


def _maximum(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Found | None:
    r"""Two rows t >= l_1, t >= l_2: :math:`\max(l_1, l_2) = (l_1 + l_2 + |l_1 - l_2|)/2`."""
    if len(columns) != 1 or any(kind != "nonneg" for kind, _ in cones) or len(cones) > 2:
        return None
    top = columns[0]
    rows = [rows[0] for _, rows in cones]
    if not rows or any(row[0][top] <= 0 for row in rows):
        return None
    pieces = [_combined((-1 / row[0][top], _without(row, top))) for row in rows]
    if bend[top] == 0.0 and q[top] > 0:
        if len(pieces) == 1:
            return Found("linear", [], pieces[0], top, 1.0)
        one, two = pieces
        gap, mean = _combined((1.0, one), (-1.0, two)), _combined((1.0, one), (1.0, two))
        return Found("abs", [gap], mean, top, 0.5)
    if bend[top] > 0 and q[top] == 0 and len(pieces) == 2:
        live = [piece for piece in pieces if piece[0]]
        if len(live) == 1 and ({}, 0.0) in pieces:
            return Found("hinge", live, None, top, 1.0)
    return None


def _huber(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Found | None:
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
    slopes = sorted(row[s] / row[t] for row, _ in pair)
    if any(row[t] <= 0 for row, _ in pair) or slopes[0] != -slopes[1] or slopes[1] <= 0:
        return None
    inner = _combined((-1 / tie[0][s], _without(_without(tie, n), s)))
    return Found("huber", [inner], None, t, slopes[1], n, (tie[0][s] / tie[0][n]) ** 2)


def _exponential(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Found | None:
    r"""One exponential cone :math:`s_2 e^{s_1/s_2} \le s_3`: exp, -log or the entropy of y."""
    if len(columns) != 1 or [kind for kind, _ in cones] != ["exp"] or bend[columns[0]]:
        return None
    t, (one, two, three) = columns[0], cones[0][1]
    tops = three[0].get(t, 0.0)
    if q[t] > 0 and two == ({}, 1.0) and three == ({t: tops}, 0.0) and tops > 0 and t not in one[0]:
        return Found("exp", [one], None, t, 1 / tops)
    if set(one[0]) != {t} or one[1] or one[0][t] <= 0 or q[t] >= 0:
        return None
    scale = 1 / one[0][t]
    if two == ({}, 1.0) and t not in three[0]:
        return Found("log", [three], None, t, scale)
    if not three[0] and three[1] > 0 and t not in two[0]:
        return Found("entropy", [two], _combined((-np.log(three[1]), two)), t, scale)
    return None


def _logsumexp(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Found | None:
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
        return Found("logistic", [live], None, t, 1.0)
    return Found("logsumexp", arguments, None, t, 1.0)


def _norm(
    q: np.ndarray, bend: dict[int, float], columns: list[int], cones: Cones, own: int
) -> Found | None:
    r"""One second-order cone :math:`\|u\|_2 \le t` with cost on t."""
    if len(columns) != 1 or [kind for kind, _ in cones] != ["soc"] or bend[columns[0]]:
        return None
    t, (first, *others) = columns[0], cones[0][1]
    if set(first[0]) != {t} or first[1] or first[0][t] <= 0 or q[t] <= 0:
        return None
    if any(t in row for row, _ in others):
        return None
    return Found("norm", others, None, t, 1 / first[0][t])


def _ball(columns: list[int], cones: Cones, at: list[int]) -> Found | None:
    r"""Rows :math:`\|u\|_2 \le t` or :math:`\|u\|_2^2 \le t`, and t <= r without cost on t."""
    if len(columns) != 1 or sorted(kind for kind, _ in cones) != ["nonneg", "soc"]:
        return None
    t = columns[0]
    limit = [kind for kind, _ in cones].index("nonneg")
    (bounding, room), (first, *others) = cones[limit][1][0], cones[1 - limit][1]
    if set(bounding) != {t} or bounding[t] >= 0 or room <= 0:
        return None
    most, slope = room / -bounding[t], -bounding[t]
    if set(first[0]) == {t} and not first[1] and first[0][t] > 0:
        if any(t in row for row, _ in others):
            return None
        reach = first[0][t]
        return Found("ball", others, None, t, most * reach, -1, 1.0, at[limit], reach / slope)
    if first == ({t: 1.0}, 1.0) and others[0] == ({t: -1.0}, 1.0):
        halved = [_combined((0.5, row)) for row in others[1:]]
        if not halved or any(t in row for row, _ in halved):
            return None
        radius = float(np.sqrt(most))
        return Found("ball", halved, None, t, radius, -1, 2.0, at[limit], 0.5 / radius / slope)
    return None


Reader = Callable[[np.ndarray, "dict[int, float]", "list[int]", Cones, int], "Found | None"]
READERS: tuple[Reader, ...] = (_maximum, _huber, _exponential, _logsumexp, _norm)
"""What a component without one of these may be besides: a ball, see :func:`_ball`."""


def _without(row: Row, column: int) -> Row:
    return {c: a for c, a in row[0].items() if c != column}, row[1]


def _combined(*parts: tuple[float, Row]) -> Row:
    total: dict[int, float] = {}
    for factor, (row, _) in parts:
        for c, a in row.items():
            total[c] = total.get(c, 0.0) + factor * a
    constant = sum(factor * row[1] for factor, row in parts)
    # + 0.0: a minus sign before a zero would make equal rows differ
    return {c: a for c, a in total.items() if a != 0.0}, constant + 0.0


def _block(found: list[Found], own: int) -> Block:
    rows = [row for f in found for row in f.arguments]
    linear = [f.linear or ({}, 0.0) for f in found]
    width = max(len(found[0].arguments), 1)
    return Block(found[0].kind, width, *_matrix(rows, own), *_matrix(linear, own), found)


def _matrix(rows: list[Row], columns: int) -> tuple[sp.csr_array, np.ndarray]:
    entries = [(i, c, a) for i, (row, _) in enumerate(rows) for c, a in row.items()]
    at, to, values = (
        (np.array(part) for part in zip(*entries, strict=True))
        if entries
        else (
            np.empty(0, int),
            np.empty(0, int),
            np.empty(0),
        )
    )
    matrix = sp.csr_array((values.astype(float), (at, to)), shape=(len(rows), columns))
    return matrix, np.array([constant for _, constant in rows])
