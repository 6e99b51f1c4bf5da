"""What a client answers if nothing holds it, and what its answer says of its slopes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.declare.problem import Problem
from dald_model.solvers.base import FOUND
from dald_model.solvers.exact.conic import ClarabelProgram
from dald_model.solvers.exact.one_by_one import ClientAnswer, Scaling
from dald_model.values import panics_as_errors, preserved

ROUGH, ROUGHER = 1e-6, 1e-4
"""Relative accuracy of cone programs: once as accurate as it has to be and once less."""
SETTLED = 0.1
"""By how much these two may differ, relative to the answer."""
PRICES = 0.3, 3.0
"""Prices, as shares of the slopes at an answer, that are tried to see how far it moves."""
SMALL = 1e-4
"""Answers of cone programs below this many rough lengths may be zero: they are asked for again in
their own units."""
FAR = 100.0
"""Answers of cone programs beyond this many may be the end of a solver's patience whatever is
asked, as of 1 / x: they are asked for once more from where they are."""
STEP = 3.0
"""Rough lengths are powers of ten to this: a solver balances what is less."""
WORTH = 1e-2
"""Share of what a small move is paid that it gains, half of it where an objective is quadratic;
what rounding leaves of no move gains nothing."""
RESOLVED = 1e-9
"""Moves below this share of an answer are what it is rounded by."""
BALANCED = 1e-3
"""Share of the slopes that meet at an answer which may be left of their sum."""


def answers_alone(subs: Iterable[Subproblem]) -> list[np.ndarray]:
    """The answers of clients without any hold; of those with the same numbers found once."""
    known: dict[bytes, np.ndarray] = {}
    found = []
    for sub in subs:
        form = sub.form
        if form is None or not form.complete:
            found.append(answer_alone(sub))
            continue
        numbers = form.digest
        if numbers not in known:
            known[numbers] = answer_alone(sub)
        found.append(known[numbers])
    return found


def answer_alone(sub: Subproblem) -> np.ndarray:
    """The client's answer without any hold; NaN where it has none."""
    nothing = np.full(sub.size, np.nan)
    if sub.form is None:
        return _by_cvxpy(sub)
    rough = rough_length(sub)
    answer = minimised(sub, ROUGH, rough)
    if answer.status not in FOUND:
        return nothing
    length = np.abs(answer.point).max()
    if 0.0 < length < SMALL * rough:
        answer = minimised(sub, ROUGH, length)
        if not _is_there(answer, length):
            return np.zeros(sub.size)
    # Where an objective falls for ever, or is flat for ever, an answer is as far out as the solver
    # was patient.
    other = minimised(sub, ROUGHER, length or rough)
    if not {answer.status, other.status} <= set(FOUND) or not _is_balanced(sub, answer):
        return nothing
    apart = np.abs(answer.point - other.point)
    if apart.max() <= SETTLED * np.abs(answer.point).max():
        if length > FAR * rough and not _stays(sub, answer.point):
            return nothing
        # An entry of which no digit stays is what is left of a zero beside larger ones
        return np.where(apart > SETTLED * np.abs(answer.point), 0.0, answer.point)
    # What comes nearer to zero the more is asked of a solver is zero
    if length >= SMALL * rough:
        return nothing
    is_zero = length < np.abs(minimised(sub, ROUGHER, rough).point).max()
    return np.zeros(sub.size) if is_zero else nothing


def rough_length(sub: Subproblem) -> float:
    """How long a client's variables are by the rows of its cone program alone.

    Where rows are as large in them as on their right-hand sides, or, where none says that, as in
    what else cvxpy added to the program, in the geometric mean; one where no row says anything.
    """
    assert sub.form is not None
    cone = sub.form.cone
    rows = abs(cone.rows)
    own = _largest(rows[:, : sub.size])
    for others in (np.abs(cone.rhs), _largest(rows[:, sub.size :])):
        told = (own > 0) & (others > 0)
        if told.any():
            digits = np.log10(others[told] / own[told]).mean()
            return 10.0 ** (STEP * np.round(digits / STEP))
    return 1.0


def _largest(rows: Any) -> np.ndarray:
    """The largest entry of each row; zero of no columns."""
    return rows.max(axis=1).toarray().ravel() if rows.shape[1] else np.zeros(rows.shape[0])


def _stays(sub: Subproblem, point: np.ndarray) -> bool:
    """Whether an answer is nearly the same where it is measured from itself."""
    length = float(np.abs(point).max())
    again = minimised(sub.around(point), ROUGH, length)
    return again.status in FOUND and bool(np.abs(again.point).max() <= SETTLED * length)


def _is_there(answer: ClientAnswer, length: float) -> bool:
    """Whether a small answer is a number rather than what is left of zero.

    ``answer`` was asked for again in units of this length, which the first one had.
    """
    again = np.abs(answer.point).max()
    return answer.status in FOUND and bool(SMALL * length <= again <= length / SETTLED)


def response(sub: Subproblem, point: np.ndarray) -> np.ndarray:
    """How far a client's own answer moves for a price like the slopes that meet there, (m,).

    Zero where it does not move, or where slopes are not known.
    """
    nothing = np.zeros(sub.size)
    if sub.form is None or np.isnan(point).any():
        return nothing
    near = sub.around(point)
    rough = rough_length(sub)
    program = _program(near, rough)
    still = program.minimise(nothing, ROUGH)
    slopes = _slopes(near, still)
    for share in PRICES:
        for price in (share * slopes, -share * slopes):
            moved = program.minimise(price, ROUGH)
            length = np.abs(moved.point).max()
            if moved.status in FOUND and 0.0 < length < SMALL * rough:
                moved = _program(near, length).minimise(price, ROUGH)
                paid = price @ moved.point
                gained = still.objective - moved.objective - paid
                if not (_is_there(moved, length) and gained > WORTH * abs(paid)):
                    continue
            if moved.status in FOUND and length > RESOLVED * np.abs(point).max():
                return np.abs(moved.point)
    return nothing


def _slopes(sub: Subproblem, answer: ClientAnswer) -> np.ndarray:
    """The slopes that may meet at an answer, shape (m,)."""
    assert sub.form is not None
    cone = sub.form.cone
    steep = abs(cone.rows).sum(axis=0) * np.abs(answer.multipliers).max(initial=0.0)
    return (np.abs(cone.linear) + steep)[: sub.size]


def _is_balanced(sub: Subproblem, answer: ClientAnswer) -> bool:
    """Whether the slopes that meet at an answer add up to nothing, beside their sizes."""
    return bool(answer.left.max() <= BALANCED * _slopes(sub, answer).max())


def _by_cvxpy(sub: Subproblem) -> np.ndarray:
    """The same of a client of which cvxpy alone knows."""
    nothing = np.full(sub.size, np.nan)
    problem = Problem(cp.Minimize(sub.client.cost), list(sub.client.constraints))
    duals = [dual for rule in problem.constraints for dual in rule.dual_variables]
    with preserved([*sub.variables, *duals]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            with panics_as_errors():
                problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return nothing
        return sub.point() if problem.status in FOUND else nothing


def minimised(sub: Subproblem, tolerance: float, length: float = 1.0) -> ClientAnswer:
    """The answer of a client alone as a cone program, in units of this length."""
    return _program(sub, length).minimise(np.zeros(sub.size), tolerance)


def _program(sub: Subproblem, length: float) -> ClarabelProgram:
    assert sub.form is not None
    cone = sub.form.cone
    lengths = np.ones(cone.linear.size)
    lengths[: sub.size] = length
    bends = lengths @ abs(cone.matrix) * lengths
    # Whatever the objective is measured in, its largest coefficient is one
    energy = max(np.abs(lengths * cone.linear).max(initial=0.0), bends.max(initial=0.0)) or 1.0
    scaling = Scaling(*np.full((2, sub.size), [[length], [energy / length]]))
    program = ClarabelProgram(cone, scaling, polishes=False)
    program.set(np.zeros((sub.size, sub.size)))
    return program
