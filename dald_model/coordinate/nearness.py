r"""Whether clients agree beside what they agree on, where that is small beside natural lengths.

Lengths are how far apart the clients' wishes are. Desks that would each buy a thousand times the
budget that they share have lengths of a thousand budgets, of which :math:`\epsilon_{pri}` may be
what one reads off the answer.
"""

from __future__ import annotations

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.coordinate.together import Parts

SMALL = 1e-2
"""Lengths below which what clients agree on counts in their place."""
PATIENCE = 5
"""Rounds that a run goes on for it, and no more: it has met its tolerances."""


class Nearness:
    r"""The test :math:`|\mathcal C_r| \le \epsilon \max_s |x_s|` over the part of an edge.

    Of parts where the right-hand side is below ``SMALL`` lengths, but not below
    :math:`\epsilon` of them: that is zero.
    """

    def __init__(self, compiled: Decomposition) -> None:
        self._parts = Parts(compiled)

    def is_met(self, state: State, eps: float) -> bool:
        """Whether it holds everywhere."""
        lengths = state.units.lengths
        gap = np.abs(state.primal) / lengths
        size = self._parts.largest(np.abs(state.sides).max(axis=0) / lengths)
        least = np.where((size < SMALL) & (size > eps), size, 1.0)
        return not state.whole.any(bool((gap > eps * least).any()))
