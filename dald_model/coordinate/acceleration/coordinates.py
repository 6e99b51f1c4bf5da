r"""Coordinates of the clients' shared directions in which the first penalties are the identity."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem

DEPENDENT = 1e-10
"""Directions that edges see by less than this share of the strongest are not seen."""
FAR = 10.0
"""Penalties this many times those that coordinates were made with ask for others."""
SAME = 1e-9
"""Directions that were seen before and now are the same up to this."""


class Seen(NamedTuple):
    r"""What the edges see of a client: its coordinates, and how they follow from its variables.

    Attributes
    ----------
    columns : slice
        Its coordinates among all.
    sides : csr_array, shape (q, m)
        G.
    weight : ndarray, shape (q,)
        W.
    whitened : csr_array, shape (q, r)
        P.
    """

    columns: slice
    sides: sp.csr_array
    weight: np.ndarray
    whitened: sp.csr_array

    @property
    def matrix(self) -> np.ndarray:
        r""":math:`P^\top W G`, (r, m)."""
        return self.whitened.T @ (self.weight[:, None] * self.sides.toarray())


class Group(NamedTuple):
    """Clients with as many shared directions.

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
    matrix : csr_array, shape (2 Q, N)
        All :math:`P_i`, the rows of the tails first.
    signed : csr_array, shape (Q, N)
        The tails' rows less the heads'; times :math:`\xi` it is :math:`\mathcal C`.
    offset : ndarray, shape (2, Q)
        g.
    groups : list of Group
    owner : ndarray of int, shape (N,)
        The number of the client whose coordinate it is.
    answers : ndarray of bool, shape (n,)
        Who has shared directions and an objective: not the servers.

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
        size = compiled.size
        self.weight = 2 * rho**2
        self.offset = np.zeros((2, size))
        self._seen: dict[Hashable, Seen] = {}
        # Without an edge that is off they are those of every run on the model
        is_whole = off is None or not off.any()
        self._sides = {name: sub.sides for name, sub in compiled.items()} if is_whole else {}
        gathered: dict[tuple[int, bool], list[tuple[Hashable, int, int]]] = {}
        rows, columns, values, widths, at = [], [], [], [], 0
        for name, sub in compiled.items():
            self.offset[sub.rows, sub.entries] = sub.sides[1]
            live = np.arange(sub.entries.size) if off is None else np.flatnonzero(~off[sub.entries])
            cells, width = _whitened(sub, self.weight[sub.entries], live)
            rows.append((sub.rows * size + sub.entries)[live[cells.row]])
            columns.append(at + cells.col)
            values.append(cells.data)
            is_server = name in compiled.servers
            gathered.setdefault((width, is_server), []).append((name, at, len(sub.others)))
            if width and not is_server:
                matrix = sub.sides[0][live], self.weight[sub.entries[live]]
                self._seen[name] = Seen(slice(at, at + width), *matrix, sp.csr_array(cells))
            widths.append(width)
            at += width
        self.size = at
        self.owner = np.repeat(np.arange(len(widths)), widths)
        self.answers = np.array([name not in compiled.servers for name in compiled])
        self.answers &= np.array(widths) > 0
        where = np.concatenate(rows), np.concatenate(columns)
        self.matrix = sp.csr_array((np.concatenate(values), where), shape=(2 * size, at))
        self.signed = sp.csr_array(self.matrix[:size] - self.matrix[size:])
        self._transposed = sp.csr_array(self.matrix.T)
        self.groups = []
        for (width, is_server), found in gathered.items():
            names, starts, degrees = zip(*found, strict=True)
            if width:
                columns = np.array(starts)[:, None] + np.arange(width)
                self.groups.append(Group(list(names), columns, np.array(degrees), is_server))

    def fits(self, compiled: Decomposition, rho: np.ndarray, off: np.ndarray | None) -> bool:
        """Whether these serve a run that begins with other penalties, of the same sides."""
        if off is not None and off.any():
            return False
        sides = {name: sub.sides for name, sub in compiled.items()}
        if self._sides.keys() != sides.keys():
            return False
        if any(self._sides[name] is not mine for name, mine in sides.items()):
            return False
        ratio = self.weight / (2 * rho**2)
        return bool(ratio.max() <= FAR**2 and ratio.min() >= 1 / FAR**2)

    @property
    def clients(self) -> dict[Hashable, slice]:
        """The coordinates of each client that is no server and is seen."""
        return {name: seen.columns for name, seen in self._seen.items()}

    def change(self, earlier: Coordinates, name: Hashable) -> np.ndarray | None:
        """The square matrix from a client's coordinates to earlier ones.

        None where other directions of it were seen.
        """
        now, then = self._seen.get(name), earlier._seen.get(name)
        if now is None or then is None:
            return None
        mine, theirs = now.matrix, then.matrix
        if mine.shape != theirs.shape:
            return None
        found = theirs @ np.linalg.pinv(mine)
        lost = np.abs(found @ mine - theirs).max()
        return found if lost <= SAME * np.abs(theirs).max() else None

    def points(self, sides: np.ndarray) -> np.ndarray:
        r""":math:`\xi` of sides (2, Q)."""
        return self._transposed @ (self.weight * (sides - self.offset)).reshape(-1)

    def slopes(self, estimates: np.ndarray) -> np.ndarray:
        r""":math:`\phi` of the prices that the ends balanced, (2, Q)."""
        return self._transposed @ np.concatenate([-estimates[0], estimates[1]])

    def sums(self, along: np.ndarray) -> np.ndarray:
        """The sum (n,) over each client's coordinates of something along all of them (N,)."""
        return np.bincount(self.owner, along, self.answers.size)

    def seen(self, name: Hashable) -> np.ndarray:
        r"""A client's coordinates as functions of its variables, (r, m): :math:`P^\top W G`."""
        return self._seen[name].matrix

    def sides(self, points: np.ndarray) -> np.ndarray:
        r"""The sides (2, Q) at some :math:`\xi`."""
        return (self.matrix @ points).reshape(2, -1) + self.offset


def _whitened(sub: Subproblem, weight: np.ndarray, live: np.ndarray) -> tuple[sp.coo_array, int]:
    """The matrix P of a client, of its rows that are live, (q, r), and r."""
    sides, weight = sub.sides[0][live], weight[live]
    if np.diff(sides.indptr).max(initial=0) <= 1:
        squares = sub.sight.squares[live].T @ weight
        seen = np.flatnonzero(squares)
        return sp.coo_array(sides[:, seen] / np.sqrt(squares[seen])), seen.size
    root = np.sqrt(weight)[:, None]
    left, values, _ = np.linalg.svd(root * sides.toarray(), full_matrices=False)
    seen = np.flatnonzero(values > DEPENDENT * values[0])
    return sp.coo_array(left[:, seen] / root), seen.size
