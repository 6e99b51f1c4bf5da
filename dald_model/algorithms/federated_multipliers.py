r"""Federated methods with multipliers: FedADMM and SCAFFOLD.

Both are DALD with one sweep per multiplier update, (B4) with :math:`v_{max} = 1`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dald_model.algorithms.dald import DALD, Choices, Described
from dald_model.algorithms.server_topology import Star
from dald_model.algorithms.steps import SHORTER, MeasuresStep, check_steps, client_bound
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.coordinate.stopping import FixedBudget
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.inexact.copying import not_free
from dald_model.solvers.inexact.local import CorrectedSteps
from dald_model.validate import argument, check_positive, check_whole


@dataclass(frozen=True)
class FedADMM(Described):
    r"""FedADMM (Wang, Marella and Anderson 2022; Gong, Li and Freris 2022).

    .. math::
        w_i^k = \arg\min_{w_i} f_i(w_i) + y_i^{k-1\top} w_i
        + \tfrac{c}{2} \|w_i - \theta^{k-1}\|^2, \quad
        y_i^k = y_i^{k-1} + c\,(w_i^k - \theta^{k-1}) \quad (i \in S_k)

    and :math:`\theta^k` is the mean of the :math:`w_i^k + y_i^k / c` over *all* clients, of whom
    those not drawn keep their :math:`w_i, y_i`: Gong's server step :math:`\eta = |S_k| / n`. This
    is consensus ADMM with the server first, :math:`c = 2\rho^2`, and clients activated at random;
    with all of them it is :class:`FedDyn`. It converges almost surely (Wei and Ozdaglar 2013).

    Parameters
    ----------
    penalty : float
        c.
    k, seed : int
        How many clients are drawn for each round; all of them by default.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedADMM(penalty=2.0, k=2))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    penalty: float
    k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(argument(self, "penalty"), self.penalty)
        if self.k is not None:
            check_whole(argument(self, "k"), self.k)
        check_whole(argument(self, "seed"), self.seed, 0)

    def open(self, compiled: Decomposition) -> Method:
        star = Star.of(compiled, "FedADMM")
        order = Sequence.levels([[star.server], star.clients])
        if self.k is not None and self.k < len(star.clients):
            order = Sequence.participating(self.k, self.seed).along(order)
        return Method(
            DALD().update,
            sequence=order,
            stopping=FixedBudget(1),
            rho=math.sqrt(self.penalty / 2),
        )

    def _says(self) -> Choices:
        who = "all clients" if self.k is None else f"{self.k} of the clients at random"
        return Choices(
            self._given("penalty"),
            mu="mu + 2 rho o rho o C after every sweep, of those who took part, (15)",
            rho="2 rho^2 = penalty",
            coordination=f"the server, which averages over all, then {who}: (B4) with v_max = 1",
        )


@dataclass(frozen=True)
class SCAFFOLD(MeasuresStep):
    r"""SCAFFOLD (Karimireddy et al. 2020), option II, all clients in each round.

    .. math::
        y_i \leftarrow x, \quad \text{then } W \text{ times } y_i \leftarrow y_i -
        \alpha \big(\nabla f_i(y_i) - c_i + c\big), \quad
        c_i \leftarrow c_i - c + \frac{x - y_i}{W \alpha}

    and x and c are the means of the :math:`y_i` and of the :math:`c_i`. The control variates are
    multipliers, :math:`\mu_i = c - c_i`: as they add up to zero, their update is (15) with
    :math:`2\rho^2 = 1 / (W \alpha)`, and x is (31). With some of the clients a round c moves for
    those who are absent as well, which no update of an edge does: that is not here.

    Parameters
    ----------
    step : float
        :math:`\alpha`, their :math:`\eta_l`, with :math:`\eta_g = 1`. None, the default, measures
        :math:`1 / L`, L the largest of a client (:mod:`dald_model.algorithms.steps`), over W.
    count : int
        W, full-batch local steps in a round.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.SCAFFOLD(step=0.1, count=5))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    step: float | None = None
    count: int = 1

    def __post_init__(self) -> None:
        check_steps(self)
        check_whole(argument(self, "count"), self.count)

    def _converging(self, compiled: Decomposition) -> float:
        star = Star.of(compiled, "SCAFFOLD")
        star.require("SCAFFOLD", not_free)
        return 1 / (client_bound(compiled, star.clients, "SCAFFOLD") * self.count)

    def open(self, compiled: Decomposition) -> Method:
        star, step = Star.of(compiled, "SCAFFOLD"), self.measured(compiled).step
        assert step is not None
        steps = CorrectedSteps(step, self.count)
        star.require("SCAFFOLD", steps.refuses)
        return Method(
            DALD().update,
            sequence=Sequence.levels([star.clients, [star.server]]),
            stopping=FixedBudget(1),
            rho=math.sqrt(1 / (2 * self.count * step)),
            solver=dict.fromkeys(star.clients, steps),
            remedy=SHORTER,
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("step", "count"),
            rho="2 rho^2 = 1 / (count step); the clients forget it",
            coordination="all clients, then the server: (B4) with v_max = 1",
            layer=f"{self.count} gradient steps on f_i + mu_i' x_i from the server's value",
        )
