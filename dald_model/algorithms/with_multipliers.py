r"""Methods with multipliers that the field knows by names of their own: EXTRA, FedDyn, D-ADMM.

All three are DALD with one sweep per multiplier update, (B4) with :math:`v_{max} = 1`; what has a
name is an order of the clients and a solver layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dald_model.algorithms.block_coordinate import ConsensusADMM
from dald_model.algorithms.dald import DALD, Choices, Described
from dald_model.algorithms.decentralised import (
    Weights,
    check_weights,
    chosen_weights,
    measured_step,
    peers,
)
from dald_model.algorithms.server_topology import Star
from dald_model.algorithms.steps import SHORTER, MeasuresStep, check_steps
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.coordinate.stopping import FixedBudget
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.inexact.local import GradientSteps
from dald_model.validate import argument, check_positive


@dataclass(frozen=True)
class EXTRA(MeasuresStep):
    r"""The exact first-order algorithm EXTRA (Shi, Ling, Wu and Yin 2015).

    .. math::
        x^{k+2} = (I + W) x^{k+1} - \tfrac12 (I + W) x^k
        - \alpha \big(\nabla f(x^{k+1}) - \nabla f(x^k)\big)

    :class:`DGD` with multipliers, which reaches the optimum with a constant step: Jacobi gradient
    steps (60) with :math:`\rho_{ij}^2 = w_{ij} / (4 \alpha)`. It starts with :math:`x^1 = W x^0 -
    \alpha \nabla f(x^0)` from points that agree.

    Parameters
    ----------
    step : float
        :math:`\alpha`; it converges below :math:`(1 + \lambda_{min}(W)) / L`, L the largest
        Lipschitz constant of the clients' gradients. None, the default, measures half of that.
    weights : dict
        :math:`w_{ij}`, as for :class:`DGD`; Metropolis weights by default.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2], peers=True).solve(algorithm=dm.EXTRA(step=0.3))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    step: float | None = None
    weights: Weights | None = None

    def __post_init__(self) -> None:
        check_steps(self)
        check_weights(self, self.weights)

    def _converging(self, compiled: Decomposition) -> float:
        return measured_step(compiled, self.weights, "EXTRA")

    def open(self, compiled: Decomposition) -> Method:
        step = self.measured(compiled).step
        assert step is not None
        steps = GradientSteps(step)
        names = peers(compiled, "EXTRA", steps.refuses)
        weights = chosen_weights(compiled, self.weights, "EXTRA")
        return Method(
            DALD().update,
            sequence=Sequence.jacobi(),
            stopping=FixedBudget(1),
            rho={ends: math.sqrt(one / (4 * step)) for ends, one in weights.items()},
            solver=dict.fromkeys(names, steps),
            remedy=SHORTER,
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("step"),
            rho="rho_ij^2 = w_ij / (4 step) with the mixing weights w_ij",
            coordination="everybody at once, with the values of the round before (Jacobi)",
            layer="one gradient step, (60)",
        )


@dataclass(frozen=True)
class FedDyn(Described):
    r"""Federated dynamic regularisation (Acar et al. 2021), all clients in each round.

    .. math::
        x_i^k = \arg\min_{x_i} f_i(x_i) - g_i^{k-1\top} x_i
        + \tfrac{\alpha}{2} \|x_i - \hat x^{k-1}\|^2, \quad
        g_i^k = g_i^{k-1} - \alpha (x_i^k - \hat x^{k-1})

    and :math:`\hat x^k` is the mean of the :math:`x_i^k - g_i^k / \alpha`. This is consensus ADMM
    with the server first and :math:`\alpha = 2 \rho^2`; with some of the clients a round it is
    another method, and not here.

    Parameters
    ----------
    alpha : float

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedDyn(alpha=1.0))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    alpha: float

    def __post_init__(self) -> None:
        check_positive(argument(self, "alpha"), self.alpha)

    def open(self, compiled: Decomposition) -> Method:
        star = Star.of(compiled, "FedDyn")
        return Method(
            DALD().update,
            sequence=Sequence.levels([[star.server], star.clients]),
            stopping=FixedBudget(1),
            rho=math.sqrt(self.alpha / 2),
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("alpha"),
            rho="2 rho^2 = alpha",
            coordination="the server, then all clients: (B4) with v_max = 1",
        )


@dataclass(frozen=True)
class DADMM(ConsensusADMM):
    r"""D-ADMM (Mota, Xavier, Aguiar and Püschel 2013): ADMM colour by colour, without a server.

    .. math::
        x_p^{k+1} = {} & \arg\min_{x_p} f_p(x_p) + \gamma_p^{k\top} x_p
        - r \sum_{j < p} x_j^{k+1\top} x_p - r \sum_{j > p} x_j^{k\top} x_p
        + \tfrac{r D_p}{2} \|x_p\|^2, \\
        \gamma_p^{k+1} = {} & \gamma_p^k + r \sum_j (x_p^{k+1} - x_j^{k+1})

    over the neighbours j of p, of whom those of an earlier colour are solved before, with
    :math:`r = 2 \rho^2`: :class:`ConsensusADMM` on a graph of clients. The default order is colour
    by colour; with more than two colours convergence is proved for strongly convex clients, and
    on every graph as :mod:`dald_model.coordinate.convergence` says of one sweep per update.

    Parameters
    ----------
    dual_step : float
        See :class:`DALD`; 1 is D-ADMM.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2], peers=True).solve(algorithm=dm.DADMM())
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    def open(self, compiled: Decomposition) -> Method:
        peers(compiled, "DADMM")
        return super().open(compiled)

    def _says(self) -> Choices:
        return Choices(
            self._given("dual_step"),
            coordination="colour by colour, peer to peer: (B4) with v_max = 1",
        )
