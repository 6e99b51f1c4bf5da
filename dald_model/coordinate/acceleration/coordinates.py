r"""Coordinates of the clients' shared directions in which the first penalties are the identity."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.stacked_sides import StackedSides
from dald_model.sizes import DEPENDENT, ORDER, SAME, SHARED, SMALL


class Group(NamedTuple):
    """Clients with as many shared directions, of all or of some of those who have as many.

    Attributes
    ----------
    names : list
    columns : ndarray of int, shape (n, r)
        Their coordinates.
    degrees : ndarray of int, shape (n,)
        How many edges each has.
    is_server : bool
    """

    names: list[Hashable]
    columns: np.ndarray
    degrees: np.ndarray
    is_server: bool


class Coordinates:
    r"""Of each client i coordinates :math:`\xi_i` with :math:`G_i x_i = P_i \xi_i`.

    With :math:`W_i = 2 \operatorname{diag}(\rho_i \circ \rho_i)` of the first penalties
    :math:`P_i^\top W_i P_i = I`, so that :math:`\xi_i` are as many as the edges see directions of
    :math:`x_i`, and

    .. math::
        \xi_i = P_i^\top W_i (a_i - g_i), \qquad \phi_i = -P_i^\top (s_i \circ \lambda_i)

    are found from the client's sides :math:`a_i` and the prices :math:`\lambda_i` that it
    balanced, :math:`\phi_i` being the slope of its objective along :math:`\xi_i`.

    Attributes
    ----------
    size : int
        N, the number of coordinates.
    weight : ndarray, shape (Q,)
        W.
    matrix : csr_array, or ndarray where it is ``SMALL``, shape (2 Q, N)
        All :math:`P_i`, the rows of the tails first.
    signed : csr_array or ndarray, shape (Q, N)
        The tails' rows less the heads'; times :math:`\xi` it is :math:`\mathcal C`.
    offset : ndarray, shape (2, Q)
        g.
    groups : list of Group
    owner : ndarray of int, shape (N,)
        The number of the client whose coordinate it is.
    answers : ndarray of bool, shape (n,)
        The clients with shared directions and an objective: not the servers.

    Parameters
    ----------
    compiled : Decomposition
    rho : ndarray, shape (Q,)
        The first penalties.
    off : ndarray of bool, shape (Q,), optional
        Entries of edges that are not in the problem, which nobody sees.
    """

    def __init__(
        self, compiled: Decomposition, rho: np.ndarray, off: np.ndarray | None = None
    ) -> None:
        sides = compiled.stacked
        self._sides = sides
        self.weight = 2 * rho**2
        self.offset = sides.offset.reshape(2, -1)
        # Without an edge that is off they are those of every run on the model
        self._is_whole = off is None or not off.any()
        live = np.ones(2 * rho.size, dtype=bool) if off is None else np.tile(~off, 2)
        cells, widths = _whitened(compiled, np.tile(self.weight, 2), live)
        starts = np.cumsum(widths) - widths
        self.size = int(widths.sum())
        self.owner = np.repeat(np.arange(widths.size), widths)
        is_server = np.array([name in compiled.averages for name in compiled])
        self.answers = ~is_server & (widths > 0)
        if live.size * self.size <= SMALL:
            self.matrix: Any = np.zeros((live.size, self.size))
            self.matrix[cells[1]] = cells[0]
            self._transposed: Any = self.matrix.T
        else:
            self.matrix = sp.csr_array(cells, shape=(live.size, self.size))
            self._transposed = sp.csr_array(self.matrix.T)
        self.signed = self.matrix[: rho.size] - self.matrix[rho.size :]
        # Asked for by all who learn, with the same arrays each
        self._points = self._slopes = (np.zeros(0), np.zeros(0))
        self._places = compiled.columns
        names = list(compiled)
        degrees = np.array([compiled.graph.degree(name) for name in names])
        self._numbers = {names[at]: at for at in np.flatnonzero(self.answers).tolist()}
        self._columns = {
            name: slice(int(starts[at]), int(starts[at] + widths[at]))
            for name, at in self._numbers.items()
        }
        self.groups: list[Group] = []
        kinds = zip(widths.tolist(), is_server.tolist(), strict=True)
        gathered: dict[tuple[int, bool], list[int]] = {}
        for at, kind in enumerate(kinds):
            gathered.setdefault(kind, []).append(at)
        for (width, served), found in gathered.items():
            if not width:
                continue
            most = max(1, SHARED // (8 * width**2))
            for first in range(0, len(found), most):
                part = found[first : first + most]
                columns = starts[part][:, None] + np.arange(width)
                known = [names[at] for at in part]
                self.groups.append(Group(known, columns, degrees[part], served))

    def fits(self, compiled: Decomposition, rho: np.ndarray, off: np.ndarray | None) -> bool:
        """Whether these serve a run that begins with other penalties, of the same sides."""
        if (off is not None and off.any()) or not self._is_whole:
            return False
        if self._sides is not compiled.stacked:
            return False
        ratio = self.weight / (2 * rho**2)
        return bool(ratio.max() <= ORDER**2 and ratio.min() >= 1 / ORDER**2)

    @property
    def clients(self) -> dict[Hashable, slice]:
        """The coordinates of each client that is no server and is seen."""
        return self._columns

    def change(self, earlier: Coordinates, name: Hashable) -> np.ndarray | None:
        """The square matrix from a client's coordinates to earlier ones.

        None where other directions of it were seen.
        """
        if not (name in self._numbers and name in earlier._numbers):
            return None
        mine, theirs = self.seen(name), earlier.seen(name)
        if mine.shape != theirs.shape:
            return None
        found = theirs @ np.linalg.pinv(mine)
        lost = np.abs(found @ mine - theirs).max()
        return found if lost <= SAME * np.abs(theirs).max() else None

    def points(self, sides: np.ndarray) -> np.ndarray:
        r""":math:`\xi` of sides (2, Q)."""
        if self._points[0] is not sides:
            found = self._transposed @ (self.weight * (sides - self.offset)).reshape(-1)
            self._points = sides, found
        return self._points[1]

    def slopes(self, estimates: np.ndarray) -> np.ndarray:
        r""":math:`\phi` of the prices that the ends balanced, (2, Q)."""
        if self._slopes[0] is not estimates:
            found = self._transposed @ np.concatenate([-estimates[0], estimates[1]])
            self._slopes = estimates, found
        return self._slopes[1]

    def ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many coordinates each side sees, the last of them, and its entry, (2, Q) each."""
        if isinstance(self.matrix, np.ndarray):
            (row, column), height = np.nonzero(self.matrix), len(self.matrix)
            value = self.matrix[row, column]
        else:
            row, column = self.matrix.nonzero()
            height, value = self.matrix.shape[0], self.matrix.data[self.matrix.data != 0]
        last, entry = np.zeros(height, dtype=int), np.zeros(height)
        last[row], entry[row] = column, value
        counts = np.bincount(row, minlength=height)
        return counts.reshape(2, -1), last.reshape(2, -1), entry.reshape(2, -1)

    def sums(self, along: np.ndarray) -> np.ndarray:
        """The sum (n,) over each client's coordinates of something along all of them (N,)."""
        return np.bincount(self.owner, along, self.answers.size)

    def seen(self, name: Hashable) -> np.ndarray:
        r"""A client's coordinates as functions of its variables, (r, m): :math:`P^\top W G`."""
        rows = self._sides.rows[self._numbers[name]]
        sides = self._sides.matrix[rows][:, self._places[name]]
        whitened = self.matrix[rows][:, self._columns[name]]
        weight = self.weight[rows % self.weight.size]
        return whitened.T @ (weight[:, None] * sides.toarray())

    def sides(self, points: np.ndarray) -> np.ndarray:
        r"""The sides (2, Q) at some :math:`\xi`."""
        return (self.matrix @ points).reshape(2, -1) + self.offset


def _whitened(
    compiled: Decomposition, weight: np.ndarray, live: np.ndarray
) -> tuple[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The matrices P of all clients, of the rows that are live, and how wide they are.

    Values, rows and columns, as scipy takes them. Where every side is a variable or a multiple of
    one, P is that over the root of the variable's weight; else its columns are singular vectors.
    """
    sides, names = compiled.stacked, list(compiled)
    cells, columns = sides.cells, [compiled.columns[name] for name in names]
    is_cell = live[cells.row] & (cells.data != 0) & sides.is_picked[sides.owner[cells.row]]
    row, column, value = cells.row[is_cell], cells.col[is_cell], cells.data[is_cell]
    size = max(part.stop for part in columns)
    squares = np.bincount(column, value**2 * weight[row], size)
    before = np.concatenate([[0], np.cumsum(squares > 0)])  # how many are seen up to a variable
    firsts = np.array([part.start for part in columns])
    widths = before[[part.stop for part in columns]] - before[firsts]
    decomposed = {}
    for at in np.flatnonzero(~sides.is_picked).tolist():
        decomposed[at] = found = _singular(sides, at, columns[at], weight, live)
        widths[at] = found[1].shape[1]
    starts = np.cumsum(widths) - widths
    who = sides.owner[row]
    rows, places = [row], [starts[who] + before[column] - before[firsts[who]]]
    values = [value / np.sqrt(squares[column])]
    for at, (mine, matrix) in decomposed.items():
        rows.append(np.repeat(mine, matrix.shape[1]))
        places.append(np.tile(starts[at] + np.arange(matrix.shape[1]), mine.size))
        values.append(matrix.reshape(-1))
    where = np.concatenate(rows), np.concatenate(places)
    return (np.concatenate(values), where), widths


def _singular(
    sides: StackedSides, at: int, columns: slice, weight: np.ndarray, live: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a client that are live, (q,), and its matrix P, (q, r)."""
    rows = sides.rows[at][live[sides.rows[at]]]
    root = np.sqrt(weight[rows])[:, None]
    mine = sides.matrix[rows][:, columns].toarray()
    left, values, _ = np.linalg.svd(root * mine, full_matrices=False)
    seen = np.flatnonzero(values > DEPENDENT * values.max(initial=0.0))
    return rows, left[:, seen] / root
