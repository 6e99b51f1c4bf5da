r"""The cone program of a client over its own variables, from its template's and its affine maps.

A template has one row of every group of rows of data, see
:mod:`dald_model.compile.row_replication`. Auxiliary columns and cones belong to the group whose
entries they stand beside, and come as often as it has rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.form import ConeProgram, Source
from dald_model.compile.recognition import CONES, LINEAR, Canonical
from dald_model.compile.row_replication import (
    APART,
    NotRowByRowError,
    Repeats,
    RowReplication,
    repeated,
)
from dald_model.declare.affine import explicit


def cone_program(
    problem: Canonical,
    maps: AffineMaps,
    levels: Callable[[], Any],
    before: ConeProgram | None = None,
    *,
    is_bent_anew: bool = False,
) -> ConeProgram:
    """The whole cone program over the client's variables and the auxiliary ones.

    ``levels`` gives what is known of ``problem``, see :class:`Source`.

    With that of the same rows and of maps that differ in their offsets alone, its matrices; but the
    objective's is made anew where it ``is_bent_anew``.
    """
    own = problem.own
    rest = problem.q.size - own
    shift = np.concatenate([maps.offset, np.zeros(rest)])
    bent = problem.P @ shift
    slope = bent + problem.q
    linear = np.concatenate(
        [maps.transposed_times(slope[:own], range(len(maps.matrices))), slope[own:]]
    )
    constant = problem.d + float(shift @ bent / 2 + problem.q @ shift)
    right = problem.b - problem.A @ shift
    source = before and before.source and before.source._replace(levels=levels, offset=maps.offset)
    if before is not None and not is_bent_anew:
        return before._replace(linear=linear, constant=constant, rhs=right, source=source)
    every = [sp.csr_array(explicit(m, maps.size)) for m in maps.matrices]
    F = every[0] if len(every) == 1 else sp.csr_array(sp.vstack(every, "csr"))
    change = _beside_ones(sp.csc_array(F), rest)
    matrix = sp.csc_array((change.shape[1],) * 2)
    if problem.P.nnz:
        matrix = sp.csc_array(change.T @ problem.P @ change)
    if before is not None:
        found = before._replace(matrix=matrix, linear=linear, constant=constant, rhs=right)
        return found._replace(source=source)
    return ConeProgram(
        matrix,
        linear,
        constant,
        sp.csc_array(problem.A @ change),
        right,
        problem.arguments,
        Source(levels, F, maps.offset),
    )


def _beside_ones(maps: Any, rest: int) -> Any:
    """A CSC matrix with ones for that many variables more."""
    parts = (maps.data, np.ones(rest)), (maps.indices, maps.shape[0] + np.arange(rest))
    stops = maps.nnz + np.arange(1, rest + 1)
    cells = *map(np.concatenate, parts), np.concatenate([maps.indptr, stops])
    return sp.csc_array(cells, shape=(maps.shape[0] + rest, maps.shape[1] + rest))


def wide_program(problem: Canonical, replication: RowReplication) -> Canonical:
    """The program over all rows of data, of which repeated ones are none of cvxpy's.

    Raises
    ------
    NotRowByRowError
        If a cone ties entries of several groups together, or of a group and others.
    """
    owner = _owners(problem)
    auxiliary, of_cones = _groups(problem, replication, owner)
    counts = replication.counts(auxiliary)
    base = np.concatenate([replication.entries.base, replication.size + np.cumsum(counts) - counts])
    columns = replication.columns(base, np.concatenate([replication.group, auxiliary]))
    sizes = np.array([size for _, _, size in problem.cones], dtype=int)
    starts = np.array([start for _, start, _ in problem.cones], dtype=int)
    copies = replication.counts(of_cones)
    firsts = np.cumsum(sizes * copies) - sizes * copies
    within = np.arange(owner.size) - starts[owner]
    rows = Repeats(firsts[owner] + within, sizes[owner], copies[owner])
    stated: Any = sp.coo_array(problem.rows)
    is_once = of_cones[owner[stated.row]] == APART
    places = rows.base[stated.row[is_once]], stated.col[is_once]
    return Canonical(
        sp.csc_array(repeated(problem.P, columns, columns)),
        columns.vector(problem.q),
        problem.d,
        repeated(problem.A, rows, columns),
        rows.vector(problem.b),
        _repeated_cones(problem, copies),
        _repeated_arguments(problem, copies),
        replication.size,
        sp.csr_array((stated.data[is_once], places), shape=(rows.size, stated.shape[1])),
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


def _repeated_arguments(problem: Canonical, copies: np.ndarray) -> tuple[tuple[str, Any], ...]:
    """The cones as Clarabel takes them."""
    totals, others = dict.fromkeys(LINEAR, 0), []
    given = iter([one for one in problem.arguments if one[0] not in map(CONES.get, LINEAR)])
    for (kind, _, size), count in zip(problem.cones, copies.tolist(), strict=True):
        if kind in totals:
            totals[kind] += size * count
        else:
            others += [next(given)] * count
    linear = [(CONES[kind], size) for kind, size in totals.items() if size]
    return (*linear, *others)
