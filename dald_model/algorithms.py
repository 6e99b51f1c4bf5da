"""Algorithms: small objects that tell the one loop what to do with mu, rho, order and solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dald_model.errors import OptionError
from dald_model.sequence import Sequence
from dald_model.stopping import Stopping

if TYPE_CHECKING:
    from dald_model.compiler import Compiled
    from dald_model.state import State


class Goal(Enum):
    """What it means that a run is over before the round limit.

    ``OPTIMUM``: both residuals met their tolerances. ``REST``: the iterates stopped moving, at a
    point that need not be the optimum of the consensus problem. ``NONE``: nothing; every round is
    run and the answer is that of the last, since an iterate that moves little proves nothing
    where the steps are random.
    """

    OPTIMUM = "optimum"
    REST = "rest"
    NONE = "none"


def kept(mu: np.ndarray, rho: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Multipliers that are never updated."""
    return mu


@dataclass(frozen=True)
class Method:
    """What an algorithm makes of a compiled model: the choices that the loop follows.

    Attributes
    ----------
    update : callable
        (mu, rho, gap), entry by entry over any of the edges -> the multipliers of the next outer
        loop, with the primal residual as ``gap``.
    sequence, stopping : Sequence, Stopping or None
        Where the user names none; None is the default.
    rho, solver : Any
        As the options of ``solve``, which then must not be given; None leaves them to the user.
    goal : Goal
    staged : callable or None
        Called with the state and the clients of a stage after they were solved: an algorithm that
        sets multipliers within an inner loop.
    forgets : bool
        Whether clients that do not take part in an inner loop do not count in it; else their last
        values do.
    dual_step : float
        How far the multipliers move; 1 is the paper's.
    """

    update: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] = kept
    sequence: Sequence | None = None
    stopping: Stopping | None = None
    rho: Any = None
    solver: Any = None
    goal: Goal = Goal.OPTIMUM
    staged: Callable[[State, Iterable[Hashable]], None] | None = None
    forgets: bool = False
    dual_step: float = 1.0


class Algorithm(Protocol):
    """What the loop asks an algorithm."""

    def open(self, compiled: Compiled) -> Method:
        """Make the algorithm ready for a model.

        Raises
        ------
        OptionError
            If the model is not of its class, naming the client and what is in the way.
        """
        ...

    def explain(self) -> str:
        """Which choices of mu, rho, order and solver layer give it, with equation numbers."""
        ...


@dataclass(frozen=True)
class DALD:
    r"""Distributed augmented-Lagrangian decomposition: Algorithm 2 with a server, 3 without.

    .. math:: \mu^{k+1} = \mu^k + 2 \sigma \, \rho \circ \rho \circ \mathcal C^{k,v}

    Equations (15) and (22) have the dual step :math:`\sigma = 1`, with which one sweep a multiplier
    update converges on every graph (:mod:`dald_model.safety`). Two-block ADMM converges for
    :math:`0 < \sigma < (1 + \sqrt 5)/2` (Glowinski 1984).
    """

    dual_step: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.dual_step, float | int) and 0 < self.dual_step < math.inf):
            raise OptionError(
                f"DALD: given dual_step={self.dual_step!r}, expected a positive number (1 is the "
                "paper's)"
            )

    def open(self, compiled: Compiled) -> Method:
        """See :class:`Algorithm`."""
        return Method(self.update, dual_step=self.dual_step)

    def update(self, mu: np.ndarray, rho: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """The multipliers of the next outer loop, (15) and (22)."""
        return mu + 2 * self.dual_step * rho**2 * gap

    def explain(self) -> str:
        """See :class:`Algorithm`."""
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


def explained(name: str, *, mu: str, rho: str, coordination: str, layer: str) -> str:
    """The choices that make an algorithm of DALD, in one form."""
    return "\n".join(
        [
            f"{name} is DALD with",
            f"  mu            {mu}",
            f"  rho           {rho}",
            f"  coordination  {coordination}",
            f"  solver layer  {layer}",
        ]
    )


def check_positive(algorithm: Any, what: str, given: Any, note: str = "") -> None:
    """Refuse what is no positive finite number."""
    if isinstance(given, bool) or not (
        isinstance(given, float | int | np.number) and 0 < given < math.inf
    ):
        raise OptionError(
            f"{type(algorithm).__name__}: given {what}={given!r}, expected a positive number{note}"
        )


def check_whole(algorithm: Any, what: str, given: Any, least: int = 1) -> None:
    """Refuse what is no whole number from ``least`` on."""
    is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_whole or given < least:
        raise OptionError(
            f"{type(algorithm).__name__}: given {what}={given!r}, expected a whole number from "
            f"{least}"
        )


def check_draws(algorithm: Any, k: Any, seed: Any) -> None:
    """Refuse what says nothing of how many clients are drawn, and how."""
    check_whole(algorithm, "k", k)
    check_whole(algorithm, "seed", seed, 0)
