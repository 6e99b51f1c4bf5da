"""The paper's Algorithms 2 and 3, and how algorithms say what they choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.validate import argument, check_positive, is_number

UPDATE = "mu + 2 rho o rho o C after every sweep, (15), (22)"
EXACT = "exact minimisation, or the option solver"


class Choices(NamedTuple):
    """The arguments as they are printed, and the choices, with equation numbers."""

    arguments: str
    coordination: str
    mu: str = UPDATE
    rho: str = "the option rho"
    layer: str = EXACT


class Described:
    """An algorithm that is described by its :class:`Choices`."""

    def _says(self) -> Choices:
        raise NotImplementedError

    def _given(self, *names: str) -> str:
        """Arguments with their values."""
        return ", ".join(f"{name}={told(getattr(self, name))}" for name in names)

    def explain(self) -> str:
        says = self._says()
        return "\n".join(
            [
                f"{type(self).__name__}({says.arguments}) is DALD with",
                f"  mu            {says.mu}",
                f"  rho           {says.rho}",
                f"  coordination  {says.coordination}",
                f"  solver layer  {says.layer}",
            ]
        )


def told(given: Any) -> str:
    """An argument as it is printed."""
    if is_number(given):
        return f"{given:g}"
    return "a function of the round" if callable(given) else repr(given)


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
