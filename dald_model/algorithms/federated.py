r"""Proximal and federated methods as DALD with a server and multipliers zero (Section V-B)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dald_model.algorithms.dald import explained
from dald_model.algorithms.server_topology import Star
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.stopping import FixedTolerance
from dald_model.errors import OptionError
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.inexact.local import GradientSteps, ProximalGradientSteps
from dald_model.text import listed
from dald_model.validate import argument, check_positive, check_whole


@dataclass(frozen=True)
class ProximalPoint:
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
        """See :class:`dald_model.algorithms.Algorithm`."""
        one_client(Star.of(compiled, "ProximalPoint"), "ProximalPoint", "DistributedProximal")
        return Method(rho=math.sqrt(1 / (2 * self.alpha)), stopping=FixedTolerance())

    def explain(self) -> str:
        """See :class:`dald_model.algorithms.Algorithm`."""
        return explained(
            f"ProximalPoint(alpha={self.alpha:g})",
            mu="0, which is the optimal one, (32)",
            rho="1 / (2 rho^2) = alpha",
            coordination="n = 1: the client, then the server, (33), (34)",
            layer="exact minimisation, (35), or the option solver",
        )


@dataclass(frozen=True)
class ProximalGradient:
    r"""The proximal gradient method, equations (62) to (64), of one client and its server.

    .. math:: x^{k+1} = \operatorname{prox}_{\alpha\pi}\big(x^k - \alpha\nabla\psi(x^k)\big)

    for :math:`f = \psi + \pi`, where :math:`\psi` is what has a gradient and :math:`\pi` the rest,
    constraints included.

    Parameters
    ----------
    step : float
        :math:`\alpha`; it converges below :math:`2 / L`, L the largest eigenvalue of
        :math:`\nabla^2\psi`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([2.0]).solve(algorithm=dm.ProximalGradient(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 2.0
    """

    step: float

    def __post_init__(self) -> None:
        check_positive(argument(self, "step"), self.step)

    def open(self, compiled: Decomposition) -> Method:
        """See :class:`dald_model.algorithms.Algorithm`."""
        star = Star.of(compiled, "ProximalGradient")
        one_client(star, "ProximalGradient", "BCPG")
        steps = ProximalGradientSteps(self.step, penalised=False, from_neighbour=True)
        star.require("ProximalGradient", steps.refuses)
        return Method(
            rho=math.sqrt(1 / (2 * self.step)),
            solver={star.clients[0]: steps},
            stopping=FixedTolerance(),
        )

    def explain(self) -> str:
        """See :class:`dald_model.algorithms.Algorithm`."""
        return explained(
            f"ProximalGradient(step={self.step:g})",
            mu="0",
            rho="1 / (2 rho^2) = step",
            coordination="n = 1: the client, then the server",
            layer="the second-order surrogate (62) of the smooth part: one proximal step, (63), "
            "(64)",
        )


@dataclass(frozen=True)
class DistributedProximal:
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
        """See :class:`dald_model.algorithms.Algorithm`."""
        star = Star.of(compiled, type(self).__name__)
        return Method(
            rho=_penalties(star, self.alpha, type(self).__name__),
            stopping=FixedTolerance(),
            goal=Goal.FIXED_POINT,
        )

    def explain(self) -> str:
        """See :class:`dald_model.algorithms.Algorithm`."""
        return explained(
            f"{type(self).__name__}(alpha={self.alpha!r})",
            mu="0, (53); with the update (15) it is Fed-DALD-CC",
            rho="1 / (2 rho_i^2) = alpha_i, (53)",
            coordination="all clients, then the server: (54), (55)",
            layer="exact minimisation, or the option solver",
        )


@dataclass(frozen=True)
class FedProx(DistributedProximal):
    r"""FedProx: the distributed proximal algorithm with one :math:`\alpha`, (54) and (55).

    Li et al. 2020 write the proximal term as :math:`\tfrac{\mu}{2}\|x_i - \hat x\|^2`: their
    :math:`\mu` is :math:`1/\alpha`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedProx(alpha=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        check_positive(argument(self, "alpha"), self.alpha)


@dataclass(frozen=True)
class FedAvg:
    r"""Federated averaging (McMahan et al. 2017): FedProx with :math:`\rho \to 0^+`.

    .. math::
        x_i \leftarrow \hat x^{k-1}, \quad \text{then } W \text{ times } x_i \leftarrow x_i -
        \alpha \nabla f_i(x_i), \qquad \hat x^k = \sum_{i \in S_k} p_i x_i

    Parameters
    ----------
    step : float
        :math:`\alpha`.
    epochs : int
        W, gradient steps in a round, each over all rows of a client: one pass over its data, not
        the many steps of an epoch of mini-batches.
    k, seed : int
        How many clients are drawn for each round; all of them by default.
    weights : dict
        Client -> its weight in the average, such as its number of rows; equal by default. The
        :math:`p_i` are the weights of those who take part, divided by their sum. McMahan's number
        of rows goes with losses that are means; a loss that is a sum counts its rows already.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedAvg(step=0.1, epochs=5))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    """

    step: float
    epochs: int = 1
    k: int | None = None
    seed: int = 0
    weights: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        check_positive(argument(self, "step"), self.step)
        check_whole(argument(self, "epochs"), self.epochs)
        if self.k is not None:
            check_whole(argument(self, "k"), self.k)
        check_whole(argument(self, "seed"), self.seed, 0)
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise OptionError(
                f"FedAvg: given weights={self.weights!r}, expected a dict from each client to its "
                "weight, such as its number of rows"
            )
        for one in (self.weights or {}).values():
            check_positive(argument(self, "weights"), one)

    def open(self, compiled: Decomposition) -> Method:
        """See :class:`dald_model.algorithms.Algorithm`."""
        star = Star.of(compiled, "FedAvg")
        steps = GradientSteps(self.step, self.epochs, penalised=False, from_neighbour=True)
        star.require("FedAvg", steps.refuses)
        inverse = {name: 1 / weight for name, weight in (self.weights or {}).items()}
        drawn = self.k if self.k is not None and self.k < len(star.clients) else None
        some = drawn is not None
        return Method(
            rho=_penalties(star, inverse or 1.0, "FedAvg"),
            sequence=None if drawn is None else Sequence.participating(drawn, self.seed),
            solver=dict.fromkeys(star.clients, steps),
            stopping=FixedTolerance(),
            goal=Goal.NONE if some else Goal.FIXED_POINT,
            ignore_absent=some,
        )

    def explain(self) -> str:
        """See :class:`dald_model.algorithms.Algorithm`."""
        who = "all clients" if self.k is None else f"{self.k} of the clients at random"
        return explained(
            f"FedAvg(step={self.step:g}, epochs={self.epochs})",
            mu="0, (53)",
            rho="to 0+ in (54): the clients forget it; p_i = beta_i / sum beta in (55)",
            coordination=f"{who}, then the server, which averages over these: (55)",
            layer=f"{self.epochs} gradient steps from the server's value, (56)",
        )


def one_client(star: Star, who: str, instead: str) -> None:
    """Refuse more than one client."""
    if len(star.clients) > 1:
        raise OptionError(
            f"algorithm: {who} is for n = 1, but {star.compiled.model.name!r} has "
            f"{len(star.clients)} clients; take {instead}, or declare one client and a server: "
            "model.client(name, objective) and model.consensus(z == x)"
        )


def _penalties(star: Star, alpha: float | Mapping[Any, float], who: str) -> Any:
    if not isinstance(alpha, Mapping):
        return math.sqrt(1 / (2 * alpha))
    for name in [*star.clients, *alpha]:
        if name not in alpha or name not in star.clients:
            raise OptionError(
                f"{who}: given values for {listed(alpha)}, expected one for each of "
                f"{listed(star.clients)}"
            )
    return {name: float(np.sqrt(1 / (2 * alpha[name]))) for name in star.clients}
