r"""Verification of a result: its certificate, and the all-in-one (AIO) solve by plain cvxpy.

Two witnesses that know nothing of each other: the certificate proves a gap from the clients'
own problems and the multipliers; the AIO solve knows no multipliers. Both measure a gap by the cost
of consensus, see :mod:`dald_model.answer.judge`, and neither by anything that the run measured.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.as_dict import plain
from dald_model.answer.certificate import Certificate, certified
from dald_model.answer.claim import Claim
from dald_model.answer.dual_values import DualValues
from dald_model.answer.feasibility import charged
from dald_model.answer.judge import PRICED, SIGHT, Judge
from dald_model.answer.plots import verification_plot
from dald_model.answer.reference import Reference, all_in_one, measured_from
from dald_model.answer.verdict import Judged, Row, table
from dald_model.compile.measures import Measure
from dald_model.coordinate.status import Status
from dald_model.lazy_imports import pd
from dald_model.text import Bare, Heading, Part, Printed, counted
from dald_model.values import flat, holding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Row", "Verification", "verify"]


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Judged, Printed):
    """The outcome of the comparison; ``ok`` is a bool, ``print`` shows the table.

    Attributes
    ----------
    rows : tuple of Row
        The comparisons, in the order of :func:`verify`.
    aio_status, aio_value, aio_seconds :
        Of the all-in-one solve: of the best feasible point that was found for it.
    note : str
        What a reader should know beside the rows.
    certificate : Certificate or None
        The other witness, by client solves alone; None where there is no point.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> check = common_number([0, 1, 2]).solve().verify()
    >>> check.ok, check["objective gap"].ok
    (True, True)
    """

    result: Answer
    rows: tuple[Row, ...]
    aio_status: str
    aio_value: float
    aio_seconds: float
    note: str = ""
    certificate: Certificate | None = None

    def report(self, *, wide: bool) -> list[Part]:
        """The values of both, what gaps are measured by, and the comparisons."""
        return [
            Heading(f"Verification of {self.result.compiled.model.name!r}: {self.said}"),
            Bare(self._solves()),
            table(self.rows),
            [f"  note: {self.note}"] if self.note else [],
        ]

    def to_dict(self) -> dict[str, Any]:
        """The verification as plain Python, which ``json.dumps`` takes.

        Returns
        -------
        dict
            ``outcome``, ``ok``, ``value``, ``aio_status``, ``aio_value``, ``aio_seconds``,
            ``note``, and ``rows``: per comparison ``check``, ``difference``, ``scale``,
            ``allowed``, ``ok`` and ``where``. A number that is not finite is None.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> common_number([0, 1, 2]).solve().verify().to_dict()["outcome"]
        'passed'
        """
        return {
            "model": self.result.compiled.model.name,
            "outcome": str(self.outcome),
            "ok": self.ok,
            "value": plain(self.result.value),
            "aio_status": self.aio_status,
            "aio_value": plain(self.aio_value),
            "aio_seconds": self.aio_seconds,
            "note": self.note,
            "rows": [
                {
                    "check": row.check,
                    "difference": plain(row.difference),
                    "scale": plain(row.scale),
                    "allowed": row.allowed,
                    "ok": row.ok,
                    "where": row.where,
                }
                for row in self.rows
            ],
        }

    def plot(self) -> Figure:
        """Each measured difference beside its tolerance, on a logarithmic axis.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> common_number([0, 1, 2]).solve().verify().plot().get_suptitle()
        "Verification of 'mean': passed"
        """
        rows = [(row.check, row.measured, row.allowed) for row in self.rows]
        return verification_plot(
            f"Verification of {self.result.compiled.model.name!r}: {self.word}", rows
        )

    def _solves(self) -> pd.DataFrame:
        ours, found = self.result, self.certificate
        time = f"{ours.seconds:.2f} s, {counted(ours.rounds, 'round')}"
        rows = [("distributed", f"{ours.value:.8g}", str(ours.status), time)]
        if found is not None:
            rows.append(("certificate", f"{found.bound:.8g}", "bound", "by client solves alone"))
        rows.append(
            ("all-in-one", f"{self.aio_value:.8g}", self.aio_status, f"{self.aio_seconds:.2f} s")
        )
        if found is not None:
            name, size, said = found.yardstick
            rows.append((name, size, "", said))
        return pd.DataFrame(rows)


def verify(
    result: Answer,
    *,
    solver: str | None = None,
    tol_objective: float = 1e-4,
    tol_feasibility: float = 1e-4,
    tol_dual: float = PRICED,
) -> Verification:
    r"""Certify the result, solve ``model.monolithic()`` by plain cvxpy, and compare.

    Of objectives alike over the same variables the data are stacked, as one writes it by hand; the
    sum is compared with the owners' own at two points.

    With F the objective as it is minimised, x the values in the result, S the cost of consensus and
    L the lengths (:mod:`dald_model.answer.scale`), the rows are

    * objective gap, :math:`F(x) - F(x^{AIO})` beside S, where :math:`x^{AIO}` is the best feasible
      point that is known, and what it violates is charged at its own dual values;
    * in plain sight, the same beside the larger of the two values, at most 0.1 %; where F(x) is
      better by more than that, the gap to the best bound so;
    * gap to the bound, :math:`F(x)` less what the multipliers prove, beside S;
    * reported value, ``result.value`` less F(x), beside the smaller of S and F;
    * constraint violation and consensus violation, beside how far a row moves over L;
    * multipliers and dual values, what they misprice over L, beside S
      (:mod:`dald_model.answer.dual_values`);
    * distances of the solution and of the dual values from the AIO solve's, informational: large
      beside checks that all pass, they say that the optimum is not unique.

    A row that fails only because doubles do not hold enough digits of F, or because no multipliers
    were found that prove what the AIO solve confirms, makes the outcome "cannot be judged".

    The problem is the one that was solved, whatever values its Parameters have by now. Where
    clients left or edges were dropped for good, the AIO problem is that of those who are still
    there, over the copies of the clients, and there is no certificate.

    Parameters
    ----------
    result : Result
    solver : str
        The cvxpy solver of the AIO problem; default Clarabel, which takes every cone.
    tol_objective, tol_feasibility, tol_dual : float
        What is allowed of gaps, of violations, and of multipliers and dual values, as shares of
        what these are measured by.

    Returns
    -------
    Verification
        The user's variables and dual values are left as they are.

    Raises
    ------
    OptionError
        If cvxpy cannot solve the AIO problem with this solver.
    """
    notes = _moved(result)
    # What a callback computes follows from others, and cannot be set
    then = [(p, value) for p, value in result.given if not isinstance(p, cp.CallbackParam)]
    with holding(then), warnings.catch_warnings(), np.errstate(all="ignore"):
        # cvxpy warns of reading what was declared sparse, which every comparison does
        warnings.filterwarnings("ignore", ".*sparse CVXPY expression", RuntimeWarning)
        claim = Claim.of(result)
        made = all_in_one(claim, solver)
        kind = made.status.removesuffix("_inaccurate")
        is_empty = result.status in (Status.INFEASIBLE, Status.UNBOUNDED)
        if is_empty or not claim.own:
            return _of_statuses(result, made, kind, notes)
        judge = Judge(claim, tol_objective, tol_feasibility, tol_dual)
        return _compared(result, judge, made, notes)


def _of_statuses(result: Answer, made: Reference, kind: str, notes: list[str]) -> Verification:
    """The comparison where there is no point to compare."""
    amount = 0.0 if kind == result.status else np.inf
    where = f"{result.status}, AIO {made.status}"
    return _made(result, made, [Row("status", amount, 1.0, 0.0, where)], notes)


def _compared(result: Answer, judge: Judge, made: Reference, notes: list[str]) -> Verification:
    """The comparison of a point, with the Parameters as they were at the time of the solve."""
    claim, sense = judge.claim, judge.compiled.sense
    here, kept = judge.value, [made] if _is_feasible(judge, made) else []
    if not kept or not here >= sense * made.value - judge.allowed:
        worth = max(judge.scale.cost, judge.scale.open) or 1.0
        for again in measured_from(claim, _measures(judge), worth):
            if _is_feasible(judge, again):
                kept.append(again)
                why = "worse than the result" if kept[0] is made else f"{made.status}, not feasible"
                by = f"{again.solver} from the result's point"
                notes.append(f"{made.solver}'s AIO solution is {why}; solved again by {by}")
                break
    if not kept:
        where = f"{result.status}, AIO {made.status}"
        is_seen = made.status in ("infeasible", "unbounded")
        row = Row("status", np.inf, 1.0, 0.0, where, is_seen=is_seen)
        return _made(result, made, [row, *judge.rows], notes, judge)
    best = min(kept, key=lambda one: sense * one.value)
    there = sense * best.value + charged(claim.rules, best.values, best.duals)
    is_feasible = all(row.ok for row in judge.feasibility_rows)
    # A feasible point that is better than what solvers find has no gap
    gap = here - there if here >= there or is_feasible else there - here
    # But where a reader sees that it is, only its bound says whether that may be
    is_beyond = gap < 0 and not judge.sight_row(-gap, there).ok
    rows = [_gap_row(judge, gap), judge.bound_row() if is_beyond else judge.sight_row(gap, there)]
    agrees = all(row.ok for row in rows)
    for row in judge.rows:
        is_excused = agrees and row.check == "gap to the bound"
        rows.append(replace(row, is_seen=row.is_seen and not is_excused))
    if claim.is_whole:
        duals = DualValues(judge, result, best.duals)
        rows += [duals.row, duals.distance]
    rows.append(_distance(judge, best))
    if rows[-1].measured > SIGHT and all(row.ok for row in rows):
        notes.append(
            "the optimum is not unique to this accuracy: both solutions are feasible and optimal"
        )
    return _made(result, best, rows, notes, judge)


def _gap_row(judge: Judge, gap: float) -> Row:
    slack, scale = judge.scale.open, judge.scale.cost
    amount = max(gap, 0.0) if np.isfinite(gap) else np.nan
    return Row("objective gap", amount, scale, judge.tolerance, slack=slack)


def _is_feasible(judge: Judge, made: Reference) -> bool:
    if not (made.values and np.isfinite(made.value)):
        return False
    return judge.feasibility.violation(made.values).share <= judge.feasible


def _measures(judge: Judge) -> dict[int, Measure]:
    lengths, answer = judge.lengths_by_variable, judge.claim.answer
    return {
        v.id: Measure(answer[v.id], lengths[v.id].reshape(v.shape, order="F"))
        for v in judge.claim.variables
    }


def _distance(judge: Judge, made: Reference) -> Row:
    """How far the solution is from the all-in-one solve's, beside the lengths."""
    worst = Row("solution distance", 0.0, 1.0)
    for v in judge.claim.variables:
        gap = np.abs(flat(judge.claim.answer[v.id]) - flat(made.values[v.id]))
        lengths = judge.lengths_by_variable[v.id]
        if gap.size:
            at = int(np.argmax(gap / lengths))
            row = Row("solution distance", float(gap[at]), float(lengths[at]), None, v.name())
            worst = row if row.measured > worst.measured else worst
    return worst


def _made(
    result: Answer,
    made: Reference,
    rows: list[Row],
    notes: list[str],
    judge: Judge | None = None,
) -> Verification:
    proven = certified(judge) if judge is not None and judge.claim.is_whole else None
    note = "; ".join(notes)
    return Verification(result, tuple(rows), made.status, made.value, made.seconds, note, proven)


def _moved(result: Answer) -> list[str]:
    """The Parameters that have another value than at the time of the solve, as a sentence."""
    changed = [
        parameter.name()
        for parameter, value in result.given
        if not np.array_equal(flat(value), flat(parameter.value))
    ]
    if not changed:
        return []
    return [
        f"Parameter {', '.join(map(repr, changed))} has another value by now than at the time of "
        "the solve, which is compared with the problem that it solved"
    ]
