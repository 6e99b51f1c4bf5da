r"""Minimisers of a quadratic plus kinks of single variables, by their active set.

.. math:: \min_x \tfrac12 x^\top H x + c^\top x + \sum_k \varphi_k(x_k),

each :math:`\varphi_k` convex and piecewise linear: l1, boxes, bounds, quantiles of the variables,
and any sum of these. At the minimum each variable is at a kink of its own or between two, where
:math:`\varphi_k` has one slope. The method (primal-dual active set: Hintermüller, Ito and Kunisch
2002, "The primal-dual active set strategy as a semismooth Newton method") takes the places from

.. math::
    x = \operatorname{prox}_{\varphi, D}\big(x - D^{-1} (H x + c)\big), \quad
    D = \operatorname{diag} H,

solves the linear system of those between kinks, the others held at theirs, and takes the places
again. Where they stay the point is the minimiser, exactly. It is not sure to end, so others are
asked where it does not; but where it does a few systems of the free variables are all there is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.elimination import variable_scales

SYSTEMS = 25
"""Systems after which it is given up."""
LARGE = 64
"""Variables from which on factors of the free ones are kept in place of inverses of all."""
INNER = 0.1
"""Share of the errors allowed by which a point may still move when it is taken."""


class Separable(NamedTuple):
    r"""The functions :math:`\varphi_k` of one client.

    Attributes
    ----------
    kinks : ndarray, shape (m, r)
        In order, with infinities after the last.
    slopes : ndarray, shape (m, r + 1)
        Left of each and right of the last.
    """

    kinks: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, size: int, columns: np.ndarray, levels: np.ndarray, ends: np.ndarray) -> Separable:
        r"""Of rows, each of the variable ``columns`` with a kink at ``levels``.

        ``ends``, of shape (2, R), are its slopes left and right of that, which may be infinite.
        """
        order = np.lexsort((levels, columns))
        counts = np.bincount(columns, minlength=size)
        rank = np.arange(columns.size) - np.repeat(np.cumsum(counts) - counts, counts)
        kinks = np.full((size, int(counts.max(initial=0))), np.inf)
        sides = np.zeros((2, *kinks.shape))
        at = columns[order], rank
        kinks[at] = levels[order]
        sides[0][at], sides[1][at] = ends[0][order], ends[1][order]
        # Between kinks the slope is that right of those before and left of those after
        slopes = np.zeros((size, kinks.shape[1] + 1))
        slopes[:, 1:] = np.cumsum(sides[1], axis=1)
        with np.errstate(invalid="ignore"):  # bounds that contradict each other leave no slope
            slopes[:, :-1] += np.cumsum(sides[0][:, ::-1], axis=1)[:, ::-1]
        return cls(kinks, slopes)

    @classmethod
    def none(cls, size: int) -> Separable:
        """Of variables without kinks."""
        return cls(np.full((size, 1), np.inf), np.zeros((size, 2)))

    def places(self, points: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Where :math:`\operatorname{prox}` puts points, with D = ``shares``.

        How many kinks are before each variable, and whether it is at the next.
        """
        forces = shares[:, None] * (points[:, None] - self.kinks)
        before = np.count_nonzero(forces > self.slopes[:, 1:], axis=1)
        each, last = np.arange(points.size), self.kinks.shape[1]
        nearest = np.minimum(before, last - 1)
        is_at = (before < last) & (forces[each, nearest] >= self.slopes[each, before])
        return before, is_at


class ActiveKinks:
    """The minimisers of k clients of one size with positive definite H, one after the other.

    Parameters
    ----------
    columns, levels, entries, low, high : ndarray, shape (k, R)
        The variable of each row, -1 where a client has no such row, where it has its kink, its
        entry, and its limits l and h.
    size : int
    """

    def __init__(
        self,
        columns: np.ndarray,
        levels: np.ndarray,
        entries: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        size: int,
    ) -> None:
        count = len(columns)
        self._size, self._columns, self._levels, self._entries = size, columns, levels, entries
        rows = columns >= 0
        self._ends = np.zeros((2, *columns.shape))
        self._ends[:, rows] = np.sort(entries[rows] * np.stack([low[rows], high[rows]]), axis=0)
        functions = Separable.of(
            count * size, self._flat(columns)[rows], levels[rows], self._ends[:, rows]
        )
        self._kinks = functions.kinks.reshape(count, size, -1)
        self._slopes = functions.slopes.reshape(count, size, -1)
        self._is_possible = np.all(~np.isnan(self._slopes), axis=(1, 2))
        self._free = np.zeros((count, size), dtype=bool)
        self._factors: list[Any] = [None] * count
        self._inverses = np.zeros((count, size, size) if size < LARGE else (0, 0, 0))
        self._is_stale = np.ones(count, dtype=bool)

    def _flat(self, columns: np.ndarray) -> np.ndarray:
        """Variables of clients as those of all of them, one client after the other."""
        return columns + self._size * np.arange(len(columns))[:, None]

    def forget(self, members: np.ndarray) -> None:
        """These clients have another H."""
        self._is_stale[members] = True

    def minimise(
        self,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        start: np.ndarray,
        errors: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which of these clients found one, their minimisers, (k, m), and multipliers, (k, R)."""
        points, live = start.copy(), np.flatnonzero(self._is_possible[members])
        found = np.zeros(members.size, dtype=bool)
        before, is_at = self._places(members[live], hessians[live], linear[live], start[live])
        for _ in range(SYSTEMS):
            at, H, c = members[live], hessians[live], linear[live]
            x = self._stepped(at, H, c, before, is_at)
            is_there = (np.abs(x - points[live]) <= INNER * errors[live]).all(axis=1)
            points[live] = x
            earlier = before, is_at
            before, is_at = self._places(at, H, c, x)
            is_there |= ((before == earlier[0]) & (is_at == earlier[1])).all(axis=1)
            found[live[is_there]] = True
            stays = ~is_there
            live, before, is_at = live[stays], before[stays], is_at[stays]
            if not live.size:
                break
        found &= np.isfinite(points).all(axis=1)
        held = np.zeros((members.size, self._columns.shape[1]))
        if found.any():
            mine = members[found]
            gradients = times(hessians[found], points[found]) + linear[found]
            held[found] = self._held(mine, points[found], gradients)
        return found, points, held

    def _places(
        self, members: np.ndarray, hessians: np.ndarray, linear: np.ndarray, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`Separable.places`, where a proximal gradient step goes, both (k, m)."""
        shares = np.diagonal(hessians, axis1=1, axis2=2)
        ahead = x - (times(hessians, x) + linear) / shares
        kinks, slopes = (part[members] for part in (self._kinks, self._slopes))
        flat = Separable(*(part.reshape(-1, part.shape[2]) for part in (kinks, slopes)))
        before, is_at = flat.places(ahead.reshape(-1), shares.reshape(-1))
        return before.reshape(x.shape), is_at.reshape(x.shape)

    def _stepped(
        self,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        before: np.ndarray,
        is_at: np.ndarray,
    ) -> np.ndarray:
        """The best points whose variables are at these kinks, or between these."""
        kinks, slopes = self._kinks[members], self._slopes[members]
        nearest = np.where(is_at, before, 0)[:, :, None]
        x = np.where(is_at, np.take_along_axis(kinks, nearest, axis=2)[:, :, 0], 0.0)
        pull = linear + np.take_along_axis(slopes, before[:, :, None], axis=2)[:, :, 0]
        differs = self._is_stale[members] | (self._free[members] == is_at).any(axis=1)
        if differs.any():
            self._factor(members[differs], hessians[differs], ~is_at[differs])
        for _ in range(2):  # the second time takes away what rounding left
            left = np.where(is_at, 0.0, times(hessians, x) + pull)
            x = x - self._solved(members, left)
        return x

    def _factor(self, members: np.ndarray, hessians: np.ndarray, free: np.ndarray) -> None:
        """Have the inverses or factors of the free variables' parts of H."""
        self._free[members], self._is_stale[members] = free, False
        if self._size < LARGE:
            matrices = np.where(outer(free), hessians, np.eye(self._size))
            units = outer(variable_scales(matrices))
            self._inverses[members] = np.linalg.inv(matrices * units) * units * outer(free)
            return
        for at, hessian, own in zip(members.tolist(), hessians, free, strict=True):
            self._factors[at] = cho_factor(hessian[np.ix_(own, own)], check_finite=False)

    def _solved(self, members: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The solutions of the free variables' systems, zero elsewhere."""
        if self._size < LARGE:
            return times(self._inverses[selection(members)], right)
        found = np.zeros(right.shape)
        for out, at, own in zip(found, members.tolist(), right, strict=True):
            free = self._free[at]
            out[free] = cho_solve(self._factors[at], own[free], check_finite=False)
        return found

    def _held(self, members: np.ndarray, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The rows' multipliers, (k, R)."""
        columns = self._columns[members]
        rows = columns >= 0
        ends, levels = self._ends[:, members][:, rows], self._levels[members][rows]
        flat = self._flat(columns)[rows], levels, ends
        found = np.zeros(columns.shape)
        found[rows] = multipliers(*flat, x.reshape(-1), gradients.reshape(-1))
        return np.divide(found, self._entries[members], out=found, where=rows)


def multipliers(
    columns: np.ndarray, levels: np.ndarray, ends: np.ndarray, x: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """The slopes of rows that balance a gradient: of those at their kinks what the others leave.

    Rows as :meth:`Separable.of` takes them.
    """
    left, right = ends
    side = x[columns] - levels
    at = np.flatnonzero(side == 0)
    found = np.where(side > 0, right, left)
    found[at] = np.clip(0.0, left[at], right[at])
    missing = -gradient - np.bincount(columns, found, x.size)
    while at.size:  # rows with a kink in common one after the other
        first = at[np.unique(columns[at], return_index=True)[1]]
        taken = np.clip(found[first] + missing[columns[first]], left[first], right[first])
        missing[columns[first]] -= taken - found[first]
        found[first] = taken
        at = np.setdiff1d(at, first, assume_unique=True)
    return found
