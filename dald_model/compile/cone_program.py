"""The cone program of a client over its own variables, from its template's and its affine maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.form import ConeProgram
from dald_model.compile.recognition import Canonical
from dald_model.compile.row_replication import APART, Repeats, RowReplication, each_copy
from dald_model.compile.wide_program import Groups, Layout, repeated_arguments
from dald_model.declare.affine import explicit

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, rows and where the columns begin, of a sparse matrix by columns."""


def cone_program(
    problem: Canonical, maps: AffineMaps, before: ConeProgram | None = None
) -> ConeProgram:
    """The whole cone program over the client's variables and the auxiliary ones.

    With that of the same problem and of maps that differ in their offsets alone, its matrices.
    """
    own = problem.own
    rest = problem.q.size - own
    shift = np.concatenate([maps.offset, np.zeros(rest)])
    bent = problem.P @ shift
    slope = bent + problem.q
    linear = np.concatenate([maps.transposed_times(slope[:own]), slope[own:]])
    constant = problem.d + float(shift @ bent / 2 + problem.q @ shift)
    right = problem.b - problem.A @ shift
    if before is not None:
        return before._replace(linear=linear, constant=constant, rhs=right)
    F = sp.csr_array(
        sp.vstack([sp.csr_array(explicit(m, maps.size)) for m in maps.matrices], "csr")
    )
    extra = sp.eye_array(rest, format="csr")
    change = sp.csc_array(sp.block_diag([F, extra], "csc")) if rest else sp.csc_array(F)
    return ConeProgram(
        sp.csc_array(change.T @ problem.P @ change),
        linear,
        constant,
        sp.csc_array(problem.A @ change),
        right,
        problem.arguments,
    )


def dense_cone_program(
    problem: Canonical,
    groups: Groups,
    layout: Layout,
    replication: RowReplication,
    maps: AffineMaps,
    curvature: np.ndarray,
    bent: np.ndarray,
) -> ConeProgram:
    """The same of dense data, from the rows of the template.

    ``problem`` has one row of every group; P is a diagonal in what it adds. ``curvature`` is
    F.T @ P @ F, (m, m), of all of P that is of the pieces, and ``bent`` P @ f.
    """
    assert groups.diagonal is not None
    size, all_own = maps.size, replication.size
    rows, columns, copies, _ = layout
    matrix, right = np.zeros((rows.size, size)), rows.vector(problem.b)
    is_own = groups.cells[1] < problem.own
    for at, entry, value in zip(*(one[is_own].tolist() for one in groups.cells), strict=True):
        piece = replication.piece[entry]
        own, offset = maps.matrices[piece], maps.offsets[piece]
        base, stride = int(rows.base[at]), int(rows.stride[at])
        where = slice(base, base + stride * int(rows.counts[at]), stride)
        if replication.group[entry] == APART:  # one row, of one entry
            inside = int(replication.entries.base[entry] - replication.stops[piece])
            part = slice(inside, inside + 1)
            own, offset = None if own is None else own[part], offset[part]
        else:
            part = slice(size)
        if own is None:
            each = np.arange(size)[part]
            matrix[np.arange(rows.size)[where], each] += value
        else:
            matrix[where] += value * own
        right[where] -= value * offset
    rest, slopes = columns.size - all_own, columns.vector(problem.q)
    slope = bent + slopes[:all_own]
    of, nth = each_copy(columns.counts[problem.own :])
    diagonal = np.zeros(rest)
    diagonal[columns.base[problem.own :][of] + nth - all_own] = groups.diagonal[of]
    live, starts = np.flatnonzero(diagonal), np.concatenate([[0], np.cumsum(diagonal != 0)])
    added = _added(rows, columns, [one[~is_own] for one in groups.cells], all_own)
    return ConeProgram(
        _beside(_by_column(curvature), (diagonal[live], live + size, starts), size + rest),
        np.concatenate([maps.transposed_times(slope), slopes[all_own:]]),
        problem.d + float((bent / 2 + slopes[:all_own]) @ maps.offset),
        _beside(_by_column(matrix), added, rows.size),
        right,
        repeated_arguments(problem, copies),
    )


def _added(rows: Repeats, columns: Repeats, cells: Any, first: int) -> Columns:
    """The entries of a template in auxiliary columns, in all rows of the data."""
    row, column, data = cells
    of, nth = each_copy(rows.counts[row])
    at = rows.base[row][of] + nth * rows.stride[row][of]
    beside = columns.base[column][of] + nth * columns.stride[column][of] - first
    order = np.lexsort((at, beside))
    counts = np.bincount(beside, minlength=columns.size - first)
    return data[of][order], at[order], np.concatenate([[0], np.cumsum(counts)])


def _by_column(matrix: np.ndarray) -> Columns:
    """A dense matrix as a sparse one."""
    column, row = np.nonzero(matrix.T)
    counts = np.bincount(column, minlength=matrix.shape[1])
    return matrix[row, column], row, np.concatenate([[0], np.cumsum(counts)])


def _beside(one: Columns, two: Columns, height: int) -> sp.csc_array:
    """Two sparse matrices of so many rows beside each other."""
    data, row, starts = one
    found = (
        np.concatenate([data, two[0]]),
        np.concatenate([row, two[1]]),
        np.concatenate([starts, starts[-1] + two[2][1:]]),
    )
    return sp.csc_array(found, shape=(height, starts.size + two[2].size - 2))
