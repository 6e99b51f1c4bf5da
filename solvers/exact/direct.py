r"""Direct: clients whose objective is quadratic but for what a step method takes."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import TOGETHER
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.indexing import selection
from dald_model.solvers.base import Answers, Session, Turn
from dald_model.solvers.exact.quadratic_step import StepMethod, again, not_quadratic
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton


class Direct:
    r"""Minimise :math:`\tfrac12 x^\top (P + K) x + (q + c)^\top x` by a step method, exactly.

    K and c are the augmented terms, see :class:`dald_model.solvers.arrays.augmented.Augmented`; so
    between rounds only c changes, and a factorisation lasts as long as the penalty.

    Parameters
    ----------
    name : str
        What the solver is called.
    method : type
        The step method, such as :class:`dald_model.solvers.exact.cholesky.Factor`.
    """

    batches = True

    def __init__(self, name: str, method: type[StepMethod]) -> None:
        self.name = name
        self.method = method
        self.is_exact = method.is_exact

    def refuses(self, subproblem: Subproblem) -> str:
        form = subproblem.form
        return not_quadratic(form) or (self.method.refuses(form) if form else "")

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(subproblems, self.method)


def _forms(subproblems: Sequence[Subproblem]) -> list[Form]:
    found = [form for sub in subproblems if (form := sub.form) is not None]
    assert len(found) == len(subproblems)
    return found


class _Session:
    """One run over clients of one shape."""

    def __init__(self, subproblems: Sequence[Subproblem], method: type[StepMethod]) -> None:
        forms = _forms(subproblems)
        self._method = method(forms)
        self._augmented = Augmented(subproblems)
        self._is_new = np.ones(len(forms), dtype=bool)
        self._set(forms)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        forms = _forms(subproblems)
        self._method = again(self._method, forms)
        self._is_new[:] = True
        self._augmented = self._augmented.again(subproblems)
        if all(map(operator.is_, forms, self._forms)):
            self._broken[:] = False
        else:
            self._set(forms)
        return True

    def _set(self, forms: list[Form]) -> None:
        self._forms = forms
        self._linear = np.array([form.quadratic.linear for form in self._forms])
        self._constants = np.array([form.quadratic.constant for form in self._forms])
        self._broken = np.zeros(len(forms), dtype=bool)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        which = turn.which
        if turn.points.size and isinstance(self._method, SemismoothNewton):
            self._method.start(which, turn.points.reshape(which.size, -1))
        is_moved = self._augmented.changed(turn) | self._is_new[which]
        moved = which[is_moved] if is_moved.any() else which[:0]
        self._is_new[moved] = False
        for first in range(0, moved.size, TOGETHER):
            part = moved[first : first + TOGETHER]
            hessians = self._augmented.last_hessians(part)
            for hessian, at in zip(hessians, part, strict=True):
                hessian += self._forms[at].quadratic.full
            self._broken[part] = self._method.factor(part, hessians)
        linear = self._augmented.linear(turn).reshape(which.size, -1)
        at = selection(which)
        own = self._linear[at]
        linear += own
        lengths, slopes = turn.tables(linear.shape[1])
        step = self._method.solve(which, linear, tolerance * lengths)
        failed = step.failed | self._broken[at]
        points = step.points
        bend = step.energy - self._augmented.energies(turn, points.reshape(-1))
        objectives = bend / 2 + np.vecdot(own, points) + self._constants[at]
        if step.values.size:
            objectives += step.values
        held, left = step.multipliers, step.left
        slack = (left.max(axis=1), (left / slopes).max(axis=1)) if left.size else ()
        points = points.reshape(-1)
        if not failed.any():
            return Answers(points, objectives, ["optimal"] * which.size, held, {}, *slack)
        statuses = np.where(failed, "solver_error", "optimal").tolist()
        told = "no minimiser to working accuracy"
        if self._forms[0].smooth:
            told += ": no point in the domain of the terms, or steps that do not shrink"
        said = dict.fromkeys(np.flatnonzero(failed).tolist(), told)
        return Answers(points, objectives, statuses, held, said, *slack)


class Newton(Direct):
    """Clients with smooth terms, whatever rows and terms without a gradient they have beside."""

    def __init__(self) -> None:
        super().__init__("newton", SemismoothNewton)

    def refuses(self, subproblem: Subproblem) -> str:
        """Why this solver cannot take the client; empty if it can."""
        form = subproblem.form
        if form is None or not form.complete:
            return "its cone program has parts that are no quadratic and no known function"
        if not form.smooth:
            return "it has no smooth term that is not quadratic"
        if mixed := [t.kind.name for t in form.terms if t.kind.is_of_entries and _mixes(t)]:
            return f"an argument of its {mixed[0]} terms is more than one variable"
        return self.method.refuses(form)


def _mixes(term: Term) -> bool:
    return any(np.count_nonzero(row) > 1 for row in sp.csr_array(term.matrix).toarray())
