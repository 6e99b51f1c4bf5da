r"""Clients with constraints or kinks: bounds by cuts, and how far they can fall.

A cone solver's primal and dual points prove an affine function below the client, a cut
(:mod:`dald_model.solvers.exact.lower_bound`). Of a client that was minimised with its prices a cut
has slopes that all but cancel them, so it holds in a wide box as in a small one, and with prices
that are a little different: a solver is asked again only where no cut does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

import cvxpy as cp
import numpy as np

from dald_model.answer.known_cut import known_cut
from dald_model.answer.rescaling import Solved, minimise
from dald_model.answer.ridged import Batch, Wide, stepped
from dald_model.compile.form import ConeProgram, Form, Rows
from dald_model.compile.measures import Measure
from dald_model.compile.objectives import objective
from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import EPSILONS
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.low_rank import refuses_form
from dald_model.solvers.exact.lower_bound import Cut, bounded
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton
from dald_model.solvers.exact.smooth_bound import is_split, least_within, split_program
from dald_model.values import flat

NARROWER = (10.0, 100.0)
"""How many times as narrow boxes are where a cone solver contradicts the point in the centre: of
powers 3/2 over ten times the answer the first is contradicted as well."""
STIFFER = (1e9, 1e6, 1e3, 1.0)
"""How many times as stiff as in the end ridges are on the way there. The last alone, 1e-11 in a box
of 3e3 lengths, failed in 200 Newton steps of norms and of absolute values. From 1e9 times that
robust regression ends with the first, absolute losses on a star with the third, and balls on a star
with the last, each in a few."""
SHARP = 1e-9
"""Share of the box to which a client is minimised for a cut."""
FAINT = 1e-6
"""Curvature across the box, beside what the objective is worth in it, by which what falls along
several ways has one point that is lowest: it costs a fall no larger share."""
SIDES = np.array([[0.0], [1.0], [-1.0]])
"""Points of the box, in its lengths, by which that is told."""
UNSEEN = 1e-9
"""Share of what slopes and curvature are worth in a box that a cone solver does not see."""


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
    form : Form or None
        The client as numbers.
    own : ndarray, shape (m,)
        Its own point, counted from the point.
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
        self.form = sub.form if form is None else form
        self.own = np.zeros(at.size) if own is None else own - at
        self._is_split = self.form is not None and is_split(self.form)
        self._cuts: list[Cut] = []
        self.is_blurred = False
        if multipliers is not None and self.here is not None:
            cut = known_cut(self.here, multipliers, self.own)
            self._cuts += [] if cut is None else [cut]

    @cached_property
    def here(self) -> Form | None:
        """The client in differences from the point, where its quadratic is zero.

        So constants cancel before they are rounded.
        """
        if self.form is None:
            return None
        here = self.form.around(self._at)
        if not self._is_split:
            return here
        constant, plain = here.quadratic.constant, here.quadratic._replace(constant=0.0)

        def program() -> ConeProgram:
            return here.cone._replace(constant=here.cone.constant - constant)

        return here.with_others(quadratic=plain, program=program)

    @cached_property
    def _level(self) -> float:
        """The objective at the point."""
        assert self.here is not None
        return self.here.objective(np.zeros(self._at.size))

    @cached_property
    def _program(self) -> ConeProgram:
        """The client in differences from the point as a cone program."""
        assert self.here is not None
        is_plain = self._is_split and not self.here.smooth
        return split_program(self.here) if is_plain else self.here.cone

    def bracket(
        self,
        price: np.ndarray,
        point: np.ndarray,
        cost: float,
        reach: np.ndarray,
        enough: float,
        *,
        asks: bool = True,
        own: Sequence[Cut] = (),
    ) -> float:
        """How much lower objective and prices can be within reach of a point than at it, at most.

        ``cost`` is the objective there; cuts are sought until at most ``enough`` is left, without
        a solver unless one is asked. ``own`` is what :func:`minimised` found already.
        """
        near = point - self._at
        value = cost
        if self.here is not None and self._is_split:
            value = self.here.objective(near) if near.any() else self._level
        value += float(price @ near)
        best = max((cut.least(price, near, reach) for cut in self._cuts), default=-np.inf)
        self.is_blurred = False
        if not asks:
            return value - best
        if not value - best <= enough:
            best = max(best, self._sought(price, near, reach, value, enough, own))
        if self.here is not None and value - best < -enough:
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
            own = minimised([self], [price], [reach / times], enough)[0]
            found = value - self._sought(price, near, reach / times, value, enough, own)
            self._cuts = [c for c in self._cuts if c.least(price, near, nowhere) <= value + enough]
            if found >= -enough:
                return times * found
        return found

    def _sought(
        self,
        price: np.ndarray,
        near: np.ndarray,
        reach: np.ndarray,
        value: float,
        enough: float,
        own: Sequence[Cut],
    ) -> float:
        """By a solver: around the point that all bounds are counted from, to serve the others.

        ``value`` is that at the point, with prices.
        """
        self.is_blurred = self.here is None or not own or bool(self.here.smooth)
        if self.here is None:
            found = self._by_cvxpy(self._at + near, reach, price)
            return found.value - float(price @ self._at) if found.is_optimal else -np.inf
        self._cuts += own
        known = max((cut.least(price, near, reach) for cut in own), default=-np.inf)
        if value - known <= enough:
            return known
        nowhere, wide = np.zeros(near.size), reach + np.abs(near)
        if self._is_split and self.here.smooth:
            cut = least_within(self.here, price, nowhere, wide, enough).cut
        else:
            cut = bounded(self._program, price, nowhere, wide, value - enough).cut
        self._cuts.append(cut)
        return max(known, cut.least(price, near, reach))

    def falls(self, points: np.ndarray) -> np.ndarray:
        """How much lower the objective is at some points, (k, m), by its numbers without rows.

        For certain: rounding never makes a fall.
        """
        assert self.here is not None
        away = points - self._at
        return self._level - self.here.objectives(away) - EPSILONS * self.here.magnitudes(away)

    def fall(self, reach: np.ndarray, cost: float) -> tuple[float, np.ndarray]:
        """How much lower the objective is within reach of the point, at least, and which way.

        By a bound, and by the value at the point that a solver found: an error of one of them is
        no cost of consensus.
        """
        nothing = np.zeros(reach.size)
        if self._is_least(reach):
            return 0.0, nothing
        if self.here is None:
            solved = self._by_cvxpy(self._at, reach, nothing)
            if not solved.is_optimal:
                return 0.0, nothing
            values = [flat(solved.values[v.id]) for v in self._sub.variables]
            value, point = solved.value, np.concatenate(values)
            level = cost
        else:
            is_smooth = self._is_split and self.here.smooth
            found = (
                least_within(self.here, nothing, nothing, reach)
                if is_smooth
                else bounded(self._program, nothing, nothing, reach)
            )
            value, point = found.value, self._at + np.clip(found.point, -reach, reach)
            level = self._level if self._is_split else cost
        fall = min(level - value, cost - objective(self._sub, point))
        if not (np.isfinite(fall) and fall > 0):
            return 0.0, nothing
        return fall, point - self._at

    def _is_least(self, reach: np.ndarray) -> bool:
        """Whether a cut says that the point is the client's own minimiser, as far as solvers see.

        As of one whose prices are zero.
        """
        form, nothing = self.here, np.zeros(reach.size)
        if form is None or form.smooth or not self._cuts:
            return False
        bent = form.quadratic
        worth = max(np.abs(reach * bent.linear).max(), (reach**2 * bent.diagonal).max())
        least = max(cut.least(nothing, nothing, reach) for cut in self._cuts)
        return bool(form.objective(nothing) - least <= UNSEEN * worth)

    def _by_cvxpy(self, centre: np.ndarray, lengths: np.ndarray, price: np.ndarray) -> Solved:
        """The minimum with prices within the lengths, by the user's own expressions."""
        sub = self._sub
        centres, spreads = sub.spread(centre), sub.spread(lengths)
        around: Mapping[int, Measure] = {
            key: Measure(centres[key], spreads[key]) for key in centres
        }
        stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
        return minimise(sub.client.cost + price @ stacked, sub.client.constraints, around, box=1.0)


def minimised(
    clients: Sequence[ConeClient],
    prices: Sequence[np.ndarray],
    reaches: Sequence[np.ndarray],
    enough: float,
) -> list[list[Cut]]:
    """Cuts of each client, the last at its minimiser with prices, by the method of its rounds.

    Those of one shape are one batch. A ridge that costs no more than half of ``enough`` in the box
    makes that one point, but may be so weak that the method does not find it. So it is come to by
    proximal points: from the client's own point, with ridges so stiff at first that the step from
    the last point is easy, and until the ridge's force costs no more than that. The first cut says
    to first order by how much prices are wrong: its slope is what they lack of a subgradient there.
    None of those that the method is not for, and where it fails.
    """
    found: list[list[Cut]] = [[] for _ in clients]
    for which in _alike(clients):
        forms = [form for at in which if (form := clients[at].here) is not None]
        price, reach, centre = (
            np.stack([told[at] for at in which])
            for told in (prices, reaches, [client.own for client in clients])
        )
        method = Batch(forms, SHARP * reach) if refuses_form(forms[0]) else Wide(forms)
        weakest = enough / (2 * reach.shape[1] * reach**2)
        left = np.arange(len(which))
        for times in STIFFER:
            ridges = times * weakest[left]
            linear = price[left] - ridges * centre[left]
            points, multipliers = method.minimise(left, linear, ridges)
            lost = np.vecdot(ridges * np.abs(points - centre[left]), reach[left])
            for at, z, point in zip(left.tolist(), multipliers, points, strict=True):
                cut = None if np.isnan(point).any() else known_cut(forms[at], z, point)
                if cut is not None:
                    found[which[at]].append(cut)
                    centre[at] = point
            left = left[~(lost <= enough / 2)]
            if not left.size:
                break
    return found


def fallen(
    clients: Sequence[ConeClient], reaches: Sequence[np.ndarray]
) -> list[tuple[float, np.ndarray] | None]:
    """How much lower each client without balls gets within reach, at least, and which way.

    Those of one shape in one batch, by the methods of their rounds. What keeps the constraints is
    no lower than the minimum, and what rows are off by is paid by their multipliers: so no fall is
    larger than the true one. Nor is it for a ridge, by which linear programs have one minimiser.
    None where the method fails.
    """
    found: list[tuple[float, np.ndarray] | None] = [None] * len(clients)
    boxed: dict[int, np.ndarray] = {}  # by the id of the rows', which most have in common
    for which in _alike(clients):
        forms = []
        for at in which:
            form = clients[at].here
            assert form is not None
            own = form.inequalities
            if id(own.matrix) not in boxed:
                box = np.eye(form.size)
                boxed[id(own.matrix)] = np.vstack([own.matrix, box, -box])
            rhs = np.concatenate([own.rhs, reaches[at], reaches[at]])
            forms.append(form.with_others(inequalities=Rows(boxed[id(own.matrix)], rhs)))
        reach = np.stack([reaches[at] for at in which])
        method = SemismoothNewton if forms[0].terms else ActiveSet
        everybody = np.arange(len(forms))
        worth = [np.ptp(form.objectives(r * SIDES)) for form, r in zip(forms, reach, strict=True)]
        ridges = FAINT * np.array(worth)[:, None] / reach**2
        step = stepped(method(forms), everybody, forms, 0.0 * reach, SHARP * reach, ridges)
        parts = zip(which, forms, step.points, step.equality, step.inequality, strict=True)
        for at, form, point, equality, inequality in parts:
            if np.isfinite(point).all():
                off = form.equalities.matrix @ point - form.equalities.rhs
                over = np.fmax(form.inequalities.matrix @ point - form.inequalities.rhs, 0.0)
                owed = np.abs(equality) @ np.abs(off) + inequality @ over
                here, there = form.objectives(np.stack([0.0 * point, point]))
                fall = float(here - there - owed)
                found[at] = (fall, point) if fall > 0 else (0.0, 0.0 * point)
    return found


def _alike(clients: Sequence[ConeClient]) -> Iterable[list[int]]:
    """Which clients are of one shape, of those that are for the methods of a batch."""
    found: dict[Hashable, list[int]] = {}
    for at, client in enumerate(clients):
        form = client.here
        if form is None or not is_split(form):
            continue
        if not (SemismoothNewton.refuses(form) and refuses_form(form)):
            found.setdefault(form.shape_but_counts, []).append(at)
    return found.values()
