"""Residuals: measured from the state after a round."""

from __future__ import annotations

import numpy as np

from dald_model.coordinate.state import State
from dald_model.schedule.moment import Residuals


def residuals(state: State) -> Residuals:
    """Measure the residuals of the current iterate, see :class:`Residuals`."""
    primal, dual = np.abs(state.primal), np.abs(state.dual).max(axis=0)
    size = np.maximum(1.0, np.abs(state.sides).max(axis=0))
    steep = float((state.gradient / state.rho).max())
    stationarity = float((state.violation / state.rho).max())
    left = max(stationarity, float(state.slack[1].max()))
    relative = left / steep if steep > 0 else 0.0
    return Residuals(
        float(primal.max()),
        float(dual.max()),
        float((primal / size).max()),
        max(float((dual / size).max()), relative),
        float(state.slack[0].max()),
    )
