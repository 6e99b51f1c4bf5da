r"""Verification of a result against the all-in-one (AIO) solve by plain cvxpy.

Nothing is held against one, an absolute figure or the size of a number: figures are in units of the
worth V of the objective, of the spread of each variable and of the reach of each constraint, see
:mod:`dald_model.answer.scales`. They come from the problem, so a verdict is the same whatever the
run was, and in whatever units the problem is written.

That a verification is ok means: the result's values agree among clients and meet all constraints
to 1e-4 of what agreeing moves them by, the objective there and the reported value are the optimum
to 1e-4 of what agreeing costs, and the multipliers support the optimum to the same.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.comparison import consensus, distances, objective, unique
from dald_model.answer.gap import BOXES, Certificate, first_witness
from dald_model.answer.plots import verification_plot
from dald_model.answer.reference import Reference, Task, reference, sharpened, task
from dald_model.answer.rows import Row
from dald_model.answer.stationarity import Support, certificate
from dald_model.answer.violations import violation
from dald_model.answer.witnesses import alike, gap_to, held_against
from dald_model.coordinate.status import Status
from dald_model.later import pd
from dald_model.text import Bare, Heading, Part, Printed, counted
from dald_model.values import flat, holding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Row", "Verification", "verify"]

UNIQUE = 1e-3
"""A distance of two solutions, in spreads, up to which they count as the same."""
SURE = 10.0
"""A distance that is judged may be larger than a violation by this factor."""


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Printed):
    """What the comparison found; ``ok`` is the termination, ``print`` shows the table.

    Attributes
    ----------
    rows : tuple of Row
        The comparisons, in the order of :func:`verify`.
    aio_status, aio_value, aio_seconds :
        Of the all-in-one solve.
    note : str
        What the distance of the solutions means.
    certificate : Certificate or None
        The first witness, by client solves alone; None where there is no point, or where clients
        left. It is told: what is judged is the all-in-one solve, which knows no multipliers.

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

    @property
    def ok(self) -> bool:
        """Whether every row is within its tolerance."""
        return all(row.ok for row in self.rows)

    @property
    def failures(self) -> list[Row]:
        """The rows outside their tolerance."""
        return [row for row in self.rows if not row.ok]

    def __getitem__(self, check: str) -> Row:
        return next(row for row in self.rows if row.check == check)

    def __bool__(self) -> bool:
        return self.ok

    def report(self, *, wide: bool) -> list[Part]:
        """The comparison with the all-in-one solve, failures named."""
        failed = ", ".join(row.check for row in self.failures)
        termination = "passed" if self.ok else f"FAILED ({failed})"
        rows = [
            {
                "check": row.check,
                "measured": f"{row.measured:.1e}",
                "allowed": "" if row.allowed is None else f"{row.allowed:.0e}",
                "": ("ok" if row.ok else "FAILED") if row.allowed is not None else "told",
                "where": row.where,
            }
            for row in self.rows
        ]
        return [
            Heading(f"Verification of {self.result.compiled.model.name!r}: {termination}"),
            Bare(self._solves()),
            pd.DataFrame(rows),
            [f"  note: {self.note}"] if self.note else [],
        ]

    def plot(self) -> Figure:
        """What was measured beside what is allowed, check by check, on a logarithmic axis.

        Examples
        --------
        >>> from dald_model.models.mean import common_number
        >>> common_number([0, 1, 2]).solve().verify().plot().get_suptitle()
        "Verification of 'mean': passed"
        """
        rows = [(row.check, row.measured, row.allowed) for row in self.rows]
        said = "passed" if self.ok else "FAILED"
        return verification_plot(
            f"Verification of {self.result.compiled.model.name!r}: {said}", rows
        )

    def _solves(self) -> pd.DataFrame:
        ours = self.result
        time = f"{ours.seconds:.2f} s, {counted(ours.rounds, 'round')}"
        rows = [("distributed", f"{ours.value:.8g}", str(ours.status), time)]
        second, found = f"{self.aio_seconds:.2f} s", self.certificate
        if found is not None:
            first = f"gap {found.gap:.1e} by client solves alone, the first witness"
            rows.append(("certificate", f"{found.bound:.8g}", "bound", first))
            second += ", the second witness"
        rows.append(("all-in-one", f"{self.aio_value:.8g}", self.aio_status, second))
        return pd.DataFrame(rows)


def verify(
    result: Answer,
    *,
    solver: str | None = None,
    tol_objective: float = 1e-4,
    tol_feasibility: float = 1e-4,
    tol_dual: float = 1e-4,
) -> Verification:
    r"""Certify the result, then solve ``model.monolithic()`` by plain cvxpy and compare.

    The certificate (:mod:`dald_model.answer.gap`) is the first witness, and the all-in-one solve
    the second, which is independent of the multipliers and so is what judges.

    With :math:`F` the objective of the AIO problem, :math:`F^*` its optimum, :math:`x` the
    values in the result and :math:`x_i` those at the clients, V the worth of the objective, X the
    spreads of variables (:mod:`dald_model.answer.scales`), the rows are

    * objective gap, :math:`|F(x) - F^*| / V`,
    * reported value, the same for ``result.value``,
    * consensus violation, the largest :math:`|\mathcal C_r|` over all edges and over the copies of
      shared variables, in units of what the sides move by over the spreads,
    * constraint violation, the largest over all constraints and attributes of variables, each in
      units of its reach,
    * multipliers, how far the result's own multipliers are from supporting the AIO solution, or
      else the result's values (:mod:`dald_model.answer.stationarity`): multipliers are often not
      unique, and this is what makes any of them right; where solvers do not resolve that, the gap
      to the bound that the multipliers prove, relative to V,
    * distance where unique, the largest :math:`|x - x^*| / X` among variables that provably only
      one point is optimal for; there is no such row where nothing proves it, or where the result
      is better than what solvers found,
    * distance of multipliers and of the solution from the AIO solve's, relative, told but not
      judged: where they are large although all other rows hold, the optimum is not unique.

    An AIO solution that is doubtful, because its solver says so or because the result is feasible
    and better, is cross-checked by a second solver; the note says so. The better one counts, and of
    two that are as good the one that is accurate by its own account.
    A result that is better than all solvers, and not by breaking constraints, has no gap; and where
    solvers find what is better than the certificate lets any point be, its bound is what counts.

    The problem is the one that was solved, whatever values its Parameters have by now; where these
    have changed, the note says so.

    Where clients left or edges were dropped for good, the AIO problem is that of those who are
    still there, over the copies of the clients.

    Parameters
    ----------
    result : Result
    solver : str
        The cvxpy solver of the AIO problem; default Clarabel, which is accurate for every cone.
    tol_objective, tol_feasibility, tol_dual : float
        What is allowed of the first two, the next two and the fifth row; a distance may be ten
        times what a violation may.

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
    with holding(then), warnings.catch_warnings():
        # cvxpy warns of reading what was declared sparse, which every comparison does
        warnings.filterwarnings("ignore", ".*sparse CVXPY expression", RuntimeWarning)
        first = first_witness(result, tol_objective, tol_feasibility)
        tolerances = tol_objective, tol_feasibility, tol_dual
        compared = _compared(result, solver, tolerances, first, notes)
        return replace(compared, certificate=first)


def _compared(
    result: Answer,
    solver: str | None,
    tolerances: tuple[float, float, float],
    proven: Certificate | None,
    notes: list[str],
) -> Verification:
    """The comparison, with the Parameters as they were at the time of the solve."""
    tol_objective, tol_feasibility, _ = tolerances
    given = task(result)
    made = reference(given, solver)
    kind = made.status.removesuffix("_inaccurate")
    if kind != "optimal" or result.status in (Status.INFEASIBLE, Status.UNBOUNDED):
        same = kind == result.status
        said = f"{result.status}, AIO {made.status}"
        return _judged(result, made, [Row("status", 0.0 if same else np.inf, 0.0, said)], notes)
    if not result.recovered.values:
        said = f"{result.status} without a point, AIO {made.status}"
        return _judged(result, made, [Row("status", np.inf, 0.0, said)], notes)

    first = made
    made, gap, beats, said = held_against(given, made, proven, tol_objective, tol_feasibility)
    notes += said
    rows = _rows(given, made, proven, gap, beats, tolerances)
    if not all(row.ok for row in rows) and first is not made and alike(first, made, tol_objective):
        # Who calls itself accurate may leave a flat objective's solution farther away
        gap, beats = gap_to(given, first, tol_objective, tol_feasibility)
        looked = _rows(given, first, proven, abs(gap), beats, tolerances)
        if all(row.ok for row in looked):
            made, rows = first, looked
    if not all(row.ok for row in rows) and not beats:
        # An optimum may be flat: a gap of 1e-8 leaves a solution 1e-4 of the spreads away
        sharper = sharpened(given, made)
        if sharper is not None:
            gap, beats = gap_to(given, sharper, tol_objective, tol_feasibility)
            looked = _rows(given, sharper, proven, abs(gap), beats, tolerances)
            if all(row.ok for row in looked):
                made, rows = sharper, looked
    if rows[-1].measured > UNIQUE and all(row.ok for row in rows) and not beats:
        notes.append(
            "the optimum is not unique to this accuracy: both solutions are feasible and optimal"
        )
    return _judged(result, made, rows, notes)


def _rows(
    given: Task,
    made: Reference,
    proven: Certificate | None,
    gap: float,
    beats: bool,
    tolerances: tuple[float, float, float],
) -> list[Row]:
    """The comparisons with a reference, in the order of :func:`verify`."""
    assert made.scales is not None
    tol_objective, tol_feasibility, tol_dual = tolerances
    result, found = given.result, _certified(given, made, proven, tol_dual)
    # Where the result is better than the AIO solve its own objective is what it should report
    known = objective(given, made) if beats else made.value
    return [
        Row("objective gap", gap, tol_objective),
        Row("reported value", abs(result.value - known) / made.scales.worth, tol_objective),
        consensus(given, made.scales, tol_feasibility),
        violation(given, made, tol_feasibility),
        Row("multipliers", found.measured, tol_dual, found.where),
        *([] if beats else unique(given, made, SURE * tol_feasibility)),
        *distances(given, made),
    ]


def _certified(given: Task, made: Reference, proven: Certificate | None, allowed: float) -> Support:
    """What the multipliers certify at the AIO solution, or else at the result's own values.

    Where the objective is flat the AIO solution is known to few digits, and slopes there are not
    those at the optimum. Multipliers that support the result's own values are right as well, as
    these are feasible and optimal where the other rows hold. Where solvers do not resolve slopes
    the bound that the multipliers prove takes their place, if it is as near to the optimum.
    """
    assert made.scales is not None
    for values in (made.values, given.values):
        points = given.split(values)
        found = certificate(given.result, list(points), points, made.scales, allowed)
        if found.measured <= allowed:
            return found
    if proven is not None and not found.is_resolved:
        lost = _lost(given, made, proven)
        if lost <= allowed:
            return Support(lost, f"bound, as solvers leave {found.where} open")
    return found


def _lost(given: Task, made: Reference, proven: Certificate) -> float:
    """What the multipliers' bound is worse by than the result, over V, over all of the spreads.

    Spreads may be wider than its boxes; t boxes away a point is better by t times as much at most.
    """
    assert made.scales is not None
    compiled, boxes = given.result.compiled, 1.0
    if given.units is not None:
        for name, spread in made.scales.spreads.items():
            reach = BOXES * given.units.point_lengths[compiled.columns[name]]
            boxes = max(boxes, float((spread / reach).max()))
    return max(boxes * compiled.sense * (proven.value - proven.bound), 0.0) / made.scales.worth


def _judged(result: Answer, made: Reference, rows: list[Row], notes: list[str]) -> Verification:
    note = "; ".join([*made.notes, *notes])
    return Verification(result, tuple(rows), made.status, made.value, made.seconds, note)


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
