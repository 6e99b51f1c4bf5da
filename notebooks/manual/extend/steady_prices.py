r"""An algorithm in one file: the method of multipliers whose prices never jump.

.. math::
    \mu^{k+1} = \mu^k + \min(\max(2 \rho \circ \rho \circ \mathcal C^k, -s), s)

A price moves by at most :math:`s` a round, as buyers may ask of a market; near the optimum, where
disagreements are small, it is the paper's update.
"""

from dataclasses import dataclass

import numpy as np

import dald_model as dm
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.models.mean import common_number


@dataclass(frozen=True)
class SteadyPrices:
    """What ``solve(algorithm=...)`` takes: how it opens a model, and what it says of itself."""

    most: float

    def open(self, compiled: Decomposition) -> Method:
        """The choices for one model; whether it is of the right class would be checked here."""
        return Method(self.update, stopping=dm.FixedBudget(1))

    def update(self, mu: np.ndarray, rho: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """The next prices, entry by entry, of whichever edges it is asked for."""
        return mu + np.clip(2 * rho**2 * gap, -self.most, self.most)

    def explain(self) -> str:
        """Which choices of DALD's parts make it."""
        return f"SteadyPrices: DALD, no price moves by more than {self.most:g} a round"


if __name__ == "__main__":
    model = common_number([0, 1, 5])
    result = model.solve(algorithm=SteadyPrices(most=0.5))
    print(result.status, round(float(result["w"]), 4), result.verify().ok)  # optimal 2.0 True
