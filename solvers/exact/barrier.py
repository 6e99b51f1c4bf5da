"""Barrier: clients with smooth functions in constraints, such as losses below a shared bound."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import Answers, ClientAnswer, Encoding, Session, Turn
from dald_model.solvers.exact.level_form import LevelForm, level_form
from dald_model.solvers.exact.level_newton import LevelNewton
from dald_model.solvers.exact.quadratic_step import not_quadratic

MOST_VARIABLES = 100
"""Variables up to which a client is taken: systems are dense and inverted in each step. (Of six
owners of 95 variables 270 rounds took 18 s, and seven rounds by cones 25 s; of 20 variables all of
a solve took 0.8 s for 5.2. More were not tried.)"""


class Barrier:
    """Interior-point steps in the client's variables, all clients at once."""

    name = "barrier"
    batches = False
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        form = subproblem.form
        if form is None or form.complete:
            return "it has no smooth function in a constraint"
        if form.size > MOST_VARIABLES:
            return f"it has more than {MOST_VARIABLES} variables"
        return "" if level_form(form) else not_quadratic(form)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`; those alike are solved together."""
        return _Session(subproblems)


class _Session:
    """One run, whose clients begin at their last answers.

    Who failed is asked no more until penalties change: far out, as where nothing but a weak one
    holds a client, functions are flat and steps do not converge.
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._augmented = Augmented(subproblems)
        self._sizes = np.array([sub.size for sub in subproblems])
        self._forms = [_level_form(sub) for sub in subproblems]
        self._is_left = np.zeros(len(subproblems), dtype=bool)
        self._hessians = [np.zeros((size, size)) for size in self._sizes.tolist()]
        groups: dict[Hashable, list[int]] = {}
        for at, form in enumerate(self._forms):
            groups.setdefault(form.key, []).append(at)
        self._group, self._member = np.zeros((2, len(subproblems)), dtype=int)
        self._methods = []
        for members in groups.values():
            self._group[members], self._member[members] = len(self._methods), range(len(members))
            self._methods.append(LevelNewton([self._forms[at] for at in members]))

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        which = turn.which
        changed, linear = self._augmented.changed(turn), self._augmented.linear(turn)
        stops = np.cumsum(self._sizes[which])
        self._is_left[which[changed]] = False
        said = "no steps that lead to a minimiser"
        sizes = self._sizes[which].tolist()
        answers = [ClientAnswer.none("solver_error", size, said) for size in sizes]
        scaled, left = np.full((2, which.size), np.nan)
        for number, method in enumerate(self._methods):
            mine = np.flatnonzero((self._group[which] == number) & ~self._is_left[which])
            if not mine.size:
                continue
            own, size = which[mine], int(self._sizes[which[mine[0]]])
            moved = mine[changed[mine]]
            if moved.size:
                fresh = self._augmented.last_hessians(which[moved])
                for at, hessian in zip(which[moved].tolist(), fresh, strict=True):
                    self._hessians[at] = hessian + self._forms[at].matrix
            columns = (stops[mine] - size)[:, None] + np.arange(size)
            ones = np.ones(columns.shape)
            lengths = turn.lengths[columns] if turn.lengths.size else ones
            slopes = turn.slopes[columns] if turn.slopes.size else ones
            starts = turn.points[columns] if turn.points.size else 0 * ones
            hessians = np.array([self._hessians[at] for at in own.tolist()])
            members = self._member[own]
            pull = linear[columns] + method.linear[members]
            units = lengths, slopes
            found = method.solve(members, hessians, pull, starts, units, tolerance)
            values = method.objectives(members, found.points)
            left[mine], scaled[mine] = found.left.max(axis=1), (found.left / slopes).max(axis=1)
            self._is_left[own] = found.failed & np.isfinite(pull).all(axis=1)
            for i in np.flatnonzero(~found.failed).tolist():
                form = self._forms[own[i]]
                held = np.zeros(form.height)
                held[form.places] = found.multipliers[i]
                value = float(values[i])
                answers[mine[i]] = ClientAnswer("optimal", found.points[i], value, held)
        told = Answers.joined(answers, Encoding.CONES)
        return told._replace(slack=left, slack_scaled=scaled)


def _level_form(sub: Subproblem) -> LevelForm:
    found = level_form(sub.form) if sub.form else None
    assert found is not None
    return found
