r"""Auxiliary columns between affine functions, eliminated from a cone program.

cvxpy writes :math:`\max_i l_i(y) \le u(y)`, and with it limits of absolute values, of positive
parts and of largest entries, with a column more: :math:`l_i(y) \le t \le u(y)`. Elimination by
Fourier and Motzkin puts in place of these rows

.. math:: l_i(y) \le u(y) \quad\text{for each } i,

whose multipliers are those of :math:`l_i(y) \le t`, and their sum is that of :math:`t \le u(y)`,
in whose units they are.
Columns that rows tie together go all or none, and only where neither rows nor numbers become more:
of :math:`\|x\|_1 \le 1` in many entries they stay.

Source: G. Dantzig and B. C. Eaves, Fourier-Motzkin elimination and its dual, 1973.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.recognition import LINEAR, Canonical
from dald_model.sizes import ROUNDING

Entries = dict[int, float]
Combination = tuple[Entries, Entries]
"""The entries of a row, and which sum it is of multiples of the program's rows."""


def without_bounded(problem: Canonical) -> Canonical:
    """A program without the columns that can go; see the module.

    One with other cones, of which the rows are mostly left to a cone solver, stays as it is: dual
    values of limits 1e12 away then proved less.
    """
    if any(kind not in LINEAR for kind, _, _ in problem.cones):
        return problem
    gone, replaced, made = list[int](), set[int](), list[Entries]()
    for columns, rows in _polyhedra(problem):
        left = _eliminated(columns, [(_entries(problem.A, row), {row: 1.0}) for row in rows])
        if left is not None:
            gone += columns
            replaced.update(rows)
            made += left
    if not gone:
        return problem
    each = [*({row: 1.0} for row in range(problem.b.size) if row not in replaced), *made]
    each = [dict(sorted(one.items())) for one in sorted(each, key=min)]
    data = [a for one in each for a in one.values()]
    indices = [row for one in each for row in one]
    stops = np.cumsum([0, *map(len, each)])
    sums = sp.csr_array((data, indices, stops), shape=(len(each), problem.b.size))
    kept = np.setdiff1d(np.arange(problem.q.size), gone)
    found = problem.with_rows(sums)
    is_left = abs(found.A) > ROUNDING * (sums @ abs(problem.A))
    A = sp.csr_array(found.A.multiply(is_left))[:, kept]
    return found._replace(P=sp.csc_array(problem.P[kept][:, kept]), q=problem.q[kept], A=A)


def _polyhedra(problem: Canonical) -> Iterator[tuple[list[int], list[int]]]:
    """Auxiliary columns that hang together in inequalities alone, without costs, and these."""
    own, extra = problem.own, problem.q.size - problem.own
    if not extra:
        return
    stated = sp.coo_array(problem.A[:, own:])
    inequality = np.zeros(problem.b.size, dtype=bool)
    inequality[[at for kind, at, _ in problem.cones if kind == "nonneg"]] = True
    costs = problem.q[own:] != 0
    costs |= np.diff(sp.csc_array(problem.P).indptr)[own:] > 0
    costs[stated.col[~inequality[stated.row]]] = True
    places = stated.row + extra, stated.col
    graph = sp.coo_array((np.ones(stated.nnz), places), shape=(extra + problem.b.size,) * 2)
    labels = connected_components(graph, directed=False)[1]
    free = np.setdiff1d(labels[:extra], labels[:extra][costs])
    order = np.argsort(labels, kind="stable")
    for which in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        if labels[which[0]] in free:
            at = np.searchsorted(which, extra)
            yield (which[:at] + own).tolist(), (which[at:] - extra).tolist()


def _eliminated(columns: list[int], rows: list[Combination]) -> list[Entries] | None:
    """The rows without columns, as sums of the program's; None if one of the columns stays."""
    known, number = dict[int, Combination](), count()
    stands = {column: set[int]() for column in columns}

    def enter(row: Combination) -> None:
        known[at := next(number)] = row
        for column in row[0].keys() & stands.keys():
            stands[column].add(at)

    for row in rows:
        enter(row)
    while stands:
        held = ((column, [known[at] for at in sorted(where)]) for column, where in stands.items())
        column, given = next(((c, some) for c, some in held if _is_short(some, c)), (None, []))
        if column is None:
            return None
        for at in stands.pop(column):
            for other in known.pop(at)[0].keys() & stands.keys():
                stands[other].discard(at)
        above, below = _sides(given, column)
        for one, two in product(above, below):  # the one that others are below is the user's
            enter(_without(one, two, column, is_above=len(above) == 1))
    return [sums for _, sums in known.values()]


def _sides(rows: list[Combination], column: int) -> tuple[list[Combination], list[Combination]]:
    """Those that bound a column from above, and from below."""
    above = [row for row in rows if row[0][column] > 0]
    return above, [row for row in rows if row[0][column] < 0]


def _is_short(rows: list[Combination], column: int) -> bool:
    """Whether without a column neither rows nor their entries become more."""
    above, below = _sides(rows, column)
    if len(above) * len(below) > len(rows):
        return False
    made = sum(len(one[0]) + len(two[0]) - 2 for one, two in product(above, below))
    return made <= sum(len(entries) for entries, _ in rows)


def _without(above: Combination, below: Combination, column: int, *, is_above: bool) -> Combination:
    """The sum of multiples of two rows in which a column cancels, in the units of one."""
    unit = above[0][column] if is_above else -below[0][column]
    factors = unit / above[0][column], -unit / below[0][column]
    found = dict[int, float](), dict[int, float]()
    for row, factor in zip((above, below), factors, strict=True):
        for own, added in zip(found, row, strict=True):
            for key, a in added.items():
                own[key] = own.get(key, 0.0) + factor * a
    found[0].pop(column)
    return found


def _entries(matrix: sp.csr_array, row: int) -> Entries:
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    pairs = zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True)
    return {column: a for column, a in pairs if a}
