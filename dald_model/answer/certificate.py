r"""Certificate of a result by client solves alone: a proved gap, without the all-in-one problem."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.claim import Claim
from dald_model.answer.judge import BOX, Judge
from dald_model.answer.verdict import Judged, Row, table
from dald_model.errors import ResultError
from dald_model.lazy_imports import pd
from dald_model.text import Bare, Heading, Part, Printed
from dald_model.values import holding


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Judged, Printed):
    """A proved gap of a result, see :func:`certify`; ``print`` shows it.

    Attributes
    ----------
    name : str
        Of the model.
    value : float
        The objective at the result's values, in the user's sense.
    bound : float
        No point of the box around these is better: within ten lengths, and more where the clients
        would go farther.
    cost : float
        What gaps are measured by: the cost of consensus, or more where that is not seen of F.
    paid : float
        The cost of consensus, what the clients pay for agreeing.
    is_refuted : bool
        Whether the bound is the value of a better point that was found, beyond the box.
    is_beyond : bool
        Whether the answer is proved within ten lengths, and the bound is that of the wider box.
    weakest : Hashable
        The client that most of the gap is from.
    rows : tuple of Row
        All comparisons.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> found = common_number([0, 1, 2]).solve().certificate()
    >>> found.ok, round(found.bound, 4)
    (True, 2.0)
    """

    name: str
    value: float
    bound: float
    cost: float
    paid: float
    is_refuted: bool
    is_beyond: bool
    weakest: Hashable
    rows: tuple[Row, ...]

    @property
    def gap(self) -> float:
        """The gap from value to bound as a share of the cost of consensus."""
        return self["gap to the bound"].measured

    @property
    def violation(self) -> float:
        """The largest violation of a constraint or copy, as a share of what it is measured by."""
        return max(
            self[check].measured for check in ("constraint violation", "consensus violation")
        )

    @property
    def yardstick(self) -> tuple[str, str, str]:
        """Name and size of the measure of gaps, and how it is found."""
        if self.cost > self.paid:
            said = f"what is not seen of F, over 1e-4; the clients pay {self.paid:.3g}"
            return "measure of gaps", f"{self.cost:.3g}", said
        return "cost of consensus", f"{self.cost:.3g}", "lower bound of sum f_i(x) - min f_i"

    def report(self, *, wide: bool) -> list[Part]:
        """The bound, what it is measured by, and the comparisons."""
        how_far = "farther than" if self.is_beyond else "within"
        found = f"by client solves alone, {how_far} {BOX:g} lengths"
        found = "the value of a better point, farther away" if self.is_refuted else found
        top = {
            "value": (f"{self.value:.8g}", ""),
            "bound": (f"{self.bound:.8g}", found),
            self.yardstick[0]: self.yardstick[1:],
        }
        return [
            Heading(f"Certificate of {self.name!r}: {self.said}"),
            Bare(pd.DataFrame([(name, *cells) for name, cells in top.items()])),
            table(self.rows),
        ]


def certify(
    result: Answer, *, tol_objective: float = 1e-4, tol_feasibility: float = 1e-4
) -> Certificate:
    """Bound the optimum by the result's multipliers, one small solve per client.

    See :mod:`dald_model.answer.judge` for what is held, beside what, and how.

    Parameters
    ----------
    result : Result
    tol_objective, tol_feasibility : float
        What is allowed of gaps, as a share of the cost of consensus, and of violations, as a share
        of how far a constraint moves over the lengths.

    Returns
    -------
    Certificate
        The user's variables and dual values are left as they are.

    Raises
    ------
    ResultError
        If the result has no point, or is of a problem that clients left.
    """
    if not result.recovered.values:
        raise ResultError(
            f"certificate: the result is {result.status} and has no point, expected one to bound; "
            "solve again, or read result.detail"
        )
    if result.left or result.dropped:
        raise ResultError(
            "certificate: clients left or edges were dropped on the way, so the multipliers are of "
            "another problem than the model; expected a result of the whole; use result.verify()"
        )
    then = [(p, value) for p, value in result.given if not isinstance(p, cp.CallbackParam)]
    with holding(then), np.errstate(all="ignore"):
        return certified(Judge(Claim.of(result), tol_objective, tol_feasibility))


def certified(judge: Judge) -> Certificate:
    """What a judge proves, with the present values of Parameters.

    A bound that is in plain sight of the value, or short of it, proves a gap that a reader cannot
    see; one farther off says nothing against the answer.
    """
    sense, bound = judge.compiled.sense, judge.value - judge.proof.gap
    sight = replace(judge.sight_row(judge.proof.gap, bound), is_seen=judge.proof.is_refuted)
    return Certificate(
        judge.compiled.model.name,
        sense * judge.value,
        sense * bound,
        judge.scale.cost,
        judge.scale.paid,
        judge.proof.is_refuted,
        judge.proof.is_beyond,
        judge.proof.weakest,
        (judge.rows[0], sight, *judge.rows[1:]),
    )
