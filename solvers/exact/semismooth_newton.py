r"""Minimisers of many quadratics plus any number of rows with kinks, by their multipliers.

.. math::
    \min_x \tfrac12 x^\top H x + c^\top x + \sum_t \max(l_t u_t, h_t u_t), \qquad u = A x + b,

absolute values, hinges, quantiles and linear rows, see
:mod:`dald_model.solvers.exact.nonsmooth_rows`. The method of multipliers with multipliers s of
:math:`u = A x + b` minimises, again and again,

.. math::
    \tfrac12 x^\top H x + c^\top x + \sum_t e_t(x), \qquad
    \nabla e_t(x) = a_t \operatorname{clip}(s_t + \tau_t u_t, \; l_t, \; h_t),

and takes the clipped for the next s. The inner problem is a convex piecewise quadratic with one
gradient: a semismooth Newton step, with the rows J that are not clipped in
:math:`H + A_J^\top \operatorname{diag}(\tau_J) A_J`, is exact where J stays (Li, Sun and Toh 2018,
"A highly efficient semismooth Newton augmented Lagrangian method for solving lasso problems"). All
is of the size m of x, however many rows there are; and while J stays from round to round, a round
is two products with A and one with an inverse that is kept.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dald_model.compile.form import Form
from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.active_set import SINGULAR
from dald_model.solvers.exact.cholesky import triangles
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.nonsmooth_rows import height, matrices, parted
from dald_model.solvers.exact.quadratic_step import NOTHING, Errors, Step
from dald_model.solvers.exact.semismooth_turn import Group, SemismoothTurn

LIMIT = 200
"""Steps for one turn; a client that needs more has failed."""


class SemismoothNewton:
    """Quadratics with absolute values and linear rows, as many as there are; see the module."""

    is_exact: ClassVar[bool] = False

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        if form.extra:
            return f"its rows need {form.extra} variables more than the client has"
        return "" if height(form) else "it has neither rows nor terms without a gradient"

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        self._below, self._equal = forms[0].inequalities.rhs.size, forms[0].equalities.rhs.size
        self._heights = np.array([height(form) for form in forms])
        self._hessians = np.zeros((count, size, size))
        self._points = np.zeros((count, size))
        self._failed = np.ones(count, dtype=bool)
        self._group = np.zeros(count, dtype=int)
        self._member = np.zeros(count, dtype=int)
        self._groups: list[Group] = []
        for part in parted(forms):
            self._group[part], self._member[part] = len(self._groups), range(part.size)
            self._groups.append(Group([forms[at] for at in part.tolist()]))
        self._given = [one for form in forms for one in matrices(form)]

    def take(self, forms: Sequence[Form]) -> None:
        """See :class:`dald_model.solvers.exact.quadratic_step.LastingMethod`."""
        given = [one for form in forms for one in matrices(form)]
        if len(given) != len(self._given) or not all(map(operator.is_, given, self._given)):
            self.__init__(forms)
            return
        self._hessians[:], self._points[:], self._failed[:] = 0.0, 0.0, True
        self._heights = np.array([height(form) for form in forms])
        for number, group in enumerate(self._groups):
            group.take([forms[at] for at in np.flatnonzero(self._group == number).tolist()])

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H; failed are those that are not positive definite to working accuracy."""
        self._hessians[which] = hessians
        self._failed[which] = triangles(hessians * outer(variable_scales(hessians)), SINGULAR)[1]
        for number, group in enumerate(self._groups):
            own = np.flatnonzero((self._group[which] == number) & ~self._failed[which])
            if own.size:
                group.renew(self._member[which[own]], hessians[own])
        return self._failed[which]

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear`` to errors of these sizes, from the last multipliers."""
        errors = np.broadcast_to(0.0 if errors is None else errors, linear.shape)
        failed = self._failed[which] | ~np.isfinite(linear).all(axis=1)
        duals = np.full((which.size, self._below + self._equal), np.nan)
        for number, group in enumerate(self._groups):
            mine = np.flatnonzero((self._group[which] == number) & ~failed)
            for start in range(0, mine.size, group.at_once):
                part = mine[start : start + group.at_once]
                failed[part] = ~self._minimise(group, which[part], linear[part], errors[part])
                members = self._member[which[part]]
                duals[part] = self._own(group.multipliers[members], self._heights[which[part]])
        balls = self._balls(which)
        points = np.where(failed[:, None], np.nan, self._points[which])
        energy = np.vecdot(points, times(self._hessians[selection(which)], points))
        equality, inequality = duals[:, self._below :], duals[:, : self._below]
        return Step(points, equality, inequality, failed, energy, balls)

    def _balls(self, which: np.ndarray) -> np.ndarray:
        """The multipliers of the balls: how strong they push."""
        count = sum(
            block.sizes.shape[1] for block in self._groups[0].rows.functions.blocks if block.is_ball
        )
        if not count:
            return NOTHING
        found = np.zeros((which.size, count))
        for number, group in enumerate(self._groups):
            mine = np.flatnonzero(self._group[which] == number)
            own = group.multipliers[self._member[which[mine]]]
            pushes = [
                np.linalg.norm(block.grouped(own), axis=2)
                for block in group.rows.functions.blocks
                if block.is_ball
            ]
            found[mine] = np.concatenate(pushes, axis=1)
        return found

    def _minimise(
        self, group: Group, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> np.ndarray:
        """Have clients of a group at their minimisers; say where one was found."""
        found = self._placed(group, which, linear, errors)
        live, left, way = np.flatnonzero(~found), LIMIT, None
        while live.size and left > 0:
            at = which[live]
            members, hessians = self._member[at], self._hessians[selection(at)]
            own = linear[live], self._points[at], errors[live]
            turn = SemismoothTurn(group, members, hessians, *own)
            is_done, taken, way = turn.run(left, way)
            self._points[at] = turn.x
            found[live[is_done]] = True
            live, left, way = live[~is_done], left - taken, way.of(~is_done)
        lost = which[~found]
        members = self._member[lost]
        self._points[lost] = group.multipliers[members] = 0.0
        group.values[members] = group.rows.offset[members]
        return found

    def _placed(
        self, group: Group, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> np.ndarray:
        """Have those at their minimisers whose kinks are of single variables, if found at once."""
        found = np.zeros(which.size, dtype=bool)
        mine = np.flatnonzero(group.takes[self._member[which]]) if group.active else found[:0]
        if group.active is None or not mine.size:
            return found
        at = which[mine]
        members, start = self._member[at], self._points[at]
        is_found, points, held = group.active.minimise(
            members, self._hessians[selection(at)], linear[mine], start, errors[mine]
        )
        found[mine] = is_found
        self._points[at[is_found]] = points[is_found]
        group.enter(members[is_found], points[is_found], held[is_found])
        return found

    def _own(self, multipliers: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Those of the inequalities and equalities, which are each client's last rows."""
        width = self._below + self._equal
        return np.take_along_axis(multipliers, heights[:, None] - width + np.arange(width), axis=1)
