r"""The reference: cvxpy's own ``problem.solve(warm_start=True)``, slow and readable.

In natural units, as of every solver: tolerances of solvers are in part absolute, and a curvature of
1e-11, which a variable of size 1e5 has, passes for none. cvxpy is given the subproblem in
:math:`z = (x - \bar x) / X` and over the energy :math:`E = \max_k X_k M_k`, with lengths X and
slopes M of the turn; :math:`\bar x`, at first zero, is an answer that was far from it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.measures import Measure, measured
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Problem
from dald_model.errors import OptionError
from dald_model.solvers.base import (
    FOUND,
    NOTHING,
    PROVEN,
    Answers,
    ClientAnswer,
    Encoding,
    Session,
    Turn,
)
from dald_model.solvers.exact.conic import FAR_AWAY
from dald_model.solvers.exact.native import attempts
from dald_model.values import REFUSALS, evaluated, flat, panics_as_errors

Options = dict[str, Any]


def _residuals(tolerance: float) -> Options:
    # Of residuals, that is; where the objective is flat the point is far worse.
    return dict.fromkeys(("eps_abs", "eps_rel"), max(1e-3 * tolerance, 1e-9))


ATTEMPTS: dict[str, Callable[[float], list[Options]]] = {
    "CLARABEL": lambda eps: attempts(eps)[:-1],
    "OSQP": lambda eps: [_residuals(eps) | {"max_iter": 100_000}],
    "SCS": lambda eps: [_residuals(eps) | {"max_iters": 100_000}],
    "PIQP": lambda eps: [_residuals(eps)],
    "PROXQP": lambda eps: [_residuals(eps)],
}
"""Solver -> the options that carry an accuracy, to be tried in turn.

A solver that is not named here keeps its defaults; they are also the last attempt of the others.
"""

PLAIN = {
    "optimal": "optimal",
    "optimal_inaccurate": "optimal_inaccurate",
    "infeasible": "infeasible",
    "unbounded": "unbounded",
}
"""What cvxpy's status means for the client; any other is the solver's failure.

So are "infeasible_inaccurate", "unbounded_inaccurate" and "infeasible_or_unbounded", which prove
nothing.
"""


class Reference:
    """Solve each subproblem by cvxpy, one after the other.

    Clarabel is the default because it takes every cone and is accurate. Of a warm start it makes
    little; OSQP and SCS make much of it.

    Parameters
    ----------
    solver : str
        The name of an installed cvxpy solver.
    **options
        Handed to ``cp.Problem.solve``; an accuracy named here replaces the one that follows the
        outer loop.

    Raises
    ------
    OptionError
        If cvxpy has no such solver installed.
    """

    batches = False
    is_exact = False

    def __init__(self, solver: str = "CLARABEL", **options: Any) -> None:
        self.solver = solver.upper()
        if self.solver not in cp.installed_solvers():
            raise OptionError(
                f"solver: cvxpy has no solver {solver!r} installed; expected one of "
                f"{', '.join(cp.installed_solvers())}"
            )
        self.options = options

    @property
    def name(self) -> str:
        return f"reference ({self.solver})"

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`: it takes everything."""
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(self, subproblems)

    def answer(self, problem: cp.Problem, tolerance: float) -> tuple[str, str]:
        """Solve one problem whose Parameters are set: cvxpy's status, and what was said."""
        status, message = "solver_error", ""
        for options in ATTEMPTS.get(self.solver, lambda eps: [])(tolerance):
            status, message = self._attempt(problem, options | self.options)
            if status == "optimal_inaccurate" and self.solver == "CLARABEL":
                status = "optimal"  # by the reduced tolerances above
            if status != "solver_error":
                return status, message
        # Better the solver's own notion of accuracy than no point at all.
        return self._attempt(problem, self.options)

    def _attempt(self, problem: cp.Problem, options: dict[str, Any]) -> tuple[str, str]:
        try:
            with warnings.catch_warnings(), panics_as_errors():
                # An inaccurate answer is told once, in the status, and not as a warning a round.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                problem.solve(solver=self.solver, warm_start=self.solver != "CLARABEL", **options)
        except REFUSALS as error:  # cvxpy cannot write tv(x) of one entry, for one
            return "solver_error", str(error)
        return PLAIN.get(problem.status, "solver_error"), problem.status


class _Written(NamedTuple):
    """A problem, the energy it was divided by, and variables in those of the problem, by id."""

    problem: cp.Problem
    energy: float
    at: Mapping[int, cp.Expression]


class _Program:
    """A subproblem in natural units, see the module, whose Parameters are those of the subproblem.

    Without units, and where cvxpy cannot write it in other variables, it is the subproblem's own.
    """

    def __init__(self, sub: Subproblem, turn: Turn) -> None:
        self._sub, self._told = sub, (turn.lengths, turn.slopes)
        self._centre = np.zeros(sub.size)
        self._stated = _Written(sub.problem, 1.0, {v.id: v for v in sub.variables})
        self._written = self._write() if turn.lengths.size else self._stated
        self._used = self._written

    def _write(self) -> _Written:
        sub, (lengths, slopes) = self._sub, self._told
        centres, spreads = sub.spread(self._centre), sub.spread(lengths)
        measures = {key: Measure(centres[key], spreads[key]) for key in centres}
        gaps, across = list(sub.gaps.values()), abs(sub.sides[0]) @ lengths
        stops = np.cumsum([gap.size for gap in gaps])[:-1]
        reaches = np.split(np.where(across > 0, across, 1.0), stops)
        for gap, reach in zip(gaps, reaches, strict=True):
            measures[gap.id] = Measure(np.zeros(gap.shape), reach)
        goal, rules = sub.problem.objective.expr, sub.problem.constraints
        energy = float((lengths * slopes).max())
        at, goal, rules = measured(goal, rules, [*sub.variables, *gaps], measures)
        own, ties = rules[: len(sub.client.constraints)], rules[len(sub.client.constraints) :]
        even = [tie.expr / reach == 0 for tie, reach in zip(ties, reaches, strict=True)]
        return _Written(Problem(cp.Minimize(goal / energy), [*own, *even]), energy, at)

    def is_of(self, turn: Turn) -> bool:
        """Whether the units of a turn are those of the program."""
        return all(map(np.array_equal, self._told, (turn.lengths, turn.slopes)))

    def minimise(self, reference: Reference, tolerance: float) -> tuple[str, str]:
        """The status of the minimum, and what was said of it.

        Units may be off by orders of magnitude: where they give no accurate answer it is asked for
        in the user's, too, and that there is none only counts where nobody has one.
        """
        problem, lengths = self._written.problem, self._told[0]
        found = reference.answer(problem, tolerance)
        self._used = self._written
        if problem is self._sub.problem:
            return found
        if found[0] in FOUND and not self._centre.any():
            point = self.point()
            if (np.abs(point) > FAR_AWAY * lengths).any():
                self._centre = point
                self._used = self._written = self._write()
                found = reference.answer(self._written.problem, tolerance)
        if found[0] == "optimal":
            return found
        stated = reference.answer(self._sub.problem, tolerance)
        if stated[0] == "optimal" or (stated[0] in FOUND and found[0] not in FOUND):
            self._used = self._stated
            return stated
        if found[0] in PROVEN and stated[0] != found[0]:
            return "solver_error", f"{found[1]} in natural units, {stated[1]} in the user's"
        return stated if stated[0] in PROVEN and found[0] not in FOUND else found

    def point(self) -> np.ndarray:
        """Where the minimum is, (m,); the user's variables have these values then."""
        for v in self._sub.variables:
            v.save_value(self._used.at[v.id].value)
        return self._sub.point()

    def duals(self) -> np.ndarray:
        """Of the client's own constraints, flat."""
        own = self._used.problem.constraints[: len(self._sub.client.constraints)]
        duals = [self._used.energy * flat(d.value) for rule in own for d in rule.dual_variables]
        return np.concatenate([NOTHING, *duals])


class _Session:
    """One run: the warm starts are in the cvxpy problems."""

    def __init__(self, reference: Reference, subproblems: Sequence[Subproblem]) -> None:
        self._reference, self._subproblems = reference, subproblems
        self._programs: dict[int, _Program] = {}

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        own = [self._subproblems[at] for at in turn.which]
        found = map(self._one, own, turn.each(own), [tolerance] * len(own))
        return Answers.joined([*found], Encoding.VALUES)

    def _one(self, sub: Subproblem, turn: Turn, tolerance: float) -> ClientAnswer:
        """One client's."""
        sub.set(turn.mu, turn.rho, turn.neighbours)
        program = self._program(int(turn.which[0]), turn)
        status, message = program.minimise(self._reference, tolerance)
        if status == "unbounded" and _is_held(sub):
            status, message = "solver_error", f"{message}, which its edges rule out"
        said = "" if status == "optimal" else f"{self._reference.solver}: {message}"
        if status not in FOUND:
            return ClientAnswer.none(status, sub.size, said)
        point = program.point()
        return ClientAnswer(status, point, evaluated(sub.client.cost), program.duals(), said=said)

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        """See :class:`dald_model.solvers.base.Lasting`: what cvxpy has compiled is kept."""
        return list(subproblems) == list(self._subproblems)

    def _program(self, at: int, turn: Turn) -> _Program:
        """That of a client in the units of its turn."""
        known = self._programs.get(at)
        if known is None or not known.is_of(turn):
            known = self._programs[at] = _Program(self._subproblems[at], turn)
        return known


def _is_held(sub: Subproblem) -> bool:
    """Whether a client's edges hold every direction: then the subproblem is strongly convex."""
    sides = sub.sides[0]
    dense = sides.toarray() if sp.issparse(sides) else np.asarray(sides)
    return bool(np.linalg.matrix_rank(dense) == sub.size)
