"""The reference: cvxpy's own ``problem.solve(warm_start=True)``, slow and readable."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.errors import OptionError
from dald_model.solvers.base import FOUND, NOTHING, Answers, Encoding, Multipliers, Session, Turn
from dald_model.solvers.exact.conic import attempts
from dald_model.values import evaluated, flat, panics_as_errors

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
        """See :class:`dald_model.solvers.base.Solver`."""
        return f"reference ({self.solver})"

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`: it takes everything."""
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`."""
        return _Session(self, subproblems)

    def answer(self, sub: Subproblem, tolerance: float) -> tuple[str, str]:
        """Solve one subproblem whose Parameters are set: cvxpy's status, and what was said."""
        status, message = "solver_error", ""
        for options in ATTEMPTS.get(self.solver, lambda eps: [])(tolerance):
            status, message = self._attempt(sub.problem, options | self.options)
            if status == "optimal_inaccurate" and self.solver == "CLARABEL":
                status = "optimal"  # by the reduced tolerances above
            if status != "solver_error":
                return status, message
        # Better the solver's own notion of accuracy than no point at all.
        return self._attempt(sub.problem, self.options)

    def _attempt(self, problem: cp.Problem, options: dict[str, Any]) -> tuple[str, str]:
        try:
            with warnings.catch_warnings(), panics_as_errors():
                # An inaccurate answer is told once, in the status, and not as a warning a round.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                problem.solve(solver=self.solver, warm_start=self.solver != "CLARABEL", **options)
        except cp.SolverError as error:
            return "solver_error", str(error)
        return PLAIN.get(problem.status, "solver_error"), problem.status


class _Session:
    """One run: the warm starts are in the cvxpy problems."""

    def __init__(self, reference: Reference, subproblems: Sequence[Subproblem]) -> None:
        self._reference, self._subproblems = reference, subproblems

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        points, objectives, statuses, held, messages = [], [], [], [], {}
        own = [self._subproblems[at] for at in turn.which]
        for i, (sub, one) in enumerate(zip(own, turn.each(own), strict=True)):
            sub.set(one.mu, one.rho, one.neighbours)
            status, message = self._reference.answer(sub, tolerance)
            statuses.append(status)
            if status in FOUND:
                points.append(sub.point())
                objectives.append(evaluated(sub.client.cost))
                duals = [flat(d.value) for r in sub.client.constraints for d in r.dual_variables]
                held.append((Encoding.VALUES, np.concatenate([NOTHING, *duals])))
            else:
                points.append(np.full(sub.size, np.nan))
                objectives.append(np.nan)
                held.append((Encoding.VALUES, NOTHING))
            if status != "optimal":
                messages[i] = f"{self._reference.solver}: {message}"
        return Answers(
            np.concatenate(points),
            np.array(objectives),
            statuses,
            Multipliers.joined(held),
            messages,
        )
