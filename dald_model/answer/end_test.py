r"""The proof that ends a run: the gap of its last iterate, by the judge of all answers.

Residuals are small beside scales that were measured before the first round. Those may be wrong, and
the judge's are not: with the cost of consensus S and the lengths L a run that is refused goes on in

.. math:: X = L, \qquad M = S / L, \qquad \rho = \sqrt{S} / L,

the lengths, slopes and penalties for which agreeing costs what it does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dald_model.answer.claim import Claim
from dald_model.answer.judge import Judge
from dald_model.answer.tangents import is_right_by_tangents
from dald_model.answer.verdict import Row
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.penalty import RHO_LEAST, RHO_MOST
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.settings import EndProof, EndTest
from dald_model.coordinate.state import State
from dald_model.gc_pause import gc_paused
from dald_model.text import listed

TOLERANCE = 100.0
"""How many times the residuals' tolerances a gap may be: 1e-4 by default. A residual of 1e-6 leaves
a gap of some 1e-6 of what the prices are worth, and of more where there are many entries."""
LEAST_EPS = 1e-6
"""Residuals' tolerances below which a gap says nothing of them: it is held to no less than 1e-4."""
NEAR = 100.0
"""How many times that an answer may be that is called inaccurate; beyond, it is none."""


def end_test(compiled: Decomposition, eps: float) -> EndTest:
    """A function that says what is proved of an iterate of a run with this tolerance."""
    allowed = TOLERANCE * max(eps, LEAST_EPS)

    @gc_paused
    @np.errstate(all="ignore")  # of numbers at the edge of what doubles hold nothing is proved
    def test(state: State, *, is_met: bool = True) -> EndProof:
        if not is_met:
            return _by_certificate(compiled, state, allowed, eps)
        if is_right_by_tangents(compiled, state, allowed):
            return EndProof(True, False, True, False, 0.0, "", state.units)
        # Whether it is proved is all that is asked: prices may be as wrong as a gap excuses
        judge = Judge(Claim.of_state(compiled, state), allowed, allowed, np.sqrt(allowed), 1.0)
        if judge.is_right_at_once:
            return EndProof(True, False, True, False, 0.0, "", state.units)
        row = judge.gap_row()
        said = _said(row, allowed)
        fault = ""
        if row.ok and not judge.are_together:
            fault = said = "copies of one variable differ by more than their lengths allow"
        elif row.ok and not (off := judge.loose_violation).share <= allowed:
            fault = said = (
                f"{off.where} is violated by {off.amount:.2g}; {allowed * off.scale:.2g} is allowed"
            )
        elif row.ok and judge.has_wrong_prices:
            fault = said = f"multipliers are wrong {judge.multiplier_row.where}"
        is_proved, is_near = row.ok and not fault, row.difference <= NEAR * judge.allowed
        wrong = row.measured
        if is_near and not is_proved:  # what breaks constraints by more is no answer
            broken = max(one.measured for one in judge.feasibility_rows)
            is_near, wrong = broken <= NEAR * allowed, max(wrong, broken)
        return EndProof(
            is_proved,
            judge.falls_beyond,
            bool(is_near),
            judge.is_blurred,
            wrong,
            said,
            _units(judge, state),
        )

    return test


def _by_certificate(compiled: Decomposition, state: State, allowed: float, eps: float) -> EndProof:
    """The proof of an iterate of which the residuals say nothing: all that a certificate asks."""
    judge = Judge(Claim.of_state(compiled, state), allowed, allowed)
    row, others = judge.gap_row(), [*judge.feasibility_rows, judge.multiplier_row]
    is_right = all(one.ok for one in others)
    return EndProof(
        row.ok and is_right and eps >= LEAST_EPS,
        judge.falls_beyond,
        bool(row.difference <= NEAR * judge.allowed and is_right),
        judge.is_blurred,
        row.measured,
        _said(row, allowed),
        state.units,
    )


def _said(row: Row, allowed: float) -> str:
    return (
        f"the objective may be better by {row.difference:.2g}, {row.measured:.1e} of the cost "
        f"of consensus {row.scale:.3g}, by what its multipliers prove; {allowed:.0e} is allowed"
    )


def unproved(compiled: Decomposition, *, is_peer: bool) -> str:
    """Why no gap is proved of a run whose residuals met their tolerances; empty where one is."""
    sites = [first.name for first, *_ in compiled.kinds if first.client.is_remote]
    if sites:
        return f"by the residuals alone: the objectives of {listed(sites)} are at their sites"
    return "by the residuals alone: no peer sees the objectives of others" if is_peer else ""


def gap_test(compiled: Decomposition, gap: float) -> Callable[[State], str]:
    """A function that says what is proved of an iterate within ``gap``, for the option of a solve.

    Empty where the gap or a violation is larger.
    """

    @np.errstate(all="ignore")
    def test(state: State) -> str:
        judge = Judge(Claim.of_state(compiled, state), gap, gap)
        rows = [judge.gap_row(), *judge.feasibility_rows]
        if not all(row.ok for row in rows):
            return ""
        share = max(row.measured for row in rows[1:])
        return f"gap {rows[0].measured:.1e} of the cost of consensus, violation {share:.1e}"

    return test


def _units(judge: Judge, state: State) -> Units:
    lengths, of_edges = judge.scale.lengths, judge.edge_lengths
    cost = max(judge.scale.cost, judge.scale.open, np.finfo(float).tiny)
    penalty = np.clip(np.sqrt(cost) / of_edges, RHO_LEAST, RHO_MOST)
    return Units(
        of_edges,
        cost / of_edges,
        lengths,
        cost / lengths,
        penalty,
        state.units.start,
    )
