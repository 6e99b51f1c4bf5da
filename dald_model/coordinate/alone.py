"""What a client answers if nothing holds it, and what its answer says of its slopes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import cvxpy as cp
import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.endless import SETTLED, breaks_rules, goes_on
from dald_model.coordinate.slopes import meeting_slopes
from dald_model.deadline import check_time
from dald_model.declare.client import Problem
from dald_model.solvers.base import FOUND
from dald_model.solvers.exact.balance import balance, is_extreme
from dald_model.solvers.exact.conic import ClarabelProgram
from dald_model.solvers.exact.one_by_one import ClientAnswer, Scaling
from dald_model.values import REFUSALS, panics_as_errors, preserved

ROUGH, ROUGHER, ROUGHEST = 1e-6, 1e-4, 1e-3
"""Relative accuracy of cone programs: once as accurate as it has to be and once less; of answers
that are far away once more, as a solver may end at one point for two accuracies."""
LESS = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-6)
"""The same of a problem that cvxpy gives to Clarabel, beside its 1e-8."""
PRICES = 0.3, 3.0
"""Prices, as shares of the slopes at an answer, that are tried to see how far it moves."""
SMALL = 1e-4
"""Answers of cone programs below this many rough lengths may be zero: they are asked for again in
their own units."""
ROUNDED = 1e-10
"""Answers below this many are zero: solvers resolve no more beside rows of that length."""
FAR = 100.0
"""Answers of cone programs this many from where others are may be others that are as good."""
STEP = 3.0
"""Rough lengths are powers of ten to this, one from 0.1 to 100: a solver balances what is less."""
WORTH = 1e-2
"""Share of what a small move is paid that it gains, half of it where an objective is quadratic;
what rounding leaves of no move gains nothing."""
RESOLVED = 1e-9
"""Moves below this share of an answer are what it is rounded by."""
HELD = 1e-7
"""A row whose right-hand side is below this share of what it is made of is met with equality."""
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
    if sub.form is None:
        return _by_cvxpy(sub)
    rough = rough_lengths(sub)
    found = _answer(sub, rough)
    if not np.isnan(found).any():
        return found
    # What is far from zero beside what its rows tell there has no digits before it is seen from it
    first = minimised(sub, ROUGH, rough)
    if first.status not in FOUND:
        return found
    near = rough_lengths(sub, first.point)
    far = np.where(np.abs(first.point) > FAR * near, first.point, 0.0)
    if not far.any() or not _is_asked_for(sub, far, rough):
        return found
    left = _answer(sub.around(first.point), near)
    # Who stays there may be where a solver's patience ended, and its objective is flat
    return found if not _size(left, near) >= SMALL else _sum(first.point, left)


def answer_around(sub: Subproblem, point: np.ndarray) -> np.ndarray:
    """The same of who has a form, asked from a point and with the digits that it has there."""
    near, rough = sub.around(point), rough_lengths(sub, point)
    left = _answer(near, rough)
    return _sum(point, _correction(near, rough) if np.isnan(left).any() else left)


def _sum(point: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Where a move ends; what rounding leaves of a difference is no length."""
    found = point + move
    return np.where(np.abs(found) <= RESOLVED * np.abs(point), 0.0, found)


def _correction(sub: Subproblem, rough: np.ndarray) -> np.ndarray:
    """A small answer that is the same in two units, whatever is left of it when asked for less.

    NaN where it is not: there an objective is flat, or the answer is no more than rounding.
    """
    first = minimised(sub, ROUGH, rough)
    size = _size(first.point, rough)
    if first.status in FOUND and ROUNDED <= size < SMALL:
        again = minimised(sub, ROUGH, size * rough)
        is_same = _size(again.point - first.point, rough) <= SETTLED * size
        if again.status in FOUND and is_same and _is_balanced(sub, again, rough):
            return again.point
    return np.full(sub.size, np.nan)


def _answer(sub: Subproblem, rough: np.ndarray) -> np.ndarray:
    """See :func:`answer_alone`, with rough lengths."""
    nothing = np.full(sub.size, np.nan)
    answer = minimised(sub, ROUGH, rough)
    if answer.status not in FOUND:
        return nothing
    size = _size(answer.point, rough)
    if 0.0 < size < SMALL:
        if size < ROUNDED:
            return np.zeros(sub.size)
        answer = minimised(sub, ROUGH, size * rough)
        if not _is_there(answer, size * rough):
            return np.zeros(sub.size)
    # Where an objective falls for ever, or is flat for ever, an answer is as far out as the solver
    # was patient, whatever is asked: the next one, from there, is as far out again.
    other = minimised(sub, ROUGHER, (size or 1.0) * rough)
    if not {answer.status, other.status} <= set(FOUND) or not _is_balanced(sub, answer, rough):
        return nothing
    apart = np.abs(answer.point - other.point)
    if _size(apart, rough) <= SETTLED * _size(answer.point, rough):
        if size >= SMALL and not _stays(sub, answer.point, size * rough):
            return nothing
        if size > FAR and not _is_asked_for(sub, answer.point, rough):
            return nothing
        # An entry of which no digit stays is what is left of a zero beside larger ones
        return np.where(apart > SETTLED * np.abs(answer.point), 0.0, answer.point)
    # What comes nearer to zero the more is asked of a solver is zero
    is_zero = size < SMALL and size < _size(minimised(sub, ROUGHER, rough).point, rough)
    return np.zeros(sub.size) if is_zero else nothing


def answer_nearer(sub: Subproblem, own: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The client's answer that is nearest to a point, of more than one; ``own`` is one.

    Where an objective is flat along several variables together a solver's answer is the nearest to
    zero. It is asked again from the point where the answer is far from that, and zero is not near
    it, by what rows tell there or beside the answer.
    """
    if sub.form is None or np.isnan(own).any() or np.isnan(there).any():
        return own
    rough = rough_lengths(sub, there)
    before = _size(own - there, rough)
    if before <= FAR or _size(there, rough) < min(SETTLED * before, FAR):
        return own
    again = answer_around(sub, there)
    # Who has none seen from there had but met the end of a solver's patience
    is_farther = _size(again - there, rough) >= SETTLED * before
    return own if is_farther else again


def nearest_inside(sub: Subproblem, point: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What a client could answer that is nearest to a point, in lengths; NaN where it has no form.

    That is inside of its constraints and of the domain of its objective, or at the edge.
    """
    if sub.form is None:
        return np.full(sub.size, np.nan)
    cone = sub.form.cone
    nothing = cone._replace(matrix=0 * cone.matrix, linear=0 * cone.linear)
    program = ClarabelProgram(nothing, Scaling(lengths, 1 / lengths), polishes=False)
    program.set(np.diag(1 / lengths**2))
    answer = program.minimise(-point / lengths**2, ROUGH)
    return answer.point if answer.status in FOUND else np.full(sub.size, np.nan)


def rough_lengths(sub: Subproblem, around: np.ndarray | None = None) -> np.ndarray:
    """How long a client's variables are by the rows of its cone program alone, (m,).

    Where rows are as large in one as on their right-hand sides, or, where none says that, as in
    what cvxpy added to the program, in the geometric mean; where rows differ by more than a solver
    balances, in the units of :mod:`dald_model.solvers.exact.balance`. What no row says anything of
    is as long as makes it bend like the others, or as they are, or one. Right-hand sides are those
    of the differences from a point, of which nothing is left but rounding where a row holds it.
    """
    assert sub.form is not None
    cone = sub.form.cone
    right, starts, sizes = cone.rhs, cone.rows.indptr, np.abs(cone.rows.data)
    stop = starts[sub.size]  # of what stands in the client's own columns, which come first
    row, own = cone.rows.indices[:stop], sizes[:stop]
    col = np.repeat(np.arange(sub.size), np.diff(starts[: sub.size + 1]))
    most = np.zeros(right.size)
    np.maximum.at(most, cone.rows.indices[stop:], sizes[stop:])
    if around is not None:
        parts = cone.rows.data[:stop] * around[col]
        right = right - np.bincount(row, parts, right.size)
        whole = np.abs(cone.rhs) + np.bincount(row, np.abs(parts), right.size)
        right[np.abs(right) <= HELD * whole] = 0.0
    digits = np.full(sub.size, np.nan)
    is_uneven = is_extreme(cone, np.ones(cone.linear.size))
    for others in (np.abs(right), most):
        if others is most and is_uneven:
            whole = np.full(cone.linear.size, np.nan)
            whole[: sub.size] = 10.0**digits
            digits = np.log10(balance(cone._replace(rhs=right), whole).lengths[: sub.size])
            break
        told = (own != 0) & (others[row] > 0) & np.isnan(digits[col])
        columns = col[told]
        ratios = np.log10(others[row[told]] / own[told])
        count = np.bincount(columns, minlength=sub.size)
        sums = np.bincount(columns, ratios, sub.size)
        digits[count > 0] = sums[count > 0] / count[count > 0]
    known = ~np.isnan(digits)
    bends = cone.matrix.diagonal()[: sub.size]
    told, untold = known & (bends > 0), ~known & (bends > 0)
    if told.any():  # what bends as much in all as the others do
        energy = (2 * digits[told] + np.log10(bends[told])).mean()
        digits[untold] = (energy - np.log10(bends[untold])) / 2
        known |= untold
    digits[~known] = digits[known].mean() if known.any() else 0.0
    return 10.0 ** (STEP * np.floor((digits + 1) / STEP))


def _size(point: np.ndarray, lengths: np.ndarray) -> float:
    """How many lengths a point is from zero."""
    return float(np.abs(point / lengths).max())


def _stays(sub: Subproblem, point: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether an answer is nearly the same where it is measured from itself."""
    again = minimised(sub.around(point), ROUGH, lengths)
    return again.status in FOUND and _size(again.point, lengths) <= SETTLED


def _is_asked_for(sub: Subproblem, point: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether a far answer is as far where less is asked for, in the same units.

    Of its entries but zeros. What decays, as 1 / x does, is the nearer to its limit the more is
    asked, and never there.
    """
    less = minimised(sub, ROUGHEST, lengths)
    apart = np.where(point == 0, 0.0, less.point - point)
    return less.status in FOUND and _size(apart, lengths) <= SETTLED * _size(point, lengths)


def _is_there(answer: ClientAnswer, lengths: np.ndarray) -> bool:
    """Whether a small answer is a number rather than what is left of zero.

    ``answer`` was asked for again in units of these lengths, which the first one had.
    """
    return answer.status in FOUND and SMALL <= _size(answer.point, lengths) <= 1 / SETTLED


def response(sub: Subproblem, point: np.ndarray) -> np.ndarray:
    """How far a client's own answer moves for a price like the slopes that meet there, (m,).

    Zero where no variable moves that its neighbours see, or where slopes are not known.
    """
    nothing, seen = np.zeros(sub.size), sub.sight.of_variables > 0
    if sub.form is None or np.isnan(point).any() or not seen.any():
        return nothing
    near = sub.around(point)
    rough = rough_lengths(sub, point)
    program = _program(near, rough)
    still = program.minimise(nothing, ROUGH)
    cone = sub.form.cone
    # Whoever has nothing at stake moves as far as it can for any price
    at_stake = cone.linear.any() or cone.matrix.count_nonzero()
    slopes = meeting_slopes(near, still, rough) if at_stake else 1 / rough
    for share in PRICES:
        for price in (share * slopes, -share * slopes):
            moved = program.minimise(price, ROUGH)
            size = _size(moved.point[seen], rough[seen])
            if size < ROUNDED:
                continue
            if moved.status in FOUND and size < SMALL:
                moved = _program(near, size * rough).minimise(price, ROUGH)
                paid = price @ moved.point
                gained = still.objective - moved.objective - paid
                if not (_is_there(moved, size * rough) and gained > WORTH * abs(paid)):
                    continue
            if moved.status in FOUND and size > RESOLVED * _size(point, rough):
                least = max(ROUNDED, ROUGH * size) * rough
                return np.where(np.abs(moved.point) < least, 0.0, np.abs(moved.point))
    return nothing


def _is_balanced(sub: Subproblem, answer: ClientAnswer, lengths: np.ndarray) -> bool:
    """Whether the slopes that meet at an answer add up to nothing, beside their sizes."""
    left, slopes = answer.left * lengths, meeting_slopes(sub, answer) * lengths
    return bool(left.max() <= BALANCED * slopes.max())


def _by_cvxpy(sub: Subproblem) -> np.ndarray:
    """The same of a client of which cvxpy alone knows; entries of which no digit stays are zero."""
    problem = Problem(cp.Minimize(sub.client.cost), list(sub.client.constraints))
    duals = [dual for rule in problem.constraints for dual in rule.dual_variables]
    found = []
    with preserved([*sub.variables, *duals]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for asked in ({}, LESS):
            try:
                with panics_as_errors():
                    problem.solve(solver=cp.CLARABEL, **asked)
            except REFUSALS:
                break
            if problem.status not in FOUND:
                break
            found.append(sub.point())
    if not found:
        return np.full(sub.size, np.nan)
    is_noise = np.abs(found[-1] - found[0]) > SETTLED * np.abs(found[0])
    own = np.where(is_noise, 0.0, found[0])
    return np.full(sub.size, np.nan) if breaks_rules(sub, own) or goes_on(sub, own) else own


def minimised(sub: Subproblem, tolerance: float, lengths: np.ndarray | None = None) -> ClientAnswer:
    """The answer of a client alone as a cone program, in units of these lengths, (m,), or ones."""
    check_time()
    program = _program(sub, np.ones(sub.size) if lengths is None else lengths)
    return program.minimise(np.zeros(sub.size), tolerance)


def _program(sub: Subproblem, lengths: np.ndarray) -> ClarabelProgram:
    assert sub.form is not None
    cone = sub.form.cone
    whole = np.ones(cone.linear.size)
    whole[: sub.size] = lengths
    columns = np.repeat(np.arange(whole.size), np.diff(cone.matrix.indptr))
    sizes = np.abs(cone.matrix.data) * whole[cone.matrix.indices] * whole[columns]
    bends = np.bincount(columns, sizes, whole.size)
    # Whatever the objective is measured in, its largest coefficient is one
    energy = max(np.abs(whole * cone.linear).max(initial=0.0), bends.max(initial=0.0)) or 1.0
    program = ClarabelProgram(cone, Scaling(lengths, energy / lengths), polishes=False)
    program.set(np.zeros((sub.size, sub.size)))
    return program
