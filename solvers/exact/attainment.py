r"""Whether a cone program that is bounded below attains its infimum, decided on its cones.

For :math:`\min \tfrac12 v^\top P v + q^\top v` with :math:`A v + s = b, \; s \in K` a recession
direction d has :math:`P d = 0, \; q^\top d \le 0, \; -A d \in K`. Beside linear rows alone a
bounded program attains its infimum. A curved cone may come ever closer to its boundary: with
:math:`1/x \le t` every step to larger x puts (x, t) inside of the cone, and then t can be less.

So directions are found in turn. The first puts, from every feasible point, the slacks of some
curved cones into their interior, and a small step no longer feels these; the next one is a
recession direction of the rest, and so on. If one of them has :math:`q^\top d < 0`, every feasible
point has a better one beyond it, and no minimiser exists. If no more cones can be entered, nothing
is proved.

A move :math:`\sigma = -A d` enters a cone from every slack in it if :math:`\sigma` is not zero and
no slack is a multiple of it. That is known where the slack of a row is never zero, see
:mod:`dald_model.solvers.exact.attainment`, and the move keeps it:

* second-order cones: any row;
* exponential cones :math:`y e^{x/y} \le z`: y, and then x falls or z rises;
* power cones :math:`x^a y^{1-a} \ge |z|`: z, and then x or y rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from dald_model.compile.form import LINEAR, ConeProgram, cone_height
from dald_model.sizes import ROUNDING
from dald_model.solvers.exact.native import STATUSES, solved_once

ROUGH = 1e-3
"""Relative tolerance of the units: entries are to be about one."""
SHORT_MOVES = 1e-6
"""Weight of a move's square beside cones entered: the shortest move is found, and none that is more
than about 1e3 long in balanced units, beside which an interior point has no digits left."""
ENTERED = 0.5
"""Share of a unit step from which on a cone counts as entered. Those that can be are entered by
one, the others by the solver's tolerance."""
STAGES = 8
"""The most directions in turn; a logistic loss takes three."""
MOST_ENTRIES = 1_000_000
"""Entries of a program above which nothing is asked: 100,000 (5,000 rows of 20 features) take 1 s
where there is a minimiser and 6 s where there is none, 500,000 seven times as long."""
ITERATIONS = 1000
"""The most iterations for it: few variables may take several times their number."""
STAYING = 1e-4
"""A row that a move changes by less than this, in balanced units, is one that it keeps: a solver
leaves up to 3e-6 in rows that need not change."""


class Descent(NamedTuple):
    """Directions in turn which prove that no feasible point is a minimiser.

    Attributes
    ----------
    directions : list of ndarray
        With a single one the objective falls linearly, without bound.
    units : ndarray
        Lengths of the variables beside which a direction is long or short.
    """

    directions: list[np.ndarray]
    units: np.ndarray


def descent(cone: ConeProgram) -> Descent | None:
    """A proof that the program has no minimiser; None if there is none.

    Nor is there one for linear cones alone, whose bounded programs have minimisers.
    """
    if all(kind in LINEAR for kind, _ in cone.cones) or cone.rows.nnz > MOST_ENTRIES:
        return None
    left = _Conditions.of(cone)
    units = left.balance()
    found: list[np.ndarray] = []
    for _ in range(STAGES):
        move = left.move()
        if move is None or not (move.falls or move.entered):
            return None
        found.append(move.direction * units)
        if move.falls:
            return Descent(found, units)
        left.drop(move.entered)
    return None


class _Move(NamedTuple):
    """A recession direction, the cones that it enters, and whether the objective falls by it."""

    direction: np.ndarray
    entered: set[int]
    falls: bool


class _Cone(NamedTuple):
    """A curved cone that no linear rows describe, and which of its rows are never zero."""

    rows: Any
    kind: str
    argument: Any
    sure: np.ndarray

    def is_left(self, direction: np.ndarray) -> bool:
        """Whether a move keeps one of these rows, so that no slack is a multiple of the move."""
        return bool((np.abs(self.rows @ direction)[self.sure] < STAYING).any())


@dataclass
class _Conditions:
    """What a move d has to satisfy, but for the cones that were entered before.

    ``equal @ d == 0``, ``below @ d <= 0``, ``slope @ d <= 0`` and ``-rows @ d`` in each of the
    ``cones``. ``owner`` says for each row of ``below`` of which cone it is, -1 of linear rows.
    """

    equal: Any
    below: Any
    owner: np.ndarray
    slope: np.ndarray
    cones: dict[int, _Cone]

    @classmethod
    def of(cls, program: ConeProgram) -> Self:
        """Those of a program; with a constant row most cones ask for linear ones."""
        rows = sp.csr_array(program.rows)
        kinds = [kind for kind, _ in program.cones]
        heights = [cone_height(*one) for one in program.cones]
        is_equal = np.repeat([kind == "ZeroConeT" for kind in kinds], heights)
        stops = np.cumsum([0, *heights]).tolist()
        balls = [
            slice(*ends)
            for ends, kind in zip(pairwise(stops), kinds, strict=True)
            if kind == "SecondOrderConeT"
        ]
        is_certain = nonzero_slacks(program, rows, is_equal, balls)
        places: list[tuple[int, int, int]] = []  # cone, row, sign
        cones = {}
        for at, (start, stop) in enumerate(pairwise(stops)):
            kind, argument = program.cones[at]
            if kind == "NonnegativeConeT":
                places += [(-1, row, 1) for row in range(start, stop)]
            elif kind == "ExponentialConeT" and is_certain[start + 1]:
                places += [(at, start, -1), (at, start + 2, 1)]
            elif kind == "PowerConeT" and is_certain[start + 2]:
                places += [(at, start, 1), (at, start + 1, 1)]
            elif kind != "ZeroConeT":
                sure = is_certain[start:stop] & (kind == "SecondOrderConeT")
                cones[at] = _Cone(rows[start:stop], kind, argument, sure)
        owner, row, sign = np.array(places, dtype=int).reshape(-1, 3).T
        below = sp.csr_array(sp.diags_array(sign.astype(float)) @ rows[row])
        equal = sp.csr_array(sp.vstack([rows[is_equal], program.matrix]))
        slope = np.array(program.linear, dtype=float)
        return cls(equal, below, owner, slope, cones)

    def balance(self) -> np.ndarray:
        """Rows and variables in units in which entries are about one; the variables' units.

        The logarithms of the entries are made small by least squares, so that a variable in any
        unit ends as the same one. Rows of one cone have one unit.
        """
        parts = [self.equal, self.below, sp.csr_array(self.slope[None])]
        parts += [one.rows for one in self.cones.values()]
        cells = sp.coo_array(sp.vstack(parts))
        heights = [part.shape[0] for part in parts]
        first = sum(heights[:3])
        group = np.concatenate(
            [np.arange(first), np.repeat(np.arange(len(self.cones)), heights[3:]) + first]
        )
        row, width, many = group[cells.row], self.slope.size, first + len(self.cones)
        known = np.flatnonzero(cells.data)
        ones, at = np.ones(2 * known.size), np.tile(np.arange(known.size), 2)
        place = np.concatenate([row[known], many + cells.col[known]])
        sums = sp.csr_array((ones, (at, place)), shape=(known.size, many + width))
        found = np.exp(-lsmr(sums, np.log(np.abs(cells.data[known])), atol=ROUGH, btol=ROUGH)[0])
        height, units = found[:many], found[many:]
        scale = sp.diags_array(units)
        tall = np.cumsum(heights[:2])
        self.equal = sp.csr_array(sp.diags_array(height[: tall[0]]) @ self.equal @ scale)
        self.below = sp.csr_array(sp.diags_array(height[tall[0] : tall[1]]) @ self.below @ scale)
        self.slope = height[tall[1]] * self.slope * units
        for at, size in zip(self.cones, height[first:].tolist(), strict=True):
            one = self.cones[at]
            self.cones[at] = one._replace(rows=sp.csr_array(size * one.rows @ scale))
        return units

    def move(self) -> _Move | None:
        """The shortest one that enters all cones that can be entered; None where a solver fails."""
        names, gains = self._gains()
        size, count = self.slope.size, gains.shape[0]
        one = sp.eye_array(count, format="csr")
        blocks = [
            [self.equal, None],
            [self.below, None],
            [-gains, one],
            [None, one],
            [None, -one],
            *([cone.rows, None] for cone in self.cones.values()),
        ]
        rows: Any = sp.csc_array(sp.block_array(blocks))
        first, rhs = self.equal.shape[0] + self.below.shape[0] + count, np.zeros(rows.shape[0])
        rhs[first : first + count] = 1.0
        short = sp.diags_array(np.repeat([SHORT_MOVES, 0.0], [size, count]))
        linear = np.repeat([0.0, -1.0], [size, count])
        cones = (
            ("ZeroConeT", self.equal.shape[0]),
            ("NonnegativeConeT", self.below.shape[0] + 3 * count),
            *((cone.kind, cone.argument) for cone in self.cones.values()),
        )
        program = ConeProgram(sp.csc_array(short), linear, 0.0, rows, rhs, cones)
        found = solved_once(program)
        if STATUSES.get(str(found.status)) != "optimal":
            return None
        direction, share = np.split(np.asarray(found.x), [size])
        is_in = share > ENTERED
        entered = {name for name, part in zip(names, is_in[:-1], strict=True) if part}
        entered -= {at for at, one in self.cones.items() if not one.is_left(direction)}
        falls = bool(is_in[-1])
        return _Move(self._kept(direction, falls), entered, falls)

    def drop(self, entered: set[int]) -> None:
        """Leave out the conditions of cones in whose interior points are after a move."""
        stays = ~np.isin(self.owner, list(entered))
        self.below, self.owner = sp.csr_array(self.below[stays]), self.owner[stays]
        self.cones = {at: one for at, one in self.cones.items() if at not in entered}

    def _gains(self) -> tuple[list[int], Any]:
        """The cones that can be entered, and how far a move enters each; the objective last."""
        of, place = np.unique(self.owner[self.owner >= 0], return_inverse=True)
        mine = np.flatnonzero(self.owner >= 0)
        shape = of.size, self.owner.size
        adds = sp.csr_array((np.ones(mine.size), (place, mine)), shape=shape)
        certain = {at: one for at, one in self.cones.items() if one.sure.any()}
        gains = [-(adds @ self.below), *(-one.rows[[0]] for one in certain.values())]
        gains.append(sp.csr_array(-self.slope[None]))
        return [*of.tolist(), *certain], sp.csr_array(sp.vstack(gains))

    def _kept(self, direction: np.ndarray, falls: bool) -> np.ndarray:
        """The direction with the digits that a solver leaves out of equalities, and active rows."""
        active = np.abs(self.below @ direction) < STAYING
        rows = [self.equal, self.below[active]]
        rows += [] if falls else [sp.csr_array(self.slope[None])]
        kept = sp.csr_array(sp.vstack(rows))
        missed = kept @ direction
        left = lsmr(kept, missed, atol=ROUNDING, btol=ROUNDING, conlim=0, maxiter=ITERATIONS)[0]
        return direction - left


HEIGHT = 3
"""Rows of the second-order cones that cvxpy writes powers and geometric means with."""
COMPARED_DIGITS = 9
"""To so many digits two rows are compared."""
Key = tuple[tuple[int, ...], tuple[float, ...]]
"""Columns and values of a row, the last column being the right-hand side; the largest is one."""


def nonzero_slacks(
    cone: ConeProgram, rows: sp.csr_array, is_equal: np.ndarray, balls: list[slice]
) -> np.ndarray:
    r"""Which rows have a slack that is zero at no feasible point, (k,) bool.

    Those whose variables equalities fix, with a right-hand side that is not zero; and of
    :math:`s_0 \ge \|(s_1, s_2)\|` with :math:`s_2 \ne 0` multiples of :math:`s_0 \pm s_1`, as cvxpy
    writes powers: :math:`1 \le w x` and :math:`w^2 \le t x` for :math:`x^{-3} \le t`. ``is_equal``
    says which rows are equalities, and ``balls`` where second-order cones are.
    """
    level = constant_slacks(cone, rows, is_equal)
    found = np.isfinite(level) & (level != 0)
    whole: Any = sp.csr_array(sp.hstack([rows, cone.rhs[:, None]]))
    positive: set[Key] = set()
    left = [ball for ball in balls if ball.stop - ball.start == HEIGHT]
    while left:
        for ball in left if positive else ():
            for at in range(ball.start + 1, ball.stop):
                found[at] |= _is_in(whole[[at]], positive)
        is_sure = [bool(found[ball.start + 1 : ball.stop].any()) for ball in left]
        if not any(is_sure):
            break
        sure = [ball for ball, known in zip(left, is_sure, strict=True) if known]
        left = [ball for ball, known in zip(left, is_sure, strict=True) if not known]
        for ball in sure if left else ():
            first, pair = whole[[ball.start]], (ball.start + 1, ball.start + 2)
            for at, other in (pair, pair[::-1]):
                if found[other]:
                    positive |= {_key(first + whole[[at]]), _key(first - whole[[at]])}
    return found


def constant_slacks(cone: ConeProgram, rows: sp.csr_array, is_equal: np.ndarray) -> np.ndarray:
    """The slack of each row that is the same at all feasible points; NaN of the others."""
    fixed = np.full(cone.linear.size, np.nan)
    ties, rhs = sp.csr_array(rows[is_equal]), cone.rhs[is_equal]
    ties.eliminate_zeros()
    present = sp.csr_array((np.ones(ties.nnz), ties.indices, ties.indptr), ties.shape)
    while (single := np.flatnonzero(present @ np.isnan(fixed) == 1)).size:
        level = (rhs[single] - ties[single] @ np.nan_to_num(fixed)).reshape(-1)
        cells = sp.coo_array(ties[single])
        mine = np.isnan(fixed[cells.col])
        fixed[cells.col[mine]] = level[cells.row[mine]] / cells.data[mine]
    varies = abs(rows) @ np.isnan(fixed) > 0
    return np.where(varies, np.nan, cone.rhs - rows @ np.nan_to_num(fixed))


def _is_in(row: Any, positive: set[Key]) -> bool:
    """Whether a row is a multiple of one that is positive."""
    return _key(row) in positive or _key(-row) in positive


def _key(row: Any) -> Key:
    entries: Any = sp.csr_array(row)
    entries.sort_indices()
    values = np.round(entries.data / (abs(entries).max() or 1.0), COMPARED_DIGITS)
    kept = values != 0
    return tuple(entries.indices[kept].tolist()), tuple(values[kept].tolist())
