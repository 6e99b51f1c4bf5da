r"""Stopping conditions (B1) to (B4) of the inner loop, and the inner tolerance schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from dald_model.errors import OptionError
from dald_model.schedule.round_state import Residuals
from dald_model.validate import check_whole, is_number


class Stopping(Protocol):
    """Stopping condition of the inner loop."""

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        """Whether inner loop ``inner`` (from 1) of outer loop ``outer`` (from 1) is the last.

        ``dual`` is the dual residual that is held against ``eps_dual``.
        """
        ...


@dataclass(frozen=True)
class FixedTolerance:
    r"""(B1): the inner loop ends when :math:`\|\mathcal D^{k,v}\|_\infty \le \epsilon_{dual}`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(stopping=dm.FixedTolerance()).status)
    optimal
    """

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return dual <= eps_dual


@dataclass(frozen=True)
class ShrinkingTolerance:
    r"""(B2): the inner loop ends when :math:`\|\mathcal D^{k,v}\|_\infty \le \epsilon^k_{dual}`.

    .. math:: \epsilon^k_{dual} = \max(\epsilon_{dual}, \text{start} \cdot \text{factor}^{k-1})

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(stopping=dm.ShrinkingTolerance()).status)
    optimal
    """

    start: float = 1.0
    factor: float = 0.9

    def __post_init__(self) -> None:
        numbers = is_number(self.start) and is_number(self.factor)
        if not (numbers and 0 < self.start < math.inf and 0 < self.factor < 1):
            raise OptionError(
                f"ShrinkingTolerance: given start={self.start!r}, factor={self.factor!r}; expected "
                "start > 0 and 0 < factor < 1, so that the tolerance shrinks"
            )

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return dual <= max(eps_dual, self.start * self.factor ** (outer - 1))


@dataclass(frozen=True)
class GrowingBudget:
    r"""(B3): ends at :math:`v = v_{\max}^k` or :math:`\|\mathcal D^{k,v}\|_\infty \le \epsilon`.

    .. math:: v_{\max}^k = \lceil \text{start} \cdot \text{growth}^{k-1} \rceil

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(stopping=dm.GrowingBudget()).status)
    optimal
    """

    start: int = 1
    growth: float = 1.1

    def __post_init__(self) -> None:
        numbers = is_number(self.start) and is_number(self.growth)
        if not (numbers and 1 <= self.start < math.inf and 1 < self.growth < math.inf):
            raise OptionError(
                f"GrowingBudget: given start={self.start!r}, growth={self.growth!r}; expected "
                "start >= 1 and growth > 1, so that the budget grows without bound"
            )

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return dual <= eps_dual or inner >= math.ceil(self.start * self.growth ** (outer - 1))


@dataclass(frozen=True)
class FixedBudget:
    r"""(B4): ends at :math:`v = v_{\max}` or :math:`\|\mathcal D^{k,v}\|_\infty \le \epsilon`.

    ``v_max=1`` updates the multipliers after every sweep: consensus ADMM.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(stopping=dm.FixedBudget(v_max=1)).status)
    optimal
    """

    v_max: int = 1

    def __post_init__(self) -> None:
        check_whole("FixedBudget: given v_max=", self.v_max, expected="an int from 1")

    def ends(self, outer: int, inner: int, dual: float, eps_dual: float) -> bool:
        return dual <= eps_dual or inner >= self.v_max


def is_one_sweep(stopping: Stopping) -> bool:
    """Whether every outer loop is one inner loop, whatever the residuals."""
    return isinstance(stopping, FixedBudget) and stopping.v_max == 1


PLAIN_ACCURACY, LEARNT_ACCURACY = (1e-3, 1e-2), (1e-5, 1e-3)
"""The coarsest accuracy of a client, and its share of the residuals; of runs that learn, finer."""


@dataclass(frozen=True)
class Accuracy:
    r"""Inner tolerance schedule, proportional to the outer residuals.

    .. math::
        \delta = \min\big(10^{-3}, \max(10^{-2} r, \delta_{\min})\big), \qquad
        r = \epsilon \max\big(\text{primal} / \epsilon_{pri}, \;
        \text{dual} / \epsilon_{dual}\big), \quad
        \epsilon = \min(\epsilon_{pri}, \epsilon_{dual})

    relative to the natural units of a client's variables, with the scaled residuals of the last
    round, in the middle of an inner loop the dual one alone, and
    :math:`\delta_{\min} = \min(10^{-6}, \max(10^{-3} \epsilon, 10^{-10}))`; so early
    rounds are cheap and the last are exact. Errors that shrink with the residuals are summable
    where the residuals are, which inexact ADMM asks for (Eckstein and Bertsekas 1992). Solvers that
    factor or pivot are exact in any case.
    """

    given: float | None
    eps_pri: float
    eps_dual: float

    def __post_init__(self) -> None:
        given = self.given
        if given is not None and not (is_number(given) and 0 < given < 1):
            raise OptionError(f"accuracy: given {given!r}, expected a number between 0 and 1")

    @cached_property
    def eps(self) -> float:
        """The smaller tolerance; where it is zero, what rounding leaves of it."""
        return max(min(self.eps_pri, self.eps_dual), 1e-9)

    @cached_property
    def floor(self) -> float:
        """The accuracy of the last rounds."""
        return min(max(1e-3 * self.eps, 1e-10), 1e-6)

    def of(self, found: Residuals, learns: bool = False) -> float:
        """The accuracy of the round after these residuals.

        Of a run that ``learns`` from the answers it is finer, as what solvers leave teaches errors.
        """
        if self.given is not None:
            return float(self.given)
        primal = found.primal_scaled / max(self.eps_pri, self.eps)
        dual = found.dual_scaled / max(self.eps_dual, self.eps)
        most, share = LEARNT_ACCURACY if learns else PLAIN_ACCURACY
        return min(most, max(share * self.eps * max(primal, dual), self.floor))

    @cached_property
    def enough(self) -> float:
        """The coarsest accuracy that may end a run."""
        return max(0.1 * self.eps, self.floor) if self.given is None else self.given

    def suffices(self, used: float) -> bool:
        """Whether residuals measured with this accuracy may end a run."""
        return self.given is not None or used <= self.enough
