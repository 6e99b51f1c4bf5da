"""The option ``gap`` of a solve: the proved gap of an iterate as the end of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dald_model.answer.iterate_claim import claim_of_state
from dald_model.answer.judge import Judge
from dald_model.answer.verdict import Verdict, verdict_of
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State


def gap_test(compiled: Decomposition, gap: float) -> Callable[[State], str]:
    """A function that says what is proved of an iterate; empty where it is not within ``gap``.

    The gap and the violations all have to be.
    """

    @np.errstate(all="ignore")
    def test(state: State) -> str:
        judge = Judge(claim_of_state(compiled, state), gap, gap)
        rows = [judge.gap_row(), *judge.feasibility_rows()]
        if verdict_of(rows) is not Verdict.PASSED:
            return ""
        share = max(row.measured for row in rows[1:])
        return f"gap {rows[0].measured:.1e} of the cost of consensus, violation {share:.1e}"

    return test
