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

LIMIT = 25
"""Systems after which it is given up."""
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
    """The minimisers of one client for one H after the other.

    Parameters
    ----------
    columns, levels, entries, low, high : ndarray, shape (R,)
        The variable of each row, where it has its kink, its entry, and its limits l and h.
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
        self._columns, self._levels, self._entries = columns, levels, entries
        self._ends = np.sort(entries * np.stack([low, high]), axis=0)
        self._functions = Separable.of(size, columns, levels, self._ends)
        self._factor: Any = None
        self._free = np.zeros(0, dtype=int)

    def forget(self) -> None:
        """There is another H."""
        self._factor = None

    def minimise(
        self, hessian: np.ndarray, linear: np.ndarray, start: np.ndarray, errors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The minimiser and the multipliers s of the rows; None where it was not found."""
        functions, each = self._functions, np.arange(start.size)
        shares, x = np.diagonal(hessian), start
        gradient = hessian @ x + linear
        before, is_at = functions.places(x - gradient / shares, shares)
        for _ in range(LIMIT):
            free = np.flatnonzero(~is_at)
            moved = np.where(is_at, functions.kinks[each, np.where(is_at, before, 0)], 0.0)
            if free.size:
                pull = linear[free] + functions.slopes[free, before[free]]
                pull += (hessian @ moved)[free]
                if not self._factored(hessian, free):
                    return None
                moved[free] = -cho_solve(self._factor, pull, check_finite=False)
            change, x = np.abs(moved - x), moved
            gradient = hessian @ x + linear
            earlier = before, is_at
            before, is_at = functions.places(x - gradient / shares, shares)
            is_same = np.array_equal(is_at, earlier[1]) and np.array_equal(before, earlier[0])
            if is_same or (change <= INNER * errors).all():
                return (x, self._held(x, gradient)) if np.isfinite(x).all() else None
        return None

    def _held(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The rows' multipliers."""
        return multipliers(self._columns, self._levels, self._ends, x, gradient) / self._entries

    def _factored(self, hessian: np.ndarray, free: np.ndarray) -> bool:
        """Have a factor of the free variables' part of H."""
        if self._factor is None or not np.array_equal(free, self._free):
            try:
                self._factor = cho_factor(hessian[np.ix_(free, free)], check_finite=False)
            except np.linalg.LinAlgError:
                self._factor = None
                return False
            self._free = free
        return True


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
