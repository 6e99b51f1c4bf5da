r"""Proximal methods as DALD with a server and multipliers zero (Section V-B)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dald_model.algorithms.dald import Choices, Described
from dald_model.algorithms.server_topology import Star
from dald_model.algorithms.steps import SHORTER, MeasuresStep, check_steps, client_bound
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.stopping import FixedTolerance
from dald_model.errors import OptionError
from dald_model.solvers.inexact.local import ProximalGradientSteps
from dald_model.text import listed
from dald_model.validate import argument, check_positive


@dataclass(frozen=True)
class ProximalPoint(Described):
    r"""The proximal algorithm, equations (33) to (35), of one client and its server.

    .. math:: x^{k+1} = \arg\min_x f(x) + \tfrac{1}{2\alpha} \|x - x^k\|^2

    Parameters
    ----------
    alpha : float

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([2.0]).solve(algorithm=dm.ProximalPoint(alpha=1.0))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 2.0
    """

    alpha: float

    def __post_init__(self) -> None:
        check_positive(argument(self, "alpha"), self.alpha)

    def open(self, compiled: Decomposition) -> Method:
        _one_client(Star.of(compiled, "ProximalPoint"), "ProximalPoint", "DistributedProximal")
        return Method(rho=math.sqrt(1 / (2 * self.alpha)), stopping=FixedTolerance())

    def _says(self) -> Choices:
        return Choices(
            self._given("alpha"),
            mu="0, which is the optimal one, (32)",
            rho="1 / (2 rho^2) = alpha",
            coordination="n = 1: the client, then the server, (33), (34)",
            layer="exact minimisation, (35), or the option solver",
        )


@dataclass(frozen=True)
class ProximalGradient(MeasuresStep):
    r"""The proximal gradient method, equations (62) to (64), of one client and its server.

    .. math:: x^{k+1} = \operatorname{prox}_{\alpha\pi}\big(x^k - \alpha\nabla\psi(x^k)\big)

    for :math:`f = \psi + \pi`, where :math:`\psi` is what has a gradient and :math:`\pi` the rest,
    constraints included.

    Parameters
    ----------
    step : float
        :math:`\alpha`; it converges below :math:`2 / L`, L the largest eigenvalue of
        :math:`\nabla^2\psi`. None, the default, measures :math:`1 / L`
        (:mod:`dald_model.algorithms.steps`).

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([2.0]).solve(algorithm=dm.ProximalGradient(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 2.0
    """

    step: float | None = None

    def __post_init__(self) -> None:
        check_steps(self)

    def _converging(self, compiled: Decomposition) -> float:
        star = Star.of(compiled, "ProximalGradient")
        return 1 / client_bound(compiled, star.clients, "ProximalGradient")

    def open(self, compiled: Decomposition) -> Method:
        star = Star.of(compiled, "ProximalGradient")
        _one_client(star, "ProximalGradient", "BCPG")
        step = self.measured(compiled).step
        assert step is not None
        steps = ProximalGradientSteps(step, penalised=False, from_neighbour=True)
        star.require("ProximalGradient", steps.refuses)
        return Method(
            rho=math.sqrt(1 / (2 * step)),
            solver={star.clients[0]: steps},
            stopping=FixedTolerance(),
            remedy=SHORTER,
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("step"),
            mu="0",
            rho="1 / (2 rho^2) = step",
            coordination="n = 1: the client, then the server",
            layer="the second-order surrogate (62) of the smooth part: one proximal step, (63), "
            "(64)",
        )


@dataclass(frozen=True)
class DistributedProximal(Described):
    r"""The distributed proximal algorithm, equations (53) to (55).

    .. math::
        x_i^k = \arg\min_{x_i} f_i(x_i) + \tfrac{1}{2\alpha_i}\|\hat x^{k-1} - x_i\|^2, \qquad
        \hat x^k = \sum_i p_i x_i^k, \quad p_i = \frac{1/\alpha_i}{\sum_j 1/\alpha_j}

    It comes to rest where :math:`\sum_i \nabla f_i(x_i) = 0` at points :math:`x_i` that differ
    unless the data are alike: the result is then "settled". With the multipliers updated it is
    Fed-DALD-CC, which agrees.

    Parameters
    ----------
    alpha : float or dict
        :math:`\alpha_i`; a dict names every client's.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.DistributedProximal(alpha=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    alpha: float | Mapping[Any, float]

    def __post_init__(self) -> None:
        given = self.alpha.values() if isinstance(self.alpha, Mapping) else [self.alpha]
        for one in given:
            check_positive(argument(self, "alpha"), one)

    def open(self, compiled: Decomposition) -> Method:
        star = Star.of(compiled, type(self).__name__)
        return Method(
            rho=penalties(star, self.alpha, type(self).__name__),
            stopping=FixedTolerance(),
            goal=Goal.FIXED_POINT,
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("alpha"),
            mu="0, (53); with the update (15) it is Fed-DALD-CC",
            rho="1 / (2 rho_i^2) = alpha_i, (53)",
            coordination="all clients, then the server: (54), (55)",
        )


def _one_client(star: Star, who: str, instead: str) -> None:
    """Refuse more than one client."""
    if len(star.clients) > 1:
        raise OptionError(
            f"algorithm: {who} is for n = 1, but {star.compiled.model.name!r} has "
            f"{len(star.clients)} clients; take {instead}, or declare one client and a server: "
            "model.client(name, objective) and model.consensus(z == x)"
        )


def penalties(star: Star, alpha: float | Mapping[Any, float], who: str) -> Any:
    r"""The option ``rho`` with :math:`1 / (2 \rho_i^2) = \alpha_i`, (53)."""
    if not isinstance(alpha, Mapping):
        return math.sqrt(1 / (2 * alpha))
    check_named(star, alpha, who)
    return {name: float(np.sqrt(1 / (2 * alpha[name]))) for name in star.clients}


def check_named(star: Star, given: Mapping[Any, float], who: str) -> None:
    """Refuse values of others than each client."""
    for name in [*star.clients, *given]:
        if name not in given or name not in star.clients:
            raise OptionError(
                f"{who}: given values for {listed(given)}, expected one for each of "
                f"{listed(star.clients)}"
            )
