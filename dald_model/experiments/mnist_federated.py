r"""The paper's federated experiment (Section VI-B): three methods on MNIST's 3 against 7.

Sparse logistic regression with :math:`n` clients, one proximal gradient step of length 1e-4 a
round (:math:`W = v_{\max} = 1`), :math:`\rho = 1`, all starts zero:

================  ==============================================================================
FedProx           a server and no multipliers: :math:`\alpha = 1/(2 \rho^2)`
Fed-DALD-CC       a server: clients, then server, then multipliers
Fed-DALD-DC       no server: a chain of clients in order, each with its neighbours' newest values
================  ==============================================================================

What is measured is how many of all 12,396 images each client's own vector gets right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.compile.subproblem import Subproblem
from dald_model.datasets import Array, Folder, load_mnist
from dald_model.datasets.partition import alternating
from dald_model.models.logistic import sparse_logistic
from dald_model.solvers.arrays.augmented import copies
from dald_model.solvers.base import Answers, Multipliers, Session, Turn
from dald_model.solvers.inexact.local import ProximalGradientSteps

FEDPROX, CC, DC = METHODS = "FedProx", "Fed-DALD-CC", "Fed-DALD-DC"

STEP, RHO = 1e-4, 1.0
"""The paper's step of the clients and its penalty."""

EQUATION, PAPER = DIVISORS = "equation", "paper"
"""What the server divides by: the number of clients as in equation (31), or :data:`SLIP`."""

SLIP = 785
"""What the server of the paper's figures divides by: 784 pixels and the intercept."""


class Images(NamedTuple):
    """Images without the pixels that are 0 in all, whose coefficients stay 0.

    Attributes
    ----------
    features : ndarray, shape (rows, m)
        Raw values from 0 to 255, without the column of ones.
    target : ndarray, shape (rows,)
        +1 for a 7, -1 for a 3.
    """

    features: Array
    target: Array

    def accuracy(self, vectors: Array) -> Array:
        """The share of the rows that each vector gets right, a tie at 0 being wrong.

        Vectors have shape (n, m + 1), the intercept last.
        """
        scores = self.features @ vectors[:, :-1].T
        scores += vectors[:, -1]
        scores *= self.target[:, None]
        return np.count_nonzero(scores > 0, axis=0) / len(self.target)


@lru_cache(1)
def images(data: Folder = None) -> Images:
    """The 12,396 images of 3 and 7 for training, see :func:`dald_model.datasets.load_mnist`."""
    rows = load_mnist(data=data)
    used = rows.features.any(axis=0)
    return Images(np.ascontiguousarray(rows.features[:, used]), rows.target)


@dataclass(frozen=True)
class DividedBy:
    r"""A server that averages with another divisor :math:`d` than the number of its clients.

    .. math:: \hat x = \frac{1}{d} \Big(\sum_i x_i - \frac{1}{2 \rho^2} \sum_i \mu_i\Big)

    Equation (31) has :math:`d = n`, see :class:`dald_model.solvers.exact.average.Average`. With
    another the server's point is no minimiser: for :math:`d > n` every round shrinks it towards 0.
    """

    divisor: float
    batches = False
    is_exact = True

    @property
    def name(self) -> str:
        return f"sum over {self.divisor:g}"

    def refuses(self, subproblem: Subproblem) -> str:
        if not subproblem.client.is_hub:
            return "it is no server"
        return "" if copies(subproblem) else "its edges are not about all its variables"

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Divided(self.divisor, subproblems)


class _Divided:
    """One run of :class:`DividedBy`."""

    def __init__(self, divisor: float, subproblems: Sequence[Subproblem]) -> None:
        self._divisor, self._subproblems = divisor, subproblems

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        points, own = [], [self._subproblems[at] for at in turn.which]
        for sub, one in zip(own, turn.each(own), strict=True):
            price = sub.signs * one.mu / (2 * one.rho**2)
            told = (one.neighbours - price).reshape(-1, sub.size)
            points.append(told.sum(axis=0) / self._divisor)
        count = len(points)
        return Answers(
            np.concatenate(points),
            np.zeros(count),
            ["optimal"] * count,
            Multipliers.none(count),
            {},
        )


class Setting(NamedTuple):
    """One run of the experiment; ``divisor`` is one of :data:`DIVISORS`, and nothing to DC."""

    clients: int
    weight: float
    method: str
    divisor: str = EQUATION


def follow(
    setting: Setting,
    rounds: Sequence[int],
    rows: Images,
    measure: Callable[[Array], Any],
    every_round: bool = False,
) -> dict[int, Any]:
    """Run the experiment and measure the clients' own vectors.

    Parameters
    ----------
    setting, rows
    rounds
        After which rounds to measure. The run ends with the largest.
    measure
        What to do with the vectors, shape (clients, m + 1), such as ``rows.accuracy``.
    every_round
        Whether to measure after every round up to the largest instead.

    Returns
    -------
    dict
        Round -> what was measured.
    """
    parts = alternating(rows.target, setting.clients)
    dealt = ((rows.features[part], rows.target[part]) for part in parts)
    shards = {f"client {at}": shard for at, shard in enumerate(dealt, start=1)}
    model = sparse_logistic(shards, rows=len(rows.target), weight=setting.weight)
    if setting.method == DC:
        model.topology(nx.path_graph(list(shards)))
    options = _options(model, setting)
    (w,) = model.shared
    if every_round:
        options["metrics"] = {"measured": lambda at: measure(np.array([*at.copies(w).values()]))}

    found: dict[int, Any] = {}
    result, done = None, 0
    for goal in sorted(rounds):
        result = model.solve(max_rounds=goal - done, start=result, acceleration=None, **options)
        if result.rounds < goal - done:
            raise dm.ResultError(
                f"{setting} ended after {done + result.rounds} of {goal} rounds: "
                f"{result.status} ({result.detail}); expected all rounds"
            )
        if every_round:
            found |= dict(enumerate(result.history["measured"], start=done + 1))
        else:
            found[goal] = measure(np.array([result[name][w] for name in shards]))
        done = goal
    return found


def _options(model: dm.Model, setting: Setting) -> dict[str, Any]:
    """What ``solve`` is given. Zero tolerances run every round, as the paper did."""
    steps = ProximalGradientSteps(STEP)
    solver: Any = steps
    if setting.method != DC and setting.divisor == PAPER:
        (server,) = model.compile().servers
        solver = dict.fromkeys(model.clients, steps) | {server: DividedBy(SLIP)}
    options = {"stopping": dm.FixedBudget(1), "solver": solver, "eps_pri": 0.0, "eps_dual": 0.0}
    if setting.method == FEDPROX:
        return options | {"algorithm": dm.FedProx(alpha=1 / (2 * RHO**2))}
    options |= {"algorithm": dm.DALD(), "rho": RHO}
    return options | {"sequence": dm.Sequence.natural()} if setting.method == DC else options


class Figures(NamedTuple):
    """The accuracies of the clients as the paper prints them.

    ``mean`` is in per cent, ``deviation`` the population standard deviation in units of 1e-4.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, accuracies: Array) -> Figures:
        """Of the accuracies of all clients, from 0 to 1."""
        return cls(100 * float(accuracies.mean()), 1e4 * float(accuracies.std()))


def over(
    settings: Iterable[Setting], work: Callable[..., Any], rest: tuple[Any, ...], jobs: int
) -> Iterator[tuple[Setting, Any]]:
    """Each setting with ``work(setting, *rest)``, as they come, in so many processes."""
    if jobs == 1:
        yield from ((setting, work(setting, *rest)) for setting in settings)
        return
    # Not forked: BLAS has threads, which a fork would leave behind.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        tasks = {pool.submit(work, setting, *rest): setting for setting in settings}
        try:
            for task in as_completed(tasks):
                yield tasks[task], task.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
