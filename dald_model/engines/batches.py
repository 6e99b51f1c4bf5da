"""Open sessions of clients, and the batches of clients that one of them solves together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import all_copies
from dald_model.solvers.arrays.indexing import block_diagonal, ranges
from dald_model.solvers.base import Session, Solver

TIED = 1e-3
"""Share of its penalty with which an end of an edge that is off is tied to its own last value.

Enough to keep a client that is cut off from others well posed (a proximal-point step), little
enough not to hold it back. A server needs none: its average leaves out who is not there.
"""


class Ends:
    """Edge ends of some clients: entries in vectors (Q,) and rows in arrays (2, Q).

    Ends that follow each other are a slice, and vectors are read without a copy.

    Parameters
    ----------
    entries : ndarray of int
    rows : ndarray of int
        0 for tails, 1 for heads.
    is_run : bool
        Whether the entries follow each other.
    """

    def __init__(self, entries: np.ndarray, rows: np.ndarray, is_run: bool) -> None:
        self.entries, self.rows = entries, rows
        self.at: slice | np.ndarray = entries
        self._heads = self._tails = np.zeros(0, dtype=bool)
        self._is_run = is_run and entries.size > 0
        if self._is_run:
            self.at = slice(int(entries[0]), int(entries[0]) + entries.size)
            self._heads = rows.astype(bool)
            self._tails = ~self._heads

    def own(self, both: np.ndarray) -> np.ndarray:
        """The rows of these ends of an array (2, Q)."""
        if self._is_run:
            return np.where(self._heads, both[1, self.at], both[0, self.at])
        return both[self.rows, self.entries]

    def other(self, both: np.ndarray) -> np.ndarray:
        """The rows of the other ends."""
        if self._is_run:
            return np.where(self._heads, both[0, self.at], both[1, self.at])
        return both[1 - self.rows, self.entries]

    def set(self, both: np.ndarray, values: np.ndarray) -> None:
        """Write to the rows of these ends."""
        if self._is_run:
            np.copyto(both[1, self.at], values, where=self._heads)
            np.copyto(both[0, self.at], values, where=self._tails)
        else:
            both[self.rows, self.entries] = values


@dataclass(eq=False)
class Batch:
    """Batch of clients of one stage and session, with the arrays that stay constant.

    Attributes
    ----------
    names : list
    clients : ndarray of int, shape (k,)
        Their positions in :class:`Decomposition`.
    session : Session
        Which takes them.
    which : ndarray of int, shape (k,)
        Their positions in the session.
    ends : Ends
        Of their edges, one client after the other, in the order of ``Subproblem.entries``.
    signs, loose : ndarray, shape (total of q,)
        +1 at tails and -1 at heads; the share of its penalty that an end keeps where its edge is
        off, see :data:`TIED`.
    starts : ndarray of int, shape (k,)
        Where each client's part of these begins.
    columns : slice or ndarray of int
        Where their variables lie in the vector of all variables.
    places : slice or ndarray of int
        Where they stand in the layout.
    repeats : ndarray of int, shape (k,), or None
        How many edges each has, if all have as many variables and their sides are these.
    """

    names: list[Hashable]
    clients: np.ndarray
    session: Session
    which: np.ndarray
    ends: Ends
    signs: np.ndarray
    loose: np.ndarray
    starts: np.ndarray
    columns: slice | np.ndarray
    places: slice | np.ndarray
    repeats: np.ndarray | None
    subproblems: list[Subproblem] = field(repr=False)
    _given: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    _source: np.ndarray | None = field(default=None, repr=False)
    _weights: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    _reached: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    @cached_property
    def sides(self) -> tuple[sp.csr_array, np.ndarray]:
        """The sides of all of them as a function of their points."""
        sides = [sub.sides for sub in self.subproblems]
        matrix = block_diagonal([matrix for matrix, _ in sides])
        return matrix, np.concatenate([offset for _, offset in sides])

    @cached_property
    def _squares(self) -> sp.csc_array:
        """Those of the matrix, transposed."""
        return self.sides[0].power(2).T

    def penalties(self, rho: np.ndarray) -> np.ndarray:
        """Those of its ends, the same array while those of all edges are the same array."""
        if self._given is None or self._given[0] is not rho:
            self._given = rho, rho[self.ends.at]
        return self._given[1]

    def weights(self, rho: np.ndarray, source: np.ndarray) -> np.ndarray:
        r""":math:`\pm 2 \rho^2`, kept while the penalties are the same array ``source``."""
        if self._source is not source:
            self._weights, self._source = 2 * self.signs * rho * rho, source
        return self._weights

    def reach(self, rho: np.ndarray, lengths: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        r"""How far a step of a natural slope takes each variable, at most its natural length.

        .. math:: \min\big(X_k, \; M_k / (2 \textstyle\sum_r \rho_r^2 G_{rk}^2)\big)

        ``rho`` are the penalties of all edges; the answer is kept while they are the same array.
        """
        if self._reached is None or self._reached[0] is not rho:
            weight = 2 * rho[self.ends.at] ** 2
            if self.repeats is None:
                bent = self._squares @ weight
            else:
                edges = weight.reshape(int(self.repeats.sum()), -1)
                bent = np.add.reduceat(edges, np.cumsum(self.repeats) - self.repeats).reshape(-1)
            found = lengths.copy()
            np.divide(slopes, bent, out=found, where=bent * lengths > slopes)
            self._reached = rho, found
        return self._reached[1]

    def spread(self, points: np.ndarray) -> np.ndarray:
        """The sides at their points, shape (total of q,)."""
        if self.repeats is None:
            matrix, offset = self.sides
            return matrix @ points + offset
        rows = points.reshape(self.repeats.size, -1)
        return np.repeat(rows, self.repeats, axis=0).reshape(-1)


class Layout:
    """Positions of all clients' variables and edge ends, in the order of the layout."""

    def __init__(self, compiled: Decomposition) -> None:
        self._compiled = compiled
        subs = [compiled[name] for name in compiled.layout]
        self._order = np.array([compiled.order[name] for name in compiled.layout])
        heights = np.array([sub.signs.size for sub in subs])
        self._starts = np.concatenate([[0], np.cumsum(heights)])
        self._entries = np.concatenate([sub.entries for sub in subs])
        self._rows = np.concatenate([sub.rows for sub in subs])
        self._signs = np.concatenate([sub.signs for sub in subs])
        free = [0.0 if sub.client.is_server else TIED for sub in subs]
        self._loose = np.repeat(free, heights)
        self._copies = all_copies(subs)
        self._sizes = np.array([sub.size for sub in subs])
        self._columns = np.concatenate([[0], np.cumsum(self._sizes)])
        # How often up to here an entry does not follow the one before.
        self._jumps = np.concatenate([[0], np.cumsum(np.diff(self._entries) != 1)])

    def batch(self, names: list[Hashable], session: Session, which: np.ndarray) -> Batch:
        """Some clients, in this order; of neighbours in the layout everything is a view."""
        at = np.array([self._compiled.places[name] for name in names])
        is_run = bool((np.diff(at) == 1).all())
        starts, stops = self._starts[at], self._starts[at + 1]
        span = slice(int(starts[0]), int(stops[-1]))
        columns: slice | np.ndarray = slice(
            int(self._columns[at[0]]), int(self._columns[at[-1] + 1])
        )
        chosen: slice | np.ndarray = span
        follows = is_run and self._jumps[span.stop - 1] == self._jumps[span.start]
        if not is_run:
            chosen = ranges(starts, stops - starts)
            columns = ranges(self._columns[at], self._sizes[at])
        repeats, sizes = self._copies[at], self._sizes[at]
        is_simple = bool(repeats.all() and (sizes == sizes[0]).all())
        return Batch(
            names,
            self._order[at],
            session,
            which,
            Ends(self._entries[chosen], self._rows[chosen], bool(follows)),
            self._signs[chosen],
            self._loose[chosen],
            np.cumsum(stops - starts) - (stops - starts),
            columns,
            slice(int(at[0]), int(at[-1]) + 1) if is_run else at,
            repeats if is_simple else None,
            [self._compiled[name] for name in names],
        )


class Given(NamedTuple):
    """Clients as a session takes them.

    Attributes
    ----------
    clients : list of Subproblem
        In the differences of their variables from some points, or as they are.
    sources : list
        What each was made of: its numbers, its sides and its point; empty where they are as they
        are.
    centre : ndarray, optional
        The points of all clients of the model that these are among.
    """

    clients: list[Subproblem]
    sources: list[tuple[Any, Any, np.ndarray]]
    centre: np.ndarray | None = None

    @classmethod
    def around(
        cls,
        clients: Sequence[Subproblem],
        centre: np.ndarray,
        columns: Sequence[slice],
        before: Given | None,
    ) -> Given:
        """The clients around points of all clients, of which each has some columns.

        Those that are as ``before`` are the same.
        """
        found: list[Subproblem] = []
        centres = [centre[part] for part in columns]
        if before is not None and before.centre is centre:
            centres = [its_centre for _, _, its_centre in before.sources]
        pairs = zip(clients, centres, strict=True)
        sources = [(sub.lowered, sub.sides, point) for sub, point in pairs]
        for at, (sub, (lowered, sides, point)) in enumerate(zip(clients, sources, strict=True)):
            there = None
            if before is not None and before.is_centred:
                then, its_sides, its_centre = before.sources[at]
                is_there = its_centre is point or np.array_equal(its_centre, point)
                if its_sides is sides and is_there:
                    there = then, before.clients[at]
            is_same = there is not None and there[0] is lowered
            found.append(there[1] if there and is_same else sub.around(point, there))
        return cls(found, sources, centre)

    @property
    def is_centred(self) -> bool:
        """Whether they are around points."""
        return bool(self.sources)


class OpenSession(NamedTuple):
    """A session, its solver, and the clients it was opened with: where each is, and as what."""

    session: Session
    solver: Solver
    places: dict[Hashable, int]
    given: Given
