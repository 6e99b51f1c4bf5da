r"""Cones of an interior point: scalings, corrections and step lengths, for all cones of a kind.

A scaling W maps slacks s and multipliers z to one point, :math:`W z = W^{-T} s = \lambda`
(Nesterov and Todd 1997), so that steps obey

.. math:: \Delta s + W^\top W \Delta z = -d_s .

Those without such a symmetry are in :mod:`.barriers`. Vectors are flat, one cone after the other.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from dald_model.solvers.interior.rows import Rows

HELD_ROW = 1e-6
"""Ratio of slack and multiplier at which a row is held: two steps with one factor leave its square
of a change, 1e-12, and rounding is as far below one."""


class Cone(Protocol):
    """The product of several cones of one kind.

    Attributes
    ----------
    size : int
        Entries of a vector.
    degree : int
        The parameter of the barrier.
    """

    size: int
    degree: int

    def start(self) -> np.ndarray:
        """A point in the middle of the cone and of its dual, (size,)."""
        ...

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        """Make the scaling of these slacks and multipliers."""
        ...

    def squared(self, v: np.ndarray) -> np.ndarray:
        r""":math:`W^\top W v`."""
        ...

    def inverse(self, v: np.ndarray) -> np.ndarray:
        r""":math:`(W^\top W)^{-1} v`."""
        ...

    def curvature(self, rows: Rows) -> np.ndarray:
        r""":math:`A^\top (W^\top W)^{-1} A`, dense or sparse as the rows are."""
        ...

    def own(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        r""":math:`(W^\top W)^{-1} s`, which is z in the interior: as a product it would be rounded.

        The largest part of what a step moves, where slacks are small.
        """
        return z

    def correction(self, ds: np.ndarray, dz: np.ndarray, centring: float) -> np.ndarray:
        r""":math:`(W^\top W)^{-1} d_s` of a step to :math:`\sigma \mu`, from the predicted one."""
        ...

    def longest(self, ds: np.ndarray, dz: np.ndarray) -> float:
        """The longest step that stays in the cone and its dual, at most 1."""
        ...


class Orthant(Cone):
    """Nonnegative numbers."""

    def __init__(self, size: int) -> None:
        self.size = self.degree = size
        self._is_held: np.ndarray | None = None  # of an active set, else of none

    def start(self) -> np.ndarray:
        self._is_held = None
        return np.ones(self.size)

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        self._s, self._z = s, z
        self.ratio = s / z if self._is_held is None else np.where(self._is_held, HELD_ROW, np.inf)

    def squared(self, v: np.ndarray) -> np.ndarray:
        return self.ratio * v

    def inverse(self, v: np.ndarray) -> np.ndarray:
        return v / self.ratio

    def curvature(self, rows: Rows) -> np.ndarray:
        return rows.gram(1 / self.ratio)

    def own(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        return s / self.ratio

    def correction(self, ds: np.ndarray, dz: np.ndarray, centring: float) -> np.ndarray:
        return self._z + (ds * dz - centring) / self._s

    def longest(self, ds: np.ndarray, dz: np.ndarray) -> float:
        return _within(max((-ds / self._s).max(), (-dz / self._z).max()))

    def settled(self, s: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The active set: zero for the smaller of each slack and its multiplier."""
        self._is_held = z >= s
        return np.where(self._is_held, 0.0, s), np.where(self._is_held, z, 0.0)


class Kinks(Orthant):
    r"""Pairs :math:`t - v, t + v \ge 0` of absolute values, all of the first before the second.

    They are second-order cones as well, but :math:`t^2 - v^2` would cancel.
    """

    def __init__(self, count: int) -> None:
        super().__init__(2 * count)
        self.count = count

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        super().scale(s, z)
        inverse = 1 / self.ratio
        one, two = inverse[: self.count], inverse[self.count :]
        self._tops = one + two, two - one

    def joined(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        return np.concatenate([heads - tails, heads + tails])

    def heads(self, z: np.ndarray) -> np.ndarray:
        return z[: self.count] + z[self.count :]

    def tails(self, z: np.ndarray) -> np.ndarray:
        return z[self.count :] - z[: self.count]

    def norms(self, tails: np.ndarray) -> np.ndarray:
        return np.abs(tails)

    def held(self, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([weights, weights]) / 2

    def reduced(self, rows: Rows) -> np.ndarray:
        one, two = self.ratio[: self.count], self.ratio[self.count :]
        return rows.gram(4 / (one + two))

    def tops(self) -> tuple[np.ndarray, np.ndarray]:
        return self._tops

    def along(self, tails: np.ndarray) -> np.ndarray:
        return tails

    def beside(self, heads: np.ndarray) -> np.ndarray:
        return heads

    def sided(
        self, s: np.ndarray, z: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.heads(s) / 2, *self.settled(s, z)


class SecondOrder(Cone):
    r"""Cones :math:`u_0 \ge \|u_1\|_2` of one width, (k, d)."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width
        self.size, self.degree = count * width, count
        self._sides: Sides | None = None  # of an active set, else of none

    def start(self) -> np.ndarray:
        self._sides = None
        found = np.zeros((self.count, self.width))
        found[:, 0] = 1.0
        return found.ravel()

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        self._s, self._z = self._table(s), self._table(z)
        if self._sides is not None:
            return
        of_s, of_z = _determinant(self._s), _determinant(self._z)
        one, two = self._s / np.sqrt(of_s)[:, None], _reflected(self._z / np.sqrt(of_z)[:, None])
        inner = one[:, 0] * two[:, 0] - np.vecdot(one[:, 1:], two[:, 1:])
        self._w = (one + two) / np.sqrt(2 * (1 + inner))[:, None]
        # What rounding takes from w_0 would be missing where the cone is met
        self._w[:, 0] = np.sqrt(1 + np.vecdot(self._w[:, 1:], self._w[:, 1:]))
        self._eta = (of_s / of_z) ** 0.25
        self._lambda = self._times(self._z)

    def squared(self, v: np.ndarray) -> np.ndarray:
        if self._sides is not None:
            return np.zeros(v.size)  # which only a run in the interior asks for
        return self._quadratic(self._table(v), self._w, self._eta**2)

    def inverse(self, v: np.ndarray) -> np.ndarray:
        if self._sides is not None:
            return self._sides.inverse(self._table(v)).ravel()
        return self._quadratic(self._table(v), _reflected(self._w), self._eta**-2)

    def curvature(self, rows: Rows) -> np.ndarray:
        identity = np.eye(self.width - 1)
        inside = self._w[:, 1:]
        blocks = np.empty((self.count, self.width, self.width))
        blocks[:, 0, 0], blocks[:, 0, 1:], blocks[:, 1:, 0] = self._w[:, 0], -inside, -inside
        outer = inside[:, :, None] * inside[:, None, :]
        blocks[:, 1:, 1:] = identity + outer / (1 + self._w[:, 0])[:, None, None]
        return rows.blocked(blocks / self._eta[:, None, None]).gram()

    def joined(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Slacks from their heads, (k,), and tails, (k (d - 1),)."""
        return _beside(heads, tails.reshape(self.count, -1)).ravel()

    def heads(self, z: np.ndarray) -> np.ndarray:
        """The adjoint in heads, (k,)."""
        return z.reshape(self.count, -1)[:, 0]

    def tails(self, z: np.ndarray) -> np.ndarray:
        """The adjoint in tails, (k (d - 1),)."""
        return z.reshape(self.count, -1)[:, 1:].ravel()

    def norms(self, tails: np.ndarray) -> np.ndarray:
        """The least heads of tails, (k,)."""
        return _lengths(tails.reshape(self.count, -1))

    def held(self, weights: np.ndarray) -> np.ndarray:
        """Multipliers in the middle that hold costs of the heads, (size,)."""
        found = np.zeros((self.count, self.width))
        found[:, 0] = weights
        return found.ravel()

    def reduced(self, rows: Rows) -> np.ndarray:
        r"""The same after the elimination of variables t that stand in :math:`u_0` alone.

        With rows of :math:`u_1` only, (k (d - 1), n): the block of the inverse is
        :math:`\eta^{-2} (I - 2 w_1 w_1^\top / (2 w_0^2 - 1))`, whose root is taken, as it would
        cancel where the norm is positive.
        """
        if self._sides is not None:
            return rows.blocked(self._sides.roots()).gram()
        shrunk = 1 / (2 * self._w[:, 0] ** 2 - 1)
        norm = _lengths(self._w[:, 1:])
        along = self._w[:, 1:] / np.maximum(norm, np.finfo(float).tiny)[:, None]
        less = (1 - np.sqrt(shrunk))[:, None, None] * along[:, :, None] * along[:, None, :]
        return rows.blocked((np.eye(self.width - 1) - less) / self._eta[:, None, None]).gram()

    def tops(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the inverse the corner, (k,), and what joins it to the rest, (k (d - 1),)."""
        if self._sides is not None:
            return np.full(self.count, 1 / HELD_ROW), -self._sides.ways.ravel() / HELD_ROW
        corner = (2 * self._w[:, 0] ** 2 - 1) / self._eta**2
        beside = -2 * (self._w[:, 0] / self._eta**2)[:, None] * self._w[:, 1:]
        return corner, beside.ravel()

    def along(self, tails: np.ndarray) -> np.ndarray:
        """What tails, (k (d - 1),), come to in each cone, (k,)."""
        return tails.reshape(self.count, -1).sum(axis=1)

    def beside(self, heads: np.ndarray) -> np.ndarray:
        """Each head, (k,), once for each tail, (k (d - 1),)."""
        return np.repeat(heads, self.width - 1)

    def own(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        if self._sides is not None:
            return self.inverse(s) + self._sides.beyond(self._table(z)).ravel()
        return z

    def sided(
        self, s: np.ndarray, z: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""An active set of norms :math:`w |v|` with slopes y: heads, slacks and multipliers.

        :math:`y \in \partial w |v|` if and only if y is the projection of :math:`y + c v` onto the
        ball of radius w, for any positive c. A norm is held at zero where that is inside, with a c
        that makes no more of v than w, and else it has the slope :math:`w p / |p|`, p = y + v.
        """
        at, slope = self._table(s)[:, 1:], -self._table(z)[:, 1:]
        wanted, size = slope + at, _lengths(at)
        far = _lengths(wanted)
        part = np.where(size > weights, weights / np.where(size > 0, size, 1.0), 1.0)
        inside = _lengths(slope + part[:, None] * at) <= weights
        is_zero: np.ndarray = inside & ((weights > 0) | (size == 0))
        ways = np.where(is_zero, 0.0, 1 / np.where(is_zero, 1.0, far))[:, None] * wanted
        slope = np.where(is_zero[:, None], slope, weights[:, None] * ways)
        at = np.where(is_zero[:, None], 0.0, at)
        heads = _lengths(at)
        bent = weights / np.where(is_zero, 1.0, np.maximum(far - weights, HELD_ROW * far))
        multipliers = _beside(weights, -slope)
        self._sides = Sides(ways, np.where(is_zero, 1 / HELD_ROW, bent), multipliers)
        return heads, _beside(heads, at).ravel(), multipliers.ravel()

    def correction(self, ds: np.ndarray, dz: np.ndarray, centring: float) -> np.ndarray:
        one = self._times(self._table(ds), is_inverse=True)
        two = self._times(self._table(dz))
        wanted = _product(self._lambda, self._lambda) + _product(one, two)
        wanted[:, 0] -= centring
        return self._times(_divided(self._lambda, wanted), is_inverse=True).ravel()

    def longest(self, ds: np.ndarray, dz: np.ndarray) -> float:
        both = self._table(ds), self._table(dz)
        return _to_boundary(np.concatenate([self._s, self._z]), np.concatenate(both))

    def _table(self, v: np.ndarray) -> np.ndarray:
        return v.reshape(self.count, self.width)

    def _times(self, v: np.ndarray, *, is_inverse: bool = False) -> np.ndarray:
        w = _reflected(self._w) if is_inverse else self._w
        eta = 1 / self._eta if is_inverse else self._eta
        inner = np.vecdot(w[:, 1:], v[:, 1:])
        first = w[:, 0] * v[:, 0] + inner
        rest = v[:, 1:] + w[:, 1:] * (v[:, 0] + inner / (1 + w[:, 0]))[:, None]
        return _beside(first, rest) * eta[:, None]

    def _quadratic(self, v: np.ndarray, w: np.ndarray, scale: np.ndarray) -> np.ndarray:
        bent = 2 * w * np.vecdot(w, v)[:, None] - _reflected(v)
        return (bent * scale[:, None]).ravel()


class Sides(NamedTuple):
    r"""An active set of norms: on which side of zero each is.

    Attributes
    ----------
    ways : ndarray, shape (k, d - 1)
        The unit vector u along which a norm is positive; zero where it is held at zero.
    bends : ndarray, shape (k,)
        Its curvature across u, h: :math:`w / |v|` at a solution, as that of :math:`w |v|` is.
    multipliers : ndarray, shape (k, d)
        What multipliers are for slacks along u.
    """

    ways: np.ndarray
    bends: np.ndarray
    multipliers: np.ndarray

    def inverse(self, v: np.ndarray) -> np.ndarray:
        r""":math:`(1, -u) (1, -u)^\top / \text{held} + (0, h (I - u u^\top))` times v, (k, d)."""
        along = np.vecdot(self.ways, v[:, 1:])
        first = (v[:, 0] - along) / HELD_ROW
        across = v[:, 1:] - along[:, None] * self.ways
        rest = self.bends[:, None] * across - first[:, None] * self.ways
        return _beside(first, rest)

    def beyond(self, z: np.ndarray) -> np.ndarray:
        """How far multipliers are from those along u, where a norm is positive, (k, d)."""
        is_positive = self.ways.any(axis=1, keepdims=True)
        return np.where(is_positive, z - self.multipliers, 0.0)

    def roots(self) -> np.ndarray:
        r""":math:`\sqrt h (I - u u^\top)`."""
        outer = self.ways[:, :, None] * self.ways[:, None, :]
        return np.sqrt(self.bends)[:, None, None] * (np.eye(outer.shape[1]) - outer)


class Semidefinite(Cone):
    r"""Symmetric matrices of one size by their scaled upper triangles, column by column."""

    def __init__(self, count: int, side: int) -> None:
        self.count, self.side = count, side
        row, column = np.triu_indices(side)
        order = np.lexsort((row, column))
        self._row, self._column = row[order], column[order]
        self._weight = np.where(self._row == self._column, 1.0, np.sqrt(2.0))
        self.size, self.degree = count * self._row.size, count * side

    def start(self) -> np.ndarray:
        return self._flat(np.broadcast_to(np.eye(self.side), (self.count, self.side, self.side)))

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        self._z = z
        of_s = np.linalg.cholesky(self._matrices(s))
        of_z = np.linalg.cholesky(self._matrices(z))
        left, self._lambda, right = np.linalg.svd(_transposed(of_z) @ of_s)
        root = np.sqrt(self._lambda)[:, None, :]
        self._r = (of_s @ _transposed(right)) / root
        self._inverse = _transposed((of_z @ left) / root)

    def squared(self, v: np.ndarray) -> np.ndarray:
        both = self._r @ _transposed(self._r)
        return self._flat(both @ self._matrices(v) @ both)

    def inverse(self, v: np.ndarray) -> np.ndarray:
        both = _transposed(self._inverse) @ self._inverse
        return self._flat(both @ self._matrices(v) @ both)

    def curvature(self, rows: Rows) -> np.ndarray:
        height = self._row.size
        # The map of one triangle as a matrix: each unit vector goes through it
        units = np.zeros((height, self.side, self.side))
        at = np.arange(height)
        units[at, self._row, self._column] = units[at, self._column, self._row] = 1 / self._weight
        bent = self._inverse[:, None] @ units @ _transposed(self._inverse)[:, None]
        table = bent[..., self._row, self._column] * self._weight
        return rows.blocked(_transposed(table)).gram()

    def correction(self, ds: np.ndarray, dz: np.ndarray, centring: float) -> np.ndarray:
        one = self._inverse @ self._matrices(ds) @ _transposed(self._inverse)
        two = _transposed(self._r) @ self._matrices(dz) @ self._r
        wanted = (one @ two + two @ one) / 2
        at = np.arange(self.side)
        wanted[:, at, at] += self._lambda**2 - centring
        wanted *= 2 / (self._lambda[:, :, None] + self._lambda[:, None, :])
        return self._flat(_transposed(self._inverse) @ wanted @ self._inverse)

    def longest(self, ds: np.ndarray, dz: np.ndarray) -> float:
        one = self._inverse @ self._matrices(ds) @ _transposed(self._inverse)
        two = _transposed(self._r) @ self._matrices(dz) @ self._r
        root = np.sqrt(self._lambda)
        both = np.array([one, two]) / (root[:, :, None] * root[:, None, :])
        return _within(-np.linalg.eigvalsh(both).min())

    def _matrices(self, v: np.ndarray) -> np.ndarray:
        table = v.reshape(self.count, -1) / self._weight
        found = np.empty((self.count, self.side, self.side))
        found[:, self._row, self._column] = table
        found[:, self._column, self._row] = table
        return found

    def _flat(self, matrices: np.ndarray) -> np.ndarray:
        return (matrices[:, self._row, self._column] * self._weight).ravel()


def _transposed(matrices: np.ndarray) -> np.ndarray:
    return matrices.swapaxes(-1, -2)


def _reflected(v: np.ndarray) -> np.ndarray:
    found = -v
    found[:, 0] = v[:, 0]
    return found


def _determinant(v: np.ndarray) -> np.ndarray:
    norm = _lengths(v[:, 1:])
    return (v[:, 0] - norm) * (v[:, 0] + norm)


def _product(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    rest = one[:, :1] * two[:, 1:] + two[:, :1] * one[:, 1:]
    return _beside(np.vecdot(one, two), rest)


def _divided(by: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The u whose Jordan product with ``by`` is v."""
    first = (by[:, 0] * v[:, 0] - np.vecdot(by[:, 1:], v[:, 1:])) / _determinant(by)
    return _beside(first, (v[:, 1:] - first[:, None] * by[:, 1:]) / by[:, :1])


def _to_boundary(at: np.ndarray, move: np.ndarray) -> float:
    """The longest step of second-order cones, at most 1."""
    square = move[:, 0] ** 2 - np.vecdot(move[:, 1:], move[:, 1:])
    half = at[:, 0] * move[:, 0] - np.vecdot(at[:, 1:], move[:, 1:])
    start = _determinant(at)
    with np.errstate(all="ignore"):
        root = np.sqrt(half**2 - square * start)
        # The smallest positive root, by the formula that does not cancel
        one = np.where(half < 0, start / (root - half), -(half + root) / square)
        is_left = (square < 0) | ((half < 0) & (half**2 >= square * start))
    found = np.where(is_left & (one > 0), one, 1.0)
    found = np.where(move[:, 0] < 0, np.minimum(found, -at[:, 0] / move[:, 0]), found)
    return float(np.minimum(found.min(initial=1.0), 1.0))


def _beside(first: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """A first column, (k,), before others, (k, d): ``np.column_stack`` takes longer than a cone."""
    found = np.empty((len(first), rest.shape[1] + 1))
    found[:, 0], found[:, 1:] = first, rest
    return found


def _lengths(rows: np.ndarray) -> np.ndarray:
    """The Euclidean norms of rows, (k,)."""
    return np.sqrt(np.vecdot(rows, rows))


def _within(worst: float) -> float:
    return 1.0 if worst <= 1.0 else float(1 / worst)
