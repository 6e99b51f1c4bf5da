r"""FedProx and FedAvg as DALD with a server and multipliers zero (Section V-B)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dald_model.algorithms.dald import EXACT, Choices
from dald_model.algorithms.proximal import DistributedProximal, check_named, penalties
from dald_model.algorithms.server_topology import Star
from dald_model.algorithms.steps import SHORTER, MeasuresStep, check_steps, client_bound
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.stopping import FixedTolerance
from dald_model.errors import OptionError
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.arrays.smooth import is_bounded, no_gradient
from dald_model.solvers.exact.average import WeightedAverage
from dald_model.solvers.inexact.local import GradientSteps, ProximalGradientSteps
from dald_model.validate import argument, check_positive, check_whole


@dataclass(frozen=True)
class FedProx(DistributedProximal):
    r"""FedProx (Li et al. 2020): the distributed proximal algorithm with one :math:`\alpha`, (54).

    .. math::
        x_i^k = \arg\min_{x_i} f_i(x_i) + \tfrac{1}{2\alpha}\|\hat x^{k-1} - x_i\|^2, \qquad
        \hat x^k = \sum_{i \in S_k} p_i x_i^k

    Li et al. write the proximal term as :math:`\tfrac{\mu}{2}\|x_i - \hat x\|^2`: their
    :math:`\mu` is :math:`1/\alpha`. The clients :math:`S_k` of a round are drawn with equal
    probability and averaged by their weights, as in the authors' program; their Algorithm 2 draws
    by the weights and averages equally.

    Parameters
    ----------
    alpha : float
        :math:`\alpha`.
    k, seed, weights :
        As for :class:`FedAvg`.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedProx(alpha=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0
    >>> some = dm.FedProx(alpha=0.1, k=2, weights={0: 10, 1: 10, 2: 80})
    >>> result = common_number([0, 1, 2]).solve(algorithm=some, max_rounds=30)
    >>> print(result.status, 0.5 < float(result["w"]) < 2.0)
    round_limit True
    """

    alpha: float = 1.0
    k: int | None = None
    seed: int = 0
    weights: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        check_positive(argument(self, "alpha"), self.alpha)
        _check_sample(self)

    def open(self, compiled: Decomposition) -> Method:
        star = Star.of(compiled, "FedProx")
        method = super().open(compiled)
        if self.weights is not None:
            check_named(star, self.weights, "FedProx")
            weights = np.zeros(compiled.size)
            for name in star.clients:
                weights[compiled[name].entries] = self.weights[name]
            method = replace(method, solver={star.server: WeightedAverage(weights)})
        return _sampled(method, star, self)

    def _says(self) -> Choices:
        if self.k is None and self.weights is None:
            return super()._says()
        drawn = () if self.k is None else ("k", "seed")
        weighed = "" if self.weights is None else ", weights=..."
        layer = "exact minimisation; the server averages by the weights, whatever rho"
        return Choices(
            self._given("alpha", *drawn) + weighed,
            mu="0, (53); with the update (15) it is Fed-DALD-CC",
            rho="1 / (2 rho^2) = alpha, (53)",
            coordination=f"{_who(self.k)}, then the server, which averages over these: (54), (55)",
            layer=EXACT if self.weights is None else layer,
        )


@dataclass(frozen=True)
class FedAvg(MeasuresStep):
    r"""Federated averaging (McMahan et al. 2017): FedProx with :math:`\rho \to 0^+`.

    .. math::
        x_i \leftarrow \hat x^{k-1}, \quad \text{then } W \text{ times } x_i \leftarrow x_i -
        \alpha \nabla f_i(x_i), \qquad \hat x^k = \sum_{i \in S_k} p_i x_i

    A client with constraints projects each step on them, as in (64).

    Parameters
    ----------
    step : float
        :math:`\alpha`. None, the default, measures :math:`1 / L`, L the largest of a client
        (:mod:`dald_model.algorithms.steps`).
    count : int
        W, local steps in a round, each along the gradient of all rows of a client: full-batch
        steps. An epoch of mini-batches is many steps, of parts of an objective that a client,
        which is one function, does not tell apart: declare batches as clients for those, and take
        :class:`MiniBatchGradientDescent`.
    k, seed : int
        How many clients are drawn for each round; all of them by default.
    weights : dict
        Client -> its weight in the average, such as its number of rows; equal by default. The
        :math:`p_i` are the weights of those who take part, divided by their sum. McMahan's number
        of rows goes with losses that are *means* over rows. A loss that is a *sum* counts its rows
        already, and with such weights they count twice; see the example.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.FedAvg(step=0.1, count=5))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0

    One hospital has 10 rows of value 0, another 90 of value 1; the mean over all rows is 0.9. As
    sums, rows as weights give 90 * 90 / (10 * 10 + 90 * 90):

    >>> import cvxpy as cp
    >>> def found(losses, weights=None):
    ...     w, model = cp.Variable(name="w"), dm.Model("rows")
    ...     for i, loss in enumerate(losses):
    ...         _ = model.client(i, loss * cp.square(w - i))
    ...     model.topology("server")
    ...     method = dm.FedAvg(step=1e-3, weights=weights)
    ...     return round(float(model.solve(algorithm=method, max_rounds=20_000)["w"]), 3)
    >>> found([10, 90]), found([1, 1], {0: 10, 1: 90}), found([10, 90], {0: 10, 1: 90})
    (0.9, 0.9, 0.988)
    """

    step: float | None = None
    count: int = 1
    k: int | None = None
    seed: int = 0
    weights: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        check_steps(self)
        check_whole(argument(self, "count"), self.count)
        _check_sample(self)

    def _converging(self, compiled: Decomposition) -> float:
        star = Star.of(compiled, "FedAvg")
        star.require("FedAvg", no_gradient)
        return 1 / client_bound(compiled, star.clients, "FedAvg")

    def open(self, compiled: Decomposition) -> Method:
        star, step = Star.of(compiled, "FedAvg"), self.measured(compiled).step
        assert step is not None
        star.require("FedAvg", no_gradient)
        solver = {}
        for name in star.clients:
            steps = ProximalGradientSteps if is_bounded(compiled[name]) else GradientSteps
            solver[name] = steps(step, self.count, penalised=False, from_neighbour=True)
        inverse = {name: 1 / weight for name, weight in (self.weights or {}).items()}
        method = Method(
            rho=penalties(star, inverse or 1.0, "FedAvg"),
            solver=solver,
            stopping=FixedTolerance(),
            goal=Goal.FIXED_POINT,
            remedy=SHORTER,
        )
        return _sampled(method, star, self)

    def _says(self) -> Choices:
        return Choices(
            self._given("step", "count"),
            mu="0, (53)",
            rho="to 0+ in (54): the clients forget it; p_i = beta_i / sum beta in (55)",
            coordination=f"{_who(self.k)}, then the server, which averages over these: (55)",
            layer=f"{self.count} gradient steps from the server's value, (56)",
        )


def _check_sample(algorithm: FedProx | FedAvg) -> None:
    """Refuse what says nothing of who is drawn, and of their weights."""
    if algorithm.k is not None:
        check_whole(argument(algorithm, "k"), algorithm.k)
    check_whole(argument(algorithm, "seed"), algorithm.seed, 0)
    weights = algorithm.weights
    if weights is not None and not isinstance(weights, Mapping):
        raise OptionError(
            f"{type(algorithm).__name__}: given weights={weights!r}, expected a dict from each "
            "client to its weight, such as its number of rows"
        )
    for one in (weights or {}).values():
        check_positive(argument(algorithm, "weights"), one)


def _sampled(method: Method, star: Star, algorithm: FedProx | FedAvg) -> Method:
    """A method over those of the clients who are drawn for a round; all of them where k is None."""
    k = algorithm.k
    if k is None or k >= len(star.clients):
        return method
    drawn = Sequence.participating(k, algorithm.seed)
    return replace(method, sequence=drawn, goal=Goal.NONE, ignore_absent=True)


def _who(k: int | None) -> str:
    return "all clients" if k is None else f"{k} of the clients at random"
