r"""Local minima of clients that are not convex, by a solver of smooth non-linear programs.

The subproblem is cvxpy's own, with :math:`\mu`, :math:`\rho` and z as Parameters: cvxpy derives it
once (``problem.solve(nlp=True)``), and a round changes the Parameters and starts at the client's
last point. With a penalty above the negative curvature of :math:`f_i`,
:math:`2 \rho^2 G^\top G \succ -\nabla^2 f_i`, the subproblem is convex near that point (Remark 3 of
the paper), and the local minimum is the one that follows it continuously.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.errors import OptionError
from dald_model.solvers.base import FOUND, Answers, ClientAnswer, Encoding, Session, Turn
from dald_model.values import REFUSALS, evaluated, flat, panics_as_errors

DEFAULTS = {
    "UNO": {"logger": "SILENT", "preset": "funnelsqp"},
    "IPOPT": {"print_level": 0, "sb": "yes"},
}
"""Options that keep a solver from printing, Uno 30 to 60 lines per solve; and sequential quadratic
programming with a funnel, as Uno's default, with a filter, runs without end on warm starts near a
solution (unopy 0.4.16: a robust loss in a ball, fifth round)."""
TOLERANCE_OPTIONS = {"UNO": ("primal_tolerance", "dual_tolerance"), "IPOPT": ("tol",)}
"""Options that a solver reads its accuracy from."""
ASKED_IN_TURN = (1e-9, 1e-8, 1e-7, 1e-6)
"""The tolerances that are asked for in turn, until one is met: near a solution rounding ends Uno's
progress at some 1e-9, and where f is large or ill-conditioned before."""


class Nonlinear:
    """Find a local minimum of each subproblem, near the client's last point.

    Parameters
    ----------
    solver : str
        One of cvxpy's solvers of non-linear programs: "UNO" (the default) or "IPOPT".
    **options
        Passed to the solver.

    Raises
    ------
    OptionError
        When a run begins, if cvxpy has no such solver installed.
    """

    batches = False
    is_exact = False

    def __init__(self, solver: str = "UNO", **options: Any) -> None:
        self.solver, self.options = solver.upper(), options

    @property
    def name(self) -> str:
        return "nonlinear"

    def refuses(self, subproblem: Subproblem) -> str:
        if subproblem.client.is_convex:
            return "it was declared convex, which has exact solvers"
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        if self.solver not in cp.installed_solvers():
            raise OptionError(
                f"solver: cvxpy has no solver {self.solver!r} installed, which a client with "
                'nonconvex=True needs; expected it beside dald_model: pip install "dald_model'
                '[nonconvex]"'
            )
        return _Session(self, subproblems)

    def answer(self, problem: cp.Problem) -> tuple[str, str]:
        """Solve one problem from its variables' values: cvxpy's status, and what was said."""
        status = said = "solver_error"
        for finest in ASKED_IN_TURN:
            options = dict.fromkeys(TOLERANCE_OPTIONS.get(self.solver, ()), finest)
            options |= DEFAULTS.get(self.solver, {}) | self.options
            try:
                with panics_as_errors(), warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                    problem.solve(solver=self.solver, nlp=True, **options)
            except REFUSALS as error:
                status, said = "solver_error", str(error)
                continue
            status = said = problem.status
            if status in FOUND:
                return "optimal", said
        return status, said


class _Session:
    """One run: derivatives and starting points are in the cvxpy problems."""

    def __init__(self, solver: Nonlinear, subproblems: Sequence[Subproblem]) -> None:
        self._solver, self._subproblems = solver, subproblems

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        own = [self._subproblems[at] for at in turn.which]
        found = map(self._one, own, turn.each(own))
        # cvxpy gives no dual values of non-linear programs
        return Answers.joined([*found], Encoding.VALUES)

    def _one(self, sub: Subproblem, turn: Turn) -> ClientAnswer:
        """One client's."""
        sub.set(turn.mu, turn.rho, turn.neighbours)
        _start(sub, turn.points)
        status, said = self._solver.answer(sub.problem)
        if status in FOUND:
            return ClientAnswer(status, sub.point(), evaluated(sub.client.cost))
        near = "no feasible point near the start" if status == "infeasible" else said
        told = f"{self._solver.solver}: {near}; start elsewhere, by the variables' value or "
        return ClientAnswer.none("solver_error", sub.size, told + "starts=9")


def _start(sub: Subproblem, point: np.ndarray) -> None:
    """Give the variables of a subproblem the values that belong to a point of the client."""
    spread = sub.spread(point)
    for variable in sub.variables:
        variable.save_value(spread[variable.id])
    matrix, offset = sub.sides
    told = np.concatenate([flat(sub.neighbours[other].value) for other in sub.others])
    gaps = sub.signs * (matrix @ point + offset - told)
    stops = np.cumsum([gap.size for gap in sub.gaps.values()])[:-1]
    for gap, value in zip(sub.gaps.values(), np.split(gaps, stops), strict=True):
        gap.save_value(value)
