r"""Splitting methods of two blocks: Douglas-Rachford, linearised ADMM, primal-dual gradients.

All are DALD with one sweep per multiplier update, (B4) with :math:`v_{max} = 1`, two levels of
clients and a solver layer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from dald_model.algorithms.dald import DALD, Choices, Described
from dald_model.algorithms.decentralised import peers
from dald_model.algorithms.server_topology import Star, is_copy, require
from dald_model.algorithms.steps import client_bound
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.coordinate.stopping import FixedBudget
from dald_model.errors import OptionError, TopologyError
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.inexact.copying import not_free
from dald_model.solvers.inexact.local import GradientSteps, ProximalGradientSteps
from dald_model.text import counted
from dald_model.validate import argument, check_from_zero, check_positive


@dataclass(frozen=True)
class DouglasRachford(Described):
    r"""Douglas-Rachford splitting (Lions and Mercier 1979; Eckstein and Bertsekas 1992).

    .. math::
        x^k = \operatorname{prox}_{t f}(z^{k-1}), \quad
        y^k = \operatorname{prox}_{t g}(2 x^k - z^{k-1}), \quad z^k = z^{k-1} + y^k - x^k

    Of two clients that agree peer to peer, f the second declared and g the first; or of all clients
    and their server, where :math:`\operatorname{prox}_{t f}` is that of each client and
    :math:`\operatorname{prox}_{t g}` their mean (Spingarn 1985). A round is :math:`y^k, x^{k+1}`,
    with :math:`z^0` zero and :math:`x^1` where the second client, or the clients, start: DALD with
    :math:`t = 1/(2\rho^2)` and multipliers :math:`\mu = \pm(z - x)/t`. Relaxed steps
    :math:`z + \lambda(y - x)` are another method, and not here.

    Parameters
    ----------
    step : float
        t.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.DouglasRachford(step=0.5))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    step: float

    def __post_init__(self) -> None:
        check_positive(argument(self, "step"), self.step)

    def open(self, compiled: Decomposition) -> Method:
        if compiled.servers:
            star = Star.of(compiled, "DouglasRachford")
            levels = [[star.server], star.clients]
        else:
            names = two_clients(compiled, "DouglasRachford")
            peers(compiled, "DouglasRachford", lambda sub: "")
            levels = [[name] for name in names]
        return Method(
            DALD().update,
            sequence=Sequence.levels(levels),
            stopping=FixedBudget(1),
            rho=math.sqrt(1 / (2 * self.step)),
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("step"),
            rho="1 / (2 rho^2) = step",
            coordination="the first client, then the second; or the server, then all clients: (B4) "
            "with v_max = 1",
        )


@dataclass(frozen=True)
class PDHG(Described):
    r"""Primal-dual hybrid gradients (Chambolle and Pock 2011; Condat 2013, Vu 2013).

    .. math::
        x^{k+1} = \operatorname{prox}_{\tau\pi}\big(x^k - \tau\nabla\psi(x^k)
        - \tau K^\top(2\mu^k - \mu^{k-1})\big), \qquad
        \mu^{k+1} = \operatorname{prox}_{\sigma g^*}(\mu^k + \sigma K x^{k+1})

    for :math:`\psi(x) + \pi(x) + g(y)` and :math:`K x = y`: two clients, the first of x with one
    side :math:`K x`, the second of y, which it shares as it is. With :math:`\sigma = 2\rho^2`
    Moreau's identity makes the multiplier update (22) the second step, and a proximal gradient step
    on the augmented Lagrangian is the first; without smooth part :math:`\psi` it is Chambolle and
    Pock's method, with it Condat's and Vu's.

    Parameters
    ----------
    primal, dual : float
        :math:`\tau` and :math:`\sigma`; it converges for
        :math:`1/\tau - \sigma \|K\|^2 \ge L/2`, L the largest curvature of :math:`\psi`.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import numpy as np
    >>> import dald_model as dm
    >>> x, y, D = cp.Variable(3, name="x"), cp.Variable(2, name="y"), np.diff(np.eye(3), axis=0)
    >>> model = dm.Model("total variation")
    >>> _ = model.client("fit", cp.sum_squares(x - [0.0, 0.2, 3.0]))
    >>> _ = model.client("jumps", cp.norm1(y))
    >>> model.consensus(D @ x == y)
    >>> result = model.solve(algorithm=dm.PDHG(primal=0.25, dual=0.5))
    >>> print(result.status, result["x"].round(2))
    optimal [0.35 0.35 2.5 ]
    """

    primal: float
    dual: float

    def __post_init__(self) -> None:
        check_positive(argument(self, "primal"), self.primal)
        check_positive(argument(self, "dual"), self.dual)

    def open(self, compiled: Decomposition) -> Method:
        first, second = two_clients(compiled, "PDHG")
        if not is_copy(compiled[second]):
            raise OptionError(
                f"algorithm: PDHG needs client {second!r} to share all its variables as they are, "
                "entry by entry, and with the first client alone: model.consensus(K @ x == y)"
            )
        steps = ProximalGradientSteps(self.primal)
        require(compiled, [first], "PDHG", steps.refuses)
        return Method(
            DALD().update,
            sequence=Sequence.levels([[first], [second]]),
            stopping=FixedBudget(1),
            rho=math.sqrt(self.dual / 2),
            solver={first: steps},
            remedy="a smaller primal, or a smaller dual",
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("primal", "dual"),
            rho="2 rho^2 = dual",
            coordination="the first client, then the second: (B4) with v_max = 1",
            layer="the first client by one proximal gradient step, (64), (65); the second exactly",
        )


@dataclass(frozen=True)
class LinearisedADMM(Described):
    r"""Linearised ADMM: consensus ADMM whose clients linearise their objectives where they stand.

    .. math::
        x_i^{k+1} = \arg\min_{x_i} \nabla f_i(x_i^k)^\top x_i + \tfrac{\eta}{2}\|x_i - x_i^k\|^2
        + \mu_i^\top x_i + \tfrac{c}{2}\|x_i - \hat x^k\|^2
        = x_i^k - \frac{\nabla f_i(x_i^k) + \mu_i^k + c\,(x_i^k - \hat x^k)}{c + \eta}

    with a server, which averages (Chang, Hong and Wang 2015, IC-ADMM). Peer to peer all move at
    once, by a step of :math:`1 / (2 c d_i + \eta)` with :math:`d_i` neighbours (DLM of Ling, Shi,
    Wu and Ribeiro 2015). One gradient step per turn, (60), with :math:`c = 2\rho^2`.

    Parameters
    ----------
    penalty : float
        c.
    proximal : float
        :math:`\eta`, from 0; None, the default, measures the largest curvature of a client
        (:mod:`dald_model.algorithms.steps`), for which it converges.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> method = dm.LinearisedADMM(penalty=1.0)
    >>> for peers in (False, True):
    ...     result = common_number([0, 1, 2], peers=peers).solve(algorithm=method)
    ...     print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    optimal 1.0
    """

    penalty: float
    proximal: float | None = None

    def __post_init__(self) -> None:
        check_positive(argument(self, "penalty"), self.penalty)
        if self.proximal is not None:
            check_from_zero(argument(self, "proximal"), self.proximal)

    def open(self, compiled: Decomposition) -> Method:
        who = "LinearisedADMM"
        if compiled.servers:
            star = Star.of(compiled, who)
            names, sequence = star.clients, None
            star.require(who, not_free)
            degree = dict.fromkeys(names, 1)
        else:
            names, sequence = peers(compiled, who, not_free), Sequence.jacobi()
            degree = {name: 2 * len(compiled[name].others) for name in names}
        near = self.proximal
        if near is None:
            near = client_bound(compiled, names, who)
        steps = {name: GradientSteps(1 / (self.penalty * degree[name] + near)) for name in names}
        return Method(
            DALD().update,
            sequence=sequence,
            stopping=FixedBudget(1),
            rho=math.sqrt(self.penalty / 2),
            solver=steps,
            remedy="a larger proximal; proximal=None measures one for which it converges",
        )

    def _says(self) -> Choices:
        return Choices(
            self._given("penalty", "proximal"),
            rho="2 rho^2 = penalty",
            coordination="the order of the model, (B4) with v_max = 1; peer to peer everybody at "
            "once (Jacobi)",
            layer="one gradient step of 1 / (penalty + proximal), (60); peer to peer of 1 / (2 "
            "penalty d_i + proximal) with d_i neighbours",
        )


def two_clients(compiled: Decomposition, who: str) -> tuple[Hashable, Hashable]:
    """The two clients of a model that agree peer to peer, in the order that they were declared."""
    names = list(compiled)
    if compiled.servers or len(names) != 2:
        raise TopologyError(
            f"algorithm: {who} is for two clients that agree peer to peer, but "
            f"{compiled.model.name!r} has {counted(len(names), 'client')}"
            f"{' and servers' if compiled.servers else ''}; DALD and ConsensusADMM take any"
        )
    return names[0], names[1]
