r"""Inexact solvers: W local steps on the augmented Lagrangian from where a client stands.

With :math:`\Lambda = \Psi + \Pi`, the smooth part :math:`\Psi` and what has no gradient
:math:`\Pi`, equations (60) to (66) of the paper:

.. math::
    x \leftarrow x - \alpha \nabla \Lambda(x), \qquad
    x \leftarrow x - d\, [\nabla^2 \Lambda(x)]^{-1} \nabla \Lambda(x), \qquad
    x \leftarrow \operatorname{prox}_{\alpha \Pi}\big(x - \alpha \nabla \Psi(x)\big)

The augmented terms belong to :math:`\Psi`. All clients of a stage take their steps together,
whatever their shapes; nothing is kept from turn to turn but data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import copies
from dald_model.solvers.arrays.smooth import is_bounded, no_gradient, no_hessian, unknown
from dald_model.solvers.base import Session
from dald_model.solvers.inexact.local_sessions import (
    CorrectedSession,
    GradientSession,
    NewtonStepsSession,
    Plan,
    ProximalSession,
)
from dald_model.validate import check_flag, check_positive, check_whole


class LocalSteps:
    """What all are: steps of clients that may differ in every way."""

    batches = False
    is_exact = True  # what they answer depends on the turn alone, not on the tolerance


class _Descent(LocalSteps):
    """Steps of one length, from the own point or the server's."""

    def __init__(
        self, step: float, count: int = 1, penalised: bool = True, from_neighbour: bool = False
    ) -> None:
        _check_step(self, step)
        _check_count(self, count)
        _check_flag(self, "penalised", penalised)
        _check_flag(self, "from_neighbour", from_neighbour)
        self.step, self.count = float(step), int(count)
        self.penalised, self.from_neighbour = bool(penalised), bool(from_neighbour)

    @property
    def _plan(self) -> Plan:
        return Plan(self.step, self.count, self.penalised, self.from_neighbour)


class GradientSteps(_Descent):
    r"""Equation (60), or (66) where there is nothing without a gradient.

    With ``from_neighbour`` and without ``penalised`` these are the local steps of FedAvg.

    Parameters
    ----------
    step : float
        :math:`\alpha`.
    count : int
        W, steps per turn.
    penalised : bool
        Whether the augmented terms are stepped on; else the client's own objective alone.
    from_neighbour : bool
        Whether to start at the value of the one neighbour, the server, not at the own point.

    Raises
    ------
    OptionError
        If an argument means nothing.
    """

    @property
    def name(self) -> str:
        return f"gradient steps ({_steps(self.count)} of {self.step:g})"

    def refuses(self, subproblem: Subproblem) -> str:
        return _not_smooth(subproblem) or (_far(subproblem) if self.from_neighbour else "")

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return GradientSession(subproblems, self._plan)


class CorrectedSteps(GradientSteps):
    r"""Steps from the server's value along the gradient and the price, without the penalty.

    .. math:: x_i \leftarrow \hat x, \quad \text{then } W \text{ times }
        x_i \leftarrow x_i - \alpha \big(\nabla f_i(x_i) + \mu_i\big)

    Parameters
    ----------
    step : float
        :math:`\alpha`.
    count : int
        W, steps a turn.
    """

    def __init__(self, step: float, count: int = 1) -> None:
        super().__init__(step, count, from_neighbour=True)

    @property
    def name(self) -> str:
        return f"corrected {super().name}"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return CorrectedSession(subproblems, self._plan)


class NewtonSteps(LocalSteps):
    r"""Newton's steps :math:`x - d\, [\nabla^2 \Lambda(x)]^{-1} \nabla \Lambda(x)`.

    Parameters
    ----------
    count : int
        W, steps per turn.
    damping : float
        d, positive; 1 is the full step.

    Raises
    ------
    OptionError
        If an argument means nothing.
    """

    def __init__(self, count: int = 1, damping: float = 1.0) -> None:
        _check_count(self, count)
        _check_step(self, damping, "damping", "1.0")
        self.count, self.damping = int(count), float(damping)

    @property
    def name(self) -> str:
        return f"newton steps ({_steps(self.count)})"

    def refuses(self, subproblem: Subproblem) -> str:
        return _not_smooth(subproblem) or no_hessian(subproblem)

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return NewtonStepsSession(subproblems, self.count, self.damping)


class ProximalGradientSteps(_Descent):
    r"""Equations (64) to (66), by the operators :class:`dald_model.solvers.prox.operators.Prox`.

    With ``from_neighbour`` and without ``penalised`` one step per turn is the proximal gradient
    method (62) to (64), for one client.

    Parameters
    ----------
    step, count, penalised, from_neighbour :
        As of :class:`GradientSteps`.
    """

    @property
    def name(self) -> str:
        return f"proximal gradient steps ({_steps(self.count)} of {self.step:g})"

    def refuses(self, subproblem: Subproblem) -> str:
        return unknown(subproblem) or (_far(subproblem) if self.from_neighbour else "")

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return ProximalSession(subproblems, self._plan)


def _not_smooth(sub: Subproblem) -> str:
    reason = no_gradient(sub)
    if not reason and is_bounded(sub):
        reason = "it has constraints"
    is_known = not unknown(sub)
    return f"{reason}: use ProximalGradientSteps" if reason and is_known else reason


def _far(sub: Subproblem) -> str:
    """Why a client cannot start at its neighbour's value."""
    edges = copies(sub)
    if edges > 1:
        return f"it has {edges} neighbours: from_neighbour needs a single one, its server"
    if edges == 0:
        return "its sides are not just its variables: from_neighbour needs x == server"
    return ""


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _check_step(solver: Any, given: Any, what: str = "step", example: str = "1e-3") -> None:
    expected = f"a positive finite number such as {example}"
    check_positive(f"{type(solver).__name__}: {what} is ", given, expected)


def _check_count(solver: Any, given: Any) -> None:
    expected = "a whole number from 1; it is W, the local steps per turn"
    check_whole(f"{type(solver).__name__}: count is ", given, expected=expected)


def _check_flag(solver: Any, what: str, given: Any) -> None:
    check_flag(f"{type(solver).__name__}: {what} is ", given)
