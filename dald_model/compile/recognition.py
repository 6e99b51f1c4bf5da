r"""Recognition: which scalar functions the auxiliary variables of a cone program stand for.

cvxpy writes a function as the partial minimum of a cone program over auxiliary variables, for
example :math:`|u| = \min \{t : -t \le u \le t\}`. Auxiliary variables that share a cone belong
together. Each such component is compared, coefficient by coefficient, with what the functions of
:mod:`dald_model.compile.kinds` look like; a component that is none of them is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile import kinds
from dald_model.compile.components import Component, Recognised, Row, combined
from dald_model.compile.kinds.kind import Kind
from dald_model.compile.kinds.piecewise import dead_zone

CONES = {
    "zero": "ZeroConeT",
    "nonneg": "NonnegativeConeT",
    "soc": "SecondOrderConeT",
    "psd": "PSDTriangleConeT",
    "exp": "ExponentialConeT",
    "pow": "PowerConeT",
    "genpow": "GenPowerConeT",
}
"""Our word for a cone -> Clarabel's type."""
LINEAR = "zero", "nonneg"
"""Those whose rows Clarabel counts together."""


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
    rows: Any
    """What each is a sum of, of multiples of cvxpy's rows, (rows, cvxpy's)."""
    fixed: frozenset[int] = frozenset()
    """Columns of y that are data: of pieces without variables."""

    def with_rows(self, sums: Any) -> Canonical:
        """The same with sums of these rows, each in place of the first row in it.

        A row of a cone of several is a sum by itself.
        """
        known = {at: (kind, size) for kind, at, size in self.cones}
        firsts = enumerate(sums.indices[sums.indptr[:-1]].tolist())
        cones = [(known[at][0], row, known[at][1]) for row, at in firsts if at in known]
        counts = ((kind, sum(one == kind for one, *_ in cones)) for kind in LINEAR)
        linear = [(CONES[kind], count) for kind, count in counts if count]
        taken = [CONES[kind] for kind in LINEAR]
        return self._replace(
            A=sp.csr_array(sums @ self.A),
            b=sums @ self.b,
            cones=cones,
            arguments=(*linear, *(one for one in self.arguments if one[0] not in taken)),
            rows=sp.csr_array(sums @ self.rows),
        )


class Block(NamedTuple):
    r"""All recognised functions of one kind and width: :math:`\sum_t w_t \varphi(M y + o)`.

    ``linear`` and ``shift`` give the affine functions of y that are added with the same weights.
    """

    kind: Kind
    width: int
    matrix: sp.csr_array
    offset: np.ndarray
    linear: sp.csr_array
    shift: np.ndarray
    found: list[Recognised]
    levels: tuple[sp.csr_array, np.ndarray] | None
    """Of sets the affine functions of y that limit them, where there is data in them."""

    def weights(self, P: sp.csc_array, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights and the parameters for this objective, each (T,)."""
        return self.kind.sizes(self.found, P.diagonal(), q)


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
    valued: bool
    """Whether what is left are constraints: the objective is known in any case."""


def recognise(problem: Canonical) -> Structure:
    """Explain the auxiliary variables and rows of a cone program as far as possible."""
    stated = _rows(problem)
    cones = [[stated[r] for r in range(at, at + size)] for _, at, size in problem.cones]
    touched = [sorted({c for row, _ in cone for c in row if c >= problem.own}) for cone in cones]
    found: list[Recognised] = []
    complete = valued = True
    extra: list[int] = []
    linear: list[int] = []
    halves: list[int] = []
    for columns, members in _components(problem, touched):
        component = _component(problem, columns, members, cones)
        read = _explain(component) if component else []
        if read:
            found += read
        elif component and component.half_line is not None:
            halves.append(component.half_line)
        elif _is_linear(problem, columns, members):
            extra += columns
            linear += members
        else:
            complete = False
            valued &= not problem.q[columns].any() and not problem.P[:, columns].count_nonzero()
    definite = [f.arguments for f in found if f.kind.is_joint and f.kind.is_positive]
    plain = [
        cone
        for cone, columns, own in zip(problem.cones, touched, cones, strict=True)
        if not columns and not _holds(cone[0], own)
        if cone[0] != "psd" or not _are_definite(own, definite, problem.cones, cones)
    ]
    plain = sorted([*plain, *(problem.cones[k] for k in linear)], key=lambda cone: cone[1])
    zero = [at for kind, at, _ in plain if kind == "zero"]
    nonneg = [at for kind, at, _ in plain if kind == "nonneg"]
    complete &= len(zero) + len(nonneg) == len(plain)
    nonneg = sorted([*nonneg, *halves])
    keys = dict.fromkeys((f.kind, len(f.arguments)) for f in found)
    blocks = [
        _block([f for f in found if (f.kind, len(f.arguments)) == key], problem.own) for key in keys
    ]
    rows = np.array(zero, int), np.array(nonneg, int)
    return Structure(blocks, *rows, np.array(extra, int), complete, valued)


class Level(NamedTuple):
    r"""Known functions in a constraint, :math:`\sum_t w_t \varphi_t(M y + o) \le l^\top y + d`.

    Attributes
    ----------
    row : int
        The program's row that bounds them, whose multiplier is that of the constraint.
    bound : Row
        The right-hand side.
    problem, structure : Canonical, Structure
        The functions, as if their sum were the objective.
    """

    row: int
    bound: Row
    problem: Canonical
    structure: Structure


TRIED = 2
"""Rows of a component that may bound it: the one with variables, or the one with most columns."""


def with_levels(problem: Canonical) -> tuple[Canonical, Structure, list[Level]] | None:
    """A program as what :func:`recognise` knows and levels; None where it is more than these.

    Its ``rows`` are those of the given program.
    """
    problem = problem._replace(rows=sp.eye_array(problem.b.size, format="csr"))
    stated = _rows(problem)
    cones = [[stated[r] for r in range(at, at + size)] for _, at, size in problem.cones]
    touched = [sorted({c for row, _ in cone for c in row if c >= problem.own}) for cone in cones]
    found, of_levels, taken = list[Level](), set[int](), set[int]()
    for columns, members in _components(problem, touched):
        is_free = not problem.q[columns].any() and not problem.P[:, columns].count_nonzero()
        if not is_free or _is_linear(problem, columns, members):
            continue
        bounds = [k for k in members if problem.cones[k][0] == "nonneg"]
        bounds.sort(key=lambda k: (min(cones[k][0][0]) >= problem.own, -len(touched[k])))
        tried = (_level(problem, columns, members, k, cones[k][0]) for k in bounds[:TRIED])
        level = next((one for one in tried if one is not None), None)
        if level is None:
            return None
        found.append(level)
        of_levels.update(members)
        taken.update(columns)
    rest = [k for k in range(len(cones)) if k not in of_levels]
    left = [c for c in range(problem.own, problem.q.size) if c not in taken]
    part = _part(problem, left, rest, problem.q)
    structure = recognise(part)
    return (part, structure, found) if structure.complete else None


def _level(
    problem: Canonical, columns: list[int], members: list[int], bound: int, row: Row
) -> Level | None:
    """A component as functions that one of its rows bounds; None if they are not known."""
    cost = np.zeros(problem.q.size)
    for column in columns:
        cost[column] = -row[0].get(column, 0.0)
    part = _part(problem, columns, [k for k in members if k != bound], cost)
    structure = recognise(part)
    if not structure.complete or structure.zero.size or structure.nonneg.size:
        return None
    own = {column: a for column, a in row[0].items() if column < problem.own}
    return Level(problem.cones[bound][1], (own, row[1]), part, structure)


def _part(
    problem: Canonical, columns: list[int], members: list[int], cost: np.ndarray
) -> Canonical:
    """Some cones of a program and the columns that only they hold, with these costs."""
    kept = [*range(problem.own), *columns]
    chosen = [problem.cones[k] for k in members]
    sizes = [size for _, _, size in chosen]
    starts = np.cumsum([0, *sizes]).tolist()
    rows = [r for _, at, size in chosen for r in range(at, at + size)]
    return problem._replace(
        P=sp.csc_array(problem.P[:, kept][kept]),
        q=cost[kept],
        A=sp.csr_array(problem.A[rows][:, kept]),
        b=problem.b[rows],
        cones=[(one[0], at, one[2]) for one, at in zip(chosen, starts, strict=False)],
        rows=problem.rows[rows],
    )


def _is_linear(problem: Canonical, columns: list[int], members: list[int]) -> bool:
    """Whether a component is a polyhedron: linear rows, and neither cost nor curvature."""
    if any(problem.cones[k][0] not in LINEAR for k in members):
        return False
    return not problem.q[columns].any() and not problem.P[:, columns].count_nonzero()


def _holds(kind: str, rows: list[Row]) -> bool:
    """Whether a cone says nothing about the variables and is met."""
    (row, constant), *others = rows
    if others or row:
        return False
    return constant == 0.0 if kind == "zero" else kind == "nonneg" and constant >= 0.0


def _are_definite(
    rows: list[Row],
    matrices: list[list[Row]],
    kinds_of: list[tuple[str, int, int]],
    stated: list[list[Row]],
) -> bool:
    """Whether a matrix is one of those that are in a domain of definite ones, by its equalities."""
    same: dict[int, int] = {}
    for (kind, _, _), (row, *_) in zip(kinds_of, stated, strict=True):
        if kind == "zero" and not row[1] and sorted(row[0].values()) == [-1.0, 1.0]:
            first, second = sorted(row[0])
            same[second] = same.get(first, first)
    own, *others = (
        [
            combined(*((1.0, ({same.get(c, c): a}, 0.0)) for c, a in row.items()), (1.0, ({}, b)))
            for row, b in matrix
        ]
        for matrix in (rows, *matrices)
    )
    return own in others


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


def _component(
    problem: Canonical, columns: list[int], members: list[int], stated: list[list[Row]]
) -> Component | None:
    """Columns and cones for the kinds to read; None if the columns are in a quadratic of others."""
    P, own = problem.P, problem.own
    block = P[:, columns].tocoo()
    if any(own > r or columns[c] != r for r, c in zip(*block.coords, strict=True)):
        return None  # only a diagonal quadratic of its own is known
    bend = {c: float(P[c, c]) for c in columns}
    cones = [(problem.cones[k][0], stated[k]) for k in members]
    rows = [problem.cones[k][1] for k in members]
    return Component(problem.q, bend, columns, cones, own, rows, problem.fixed)


def _explain(component: Component) -> list[Recognised]:
    """The functions whose sum a component stands for; none if it is none of ours."""
    readings = (kind.read(component) for kind in kinds.KINDS)
    one = next((one for one in readings if one is not None), None)
    return dead_zone(component) if one is None else [one]


def _block(found: list[Recognised], own: int) -> Block:
    rows = [row for f in found for row in f.arguments]
    linear = [f.linear or ({}, 0.0) for f in found]
    width = max(len(found[0].arguments), 1)
    limits = [f.level or ({}, 0.0) for f in found]
    levels = _matrix(limits, own) if any(row for row, _ in limits) else None
    return Block(found[0].kind, width, *_matrix(rows, own), *_matrix(linear, own), found, levels)


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
