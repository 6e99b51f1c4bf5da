r"""Steps of gradient methods: given, measured, or falling from round to round.

A measured step is :math:`1 / L`, with L the largest eigenvalue of

.. math:: P + \sum_t w_t\, \sup \varphi_t'' \, A_t^\top A_t ,

which bounds the Hessian of a client's objective everywhere: the arrays are those of its form
(:mod:`dald_model.compile.form`), and each kind of terms knows how much it is curved at most. A step
that falls is a rule for the penalty: :math:`1 / (2 \rho^2)` is the step, as in (48).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from dald_model.algorithms.dald import Described
from dald_model.algorithms.server_topology import Star
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.state import State
from dald_model.errors import OptionError
from dald_model.validate import argument, check_positive

SHORTER = "a smaller step; step=None measures one that converges"
"""What to try where a method with a measured step diverges."""

Steps = float | Callable[[int], float]
"""A step, or a function from the round, from 1, to its step."""


class MeasuresStep(Described):
    """An algorithm whose ``step=None`` is measured; a frozen dataclass."""

    step: Any

    def _converging(self, compiled: Decomposition) -> float:
        """A step with which it converges on this model."""
        raise NotImplementedError

    def measured(self, compiled: Decomposition) -> Self:
        """The same with its step for this model; itself where one was given."""
        if self.step is not None:
            return self
        same: Any = self  # a dataclass, as its subclasses are
        return replace(same, step=self._converging(compiled))


@dataclass(frozen=True)
class Falling:
    r"""Penalties of steps that change: :math:`\rho^2 = 1 / (2 \alpha_k s)`.

    Attributes
    ----------
    step : callable
        Round, from 1, -> :math:`\alpha_k`.
    who : str
        The algorithm, for messages.
    shares : ndarray or float
        s, what the server's average has to be multiplied by, entry by entry.
    """

    step: Callable[[int], float]
    who: str
    shares: Any = 1.0

    period = 1.0

    def init(self, compiled: Decomposition) -> np.ndarray:
        return self._penalties(1, compiled.size)

    def update(self, state: State, outer: int) -> np.ndarray:
        return self._penalties(outer + 1, state.rho.size)

    def _penalties(self, round_: int, size: int) -> np.ndarray:
        step = self.step(round_)
        said = f"{self.who}: the function `step` gave of round {round_} "
        check_positive(said, step)
        return np.full(size, np.sqrt(1 / (2 * step * self.shares)))


def check_steps(algorithm: Any, *, falls: bool = False) -> None:
    """Refuse a step that is neither positive nor, where it may be, a function; None is measured."""
    step = algorithm.step
    if step is None or (falls and callable(step)):
        return
    expected = "a positive number, or None for a measured one"
    if falls:
        expected = "a positive number, a function from the round to one, or None for a measured one"
    check_positive(argument(algorithm, "step"), step, expected)


def curvature_bounds(subproblems: Iterable[Subproblem], who: str) -> list[np.ndarray]:
    """Matrices that no Hessian of these clients exceeds, each (m, m).

    Raises
    ------
    OptionError
        For a client whose curvature has no bound, or is known to cvxpy only.
    """
    return [_bound(sub, who) for sub in subproblems]


def largest(matrix: np.ndarray) -> float:
    """The largest eigenvalue of a positive semidefinite matrix."""
    return float(np.linalg.eigvalsh(matrix)[-1]) if matrix.size else 0.0


def client_bound(compiled: Decomposition, names: Iterable[Hashable], who: str) -> float:
    """The largest L of some clients."""
    found = curvature_bounds([compiled[name] for name in names], who)
    return _positive(max(map(largest, found)), who)


def sum_bound(star: Star, who: str) -> float:
    """L of the sum of the clients, in the server's variables."""
    server = star.compiled[star.server]
    entry = {int(at): i for i, at in enumerate(server.entries)}
    total = np.zeros((server.size, server.size))
    subs = [star.compiled[name] for name in star.clients]
    for sub, bound in zip(subs, curvature_bounds(subs, who), strict=True):
        rows = server.sides[0][np.array([entry[int(at)] for at in sub.entries])]
        order = (sub.sides[0].T @ rows).toarray()
        total += order.T @ bound @ order
    return _positive(largest(total), who)


def _bound(sub: Subproblem, who: str) -> np.ndarray:
    form = sub.form
    if form is None or not form.valued:
        raise OptionError(
            f"{who}: step=None measures 1 / L, but client {sub.name!r} is known to cvxpy only; "
            "give a step"
        )
    found = form.quadratic.full.copy()
    for term in form.terms:
        if not term.is_smooth:
            continue
        most = term.kind.most_curved
        if not np.isfinite(most):
            raise OptionError(
                f"{who}: step=None measures 1 / L, but the curvature of client {sub.name!r} has "
                f"no bound: its objective has {term.kind.name} terms; give a step"
            )
        weight = np.repeat(term.weight, term.width)[:, None] * most
        rows = sp.csr_array(term.matrix)
        found += (rows.T @ rows.multiply(weight)).toarray()
    return found


def _positive(bound: float, who: str) -> float:
    if bound > 0:
        return bound
    raise OptionError(
        f"{who}: step=None measures 1 / L, but no client is curved anywhere; give a step"
    )
