"""Algorithms: small objects that tell the one loop what to do with the multipliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dald_model.errors import OptionError
from dald_model.state import State


class Algorithm(Protocol):
    """What the loop asks an algorithm."""

    def multipliers(self, state: State) -> np.ndarray:
        """The multipliers of the next outer loop, shape (Q,)."""
        ...


@dataclass(frozen=True)
class DALD:
    r"""Distributed augmented-Lagrangian decomposition: Algorithm 2 with a server, 3 without.

    .. math:: \mu^{k+1} = \mu^k + 2 \sigma \, \rho \circ \rho \circ \mathcal C^{k,v}

    Equations (15) and (22) have the dual step :math:`\sigma = 1`. Two-block ADMM converges for
    :math:`0 < \sigma < (1 + \sqrt 5)/2` (Glowinski 1984).
    """

    dual_step: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.dual_step, float | int) and 0 < self.dual_step < math.inf):
            raise OptionError(
                f"DALD: given dual_step={self.dual_step!r}, expected a positive number (1 is the "
                "paper's)"
            )

    def multipliers(self, state: State) -> np.ndarray:
        """See :class:`Algorithm`."""
        return state.mu + self.dual_step * (state.estimate - state.mu)
