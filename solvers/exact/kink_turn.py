"""One turn of the method of multipliers for clients with kinked rows.

See :mod:`dald_model.solvers.exact.kinks` for the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.kink_group import LARGE, KinkGroup
from dald_model.solvers.exact.kink_search import Rows, zeros

STIFF, GROWTH = 1e6, 5.0
r"""The penalties :math:`\tau` at most, relative to what a row is held with by the diagonal of H.

And by how much they grow with each s: stiff ones leave little of an error of s.
"""

INNER = 0.1
"""Share of the error for a step at which the inner problem counts as solved."""

MET = 10.0
"""How many errors of the points the rows may be off their kinks."""

ROUNDING = 1e-14
"""Steps below this share of a point, or of what moves it, are rounding errors."""


class Way(NamedTuple):
    """Where clients are between two steps, so that they go on as if nobody else had been done.

    Attributes
    ----------
    bent, pulled : ndarray, shapes (k, m) and (k, R)
        H x, and the rows' forces before they are clipped.
    is_fresh : ndarray of bool, shape (k,)
    """

    bent: np.ndarray
    pulled: np.ndarray
    is_fresh: np.ndarray

    def of(self, chosen: np.ndarray) -> Way:
        """Those of some clients."""
        return Way(*(each[chosen] for each in self))


class KinkTurn:
    """Some clients of a group, until half of them are done."""

    def __init__(
        self,
        group: KinkGroup,
        members: np.ndarray,
        hessians: np.ndarray,
        linear: np.ndarray,
        points: np.ndarray,
        errors: np.ndarray,
    ) -> None:
        at = selection(members)
        self._group, self._at = group, at
        self._rows, self._grown = group.rows.take(at), group.grown[at].copy()
        self._reaches, self._forces = group.reaches[at], group.forces[at]
        self._stiffness = self._grown[:, None] / self._reaches**2
        self._hessians, self._linear, self._errors = hessians, linear, errors
        self._inverses, self._inside = group.inverses[at], group.inside[at].copy()
        self._is_stale = group.is_stale[at].copy()
        self._units = variable_scales(hessians)
        self.x, self.multipliers = points.copy(), group.multipliers[at].copy()
        self._values = group.values[at].copy()

    def run(self, steps: int, way: Way | None) -> tuple[np.ndarray, int, Way]:
        """Go on; say who is done, how many steps were taken, and where everybody is."""
        matrix, taken, units = self._rows.matrix, 0, self._units
        is_done = np.zeros(len(self.x), dtype=bool)
        if way is None:
            way = Way(times(self._hessians, self.x), self._pulled(), is_done)
        bent, pulled, is_fresh = way
        held, inside = self._clipped(pulled)
        while taken < steps:
            taken += 1
            self._renew(inside)
            slope = bent + self._linear
            gradient = slope + matrix.back(held)
            step = -_solved(self._inverses, gradient)
            reach = np.maximum(np.abs(self.x) / units, units * np.abs(slope)).max(axis=1)
            floor = ROUNDING * np.maximum(reach, self._forces)
            allowed = np.maximum(self._errors / units, floor[:, None])
            sizes = (np.abs(step) / units / allowed).max(axis=1)
            # The first step from other multipliers says how far these were from the best
            ends = is_fresh & (sizes <= 1) & ~is_done
            if ends.any():
                is_done = is_done | (ends & self._meets(inside, allowed.max(axis=1)))
            if 2 * np.count_nonzero(is_done) > is_done.size:
                break
            step[is_done] = 0.0
            change, bend = matrix.times(step), times(self._hessians, step)
            lengths, pulled, held, after = self._search(
                np.vecdot(gradient, step),
                np.vecdot(slope, step),
                np.vecdot(step, bend),
                pulled,
                self._stiffness * change,
                change,
            )
            self.x += lengths * step
            self._values += lengths * change
            bent += lengths * bend
            is_fresh = (lengths[:, 0] == 1) & (after == inside).all(axis=1)
            is_fresh |= sizes <= INNER
            is_fresh &= ~is_done
            np.copyto(self.multipliers, held, where=is_fresh[:, None])
            self._hurry(np.flatnonzero(ends & ~is_done), inside, sizes)
            self._stiffen(is_fresh)
            pulled = np.where(is_fresh[:, None], self._pulled(), pulled)
            held, inside = self._clipped(pulled)
        self._write(is_done)
        return is_done, taken, Way(bent, pulled, is_fresh)

    def _pulled(self) -> np.ndarray:
        """The rows' forces before they are clipped."""
        return self.multipliers + self._stiffness * self._values

    def _meets(self, inside: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Whether the rows J are at their kinks but for errors of the points, as some cannot be."""
        missed = np.where(inside, np.abs(self._values), 0.0) / self._reaches
        return np.asarray((missed <= MET * allowed[:, None]).all(axis=1))

    def _hurry(self, stuck: np.ndarray, inside: np.ndarray, sizes: np.ndarray) -> None:
        """Have multipliers of clients that stand still where the first of them reaches its limit.

        Of more rows J than variables not all can be at their kinks. Their multipliers then move by
        the same each time, and nothing else does, until a row leaves J: that may take thousands of
        steps. So many are gone at once, but no more than move a point by what it may be off.
        """
        if not stuck.size:
            return
        drift = np.where(inside[stuck], self._stiffness[stuck] * self._values[stuck], 0.0)
        ends = np.where(drift > 0, self._rows.high[stuck], self._rows.low[stuck])
        left = ends - self.multipliers[stuck]
        steps = np.divide(left, drift, out=np.full(left.shape, np.inf), where=drift != 0)
        most = np.divide(1.0, sizes[stuck], out=np.full(stuck.size, np.inf), where=sizes[stuck] > 0)
        count = np.minimum(steps.min(axis=1), most)
        count[np.isinf(count)] = 0.0
        self.multipliers[stuck] += np.maximum(count, 0.0)[:, None] * drift

    def _stiffen(self, chosen: np.ndarray) -> None:
        """Have the penalties of some clients grow."""
        grown = np.where(chosen, np.minimum(GROWTH * self._grown, STIFF), self._grown)
        if (grown > self._grown).any():
            self._is_stale |= grown > self._grown
            self._grown = grown
            self._stiffness = grown[:, None] / self._reaches**2

    def _clipped(self, pulled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows' forces, and where they are between their limits."""
        low, high = self._rows.low, self._rows.high
        return np.clip(pulled, low, high), (pulled > low) & (pulled < high)

    def _renew(self, inside: np.ndarray) -> None:
        """Take the inverses for other rows J."""
        differs = self._is_stale | (inside != self._inside).any(axis=1)
        if not differs.any():
            return
        at = selection(np.flatnonzero(differs))
        weights = np.where(inside[at], self._stiffness[at], 0.0)
        found = self._rows.matrix.gram(weights, at)
        found += self._hessians[at]
        self._inverses[at] = _inverted(found)
        self._inside[at], self._is_stale[at] = inside[at], False

    def _search(
        self,
        first: np.ndarray,
        base: np.ndarray,
        bend: np.ndarray,
        pulled: np.ndarray,
        stiff: np.ndarray,
        change: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """How far along the steps the inner problem's objective falls, at most 1; forces there.

        Of shape (k, 1), and as :meth:`_pulled` and :meth:`_clipped` give them. ``first`` is the
        slope at the start, ``base`` that without the rows.
        """
        ahead = pulled + stiff
        held, inside = self._clipped(ahead)
        lengths = np.ones((first.size, 1))
        long = np.flatnonzero(base + bend + np.vecdot(held, change) > -0.5 * first)
        if long.size == 0:
            return lengths, ahead, held, inside
        rows = self._rows.low[long], self._rows.high[long]
        along = Rows(pulled[long], stiff[long], change[long], *rows)
        lengths[long, 0] = zeros(first[long], bend[long], along)
        ahead[long] = along.pulled + lengths[long] * along.stiff
        return lengths, ahead, *self._clipped(ahead)

    def _write(self, is_done: np.ndarray) -> None:
        """Leave everything in the group; variables of one row's kink exactly there."""
        group, at = self._group, self._at
        self._rows.put(self.x, self._values, self._inside & is_done[:, None])
        group.values[at] = self._values
        group.multipliers[at], group.inside[at] = self.multipliers, self._inside
        group.inverses[at], group.is_stale[at] = self._inverses, self._is_stale
        group.grown[at] = self._grown


def _inverted(matrices: np.ndarray) -> np.ndarray:
    """The inverses of small matrices; of large ones triangular factors, which take less time."""
    if matrices.shape[1] < LARGE:
        units = outer(variable_scales(matrices))
        return np.linalg.inv(matrices * units) * units
    return np.linalg.cholesky(matrices)


def _solved(inverses: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The products of what :func:`_inverted` gave with vectors."""
    if inverses.shape[1] < LARGE:
        return times(inverses, right)
    pairs = zip(inverses, right, strict=True)
    # The rows of numpy's lower triangle are the columns of LAPACK's upper one
    return np.array([cho_solve((lower.T, False), own, check_finite=False) for lower, own in pairs])
