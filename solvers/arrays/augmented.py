r"""The augmented terms of many clients in closed form: a quadratic in each client's variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import CACHE
from dald_model.solvers.arrays.indexing import SelectionCache, block_diagonal, ranges, selection
from dald_model.solvers.base import NOTHING, Turn


class Augmented:
    r"""What equations (12) and (20) add to the objectives of clients of any sizes.

    With the sides :math:`G x + g` of a client's edges, all stacked, and signs :math:`\pm`,

    .. math::
        \sum_j \mu_j^\top \mathcal C_j + \|\rho_j \circ \mathcal C_j\|^2
        = \tfrac12 x^\top K x + c^\top x + \text{const}, \quad
        K = 2 G^\top \operatorname{diag}(\rho^2) G, \quad
        c = G^\top\big(\pm\mu + 2 \rho^2 \circ (g - z)\big).

    Where every side is all of the client's variables and a constant, G stacks identities, and
    products with it are sums over edges; clients next to each other with as many variables and
    edges are one array.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._sides = [sub.sides for sub in subproblems]
        self._signs = [sub.signs for sub in subproblems]
        self._sizes = np.array([sub.size for sub in subproblems])
        self._heights = np.array([sub.signs.size for sub in subproblems])
        self._edges = all_copies(subproblems, moved=True)
        self._stops = np.cumsum(self._heights)
        self._penalties = np.zeros(int(self._heights.sum()))
        self._version = 0  # of the penalties
        self._kept = SelectionCache(self._choose, len(subproblems))

    def again(self, subproblems: Sequence[Subproblem]) -> Augmented:
        """Those of the same clients in another run, that knows no penalties yet."""
        if any(sub.sides is not own for sub, own in zip(subproblems, self._sides, strict=True)):
            return Augmented(subproblems)
        self._penalties.fill(np.nan)
        self._version += 1
        return self

    def linear(self, turn: Turn) -> np.ndarray:
        """The vectors c of the clients ``turn.which``, one after the other."""
        chosen = self._kept(turn.which)
        found = np.zeros(chosen.size)
        for part, weight in zip(chosen.parts, chosen.weights(turn.rho), strict=True):
            part.add(turn, weight, None, found)
        return found

    def add_gradients(self, turn: Turn, points: np.ndarray, gradients: np.ndarray) -> None:
        """Add K x + c of the clients ``turn.which`` to their gradients, in place."""
        chosen = self._kept(turn.which)
        for part, weight in zip(chosen.parts, chosen.weights(turn.rho), strict=True):
            part.add(turn, weight, points, gradients)

    def energies(self, turn: Turn, points: np.ndarray) -> np.ndarray:
        r""":math:`x^\top K x`, shape (k,)."""
        chosen = self._kept(turn.which)
        found = np.zeros(turn.which.size)
        for part in chosen.parts:
            part.put_energies(turn, points, found)
        return found

    def diagonals(self, turn: Turn) -> np.ndarray | None:
        """The diagonals of the K, one after the other; None if one has other entries."""
        chosen = self._kept(turn.which)
        if not chosen.is_diagonal:
            return None
        found = np.zeros(chosen.size)
        for part, weight in zip(chosen.parts, chosen.weights(turn.rho), strict=True):
            part.add_diagonals(weight, found)
        return found

    def hessians(self, which: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """The K of clients of one size for penalties one after the other, shape (k, m, m)."""
        size = int(self._sizes[which[0]])
        found = np.zeros((which.size, size, size))
        chosen = self._kept(which)
        if chosen.is_diagonal:
            diagonals, each = np.zeros(chosen.size), np.arange(size)
            for part, weight in zip(chosen.parts, chosen.weights(rho), strict=True):
                part.add_diagonals(weight, diagonals)
            found[:, each, each] = diagonals.reshape(-1, size)
            return found
        heights = self._heights[which]
        stops = np.cumsum(heights)
        for out, at, start, stop in zip(found, which, stops - heights, stops, strict=True):
            matrix = self._sides[at][0]
            out += (matrix.T @ matrix.multiply(2 * rho[start:stop, None] ** 2)).toarray()
        return found

    def part_hessians(self, turn: Turn, part: np.ndarray) -> np.ndarray:
        """The K of the clients ``turn.which[part]``, which are of one size, (k, m, m)."""
        heights = self._heights[turn.which]
        entries = ranges((np.cumsum(heights) - heights)[part], heights[part])
        return self.hessians(turn.which[part], turn.rho[entries])

    def changed(self, turn: Turn) -> np.ndarray:
        """Which of ``turn.which`` have other penalties than when last asked, (k,) bool."""
        chosen = self._kept(turn.which)
        if chosen.seen[0] is turn.rho and chosen.seen[1] == self._version:
            return chosen.nobody
        differs = self._penalties[chosen.ends] != turn.rho
        is_other = bool(differs.any())
        if is_other:
            self._penalties[chosen.ends] = turn.rho
            self._version += 1
        chosen.seen = turn.rho, self._version
        return np.logical_or.reduceat(differs, chosen.starts) if is_other else chosen.nobody

    def last_hessians(self, which: np.ndarray) -> np.ndarray:
        """The K of clients of one size for the penalties last seen, shape (k, m, m)."""
        return self.hessians(which, self._penalties[self._ends(which)])

    def _ends(self, which: np.ndarray) -> np.ndarray:
        return ranges(self._stops[which] - self._heights[which], self._heights[which])

    def _choose(self, which: np.ndarray) -> _Chosen:
        sizes, heights, edges = self._sizes[which], self._heights[which], self._edges[which]
        columns, entries = np.cumsum(sizes) - sizes, np.cumsum(heights) - heights
        signs = [self._signs[at] for at in which.tolist()]
        parts: list[_Run | _Rest] = []
        begin = 0
        borders = (np.diff(sizes) != 0) | (np.diff(edges) != 0)
        for end in [*(np.flatnonzero(borders) + 1).tolist(), which.size]:
            size = int(sizes[begin])
            if edges[begin]:
                # One sign an edge: the client is its tail or its head
                sign = np.array([own[::size] for own in signs[begin:end]])[:, :, None]
                column, entry = int(columns[begin]), int(entries[begin])
                offset = np.concatenate([self._sides[at][1] for at in which[begin:end].tolist()])
                run = _Run(
                    slice(begin, int(end)),
                    slice(column, column + size * len(sign)),
                    slice(entry, entry + sign.size * size),
                    size,
                    sign,
                    offset if offset.any() else None,
                )
                parts.append(run)
            begin = end
        is_diagonal = True
        others = np.flatnonzero(edges == 0)
        if others.size:
            sides = [self._sides[at] for at in which[others].tolist()]
            matrix: Any = block_diagonal([one for one, _ in sides])
            is_diagonal = bool((np.diff(matrix.indptr) <= 1).all())
            lengths = heights[others]
            rest = _Rest(
                others,
                ranges(columns[others], sizes[others]),
                ranges(entries[others], lengths),
                np.cumsum(lengths) - lengths,
                matrix,
                matrix.T.tocsr(),
                np.concatenate([offset for _, offset in sides]),
                np.concatenate([signs[i] for i in others.tolist()]),
            )
            parts.append(rest)
        size = int(sizes.sum())
        nobody = np.zeros(which.size, dtype=bool)
        return _Chosen(parts, size, is_diagonal, selection(self._ends(which)), entries, nobody)


@dataclass(eq=False)
class _Chosen:
    """What is constant for one selection of clients.

    ``ends`` are their entries among those of all clients, ``starts`` where each one's begin here.
    ``seen`` are the penalties that were found to be those of all clients, at some version of these.
    """

    parts: list[_Run | _Rest]
    size: int
    is_diagonal: bool
    ends: np.ndarray | slice
    starts: np.ndarray
    nobody: np.ndarray
    seen: tuple[np.ndarray, int] = NOTHING, -1
    _weighed: tuple[np.ndarray, list[np.ndarray]] | None = None

    def weights(self, rho: np.ndarray) -> list[np.ndarray]:
        r""":math:`2 \rho^2` of each part, kept while the penalties are the same array."""
        if self._weighed is None or self._weighed[0] is not rho:
            self._weighed = rho, [part.weight(rho) for part in self.parts]
        return self._weighed[1]


class _Run(NamedTuple):
    """Clients of one size whose sides are their variables and constants, in slices of everything.

    ``signs`` has one number an edge, shape (k, edges, 1); no ``offset`` is one of zeros.
    """

    clients: slice
    columns: slice
    entries: slice
    size: int
    signs: np.ndarray
    offset: np.ndarray | None

    def weight(self, rho: np.ndarray) -> np.ndarray:
        r""":math:`2 \rho^2`, shape (k, edges, m)."""
        own = rho[self.entries].reshape(*self.signs.shape[:2], self.size)
        return 2 * (own * own)

    def add(
        self, turn: Turn, weight: np.ndarray, points: np.ndarray | None, gradients: np.ndarray
    ) -> None:
        """Add K x + c; without points c alone."""
        count, edges, size = weight.shape
        mu = turn.mu[self.entries].reshape(weight.shape)
        told = turn.neighbours[self.entries]
        told = (told if self.offset is None else told - self.offset).reshape(weight.shape)
        own = None if points is None else points[self.columns].reshape(count, 1, size)
        total = gradients[self.columns].reshape(count, size)
        at_once = max(1, CACHE // (8 * edges * size))
        for at in range(0, count, at_once):
            part = slice(at, at + at_once)
            pull = -told[part] if own is None else own[part] - told[part]
            pull *= weight[part]
            pull += self.signs[part] * mu[part]
            total[part] += pull.sum(axis=1) if edges > 1 else pull[:, 0]

    def add_diagonals(self, weight: np.ndarray, found: np.ndarray) -> None:
        """Add the diagonals of K."""
        found[self.columns] += weight.sum(axis=1).ravel()

    def put_energies(self, turn: Turn, points: np.ndarray, found: np.ndarray) -> None:
        """Enter x'K x."""
        count, edges, _ = self.signs.shape
        pulled = turn.rho[self.entries].reshape(count, edges, self.size)
        pulled = pulled * points[self.columns].reshape(count, 1, self.size)
        flat = pulled.reshape(count, edges * self.size)
        found[self.clients] = 2 * np.vecdot(flat, flat)


class _Rest(NamedTuple):
    """Clients with other sides, one block-diagonal matrix of them."""

    clients: np.ndarray
    columns: np.ndarray
    entries: np.ndarray
    starts: np.ndarray
    sides: Any
    transposed: Any
    offset: np.ndarray
    signs: np.ndarray

    def weight(self, rho: np.ndarray) -> np.ndarray:
        r""":math:`2 \rho^2` of their entries."""
        return 2 * rho[self.entries] ** 2

    def add(
        self, turn: Turn, weight: np.ndarray, points: np.ndarray | None, gradients: np.ndarray
    ) -> None:
        at = selection(self.entries)
        pull = self.offset - turn.neighbours[at]
        if points is not None:
            pull += self.sides @ points[self.columns]
        pull *= weight
        pull += self.signs * turn.mu[at]
        gradients[self.columns] += self.transposed @ pull

    def add_diagonals(self, weight: np.ndarray, found: np.ndarray) -> None:
        heights = np.diff(self.sides.indptr)
        squares = np.repeat(weight, heights) * self.sides.data**2
        found[self.columns] += np.bincount(self.sides.indices, squares, minlength=self.columns.size)

    def put_energies(self, turn: Turn, points: np.ndarray, found: np.ndarray) -> None:
        squares = (turn.rho[self.entries] * (self.sides @ points[self.columns])) ** 2
        found[self.clients] = 2 * np.add.reduceat(squares, self.starts)


def all_copies(subproblems: Sequence[Subproblem], *, moved: bool = False) -> np.ndarray:
    """The :func:`copies` of many clients, of which most have the very same sides, (k,)."""
    known: dict[tuple[int, ...], int] = {}
    found = []
    for sub in subproblems:
        matrix, offset = sub.sides
        key = id(matrix), 0 if moved else id(offset), id(sub.signs)
        count = known.get(key)
        if count is None:
            count = known[key] = copies(sub, moved=moved)
        found.append(count)
    return np.array(found)


def copies(sub: Subproblem, *, is_ordered: bool = True, moved: bool = False) -> int:
    """How many edges a client has if each of its sides is all of its variables; else 0.

    Entry by entry, in their order or, unless ``is_ordered``, in any; constants may be added to
    them where they are ``moved``.
    """
    matrix: Any
    matrix, offset = sub.sides
    count, left = divmod(matrix.shape[0], sub.size)
    if left or matrix.nnz != matrix.shape[0] or (matrix.data != 1).any():
        return 0
    if offset.any() and not moved:
        return 0
    if not (np.diff(matrix.indptr) == 1).all():
        return 0
    picked = matrix.indices.reshape(count, sub.size)
    picked = picked if is_ordered else np.sort(picked, axis=1)
    signs = sub.signs.reshape(count, sub.size)
    is_each = (picked == np.arange(sub.size)).all() and (signs == signs[:, :1]).all()
    return count if is_each else 0
