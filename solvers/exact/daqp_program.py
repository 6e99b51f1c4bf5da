"""One client's linear or quadratic program, as a model of DAQP's that is kept from turn to turn.

See :mod:`dald_model.solvers.exact.polyhedral` for the method.
"""

from __future__ import annotations

from itertools import starmap

import daqp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram
from dald_model.solvers.exact.active_set import (
    EQUALITY,
    FAR,
    MISSED,
    NONE,
    OPTIMAL,
    SETTINGS,
    budget,
)
from dald_model.solvers.exact.elimination import CONSISTENT, eliminate, unit_rows
from dald_model.solvers.exact.one_by_one import ClientAnswer, Scaling

EPSILON = 1e-5
"""Curvature of the proximal steps, beside ones."""

STRIDE = 1e3
"""How far one step may take an auxiliary variable, as a multiple of what its rows reach."""

SOFTEST, UNMOVED = 1e-7, 1e-3
"""Least curvature of an auxiliary variable in units of its rows; that of one without a slope."""

HUGE = 1e20
"""Beside such numbers DAQP's bounds mean nothing."""

SHARE, SHORTEST = 1e-9, (1e-17, 1e-13)
"""Gradient of the proximal term at which steps end: as a share of the least slope, and limits."""

PROXIMAL = SETTINGS | {"eps_prox": EPSILON, "eta_prox": SHORTEST[1]}

FLAGS = {
    2: "a soft constraint was violated",
    -1: "it calls the rows infeasible",
    -2: "cycling",
    -3: "it calls the objective unbounded",
    -4: "too many iterations",
    -5: "the objective is not convex",
    -6: "the equality rows are dependent",
}
"""What DAQP's exit flags mean."""


class DaqpProgram:
    """One client's cone program plus a quadratic in its own variables, and its DAQP model.

    The variables are in the order ``_order``, those with bounds first, as DAQP wants them; its
    rows are bounds, other inequalities and equalities, ``_kept`` of the cone program's.
    """

    def __init__(self, cone: ConeProgram, scaling: Scaling) -> None:
        # Its units are its own: those of the natural units say nothing of auxiliary variables
        self._width, self._size = cone.linear.size, scaling.lengths.size
        rows, right = cone.rows.toarray(), cone.rhs
        zero = np.concatenate(
            [np.full(height, kind == "ZeroConeT") for kind, height in cone.cones]
            + [np.zeros(0, dtype=bool)]
        )
        counts = (rows != 0).sum(axis=1)
        self._empty = np.flatnonzero(~zero & (counts == 0))
        self._bounds = bounds = np.flatnonzero(~zero & (counts == 1))
        columns = np.abs(rows[bounds]).argmax(axis=1)
        self._factors = np.zeros(right.size)
        self._factors[bounds] = rows[bounds, columns]
        bounded = np.unique(columns)
        self._order = np.concatenate([bounded, np.setdiff1d(np.arange(self._width), bounded)])
        self._simple = bounded.size
        self._columns = np.searchsorted(bounded, columns)

        self._others, equal = np.flatnonzero(~zero & (counts > 1)), np.flatnonzero(zero)
        # DAQP takes no dependent equality rows
        self._dependent: tuple[np.ndarray, np.ndarray] | None = None
        if equal.size:
            unit, lengths = unit_rows(rows[None, equal])
            reduced = eliminate(unit, right[None, equal] / lengths)
            is_needed = reduced.columns[0] >= 0
            if not is_needed.all():
                self._dependent = equal, reduced.transform[0, ~is_needed] / lengths
            equal = equal[is_needed]
        self._equal, self._kept = equal, np.concatenate([self._others, equal])
        self._matrix = np.ascontiguousarray(rows[self._kept][:, self._order])
        self._sense = np.zeros(self._simple + self._kept.size, dtype=np.intc)
        self._sense[self._simple + self._others.size :] = EQUALITY
        self._hessian = self._rows = np.zeros((0, 0))
        self._model = _model(self._width, self._kept.size, self._simple)
        self._transposed = cone.rows.T
        self._state(cone)

    def _state(self, cone: ConeProgram) -> None:
        """Take the costs and the right sides, and know nothing of turns before."""
        self._cone, right = cone, cone.rhs
        self._possible = bool((right[self._empty] >= 0).all())
        if self._dependent is not None:
            rows, transform = self._dependent
            slack = CONSISTENT * (np.abs(transform) @ np.abs(right[rows]))
            self._possible &= bool((np.abs(transform @ right[rows]) <= slack).all())
        # The others have no cost: where rows leave them room they stay where they once were, which
        # says nothing about the size of a solution
        self._counted = (self._order < self._size) | (cone.linear[self._order] != 0)
        factors = self._factors[self._bounds]
        levels = right[self._bounds] / factors
        self._sides = [
            _tightest(self._bounds[side], self._columns[side], sign * levels[side], self._simple)
            for sign, side in ((1.0, factors > 0), (-1.0, factors < 0))
        ]
        (upper, _), (lower, _) = self._sides
        self._upper = np.concatenate([upper, right[self._kept]])
        none = np.full(self._others.size, np.inf)
        self._lower = np.concatenate([-lower, -none, right[self._equal]])
        self._scale, self._is_new = np.nan, True
        self.is_set, self._ready = False, 0

    def take(self, cone: ConeProgram) -> bool:
        """See :class:`dald_model.solvers.exact.one_by_one.Program`."""
        if cone is not self._cone:
            before = self._cone
            pairs = (cone.matrix, before.matrix), (cone.rows, before.rows)
            if cone.cones != before.cones or not all(starmap(_same, pairs)):
                return False
        self._state(cone)
        return True

    def set(self, curvature: np.ndarray) -> None:
        """Take another K, shape (m, m)."""
        self._curvature = curvature
        full = self._cone.matrix.toarray()
        full[: self._size, : self._size] += curvature
        hessian = full[np.ix_(self._order, self._order)]
        self._units = units = self._fit(np.diagonal(hessian))
        pulls = np.abs(self._cone.linear[self._order] * units)[np.diagonal(hessian) <= 0]
        self._gentlest = float(pulls[pulls > 0].min(initial=np.inf))
        hessian *= units
        hessian *= units[:, None]
        rows = self._matrix * units
        self._lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        rows /= self._lengths[:, None]
        self._hessian, self._rows = hessian, rows
        self._divisors = np.concatenate([units[: self._simple], self._lengths])
        self._low, self._high = self._lower / self._divisors, self._upper / self._divisors
        levels = np.abs(np.concatenate([self._low, self._high]))
        self._reach = float(levels[np.isfinite(levels)].max(initial=0.0)) or 1.0
        if np.isnan(self._scale):
            self._scale = self._reach
        self.is_set = True
        self._give()

    def _fit(self, diagonal: np.ndarray) -> np.ndarray:
        """Units D; of variables without curvature, by the rows that tie them to the others."""
        known, loose = diagonal > 0, ~(diagonal > 0)
        units = np.where(known, 1 / np.sqrt(np.where(known, diagonal, 1.0)), 0.0)
        sizes, known = np.abs(self._matrix), known.copy()
        while not known.all():
            reach = np.sqrt(((sizes * units) ** 2).sum(axis=1))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(sizes > 0, reach[:, None] / sizes, 0.0)
            found = np.where(known, 0.0, ratios.max(axis=0, initial=0.0))
            if not found.any():
                units[~known] = 1.0
                break
            units += found
            known |= found > 0
        # One step moves a variable by its slope over its curvature, here STRIDE times as far as
        # the rows reach: less is more steps, more is more rounding
        lengths = np.sqrt(((sizes * units) ** 2).sum(axis=1))
        reach = float((np.abs(self._cone.rhs[self._kept]) / lengths).max(initial=0.0)) or 1.0
        pull = np.abs(self._cone.linear[self._order]) * units / (STRIDE * reach)
        stiff = np.where(pull > 0, np.maximum(pull, SOFTEST), UNMOVED)
        units[loose] *= np.sqrt(EPSILON / stiff[loose])
        return units

    def minimise(self, linear: np.ndarray, tolerance: float = 0.0) -> ClientAnswer:
        """Minimise for another c, shape (m,), as accurately as DAQP always does."""
        full = self._cone.linear.copy()
        full[: self._size] += linear
        slope = full
        linear = full[self._order] * self._units
        gradient_scale = float(np.abs(linear).max(initial=0.0))
        if not self._possible:
            return self._failed("its rows contradict each other")
        if not gradient_scale < HUGE:
            return self._failed("its slope is too large")
        if gradient_scale > FAR * self._scale:
            self._resize(gradient_scale)
        point, forces, flag, missed = self._run(linear)
        size = (
            self._magnitude(linear, point) if flag == OPTIMAL else max(gradient_scale, self._reach)
        )
        largest = max(size, float(np.abs(point).max()))
        if not (missed <= MISSED and size / FAR <= self._scale <= largest * FAR):
            # A working set that ended badly is no start
            self._is_new |= flag != OPTIMAL
            self._resize(size)
            point, forces, flag, missed = self._run(linear)
        if not missed <= MISSED:
            self._is_new = True
            said = FLAGS.get(flag, f"exit flag {flag}")
            if flag == OPTIMAL:
                said = f"its point misses the conditions by {missed:.1e}"
            return self._failed(said)
        values = np.empty(self._width)
        values[self._order] = self._units * point
        cone, mine = self._cone, values[: self._size]
        bent, duals = cone.matrix @ values, self._duals(forces)
        objective = float((bent / 2 + cone.linear) @ values) + cone.constant
        left = (bent + slope + self._transposed @ duals)[: self._size] + self._curvature @ mine
        return ClientAnswer("optimal", mine, objective, duals, np.abs(left), "")

    def _failed(self, reason: str) -> ClientAnswer:
        nothing = np.full(self._cone.rhs.size, np.nan)
        return ClientAnswer.none("solver_error", self._size, f"DAQP: {reason}", nothing)

    def _run(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, float]:
        """DAQP's point, forces and exit flag, and how far it misses the conditions."""
        if self._ready < 0 or self._is_new:
            self._give()
        if self._ready < 0:
            return np.zeros(self._width), np.zeros(self._sense.size), self._ready, np.inf
        self._model.update(None, linear / self._scale)
        point, _, flag, notes = self._model.solve()
        point, forces = point * self._scale, notes["lam"] * self._scale
        missed = self._misses(linear, point, forces) if flag == OPTIMAL else np.inf
        return point, forces, int(flag), missed

    def _resize(self, size: float) -> None:
        """Take other units; the model begins anew, as its steps start from where they ended.

        Where the objective is the same along a line, a point that was read in units thirty times as
        large would be thirty times as far out on it, and ask for larger units again.
        """
        if size > 0 and np.isfinite(size):
            self._scale, self._is_new = size, True
            self._model = _model(self._width, self._kept.size, self._simple)
            self._give()

    def _give(self) -> None:
        """Hand the arrays to the model, which keeps its working set."""
        with np.errstate(over="ignore"):  # beyond NONE there is no bound, so either way
            high = np.clip(self._high / self._scale, -NONE, NONE)
            low = np.clip(self._low / self._scale, -NONE, NONE)
        sense = self._sense if self._is_new else None
        self._is_new = False
        rows = self._rows if self._kept.size else None
        # A step that is small because a slope is must not count as none
        least = self._gentlest / self._scale
        self._model.settings = {"eta_prox": float(np.clip(SHARE * least, *SHORTEST))}
        self._ready = self._model.update(self._hessian, None, rows, high, low, sense)

    def _magnitude(self, linear: np.ndarray, point: np.ndarray) -> float:
        """The largest number of a solution, in its units."""
        counted = np.abs(point[self._counted]).max(initial=np.finfo(float).tiny)
        return float(max(counted, np.abs(linear).max(initial=0.0)))

    def _misses(self, linear: np.ndarray, point: np.ndarray, forces: np.ndarray) -> float:
        """How far the optimality conditions are missed, relative to the numbers in them."""
        simple = self._simple
        bent = self._hessian @ point
        pull = bent + linear + forces[simple:] @ self._rows
        pull[:simple] += forces[:simple]
        reached = np.concatenate([point[:simple], self._rows @ point])
        allowed = np.clip(reached, self._low, self._high)
        np.copyto(allowed, self._high, where=forces > 0)
        np.copyto(allowed, self._low, where=forces < 0)
        # Not beside the forces: where they are far larger than the slopes, that would let points
        # pass that are wrong in their leading digits
        size, gaps = self._magnitude(linear, point), np.abs(reached - allowed)
        sizes = np.full(gaps.size, size)
        sizes[:simple] = np.maximum(size, np.abs(point[:simple]))
        wide = np.flatnonzero(gaps[simple:] > MISSED * size)  # seldom any
        numbers = np.abs(self._rows[wide]) @ np.abs(point)
        sizes[simple + wide] = np.maximum(size, numbers)
        return float(max(np.abs(pull).max(initial=0.0) / size, (gaps / sizes).max(initial=0.0)))

    def _duals(self, forces: np.ndarray) -> np.ndarray:
        """The dual vector z of the cone program, with P v + q + A'z = 0."""
        found = np.zeros(self._cone.rhs.size)
        scaled = forces / self._divisors
        found[self._kept] = scaled[self._simple :]
        bounds = scaled[: self._simple]
        for (_, owners), mine in zip(self._sides, (bounds > 0, bounds < 0), strict=True):
            own = owners[mine]
            found[own] = bounds[mine] / self._factors[own]
        return found


def _same(one: sp.csc_array, two: sp.csc_array) -> bool:
    """Whether two matrices store the same numbers at the same places."""
    if one is two:
        return True
    pairs = ((getattr(m, part) for m in (one, two)) for part in ("indptr", "indices", "data"))
    return one.shape == two.shape and all(starmap(np.array_equal, pairs))


def _tightest(
    rows: np.ndarray, columns: np.ndarray, levels: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least level of every column and the row that gives it."""
    least, owners = np.full(size, np.inf), np.full(size, -1)
    # The last of equal places stays, so the least comes last
    order = np.argsort(-levels, kind="stable")
    least[columns[order]], owners[columns[order]] = levels[order], rows[order]
    return least, owners


def _model(size: int, rows: int, bounds: int) -> daqp.Model:
    """A model with the settings, which DAQP takes only after a set-up; its numbers mean nothing."""
    model, bound = daqp.Model(), np.full(bounds + rows, NONE)
    model.setup(np.eye(size), np.zeros(size), np.ones((rows, size)), bound, -bound)
    model.settings = PROXIMAL | {"iter_limit": budget(size, rows + bounds)}
    return model
