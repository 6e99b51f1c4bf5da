"""The paper's Algorithms 2 and 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.validate import argument, check_positive


@dataclass(frozen=True)
class DALD:
    r"""Distributed augmented-Lagrangian decomposition: Algorithm 2 with a server, 3 without.

    .. math:: \mu^{k+1} = \mu^k + 2 \sigma \, \rho \circ \rho \circ \mathcal C^{k,v}

    Equations (15) and (22) have the dual step :math:`\sigma = 1`. With :math:`0 < \sigma \le 1` one
    sweep per multiplier update converges on every graph, if clients are convex and minimised
    exactly, from the round where the penalties stay fixed
    (:mod:`dald_model.coordinate.convergence`). Two-block ADMM converges for
    :math:`0 < \sigma < (1 + \sqrt 5)/2` (Glowinski 1984).

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.DALD())
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    dual_step: float = 1.0

    def __post_init__(self) -> None:
        said = argument(self, "dual_step")
        check_positive(said, self.dual_step, "a positive number (1 is the paper's)")

    def open(self, compiled: Decomposition) -> Method:
        """See :class:`dald_model.coordinate.method.Algorithm`."""
        return Method(
            self.update,
            dual_step=self.dual_step,
            accelerates=self.dual_step == 1,
            remedy=remedy(self.dual_step),
        )

    def update(self, mu: np.ndarray, rho: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """The multipliers of the next outer loop, (15) and (22)."""
        return mu + 2 * self.dual_step * rho**2 * gap

    def explain(self) -> str:
        """See :class:`dald_model.coordinate.method.Algorithm`."""
        factor = "2" if self.dual_step == 1 else f"2 * {self.dual_step:g}"
        return (
            "DALD: Fed-DALD-CC (Algorithm 2) on a model with a server, Fed-DALD-DC (Algorithm 3) "
            "peer to peer\n"
            f"  mu            mu + {factor} rho o rho o C after each outer loop, (15), "
            "(22)\n"
            "  rho           the option rho\n"
            "  coordination  the option sequence: Gauss-Seidel along a hierarchical network, (13), "
            "(14), (21)\n"
            "  solver layer  exact minimisation of (12), (20), or the option solver"
        )


def remedy(dual_step: float) -> str:
    """What to try where a method with this dual step diverges."""
    others = "the default rho and order, or a stopping condition with more inner loops"
    return f"a smaller dual step, {others}" if dual_step > 1 else others
