r"""One evaluation of the map that outer loops iterate, its metric, and what proposes points.

With constant penalties and one order an outer loop takes :math:`(\mu, b)` to
:math:`(\mu^+, b^+)`, b being the sides of the later ends; the other sides follow from these. With
:math:`w = 2 \rho \circ \rho` the map is nonexpansive in

.. math:: \|(\mu, b)\|^2 = \sum \mu^2 / w + w \, b^2

(see :mod:`dald_model.coordinate.convergence`), and its residual is as long as
:math:`\sqrt w \circ (\mathcal C, \mathcal D)`. That is how far the clients' last answers are from
each other, in value and in the prices :math:`\lambda` that they balanced,

.. math:: r^2 = \sum w \, \mathcal C^2 + \sum_{\text{both ends}} (\lambda - \mu^+)^2 / w,

since the later end balanced :math:`\mu^+` and the earlier one :math:`\mu^+ + w \mathcal D`. So
written it means something where clients were absent, too: it is zero at an optimum with its prices
and nowhere else, whenever each client answered last.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.reductions import LOCAL, Reductions


@dataclass(frozen=True, eq=False)
class Evaluation:
    r"""The result of one outer loop.

    Attributes
    ----------
    before, after : ndarray, shape (2, Q)
        :math:`(\mu, b)` at its beginning, and the image.
    sides, estimates : ndarray, shape (2, Q)
        The sides at its end, and the price that each end balanced when it was last solved; NaN
        where it never was.
    objectives : ndarray, shape (n,)
        The clients' own objectives there (as minimised).
    points : ndarray
        The clients' variables one after the other, see ``Decomposition.columns``; what a client
        does with its own it does by itself.
    is_whole : bool
        Whether everybody took part and heard all others, so that the image is the map's.
    reduce : Reductions
        Over all edges, of which these may be a part.
    """

    before: np.ndarray
    after: np.ndarray
    sides: np.ndarray
    estimates: np.ndarray
    objectives: np.ndarray
    points: np.ndarray
    is_whole: bool = True
    reduce: Reductions = LOCAL
    _sized: tuple[np.ndarray, float] | None = field(default=None, init=False, repr=False)

    def among(self, entries: np.ndarray) -> Evaluation:
        """The same as if all agreed but along some entries, (Q,) bool."""
        sides = np.where(entries, self.sides, 0.0)
        return replace(
            self, sides=sides, estimates=np.where(entries, self.estimates, self.after[0])
        )

    def size(self, rho: np.ndarray) -> float:
        """The residual r in the metric of these penalties; NaN where somebody never answered."""
        # Asked by all who propose and by who watches over them, with the same array each
        if self._sized is None or self._sized[0] is not rho:
            gap, (tail, head) = self.sides[0] - self.sides[1], self.estimates - self.after[0]
            one = length(np.array([tail, gap]), rho, self.reduce)
            found = float(np.hypot(one, length(head[None], rho, self.reduce)))
            object.__setattr__(self, "_sized", (rho, found))
            return found
        return self._sized[1]


def length(change: np.ndarray, rho: np.ndarray, reduce: Reductions = LOCAL) -> float:
    """The length of a difference of two points (2, Q) in the metric of these penalties.

    Of prices alone where it is (1, Q).
    """
    weight = np.sqrt(2.0) * rho
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        scaled = change.copy()
        scaled[0] /= weight
        scaled[1:] *= weight
        return float(reduce.norm(scaled))


class Proposal(NamedTuple):
    r"""A point :math:`(\mu, b)` to begin the next outer loop with, (2, Q), and who proposes it.

    ``sides`` are those of both ends, (2, Q), as far as they are predicted: others are told these in
    place of the last answer of a client that is absent.
    """

    point: np.ndarray
    name: str
    sides: np.ndarray | None = None


class Opening(NamedTuple):
    """The data that an acceleration begins with.

    Attributes
    ----------
    compiled : Decomposition
    heads : ndarray of bool, shape (Q,)
        Whether the head of an entry is the later end.
    rho : ndarray, shape (Q,)
        The first penalties.
    off : ndarray of bool, shape (Q,), or None
        Entries that are not in the problem; None where all are.
    learnt : ModelState or None
        The models of the clients from the run that this one continues.
    reduce : Reductions
        Over all edges, of which these may be a part.
    """

    compiled: Decomposition
    heads: np.ndarray
    rho: np.ndarray
    off: np.ndarray | None = None
    learnt: ModelState | None = None
    reduce: Reductions = LOCAL


class Accelerator:
    """Proposer of points in one run.

    Attributes
    ----------
    name : str
        Of its proposals.
    recalled : tuple
        The clients that it had models of at its beginning.
    is_spent : bool
        Whether it will have no proposals for now, so that its turn may end.
    """

    name = ""
    recalled: tuple[Hashable, ...] = ()
    is_spent = False

    @property
    def learnt(self) -> ModelState | None:
        """Its models of the clients, for a run that continues this one; None without."""
        return None

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """Learn from an evaluation; ``rho`` are the penalties of the next."""

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """A point in place of the image of an evaluation, or None."""
        raise NotImplementedError

    def reject(self, name: str) -> None:
        """Hear that a proposal of this name led nowhere and was taken back."""


class Acceleration(Protocol):
    """Protocol of the option ``acceleration``."""

    def reveals(self, compiled: Decomposition) -> str:
        """The data that the coordinator sees from each client, in a few words."""
        ...

    def added(self, compiled: Decomposition) -> int:
        """Bytes per round that it adds to the messages of all clients together, at most."""
        ...

    def open(self, opening: Opening) -> Accelerator:
        """Make it ready for a run, or for what is left of one on another graph.

        Raises
        ------
        OptionError
            If the model is too large for it.
        """
        ...

    def explain(self) -> str:
        """Its method, the data it needs from all edges, and its additions to the messages."""
        ...
