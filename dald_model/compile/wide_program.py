r"""The cone program of all rows from that of one row of every group.

What a cone ties together belongs together: auxiliary columns and cones are of the group whose
entries they stand beside, and come as often as it has rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.recognition import Canonical
from dald_model.compile.row_replication import (
    APART,
    NotRowByRowError,
    Repeats,
    RowReplication,
    repeated,
)

REPEATED = -1
"""In place of cvxpy's row, where there are many of it."""

TOGETHER = {"zero": "ZeroConeT", "nonneg": "NonnegativeConeT"}
"""The cones whose rows Clarabel counts together -> its own word."""


class Layout(NamedTuple):
    """Where the rows and columns of a problem come among those of all rows of the data.

    Attributes
    ----------
    rows, columns : Repeats
    copies : ndarray of int
        How often each cone comes.
    is_repeated : ndarray of bool
        Of every row.
    """

    rows: Repeats
    columns: Repeats
    copies: np.ndarray
    is_repeated: np.ndarray


class Groups(NamedTuple):
    """The cone of every row of a problem, and the groups of its auxiliary columns and cones."""

    owner: np.ndarray
    auxiliary: np.ndarray
    of_cones: np.ndarray
    cells: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Rows, columns and values of A."""
    diagonal: np.ndarray | None
    """That of P in auxiliary columns; None where P has more there."""


def groups_of(problem: Canonical, replication: RowReplication) -> Groups:
    """Those of a problem, which are the same for all numbers of rows.

    Raises
    ------
    NotRowByRowError
        If a cone ties entries of several groups together, or of a group and others.
    """
    owner, A, P = _owners(problem), sp.coo_array(problem.A), sp.coo_array(problem.P)
    row, column = P.coords
    is_added = (row >= problem.own) | (column >= problem.own)
    is_diagonal = (row == column)[is_added].all()
    diagonal = problem.P.diagonal()[problem.own :] if is_diagonal else None
    return Groups(owner, *_groups(problem, replication, owner), (A.row, A.col, A.data), diagonal)


def layout_of(problem: Canonical, groups: Groups, replication: RowReplication) -> Layout:
    """Where everything comes, for the numbers of rows of a client."""
    owner, auxiliary, of_cones = groups[:3]
    counts = replication.counts(auxiliary)
    base = np.concatenate([replication.entries.base, replication.size + np.cumsum(counts) - counts])
    columns = replication.columns(base, np.concatenate([replication.group, auxiliary]))
    sizes = np.array([size for _, _, size in problem.cones], dtype=int)
    starts = np.array([start for _, start, _ in problem.cones], dtype=int)
    copies = replication.counts(of_cones)
    firsts = np.cumsum(sizes * copies) - sizes * copies
    within = np.arange(owner.size) - starts[owner]
    rows = Repeats(firsts[owner] + within, sizes[owner], copies[owner])
    return Layout(rows, columns, copies, of_cones[owner] != APART)


def wide_program(problem: Canonical, replication: RowReplication, layout: Layout) -> Canonical:
    """The same program over all rows; in its ``rows`` stands :data:`REPEATED` for repeated ones."""
    rows, columns, copies, is_repeated = layout
    return Canonical(
        sp.csc_array(repeated(problem.P, columns, columns)),
        columns.vector(problem.q),
        problem.d,
        repeated(problem.A, rows, columns),
        rows.vector(problem.b),
        _repeated_cones(problem, copies),
        repeated_arguments(problem, copies),
        replication.size,
        rows.vector(np.where(is_repeated, REPEATED, problem.rows)),
    )


def _owners(problem: Canonical) -> np.ndarray:
    """The cone of every row."""
    found = np.zeros(problem.b.size, dtype=int)
    for cone, (_, start, size) in enumerate(problem.cones):
        found[start : start + size] = cone
    return found


def _groups(
    problem: Canonical, replication: RowReplication, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The groups of the auxiliary columns and of the cones."""
    own, width = problem.own, problem.q.size
    row, column = sp.coo_array(problem.A).coords
    one, two = sp.coo_array(problem.P).coords
    # Nodes are columns and cones. Entries of no group tie nothing together.
    first = np.concatenate([column, one])
    second = np.concatenate([owner[row] + width, two])
    is_apart = np.zeros(width + len(problem.cones), dtype=bool)
    is_apart[:own] = replication.group == APART
    ties = ~(is_apart[first] | is_apart[second])
    graph = sp.coo_array(
        (np.ones(int(ties.sum())), (first[ties], second[ties])), shape=(is_apart.size,) * 2
    )
    labels = connected_components(graph, directed=False)[1]
    found = np.full(is_apart.size, APART)
    found[labels[:own]] = np.maximum(found[labels[:own]], replication.group)
    group = found[labels]
    beside = np.concatenate([second[is_apart[first]], first[is_apart[second]]])
    if (group[:own] != replication.group).any() or (group[beside] != APART).any():
        raise NotRowByRowError
    return group[own:width], group[width:]


def _repeated_cones(problem: Canonical, copies: np.ndarray) -> list[tuple[str, int, int]]:
    """The cones one after the other."""
    start, cones = 0, []
    for (kind, _, size), count in zip(problem.cones, copies.tolist(), strict=True):
        cones += [(kind, start + size * nth, size) for nth in range(count)]
        start += size * count
    return cones


def repeated_arguments(problem: Canonical, copies: np.ndarray) -> tuple[tuple[str, Any], ...]:
    """The cones as Clarabel takes them."""
    totals, others = dict.fromkeys(TOGETHER, 0), []
    given = iter([one for one in problem.arguments if one[0] not in TOGETHER.values()])
    for (kind, _, size), count in zip(problem.cones, copies.tolist(), strict=True):
        if kind in totals:
            totals[kind] += size * count
        else:
            others += [next(given)] * count
    linear = [(TOGETHER[kind], size) for kind, size in totals.items() if size]
    return (*linear, *others)
