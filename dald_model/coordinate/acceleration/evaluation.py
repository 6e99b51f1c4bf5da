r"""One evaluation of the map that outer loops iterate, its metric, and what proposes points.

With constant penalties and one order an outer loop takes :math:`(\mu, b)` to
:math:`(\mu^+, b^+)`, b being the sides of the later ends; the other sides follow from these. With
:math:`w = 2 \rho \circ \rho` the map is nonexpansive in

.. math:: \|(\mu, b)\|^2 = \sum \mu^2 / w + w \, b^2

(see :mod:`dald_model.coordinate.safeguards`), and its residual is as long as
:math:`\sqrt w \circ (\mathcal C, \mathcal D)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dald_model.compile.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
class Evaluation:
    r"""What came of one outer loop.

    Attributes
    ----------
    before, after : ndarray, shape (2, Q)
        :math:`(\mu, b)` at its beginning, and the image.
    sides, estimates : ndarray, shape (2, Q)
        The sides at its end, and the price that each end balanced when it was solved.
    objectives : ndarray, shape (n,)
        The clients' own objectives there (as minimised).
    points : ndarray
        The clients' variables one after the other, see ``Decomposition.columns``; what a client
        does with its own it does by itself.
    """

    before: np.ndarray
    after: np.ndarray
    sides: np.ndarray
    estimates: np.ndarray
    objectives: np.ndarray
    points: np.ndarray

    def size(self, rho: np.ndarray) -> float:
        """The length of the residual in the metric of these penalties."""
        return length(self.after - self.before, rho)


def length(change: np.ndarray, rho: np.ndarray) -> float:
    """The length of a difference of two points (2, Q) in the metric of these penalties."""
    weight = np.sqrt(2.0) * rho
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        prices, sides = change[0] / weight, change[1] * weight
        return float(np.sqrt(prices @ prices + sides @ sides))


class Proposal(NamedTuple):
    r"""A point :math:`(\mu, b)` to begin the next outer loop with, (2, Q), and who proposes it."""

    point: np.ndarray
    name: str


class Accelerator(Protocol):
    """What proposes points in one run."""

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """Learn from an evaluation; ``rho`` are the penalties of the next."""
        ...

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """A point in place of the image of an evaluation, or None."""
        ...

    def reject(self, name: str) -> None:
        """A proposal of this name led nowhere and was taken back."""
        ...

    def accept(self, name: str) -> None:
        """A proposal of this name was progress."""
        ...


BYTES = 8
"""Of one number that is sent."""


class Acceleration(Protocol):
    """Protocol of the option ``acceleration``."""

    def reveals(self, compiled: Decomposition) -> str:
        """What whoever coordinates sees of a client, in a few words."""
        ...

    def added(self, compiled: Decomposition) -> int:
        """Bytes a round that it adds to the messages of all clients together, at most."""
        ...

    def open(self, compiled: Decomposition, heads: np.ndarray, rho: np.ndarray) -> Accelerator:
        """Make it ready for a run.

        ``heads`` says of each entry whether its head is the later end, (Q,) bool; ``rho`` are the
        first penalties.

        Raises
        ------
        OptionError
            If the model is too large for it.
        """
        ...

    def explain(self) -> str:
        """What it does, what it must see of all edges, and what it adds to the messages."""
        ...
