r"""Primal and dual residual of a round, equations (A1-7), (A1-8), (A2-6) and (A2-7)."""

from __future__ import annotations

import numpy as np

from dald_model.coordinate.state import State
from dald_model.schedule.round_state import Residuals


def residuals(state: State) -> Residuals:
    r"""The residuals of the current iterate, see :class:`Residuals`.

    In units of the edges' lengths X and slopes M they are the largest :math:`|\mathcal C_r| / X_r`,
    and the larger of :math:`|\mathcal D_r| / X_r` and :math:`s_r / M_r` with the violation
    :math:`s = 2 \rho^2 |\mathcal D|` of (A2-3), or what solvers that are not exact leave.
    """
    lengths, slopes = state.units.lengths, state.units.slopes
    gap, dual = np.abs(state.primal), state.dual
    moved, unbalanced = np.abs(dual).max(axis=0), state.stationarity(dual).max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        scaled = np.maximum(moved / lengths, unbalanced / slopes)
        table = np.array([gap, moved, gap / lengths, scaled])
    primal, change, primal_scaled, dual_scaled = state.reduce.largest(table)[:, 0].tolist()
    slack, slack_scaled = state.reduce.largest(state.slack)[:, 0].tolist()
    return Residuals(primal, change, primal_scaled, max(dual_scaled, slack_scaled), slack)
