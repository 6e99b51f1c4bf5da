r"""Minimisers of quadratics over polyhedra that need more variables than the client has.

.. math::
    \min_{x, y, t} \tfrac12 x^\top H x + c^\top x + w^\top t \quad\text{s.t. }
    E (x, y) = e,\; A (x, y) \le b,\; -t \le D x + d \le t

The rows of :math:`\|x\|_1 \le 1` need y, and absolute values beside rows need t. In them the
Hessian is singular, so this is a linear and quadratic program as in
:mod:`dald_model.solvers.exact.polyhedral`, one client after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dald_model.compile.form import Form
from dald_model.solvers.exact.cone_program import cone_program
from dald_model.solvers.exact.daqp_program import DaqpProgram
from dald_model.solvers.exact.one_by_one import Scaling
from dald_model.solvers.exact.polyhedral import LARGEST
from dald_model.solvers.exact.quadratic_step import Errors, Step


class EpigraphQP:
    """Rows with extra variables, and absolute values beside rows or more of them than variables."""

    is_exact: ClassVar[bool] = True

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        kinks = [term for term in form.terms if not term.is_smooth]
        others = sorted({term.kind.name for term in kinks if not term.kind.is_polyhedral})
        if others:
            return f"it has {' and '.join(others)} terms, which are not of linear rows"
        values = sum(term.weight.size for term in kinks)
        if form.equalities.rhs.size + form.inequalities.rhs.size + values == 0:
            return "it has neither rows nor absolute values"
        columns = form.size + form.extra + values
        if columns > LARGEST:
            return f"its {columns} columns are more than {LARGEST}, too many for dense arrays"
        return ""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._heights = forms[0].equalities.rhs.size, forms[0].inequalities.rhs.size
        self._programs = [
            DaqpProgram(cone_program(form), Scaling(*np.ones((2, form.size)))) for form in forms
        ]
        self._hessians = [np.zeros((0, 0))] * len(forms)

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H for some clients; whether they will do is seen when they are solved."""
        for at, hessian in zip(which, hessians, strict=True):
            self._hessians[at] = hessian.copy()
            self._programs[at].set(hessian)
        return np.zeros(which.size, dtype=bool)

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear``, to DAQP's accuracy."""
        equal, below = self._heights
        found = [self._programs[a].minimise(c) for a, c in zip(which, linear, strict=True)]
        points = np.array([one.point for one in found])
        energy = [x @ self._hessians[a] @ x for a, x in zip(which, points, strict=True)]
        multipliers = np.array([one.multipliers[: equal + below] for one in found])
        multipliers = multipliers.reshape(which.size, equal + below)
        failed = np.array([one.status != "optimal" for one in found])
        equality, inequality = multipliers[:, :equal], multipliers[:, equal:]
        return Step(points, equality, inequality, failed, np.array(energy))
