r"""Minimisers of many clients with smooth terms, kinks, norms, balls and rows, by one method.

.. math::
    \min_x f(x) + \tfrac12 x^\top H x + c^\top x + \sum_t h_t(u_t), \qquad u = A x + b,

f the smooth terms, H and c the quadratic and the augmented ones, and :math:`h_t` absolute values,
norms, and the indicators of balls and rows, see
:mod:`dald_model.solvers.exact.nonsmooth_rows`. The method of multipliers with multipliers s of
:math:`u = A x + b` minimises, again and again,

.. math::
    \Psi(x) = f(x) + \tfrac12 x^\top H x + c^\top x + \sum_t e_t(x), \qquad
    \nabla e_t(x) = A_t^\top F_t(s_t + \tau_t u_t),

with the Moreau envelopes :math:`e_t`, whose forces :math:`F_t` are for absolute values what is
clipped to :math:`\pm w_t`, and takes these forces for the next s. :math:`\Psi` is convex and has
one gradient, so its semismooth Newton step with the rows J that are not clipped,

.. math::
    \big(H + \nabla^2 f + A_J^\top \operatorname{diag}(\tau_J) A_J\big)\, d = -\nabla \Psi(x),

and a search along it find the minimiser, for a quadratic in one step where J stays (Li, Sun and
Toh 2018, "A highly efficient semismooth Newton augmented Lagrangian method for solving lasso
problems").

A factor is kept while J stays and while its :math:`\nabla^2 f` does (simplified Newton, or chord,
method): steps then shrink by a factor :math:`\theta`, and the error of x is at most
:math:`|d| / (1 - \theta)`. All is of the size m of x, however many rows and records there are.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from dald_model.compile.form import Form
from dald_model.sizes import LIMIT, SUMMED
from dald_model.solvers.arrays.indexing import outer, selection, times
from dald_model.solvers.exact.cholesky import triangles, variable_scales
from dald_model.solvers.exact.nonsmooth_rows import height, matrices, parted
from dald_model.solvers.exact.quadratic_step import Errors, Step, wide
from dald_model.solvers.exact.semismooth_state import ClientState
from dald_model.solvers.exact.semismooth_turn import SemismoothTurn


class SemismoothNewton:
    """Smooth terms, absolute values, norms, balls and linear rows; see the module."""

    is_exact: ClassVar[bool] = False

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and terms are not for this method; empty if they are."""
        if form.extra:
            return f"its rows need {form.extra} variables more than the client has"
        if not (height(form) or form.smooth):
            return "it has neither rows nor terms without a gradient"
        return wide(form)

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        self._below, self._equal = forms[0].inequalities.rhs.size, forms[0].equalities.rhs.size
        self._heights = np.array([height(form) for form in forms])
        self._hessians = np.zeros((count, size, size))
        self._failed = np.ones(count, dtype=bool)
        self._group = np.zeros(count, dtype=int)
        self._member = np.zeros(count, dtype=int)
        self._groups: list[ClientState] = []
        for part in parted(forms):
            self._group[part], self._member[part] = len(self._groups), range(part.size)
            self._groups.append(ClientState([forms[at] for at in part.tolist()]))
        self._given = [one for form in forms for one in matrices(form)]

    def take(self, forms: Sequence[Form]) -> None:
        """See :func:`dald_model.solvers.exact.quadratic_step.again`."""
        given = [one for form in forms for one in matrices(form)]
        if len(given) != len(self._given) or not all(map(operator.is_, given, self._given)):
            self.__init__(forms)
            return
        self._hessians[:], self._failed[:] = 0.0, True
        self._heights = np.array([height(form) for form in forms])
        for number, group in enumerate(self._groups):
            group.take([forms[at] for at in np.flatnonzero(self._group == number).tolist()])

    def start(self, which: np.ndarray, points: np.ndarray) -> None:
        """Begin at these points, (k, m), where clients are asked for the first time."""
        for group, mine in self._parts(which):
            group.start(self._member[which[mine]], points[mine])

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H; failed are those that nothing makes positive definite."""
        self._hessians[which] = hessians
        failed = np.asarray(~np.isfinite(hessians).all(axis=(1, 2)))
        if self._groups[0].smooth is None:
            failed |= triangles(hessians * outer(variable_scales(hessians)), SUMMED)[1]
        self._failed[which] = failed
        for group, mine in self._parts(which):
            own = mine[~failed[mine]]
            if own.size:
                group.renew(self._member[which[own]], hessians[own])
        return failed

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear`` to errors of these sizes, from the last multipliers."""
        errors = np.broadcast_to(0.0 if errors is None else errors, linear.shape)
        failed = self._failed[which] | ~np.isfinite(linear).all(axis=1)
        points, values = np.full(linear.shape, np.nan), np.full(which.size, np.nan)
        duals = np.full((which.size, self._equal + self._below), np.nan)
        balls = np.full((which.size, self._groups[0].balls), np.nan)
        left = np.zeros(linear.shape if self._groups[0].smooth else (0, 0))
        counts = self._heights[which] - duals.shape[1]
        slopes = np.full((which.size, int(counts.max(initial=0))), np.nan)
        for group, mine in self._parts(which):
            mine = mine[~failed[mine]]
            for start in range(0, mine.size, group.at_once):
                part = mine[start : start + group.at_once]
                is_found = self._minimise(group, which[part], linear[part], errors[part])
                failed[part[~is_found]] = True
                part = part[is_found]
                if not part.size:
                    continue
                members = self._member[which[part]]
                points[part], values[part] = group.points[members], group.objectives(members)
                told = group.multipliers[members]
                duals[part] = self._own(told, self._heights[which[part]])
                width = min(told.shape[1], slopes.shape[1])
                slopes[part, :width] = told[:, :width]
                balls[part] = group.pushes(members)
                if left.size:
                    left[part] = group.left[members]
        energy = np.vecdot(points, times(self._hessians[selection(which)], points))
        inequality, equality = duals[:, : self._below], duals[:, self._below :]
        rest = balls, values, left, slopes, counts
        return Step(points, equality, inequality, failed, energy, *rest)

    def _parts(self, which: np.ndarray) -> Iterator[tuple[ClientState, np.ndarray]]:
        """The groups, and the positions in ``which`` of their clients."""
        for number, group in enumerate(self._groups):
            yield group, (self._group[which] == number).nonzero()[0]

    def _minimise(
        self, group: ClientState, which: np.ndarray, linear: np.ndarray, errors: np.ndarray
    ) -> np.ndarray:
        """Have clients of a group at their minimisers; say where one was found."""
        found = np.zeros(which.size, dtype=bool)
        live, left, way = np.flatnonzero(~found), LIMIT, None
        while live.size and left > 0:
            at = which[live]
            hessians = self._hessians[selection(at)]
            turn = SemismoothTurn(group, self._member[at], hessians, linear[live], errors[live])
            is_done, taken, way = turn.run(left, way)
            found[live[is_done]] = True
            stays = ~(is_done | turn.is_lost)
            live, left, way = live[stays], left - taken, way.of(stays)
        group.reset(self._member[which[~found]])
        return found

    def _own(self, multipliers: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Those of the inequalities and equalities, which are each client's last rows."""
        width = self._below + self._equal
        return np.take_along_axis(multipliers, heights[:, None] - width + np.arange(width), axis=1)
