"""Secant coordination: the consensus of learned models of the clients' responses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.coordinates import Coordinates, Group
from dald_model.coordinate.acceleration.evaluation import (
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
)
from dald_model.coordinate.acceleration.local_models import (
    MARGIN,
    LocalModels,
    Models,
    ModelState,
    known_sum,
    recall,
)
from dald_model.coordinate.acceleration.master import Master
from dald_model.errors import OptionError
from dald_model.validate import argument, check_whole
from dald_model.values import BYTES

MOST_ENTRIES = 32
"""Shared entries of a client up to which its responses are learned: of the gallery's models it made
some better and some worse beyond, and those below all better."""
SHORTEST_WAY = 0.1
"""Steps of a smaller share of the way to the models' consensus are not proposed. If all were, 119
models of the panel would take 0.98 times the rounds, quantiles 0.3 times, but logistic owners on a
grid more than the 60 that are wanted, and large owners of absolute values 1.7 times in two of five
draws."""
ROUNDS_PAUSED = 2
"""Rounds that the secant pauses after a proposal that led nowhere. Without a pause, of seven desks'
portfolios within one budget four stall; with up to 16 rounds a floor plan and hinges a million
spreads from zero do. The frozen panel takes 1.00 times its rounds with either."""


@dataclass(frozen=True)
class Secant:
    r"""Secant coordination: consensus of learned models of the clients.

    A coordinator that sees all prices and answers sees the slope of each client's objective at its
    answer. From these it learns a symmetric model of each client's response
    (:class:`dald_model.coordinate.acceleration.local_models.LocalModels`), and solves the consensus
    of the models in each round (:mod:`dald_model.coordinate.acceleration.master`). That is ALADIN
    (Houska, Frasch and Diehl 2016) with curvature that nobody sends: no message grows, and the
    coordinator learns nothing that neighbours do not already send. The step towards the models'
    consensus is so long that the error of the models in the last round, relative to what they were
    told, is no larger than the present residual.

    Parameters
    ----------
    directions : int
        Clients with more shared directions than that are refused: their models would take more
        rounds to learn than they save.

    Raises
    ------
    OptionError
        If ``directions`` is no whole number from 1.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(acceleration=dm.Secant(directions=8)).status)
    optimal
    """

    directions: int = MOST_ENTRIES

    def __post_init__(self) -> None:
        check_whole(argument(self, "directions"), self.directions)

    def takes(self, compiled: Decomposition) -> bool:
        """Whether no client is too large."""
        return self._largest(compiled) <= self.directions

    def open(self, opening: Opening) -> SecantModel:
        compiled = opening.compiled
        if not self.takes(compiled):
            raise OptionError(
                f"acceleration: {self!r} takes clients of up to {self.directions} shared entries, "
                f"and {compiled.model.name!r} has one of {self._largest(compiled)}; take "
                "dm.Anderson(), or a larger directions"
            )
        return SecantModel(opening)

    def reveals(self, compiled: Decomposition) -> str:
        return "answers, prices"

    def added(self, compiled: Decomposition) -> int:
        """See :class:`Acceleration`: the prices that clients are told with a proposal."""
        clients = (sub for name, sub in compiled.items() if name not in compiled.averages)
        return BYTES * sum(sub.entries.size for sub in clients)

    def explain(self) -> str:
        return (
            f"{self!r} learns a model of each client's response; it needs a coordinator that sees "
            "the prices and values of all edges, as a server does, and adds nothing to the "
            "messages; for absent clients the models predict an answer, and start= keeps them"
        )

    def sizes(self, compiled: Decomposition) -> np.ndarray:
        """How many directions each client has to learn at most."""
        clients = (sub for name, sub in compiled.items() if name not in compiled.averages)
        return np.array([min(sub.size, sub.entries.size) for sub in clients], dtype=int)

    def _largest(self, compiled: Decomposition) -> int:
        return int(self.sizes(compiled).max(initial=0))


class SecantModel(Accelerator):
    """The models of one run, which may begin with what an earlier one ``learnt``.

    Attributes
    ----------
    coordinates : Coordinates
    master : Master
    error : float
        How wrong the models were of the last round, as a share of what clients were told.
    reach : float
        How far from what they were told last the last proposal is, over the residual.
    """

    name = "secant"

    def __init__(self, opening: Opening) -> None:
        compiled, self._heads, rho, off, learnt, _ = opening
        if learnt is not None and learnt.coordinates.fits(compiled, rho, off):
            self.master = learnt.master
        else:
            self.master = Master(Coordinates(compiled, rho, off))
        self.coordinates = self.master.coordinates
        models = [
            LocalModels(_first(group), group.columns.shape[1]) for group in self.coordinates.groups
        ]
        self._models: Sequence[Models] = models
        self.recalled = recall(self.coordinates, models, learnt)
        self._points: np.ndarray | None = None
        self._slopes = np.zeros(0)
        self.error = 0.0 if self.recalled else math.inf
        self.reach = math.inf
        self._rest = 0

    @property
    def learnt(self) -> ModelState:
        return ModelState(self.master, [model.stiffness() for model in self._models])

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        points = self.coordinates.points(evaluation.sides)
        slopes = self.coordinates.slopes(evaluation.estimates)
        if self._points is not None:
            moved = points - self._points
            told = moved + slopes - self._slopes
            error = 0.0
            for group, model in zip(self.coordinates.groups, self._models, strict=True):
                if not group.is_server:
                    mine = (one[group.columns] for one in (points, moved, told))
                    error += model.learn(*mine)
            self.error = math.sqrt(error) / (math.sqrt(known_sum(told**2)) or 1.0)
        self._points, self._slopes = points, slopes

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        if self._rest:
            self._rest -= 1
            return None
        assert self._points is not None
        stiffness = [model.stiffness() for model in self._models]
        found = self.master.solve(self._points, self._slopes, stiffness, evaluation.after[0])
        if found is None:
            return None
        agreed, there, prices = found
        change = agreed - self._points + there - self._slopes
        told = math.sqrt(change.dot(change))
        predicted, residual = self.error * told, evaluation.size(rho)
        self.reach = told / residual if residual else math.inf
        share = residual / predicted if predicted > residual else 1.0
        if not share >= SHORTEST_WAY:
            return None
        sides = self.coordinates.sides(agreed)
        point = np.array([prices, np.where(self._heads, sides[1], sides[0])])
        if share < 1:
            point = evaluation.after + share * (point - evaluation.after)
            sides = evaluation.sides + share * (sides - evaluation.sides)
        return Proposal(point, self.name, sides) if np.isfinite(point).all() else None

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`: pause."""
        self._rest = ROUNDS_PAUSED


def _first(group: Group) -> np.ndarray:
    r"""The first responses: as curved as the penalty of one edge; a server is not curved at all."""
    if group.is_server:
        return np.full(group.degrees.size, 1 - MARGIN)
    return group.degrees / (1.0 + group.degrees)
