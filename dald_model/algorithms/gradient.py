r"""Gradient methods as DALD with a server (Section V-B.1 and V-B.2).

All have the surrogate (36), (47): clients copy the server's value, the multiplier of each is its
gradient there, and the server minimises over :math:`\hat x`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dald_model.algorithms.dald import Choices
from dald_model.algorithms.server_topology import Star
from dald_model.algorithms.steps import (
    SHORTER,
    Falling,
    MeasuresStep,
    Steps,
    check_steps,
    client_bound,
    sum_bound,
)
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.state import State
from dald_model.coordinate.stopping import FixedBudget
from dald_model.errors import OptionError
from dald_model.schedule.sequence import Sequence
from dald_model.solvers.arrays.smooth import no_gradient
from dald_model.solvers.inexact.copying import (
    Copying,
    KinkedCopying,
    gradients_of,
    no_subgradient,
    not_free,
)
from dald_model.validate import check_draws


@dataclass(frozen=True)
class GradientDescent(MeasuresStep):
    r"""Gradient descent on the sum of the objectives, equations (36) to (40), (47) to (50).

    .. math:: \hat x^{k+1} = P_X\big(\hat x^k - \alpha \sum_i \nabla f_i(\hat x^k)\big)

    with :math:`P_X` the projection on the constraints that every client states, which the server
    holds. Constraints of single clients are refused.

    Parameters
    ----------
    step : float
        :math:`\alpha`; it converges below :math:`2 / L`, L the largest eigenvalue of the Hessian
        of the sum. None, the default, measures :math:`1 / L` (:mod:`dald_model.algorithms.steps`).

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> result = common_number([0, 1, 2]).solve(algorithm=dm.GradientDescent(step=0.1))
    >>> print(result.status, round(float(result["w"]), 3))
    optimal 1.0
    """

    step: float | None = None

    def __post_init__(self) -> None:
        check_steps(self)

    def _converging(self, compiled: Decomposition) -> float:
        name = type(self).__name__
        star = Star.of(compiled, name, projects=True)
        star.require(name, not_shared)
        return 1 / sum_bound(star, name)

    def open(self, compiled: Decomposition) -> Method:
        name, step = type(self).__name__, self.measured(compiled).step
        star = Star.of(compiled, name, projects=True)
        assert step is not None
        # (31) averages over the n_v clients that have an entry: the step of the sum is n_v times
        # that of the mean.
        return _descent(star, name, np.sqrt(1 / (2 * step * _shares(star, name))))

    def _says(self) -> Choices:
        return Choices(
            self._given("step"),
            mu="mu_i = grad f_i(x_i) after the clients' turn, (36), (47)",
            rho="1 / (2 rho^2) = n step, (31), with n the clients that have the entry",
            coordination="clients, then the server, once a round: (38), (39); together (40)",
            layer="clients copy, x_i = server's value, (37), (38), (49); the server averages, "
            "(31), and projects on constraints that every client states",
        )


@dataclass(frozen=True)
class MiniBatchGradientDescent(MeasuresStep):
    r"""Mini-batch gradient descent, equations (47) to (52): clients are batches.

    .. math:: \hat x^{k+1} = P_X\Big(\hat x^k
        - \frac{\alpha}{|S_k|} \sum_{i \in S_k} \nabla f_i(\hat x^k)\Big)

    with ``k`` clients :math:`S_k` drawn with equal probability for each round; of a variable that
    not all clients have, :math:`S_k` are those of the drawn that have it. :math:`P_X` projects on
    the constraints that every client states. A constant step does not
    converge to the optimum but to its neighbourhood; steps that fall do, where their sum is
    infinite and that of their squares is not. Every round is run and the answer is that of the
    last.

    Parameters
    ----------
    step : float or callable
        :math:`\alpha`, or a function from the round k, from 1, to :math:`\alpha_k`; with a function
        clients may have kinks, of which a subgradient is taken (Nedic and Ozdaglar 2009). None, the
        default, measures :math:`1 / L`, L the largest of a client. Objectives that are averages
        over N rows in all want steps n times as long as gradient descent does.
    k, seed : int

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> method = dm.MiniBatchGradientDescent(step=0.1, k=2)
    >>> result = common_number([0, 1, 2]).solve(algorithm=method, max_rounds=30)
    >>> print(result.status, abs(float(result["w"]) - 1.0) < 1.0)
    round_limit True
    """

    step: Steps | None = None
    k: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_steps(self, falls=True)
        check_draws(self, self.k, self.seed)

    def _converging(self, compiled: Decomposition) -> float:
        name = type(self).__name__
        star = Star.of(compiled, name, projects=True)
        star.require(name, not_shared)
        return 1 / client_bound(compiled, star.clients, name)

    def open(self, compiled: Decomposition) -> Method:
        name, step = type(self).__name__, self.measured(compiled).step
        star = Star.of(compiled, name, projects=True)
        if callable(step):
            method = _descent(star, name, Falling(step, name), has_kinks=True)
        else:
            assert step is not None
            method = _descent(star, name, math.sqrt(1 / (2 * step)))
        return stochastic(method, self.k, self.seed)

    def _says(self) -> Choices:
        return Choices(
            self._given("step", "k", "seed"),
            mu="mu_i = grad f_i(x_i) after the clients' turn, (47)",
            rho="1 / (2 rho^2) = step, (48)",
            coordination=f"partial cycle: {self.k} of the clients at random, then the server, "
            "which averages over these alone: (51), (52)",
            layer="clients copy, (49); the server averages, (31), (50), "
            "and projects on constraints that every client states",
        )


@dataclass(frozen=True)
class StochasticGradientDescent(MiniBatchGradientDescent):
    r"""Stochastic gradient descent, equation (51) with one sample a step: clients are samples.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> method = dm.StochasticGradientDescent(step=0.1)
    >>> result = common_number([0, 1, 2]).solve(algorithm=method, max_rounds=30)
    >>> print(result.status, abs(float(result["w"]) - 1.0) < 1.0)
    round_limit True
    """


def _shares(star: Star, who: str) -> np.ndarray:
    """The number of clients that share each entry of the edges, shape (Q,).

    An entry that the server tells them multiplied by some factor counts with its square, so that
    the step is the gradient's there, too.
    """
    server = star.compiled[star.server]
    matrix = server.sides[0]
    if not (np.diff(matrix.indptr) == 1).all():
        raise OptionError(
            f"algorithm: {who} needs each entry that clients share to be one of the server "
            f"{star.server!r}, not a sum of several; DALD and ConsensusADMM take any consensus"
        )
    shares = np.empty(star.compiled.size)
    counts = np.bincount(matrix.indices, matrix.data**2, minlength=server.size)
    shares[server.entries] = counts[matrix.indices]
    return shares


def not_shared(sub: Subproblem) -> str:
    """Why a client cannot follow its gradient where the server holds what all state."""
    said = not_free(sub)
    if said and not no_gradient(sub):
        said += (
            " of its own, and the server projects on those alone that every client states (without "
            "model.topology)"
        )
    return said


def _descent(star: Star, who: str, rho: Any, *, has_kinks: bool = False) -> Method:
    star.require(who, no_subgradient if has_kinks else not_shared)
    return Method(
        sequence=Sequence(label="by colour"),
        stopping=FixedBudget(1),
        rho=rho,
        solver=dict.fromkeys(star.clients, KinkedCopying() if has_kinks else Copying()),
        after_stage=Prices(star),
        remedy=SHORTER,
    )


def stochastic(method: Method, k: int, seed: int) -> Method:
    """A method over k clients that are drawn for each round, (51)."""
    chosen = Sequence.participating(k, seed)
    return replace(method, sequence=chosen, goal=Goal.NONE, ignore_absent=True)


class Prices:
    """Sets the multipliers of clients to their gradients where they stand, (36) and (47)."""

    def __init__(self, star: Star) -> None:
        self._compiled = star.compiled
        self._subproblems = [star.compiled[name] for name in star.clients]
        self._place = {name: at for at, name in enumerate(star.clients)}
        self._smooth = gradients_of(self._subproblems)

    def __call__(self, state: State, stage: Iterable[Hashable]) -> None:
        """Set those of the clients of a stage, after it was solved."""
        names = [name for name in stage if name in self._place]
        if not names:
            return
        which = np.array([self._place[name] for name in names])
        points = np.concatenate([state.points[self._compiled.columns[name]] for name in names])
        slopes, at = self._smooth.gradients(which, points), 0
        for sub in (self._subproblems[i] for i in which):
            mine = slopes[at : at + sub.size]
            # C is tail - head: the client's price is minus its gradient where it is the tail.
            state.mu[sub.entries] = -sub.signs * (sub.sides[0] @ mine)
            at += sub.size
