r"""Decentralised gradient descent, synchronous and not (equation (57) and after)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from dald_model.algorithms.dald import Choices
from dald_model.algorithms.server_topology import is_identity, require
from dald_model.algorithms.steps import (
    SHORTER,
    Falling,
    MeasuresStep,
    Steps,
    check_steps,
    client_bound,
    largest,
)
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.penalty import ResidualBalancing
from dald_model.coordinate.stopping import FixedBudget, FixedTolerance
from dald_model.errors import OptionError, TopologyError
from dald_model.schedule.participation import Participation
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.arrays.smooth import no_gradient
from dald_model.solvers.inexact.copying import Mixing, no_mixing
from dald_model.validate import check_draws, is_number

Weights = Mapping[tuple[Any, Any], float]


@dataclass(frozen=True)
class DGD(MeasuresStep):
    r"""Decentralised gradient descent (Nedic and Ozdaglar 2009), equation (57).

    .. math:: x_i^{k+1} = \sum_j p_{ij} x_j^k - \alpha \nabla f_i(x_i^k)

    With a constant step the clients come to rest apart from each other and from the optimum, by
    a distance in proportion to :math:`\alpha`: the result is then "settled". Steps
    :math:`\alpha_k` that fall lead to the optimum where :math:`\sum_k \alpha_k = \infty` and
    :math:`\sum_k \alpha_k^2 < \infty`, also along subgradients; every round is run then. A client
    with constraints projects its step on them, as in (64) (Zeng and Yin 2018).

    Parameters
    ----------
    step : float or callable
        :math:`\alpha`, or a function from the round k, from 1, to :math:`\alpha_k`; with a function
        clients without constraints may have kinks. None, the default, measures half of what it
        converges for (:func:`dald_model.algorithms.decentralised.measured_step`).
    weights : dict
        Pair of neighbours -> :math:`p_{ij} = p_{ji}`; every edge must be there once, and what a
        client's neighbours leave of 1 is its own :math:`p_{ii}`. Default: Metropolis weights,
        :math:`1 / (1 + \max(d_i, d_j))` with the degrees :math:`d` (Xiao, Boyd and Lall
        2005).

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2], peers=True).solve(algorithm=dm.DGD(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    settled 1.0

    The median, along subgradients:

    >>> import cvxpy as cp
    >>> import networkx as nx
    >>> w, model = cp.Variable(name="w"), dm.Model("median")
    >>> for i, value in enumerate([0, 1, 5]):
    ...     _ = model.client(i, cp.abs(w - value))
    >>> model.topology(nx.path_graph(3))
    >>> found = model.solve(algorithm=dm.DGD(step=lambda k: 1 / k), max_rounds=300)
    >>> print(found.status, round(float(found["w"]), 1))
    round_limit 1.0
    """

    step: Steps | None = None
    weights: Weights | None = None

    def __post_init__(self) -> None:
        check_steps(self, falls=True)
        check_weights(self, self.weights)

    def _converging(self, compiled: Decomposition) -> float:
        return measured_step(compiled, self.weights, "DGD")

    def open(self, compiled: Decomposition) -> Method:
        step = self.measured(compiled).step
        assert step is not None
        goal = Goal.NONE if callable(step) else Goal.FIXED_POINT
        return _mixing(compiled, step, self.weights, "DGD", Sequence.jacobi(), goal)

    def _says(self) -> Choices:
        return Choices(
            self._given("step"),
            mu="0, (53)",
            rho="the mixing weights p_ij take its place, (55), (57)",
            coordination="everybody at once, with the values of the round before (Jacobi)",
            layer="one gradient step, (A4-1) with (55) gives (57), projected on constraints, (64)",
        )


@dataclass(frozen=True)
class AsynchronousDGD(MeasuresStep):
    r"""Distributed asynchronous gradient descent (Tsitsiklis et al. 1986): partial cycles of (57).

    For each round ``k`` clients wake, drawn with equal probability, and take the step of
    :class:`DGD` with what their neighbours sent last, however old; the others stay. Every round
    is run and the answer is that of the last. Delays beyond that come by the option ``online``:
    ``dm.Stragglers(...)``, ``dm.LossyLinks(p)``.

    Parameters
    ----------
    step, weights :
        As for :class:`DGD`.
    k, seed : int

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> method = dm.AsynchronousDGD(step=0.1, k=2)
    >>> result = common_number([0, 1, 2], peers=True).solve(algorithm=method, max_rounds=30)
    >>> print(result.status, abs(float(result["w"]) - 1.0) < 1.0)
    round_limit True
    """

    step: Steps | None = None
    k: int = 1
    seed: int = 0
    weights: Weights | None = None

    def __post_init__(self) -> None:
        check_steps(self, falls=True)
        check_draws(self, self.k, self.seed)
        check_weights(self, self.weights)

    def _converging(self, compiled: Decomposition) -> float:
        return measured_step(compiled, self.weights, "AsynchronousDGD")

    def open(self, compiled: Decomposition) -> Method:
        step = self.measured(compiled).step
        assert step is not None
        waking = Sequence("waking", strategy=Participation(self.k, self.seed, at_once=True))
        return _mixing(compiled, step, self.weights, "AsynchronousDGD", waking, Goal.NONE)

    def _says(self) -> Choices:
        return Choices(
            self._given("step", "k", "seed"),
            mu="0, (53)",
            rho="the mixing weights p_ij take its place, (55), (57)",
            coordination=f"partial cycle: {self.k} of the clients at random, nobody waits",
            layer="one gradient step, (57), projected on constraints, (64)",
        )


def metropolis(graph: nx.Graph) -> dict[tuple[Hashable, Hashable], float]:
    r"""Metropolis weights: edge -> :math:`1 / (1 + \max(d_i, d_j))`, d the degrees.

    The Metropolis-Hastings weights of Xiao, Boyd and Lall (2005), "A scheme for robust distributed
    sensor fusion based on average consensus": with what they leave to each client they are
    symmetric, doubly stochastic, and known to two neighbours from their degrees alone.

    Examples
    --------
    >>> import networkx as nx
    >>> import dald_model as dm
    >>> dm.metropolis(nx.path_graph(3))
    {(0, 1): 0.3333333333333333, (1, 2): 0.3333333333333333}
    """
    degree = dict(graph.degree)
    return {(a, b): 1 / (1 + max(degree[a], degree[b])) for a, b in graph.edges}


def measured_step(compiled: Decomposition, weights: Weights | None, who: str) -> float:
    r"""Half of :math:`(1 + \lambda_{min}(W)) / L`, below which DGD and EXTRA converge.

    L is the largest of a client, W the matrix of the weights. Of DGD see Yuan, Ling and Yin (2016),
    "On the convergence of decentralized gradient descent", of EXTRA Shi, Ling, Wu and Yin (2015).
    """
    names = peers(compiled, who, no_gradient)
    mixing = nx.Graph()
    for ends, one in chosen_weights(compiled, weights, who).items():
        mixing.add_edge(*ends, weight=one)
    fastest = largest(nx.laplacian_matrix(mixing).toarray())  # W is 1 less it
    return (1 - fastest / 2) / client_bound(compiled, names, who)


def _mixing(
    compiled: Decomposition,
    step: Steps,
    weights: Weights | None,
    who: str,
    sequence: Sequence,
    goal: Goal,
) -> Method:
    falls = callable(step)
    names = peers(compiled, who, lambda sub: no_mixing(sub, falls=falls))
    chosen = chosen_weights(compiled, weights, who)
    given: dict[Any, np.ndarray] = {name: np.zeros(compiled[name].entries.size) for name in names}
    flat = np.zeros(compiled.size)
    for ends, slot in compiled.slots.items():
        flat[slot] = chosen.get(ends, chosen.get((ends[1], ends[0]), 0.0))
    for name in names:
        given[name] = flat[compiled[name].entries]
    return Method(
        sequence=sequence,
        stopping=FixedBudget(1) if falls else FixedTolerance(),
        rho=Falling(step, who) if falls else ResidualBalancing(changes=0),
        solver=dict.fromkeys(names, Mixing(None if falls else step, given)),
        goal=goal,
        remedy=SHORTER,
    )


def peers(
    compiled: Decomposition, who: str, reason: Callable[[Subproblem], str] | None = None
) -> list[Hashable]:
    """The clients of a model without a server.

    With ``reason`` also refuse clients for which it is not empty, and those that share anything but
    all their variables with each neighbour.

    Raises
    ------
    OptionError
        Naming what is in the way.
    """
    if compiled.servers:
        raise TopologyError(
            f"algorithm: {who} is peer to peer, but {compiled.model.name!r} has the server "
            f"{compiled.servers[0]!r}; say who talks to whom by model.topology(graph)"
        )
    names: list[Hashable] = list(compiled)
    if reason is None:
        return names
    require(compiled, names, who, reason)
    for name in names:
        if not is_identity(compiled[name]):
            raise OptionError(
                f"algorithm: {who} needs client {name!r} to share all its variables, entry by "
                "entry, with each of its neighbours; DALD and ConsensusADMM take any consensus"
            )
    return names


def chosen_weights(compiled: Decomposition, weights: Weights | None, who: str) -> Weights:
    """The mixing weights that were given, checked against the graph; else Metropolis weights."""
    return metropolis(compiled.graph) if weights is None else _checked(compiled, weights, who)


def check_weights(algorithm: Any, given: Any) -> None:
    """Refuse what is no dict from pairs to numbers; whether they fit a graph is seen later."""
    who, wanted = type(algorithm).__name__, "a dict from pairs of neighbours to numbers"
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise OptionError(f"{who}: given weights={given!r}, expected {wanted}, or None")
    for pair, weight in given.items():
        if not (isinstance(pair, tuple) and len(pair) == 2 and is_number(weight)):
            raise OptionError(f"{who}: given the weight {weight!r} for {pair!r}, expected {wanted}")


def _checked(compiled: Decomposition, weights: Weights, who: str) -> Weights:
    for ends in compiled.slots:
        given = [weights[pair] for pair in (ends, (ends[1], ends[0])) if pair in weights]
        if len(given) != 1 or not 0 <= given[0] < 1:
            raise OptionError(
                f"{who}: the edge {ends!r} has the weights {given!r}, expected one number from 0, "
                "below 1"
            )
    for pair in weights:
        if not compiled.graph.has_edge(*pair):
            raise OptionError(
                f"{who}: weights name {pair!r}, which is no edge; expected pairs of neighbours "
                f"such as {compiled.edges[0].ends!r}"
            )
    for name in compiled:
        mine = [w for pair, w in weights.items() if name in pair]
        if sum(mine) > 1 + 1e-12:
            raise OptionError(
                f"{who}: the weights of client {name!r} add up to {sum(mine):g}, expected at most "
                "1: the rest is its own"
            )
    return weights
