r"""One client whose quadratic has few rows or few entries, with kinks of single variables.

.. math:: \min_x \tfrac12 |R x|^2 + c^\top x + \sum_k \tfrac12 d_k x_k^2 + \varphi_k(x_k),
    \qquad d > 0,

R of shape (N, m), each :math:`\varphi_k` convex and piecewise linear. With :math:`u = R x` the
negative of the dual is a function of N variables, convex by at least 1 and with one gradient,

.. math::
    g(u) = \tfrac12 |u|^2 - \min_x \big\{\tfrac12 x^\top D x + (c + R^\top u)^\top x
    + \varphi(x)\big\}, \qquad \nabla g(u) = u - R x(u),

where x(u) is taken variable by variable. It is piecewise quadratic: a semismooth Newton step, with
the variables F that x(u) leaves between kinks, goes to

.. math:: u^+ = R x^+, \qquad (D_F + R_F^\top R_F)\, x_F^+ = -(c + \varphi' + R^\top R x_{kinks})_F

and is exact where F stays; with searches along the steps it ends (Li, Sun and Toh 2018, "A highly
efficient semismooth Newton augmented Lagrangian method for solving lasso problems", whose proximal
term is here what the augmented Lagrangian adds). What is factored is of size min(N, |F|), by the
identity of Woodbury where N is less; m x m is nowhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from dald_model.sizes import LIMIT, SAME, SPARSE, SUMMED
from dald_model.solvers.exact.line_search import FLATTER_SLOPE, flattened


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


QUICK = 8
"""Steps after which minimisers for larger D are looked for first."""
WEAKENED = 0.3
"""Which share of the diagonal of R'R these D are at first, and their ratio."""
ITERATED, MOST_PRODUCTS = 150, 60
"""Size of equations from which on conjugate gradients come first, of so many products at most."""


class LowRankClient:
    r"""A client, from one turn to the next.

    Parameters
    ----------
    root : csr_array, shape (N, m)
        R; its rows of one entry, such as a ridge, are taken for a part of D.
    functions : Separable
        The :math:`\varphi_k`, at least one kink each, which may be at infinity.

    Attributes
    ----------
    diagonal, own : ndarray, shape (m,)
        D, and what rows of one entry have in it.
    """

    def __init__(self, root: Any, functions: Separable) -> None:
        counts = np.diff(root.indptr)
        if (counts <= 1).any():
            single = counts == 1
            entries = root.indptr[:-1][single]
            places, squares = root.indices[entries], root.data[entries] ** 2
            self.own = np.bincount(places, squares, minlength=root.shape[1])
            root = root[counts > 1]
        else:
            self.own = np.zeros(root.shape[1])
        is_sparse = root.nnz < SPARSE * max(1, np.prod(root.shape))
        self._root: Any = root if is_sparse else root.toarray()
        self._back: Any = self._root.T
        squares = root.multiply(root) if is_sparse else self._root**2
        self._squares = np.asarray(squares.sum(axis=0)).ravel()
        self._is_sparse, self._multiplies = is_sparse, False
        self._functions = functions
        self._each = np.arange(root.shape[1])
        self.forget()

    def forget(self) -> None:
        """Have no warm start."""
        self._places: tuple[np.ndarray, np.ndarray] | None = None
        self.diagonal = np.ones(self._each.size)
        self._last = np.zeros(self._each.size)
        self._free, self._factor = np.zeros(0, dtype=int), None

    def take(self, diagonal: np.ndarray) -> bool:
        """Take another D, (m,), besides that of the own rows; whether it is positive."""
        self.diagonal, self._factor = diagonal + self.own, None
        self._multiplies = self._is_sparse
        return bool((self.diagonal > 0).all() and np.isfinite(self.diagonal).all())

    def minimise(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The minimiser, R x there and c + R'R x, for c = ``linear``; None where none was found."""
        found = self._minimised(linear, QUICK)
        return found or self._approached(linear)

    def _approached(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The same from minimisers for larger D, each from that of the last."""
        least, found = self.diagonal, None
        curved = self._squares
        share, is_last = 1.0, False
        while not is_last:
            share *= WEAKENED
            is_last = bool((share * curved <= least).all())
            self.diagonal = least if is_last else np.maximum(least, share * curved)
            self._factor, self._multiplies = None, self._is_sparse
            found = self._minimised(linear, LIMIT)
        return found

    def _minimised(
        self, linear: np.ndarray, limit: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        base: tuple[np.ndarray, np.ndarray] | None = None
        places = self._places
        if places is None:
            base = np.zeros(self._root.shape[0]), linear
            places = self._placed(linear)
        for _ in range(limit):
            found = self._step(places, linear)
            if found is None:
                return None
            x, values, tilt = found
            after = self._placed(tilt)
            if _is_same(places, after):
                self._places = places
                return self._checked(x, values, tilt, linear)
            if base is not None:
                values, tilt, is_there = self._searched(base, (values, tilt), after)
                after = after if is_there else self._placed(tilt)
            base, places = (values, tilt), after
        self._places = None
        return None

    def _placed(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where x(u) is, with c + R'u = ``tilt``: see :meth:`Separable.places`."""
        return self._functions.places(-tilt / self.diagonal, self.diagonal)

    def _at(self, tilt: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """x(u), the places it is at known."""
        before, is_at = places
        kinks, slopes = self._functions
        own = -(tilt + slopes[self._each, before]) / self.diagonal
        return np.where(is_at, kinks[self._each, np.where(is_at, before, 0)], own)

    def _step(
        self, places: tuple[np.ndarray, np.ndarray], linear: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The x, R x and c + R'R x that a Newton step from points of these places goes to."""
        before, is_at = places
        kinks, slopes = self._functions
        x = np.zeros(linear.size)
        x[is_at] = kinks[is_at, before[is_at]]
        free = np.flatnonzero(~is_at)
        if free.size:
            pull = linear + slopes[self._each, before]
            if x.any():
                pull = pull + self._back @ (self._root @ x)
            pull[is_at] = 0.0
            moved = self._solved(free, pull)
            if moved is None:
                return None
            x -= moved
            self._last = -moved
        values = self._root @ x
        return x, values, linear + self._back @ values

    def _solved(self, free: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """The solution of the free variables' equations, zero elsewhere, as ``right`` must be."""
        is_dual = free.size > self._root.shape[0]
        if self._multiplies and min(free.size, self._root.shape[0]) >= ITERATED:
            found = self._multiplied(free, right)
            if found is not None:
                return found
            self._multiplies = False
        if self._factor is None or not np.array_equal(free, self._free):
            try:
                self._factor = self._factored(free, is_dual=is_dual)
            except np.linalg.LinAlgError:
                self._factor = None
                return None
            self._free = free
        if not is_dual:
            found = np.zeros(right.size)
            found[free] = cho_solve(self._factor, right[free], check_finite=False)
            return found
        found = right / self.diagonal
        if self._root.shape[0]:
            inner = cho_solve(self._factor, self._root @ found, check_finite=False)
            pushed = (self._back @ inner) / self.diagonal
            found[free] -= pushed[free]
        return found

    def _multiplied(self, free: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """The same by conjugate gradients from the last solution, if these are few."""
        mask = np.zeros(right.size)
        mask[free] = 1.0
        inverse = mask / (self.diagonal + self._squares)
        x = mask * -self._last
        left = right - self.diagonal * x - mask * (self._back @ (self._root @ x))
        goal = SUMMED * np.abs(right).max()
        step = scaled = inverse * left
        gain = left @ scaled
        for _ in range(MOST_PRODUCTS):
            if np.abs(left).max() <= goal:
                self._factor = None  # which takes more memory than all else
                return x
            moved = self.diagonal * step + mask * (self._back @ (self._root @ step))
            length = gain / (step @ moved)
            x = x + length * step
            left = left - length * moved
            scaled = inverse * left
            before, gain = gain, left @ scaled
            step = scaled + (gain / before) * step
        return None

    def _factored(self, free: np.ndarray, *, is_dual: bool) -> Any:
        own: Any = self._root if free.size == self._each.size else self._root[:, free]
        if is_dual:
            full: Any = by_columns(own, 1 / self.diagonal[free]) @ own.T
        else:
            full = own.T @ own
        matrix = full.toarray() if sp.issparse(full) else full
        matrix.flat[:: len(matrix) + 1] += 1.0 if is_dual else self.diagonal[free]
        return cho_factor(matrix, overwrite_a=True, check_finite=False)

    def _searched(
        self,
        base: tuple[np.ndarray, np.ndarray],
        end: tuple[np.ndarray, np.ndarray],
        after: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Where g falls along a step of u and c + R'u, nearly to its least; whether to the end."""
        change, tilted = end[0] - base[0], end[1] - base[1]
        straight, curved = float(change @ base[0]), float(change @ change)

        def slope(length: float, x: np.ndarray) -> float:
            return straight + length * curved - float(tilted @ x)

        first = slope(0.0, self._at(base[1], self._placed(base[1])))
        last = slope(1.0, self._at(end[1], after))
        if not first < 0 or last <= FLATTER_SLOPE * abs(first):
            return *end, True

        def at(lengths: np.ndarray) -> np.ndarray:
            tilt = base[1] + lengths[0] * tilted
            return np.array([slope(lengths[0], self._at(tilt, self._placed(tilt)))])

        length = flattened(at, np.array([first]), np.array([last]))[0]
        return base[0] + length * change, base[1] + length * tilted, False

    def _checked(
        self, x: np.ndarray, values: np.ndarray, tilt: np.ndarray, linear: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The same where the free variables' equations are met, solved once more if need be."""
        assert self._places is not None
        before, is_at = self._places
        slopes = self._functions.slopes[self._each, before]
        live = ~is_at
        missed, size = np.inf, 0.0
        for _ in range(2):
            held = self.diagonal * x
            parts = np.abs(linear) + np.abs(tilt - linear) + np.abs(held) + np.abs(slopes)
            size = parts[live].max(initial=0.0)
            off = np.where(live, tilt + held + slopes, 0.0)
            missed = np.abs(off).max(initial=0.0)
            if missed <= SUMMED * size:
                break
            self._last = np.zeros(x.size)
            more = self._solved(np.flatnonzero(live), off)
            if more is None:
                break
            x = x - more
            values = self._root @ x
            tilt = linear + self._back @ values
        self._last = np.where(live, x, 0.0)
        return (x, values, tilt) if missed <= SAME * size and np.isfinite(x).all() else None


def by_columns(matrix: Any, factors: np.ndarray) -> Any:
    """A matrix, dense or in CSR, with its columns multiplied; scipy's product is not in CSR."""
    if not sp.issparse(matrix):
        return matrix * factors
    data = matrix.data * factors[matrix.indices]
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _is_same(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether free variables are between the same kinks, and the others at the same."""
    return np.array_equal(one[1], two[1]) and np.array_equal(one[0], two[0])
