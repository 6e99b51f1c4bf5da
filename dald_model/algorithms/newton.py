r"""Newton's methods as DALD with a server (Section V-B.1 and V-B.2).

They have the surrogate of :mod:`dald_model.algorithms.gradient`; the server's penalty is a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from dald_model.algorithms.dald import Choices, Described
from dald_model.algorithms.gradient import Prices, stochastic
from dald_model.algorithms.server_topology import Star
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Method
from dald_model.coordinate.penalty import ResidualBalancing
from dald_model.coordinate.stopping import FixedBudget
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.arrays.smooth import no_hessian
from dald_model.solvers.inexact.copying import Copying, not_free
from dald_model.solvers.inexact.newton_server import CurvedAverage
from dald_model.validate import argument, check_draws, check_positive


@dataclass(frozen=True)
class NewtonMethod(Described):
    r"""Newton's method on the sum of the objectives, equations (41) and (42).

    .. math::
        \hat x^{k+1} = \hat x^k - \beta \Big(\sum_i \nabla^2 f_i(\hat x^k)\Big)^{-1}
        \sum_i \nabla f_i(\hat x^k)

    Parameters
    ----------
    damping : float
        :math:`\beta`, 1 for the full step; full steps converge near the optimum only.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.NewtonMethod())
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    damping: float = 1.0

    def __post_init__(self) -> None:
        check_positive(argument(self, "damping"), self.damping)

    def open(self, compiled: Decomposition) -> Method:
        return _newton(Star.of(compiled, type(self).__name__), self.damping, type(self).__name__)

    def _says(self) -> Choices:
        return Choices(
            self._given("damping"),
            mu="mu_i = grad f_i(x_i) after the clients' turn, (36), (47)",
            rho="alpha^k I = inverse Hessian, (41): the server's penalty is a matrix",
            coordination="clients, then the server, once a round: (42)",
            layer="clients copy, (38), (49); the server solves with the sum of the Hessians",
        )


@dataclass(frozen=True)
class StochasticNewton(Described):
    r"""The stochastic Newton method, equation (51) with :math:`\alpha_i = \nabla^2 f_i^{-1}`.

    .. math::
        \hat x^{k+1} = \hat x^k - \beta \Big(\sum_{i \in S_k} \nabla^2 f_i(\hat x^k)\Big)^{-1}
        \sum_{i \in S_k} \nabla f_i(\hat x^k)

    Parameters
    ----------
    k, seed : int
        How many clients are drawn for each round.
    damping : float
        :math:`\beta`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> method = dm.StochasticNewton(k=2)
    >>> result = common_number([0, 1, 2]).solve(algorithm=method, max_rounds=30)
    >>> print(result.status, abs(float(result["w"]) - 1.0) < 1.0)
    round_limit True
    """

    k: int = 1
    seed: int = 0
    damping: float = 1.0

    def __post_init__(self) -> None:
        check_positive(argument(self, "damping"), self.damping)
        check_draws(self, self.k, self.seed)

    def open(self, compiled: Decomposition) -> Method:
        name = type(self).__name__
        method = _newton(Star.of(compiled, name), self.damping, name)
        return stochastic(method, self.k, self.seed)

    def _says(self) -> Choices:
        return Choices(
            self._given("k", "seed", "damping"),
            mu="mu_i = grad f_i(x_i) after the clients' turn, (47)",
            rho="alpha_i^k I = inverse Hessian, as in (41)",
            coordination=f"partial cycle: {self.k} of the clients at random, then the server: "
            "(51), (52)",
            layer="clients copy, (49); the server solves with the sum of their Hessians, (50)",
        )


def _newton(star: Star, damping: float, who: str) -> Method:
    star.require(who, lambda sub: not_free(sub) or no_hessian(sub))
    compiled = star.compiled
    server = CurvedAverage([compiled[name] for name in star.clients], damping)
    return Method(
        sequence=Sequence(label="by colour"),
        stopping=FixedBudget(1),
        rho=ResidualBalancing(changes=0),
        solver={**dict.fromkeys(star.clients, Copying()), star.server: server},
        after_stage=Prices(star),
        remedy="a smaller damping: full steps converge near the optimum only",
    )
