r"""Clients with constraints or kinks, one by one: their own minimisers, and bounds by cuts.

A cone solver's primal and dual points prove an affine function below the client, a cut
(:mod:`dald_model.solvers.exact.lower_bound`). Of a client that was minimised with its prices a cut
has slopes that all but cancel them, so it holds in a wide box as in a small one, and with prices
that are a little different: a solver is asked again only where no cut does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import cvxpy as cp
import numpy as np

from dald_model.answer.claim import client_cost
from dald_model.answer.holding import held_cut, known_cut
from dald_model.answer.rescaling import Solved, minimise
from dald_model.compile.form import ConeProgram, Form
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.exact.lower_bound import Cut, bounded
from dald_model.solvers.exact.native import STATUSES, solved_once
from dald_model.solvers.exact.smooth_bound import is_split, least_within, minimiser, split_program
from dald_model.values import flat

NARROWER = (10.0, 100.0)
"""How many times as narrow boxes are where a cone solver contradicts the point in the centre: of
powers 3/2 over ten times the answer the first is contradicted as well."""


class ConeClient:
    """A client at a point; what solvers are asked of it is asked once.

    Parameters
    ----------
    sub : Subproblem
    at, own : ndarray, shape (m,)
        The point, and the client's own, where it was minimised.
    form : Form
        In the place of the client's own, with rules that a server holds for it.
    multipliers : ndarray
        Of its own constraints and kinks, where a method told them.

    Attributes
    ----------
    is_blurred : bool
        Whether the last bracket is only as exact as a solver.
    """

    def __init__(
        self,
        sub: Subproblem,
        at: np.ndarray,
        own: np.ndarray | None = None,
        form: Form | None = None,
        multipliers: np.ndarray | None = None,
    ) -> None:
        self._sub, self._at = sub, at
        self._form = sub.form if form is None else form
        self._own = np.zeros(at.size) if own is None else own - at
        self._is_split = self._form is not None and is_split(self._form)
        self._cuts: list[Cut] = []
        self.is_blurred = False
        if multipliers is not None and self._here is not None:
            cut = known_cut(self._here, multipliers, self._own)
            self._cuts += [] if cut is None else [cut]

    @cached_property
    def _here(self) -> Form | None:
        """The client in differences from the point, where its quadratic is zero.

        So constants cancel before they are rounded.
        """
        if self._form is None:
            return None
        here = self._form.around(self._at)
        if not self._is_split:
            return here
        constant, plain = here.quadratic.constant, here.quadratic._replace(constant=0.0)

        def program() -> ConeProgram:
            return here.cone._replace(constant=here.cone.constant - constant)

        return here.with_others(quadratic=plain, program=program)

    @cached_property
    def _program(self) -> ConeProgram:
        """The client in differences from the point as a cone program."""
        assert self._here is not None
        is_plain = self._is_split and not self._here.smooth
        return split_program(self._here) if is_plain else self._here.cone

    def bracket(
        self, price: np.ndarray, point: np.ndarray, cost: float, reach: np.ndarray, enough: float
    ) -> float:
        """How much lower objective and prices can be within reach of a point than at it, at most.

        ``cost`` is the objective there; cuts are sought until at most ``enough`` is left.
        """
        near = point - self._at
        value = self._here.objective(near) if self._here and self._is_split else cost
        value += float(price @ near)
        best = max((cut.least(price, near, reach) for cut in self._cuts), default=-np.inf)
        cut, form = None, self._here
        if not value - best <= enough and form is not None:
            cut = held_cut(form, price, self._own, reach)
            if cut is not None:
                self._cuts.append(cut)
                best = max(best, cut.least(price, near, reach))
        self.is_blurred = False
        if not value - best <= enough:
            self.is_blurred = cut is None or (form is not None and bool(form.smooth))
            best = max(best, self._sought(price, near, reach, enough))
        if form is not None and value - best < -enough:
            return self._narrower(price, near, value, reach, enough)
        return value - best if np.isfinite(best) else np.inf

    def _narrower(
        self, price: np.ndarray, near: np.ndarray, value: float, reach: np.ndarray, enough: float
    ) -> float:
        """The same where a bound is above the value of a feasible point.

        That is a solver's error, of numbers that are extreme in so wide a box. Of a convex function
        a narrower box bounds it as well: t times as far it loses t times as much.
        """
        nowhere, found = np.zeros(near.size), -np.inf
        for times in NARROWER:
            found = value - self._sought(price, near, reach / times, enough)
            self._cuts = [c for c in self._cuts if c.least(price, near, nowhere) <= value + enough]
            if found >= -enough:
                return times * found
        return found

    def _sought(
        self, price: np.ndarray, near: np.ndarray, reach: np.ndarray, enough: float
    ) -> float:
        """By a solver: around the point that all bounds are counted from, to serve the others."""
        if self._here is None:
            found = self._by_cvxpy(self._at + near, reach, price)
            return found.value - float(price @ self._at) if found.is_optimal else -np.inf
        nowhere, wide = np.zeros(near.size), reach + np.abs(near)
        if self._is_split and self._here.smooth:
            cut = least_within(self._here, price, nowhere, wide, enough).cut
        else:
            cut = bounded(self._program, price, nowhere, wide).cut
        self._cuts.append(cut)
        return cut.least(price, near, reach)

    def fall(self, reach: np.ndarray, cost: float) -> float:
        """How much lower the objective is within reach of the point, at least and at most.

        By a bound, and by the value at the point that a solver found: an error of one of them is
        no cost of consensus.
        """
        nothing = np.zeros(reach.size)
        if self._here is None:
            found = self._by_cvxpy(self._at, reach, nothing)
            fall = cost - found.value if found.is_optimal else 0.0
        else:
            found = bounded(self._program, nothing, nothing, reach)
            point = self._at + np.clip(found.point, -reach, reach)
            level = self._here.objective(nothing) if self._is_split else cost
            fall = min(level - found.value, cost - client_cost(self._sub, point))
        return max(fall, 0.0) if np.isfinite(fall) else 0.0

    def minimiser(self) -> np.ndarray:
        """The client's own minimiser; NaN where it has none."""
        sub, at = self._sub, self._at
        nowhere = np.full(sub.size, np.nan)
        if sub.client.is_remote:
            return nowhere
        if self._form is not None and self._is_split and self._form.smooth:
            point = minimiser(self._form, at)
            if point is not None:
                return point
        cost, found_one = client_cost(sub, at), False
        for centre, lengths in self._units():
            point, status = self._solved(centre, lengths)
            if status == "unbounded":
                break
            if point is not None:
                found_one = True
                if self._form is None or client_cost(sub, point) <= cost:
                    return point
        # No solver finds better than the point itself
        return at.copy() if found_one else nowhere

    def _solved(self, centre: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray | None, str]:
        form = self._form
        if form is None:
            found = self._by_cvxpy(centre, lengths)
            if not found.is_optimal:
                return None, found.status
            return np.concatenate(
                [flat(found.values[v.id]) for v in self._sub.variables]
            ), "optimal"
        cone = self._program
        if centre is not self._at:
            here = form.around(centre)
            cone = split_program(here) if self._is_split and not here.smooth else here.cone
        found = solved_once(_in_lengths(cone, lengths))
        status = STATUSES.get(str(found.status), "solver_error")
        if status != "optimal":
            return None, status
        return centre + lengths * np.array(found.x)[: self._sub.size], status

    def _units(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Where numbers are taken from, and in what lengths: from the point, where all bend alike.

        There the way to the minimum of the quadratic alone is about one. Then in the size of the
        point, then as they are. What one of them leaves without digits another has.
        """
        sub, at = self._sub, self._at
        size = np.concatenate(
            [
                np.full(value.size, np.abs(value).max(initial=0.0) or 1.0)
                for value in sub.spread(at).values()
            ]
        )
        units = [(at, size), (np.zeros(at.size), np.ones(at.size))]
        if self._form is not None and self._form.valued:
            quadratic = self._form.quadratic
            bends, slopes = quadratic.diagonal, np.abs(quadratic.times(at) + quadratic.linear)
            roots = np.sqrt(np.where(bends > 0, bends, 1.0))
            way = float(np.where(bends > 0, slopes / roots, 0.0).max(initial=0.0))
            if way > 0:
                units.insert(0, (at, np.where(bends > 0, way / roots, size)))
        return units

    def _by_cvxpy(
        self, centre: np.ndarray, lengths: np.ndarray, price: np.ndarray | None = None
    ) -> Solved:
        """The minimum by the user's own expressions; with prices within the lengths alone."""
        sub = self._sub
        centres, spreads = sub.spread(centre), sub.spread(lengths)
        around: Mapping[int, Measure] = {
            key: Measure(centres[key], spreads[key]) for key in centres
        }
        if price is None:
            return minimise(sub.client.cost, sub.client.constraints, around)
        stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
        return minimise(sub.client.cost + price @ stacked, sub.client.constraints, around, box=1.0)


def _in_lengths(cone: ConeProgram, lengths: np.ndarray) -> ConeProgram:
    """A cone program whose first variables are counted in lengths, with the largest cost one."""
    whole = np.ones(cone.linear.size)
    whole[: lengths.size] = lengths
    linear, rows, matrix = whole * cone.linear, cone.rows.copy(), cone.matrix.copy()
    rows.data = rows.data * np.repeat(whole, np.diff(rows.indptr))
    matrix.data = matrix.data * whole[matrix.indices] * np.repeat(whole, np.diff(matrix.indptr))
    worth = max(np.abs(linear).max(initial=0.0), np.abs(matrix.data).max(initial=0.0)) or 1.0
    matrix.data = matrix.data / worth
    return cone._replace(matrix=matrix, linear=linear / worth, rows=rows)
