"""All accelerations together: the default."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.anderson import Anderson, AndersonMixer
from dald_model.coordinate.acceleration.bundle import LARGEST, BundleModel
from dald_model.coordinate.acceleration.evaluation import (
    BYTES,
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
)
from dald_model.coordinate.acceleration.learnt import Learnt
from dald_model.coordinate.acceleration.secant import Secant, SecantModel
from dald_model.coordinate.curvature import is_angular

PROMISE = 10.0
"""How many times smaller the residual is to become in the first turn of whoever begins."""
TURN = 12
"""Rounds after which it is asked who should go on."""


@dataclass(frozen=True)
class Hybrid:
    """Learned curvature or bounds, whichever makes more of the rounds.

    Two take turns of ``TURN`` rounds: secant coordination, with Anderson acceleration where its
    models cannot be trusted; and the bounds of :mod:`.bundle`. After each turn that one goes on
    whose last turn made the residual smaller. Bounds begin where most clients with data have kinks
    or no curvature at all, and end their turn where they say no more, as they resolve points only
    to the root of rounding. All learn from every round. Where a client has too many shared entries
    for :class:`Secant`, it is :class:`Anderson` alone.

    Attributes
    ----------
    secant : Secant
    anderson : Anderson

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(acceleration=dm.Hybrid()).status)
    optimal
    """

    secant: Secant = field(default_factory=Secant)
    anderson: Anderson = field(default_factory=Anderson)

    def open(self, opening: Opening) -> Accelerator:
        """See :class:`Acceleration`."""
        compiled, mixer = opening.compiled, self.anderson.open(opening)
        if not self.secant.takes(compiled):
            return mixer
        secant = self.secant.open(opening)
        curved = CurvedAccelerator(secant, mixer)
        if secant.coordinates.size > LARGEST:
            return curved
        others = {*compiled.servers, *compiled.couplings}  # who have no data are as their clients
        clients = [sub for name, sub in compiled.items() if name not in others]
        angular = sum(map(is_angular, clients))
        bundle = BundleModel(secant.joint, opening.heads)
        return HybridAccelerator(curved, bundle, 2 * angular > len(clients))

    def reveals(self, compiled: Decomposition) -> str:
        """See :class:`Acceleration`: the bounds are made of objectives, too."""
        if not self.secant.takes(compiled):
            return self.anderson.reveals(compiled)
        return f"{self.secant.reveals(compiled)}, objectives"

    def added(self, compiled: Decomposition) -> int:
        """See :class:`Acceleration`: prices and objectives; who sees all edges makes the sums."""
        if not self.secant.takes(compiled):
            return self.anderson.added(compiled)
        return self.secant.added(compiled) + BYTES * (len(compiled) - len(compiled.servers))

    def explain(self) -> str:
        """See :class:`Acceleration`."""
        return (
            f"{self.secant.explain()}; or, where clients have kinks, minimises the lower bounds "
            f"that answers and objectives give; else {self.anderson.explain()}"
        )


class CurvedAccelerator:
    """A secant model with a mixer for the rounds in which it has nothing to propose."""

    def __init__(self, secant: SecantModel, mixer: AndersonMixer) -> None:
        self._secant, self._mixer = secant, mixer

    @property
    def learnt(self) -> Learnt:
        """See :class:`Accelerator`."""
        return self._secant.learnt

    @property
    def recalled(self) -> tuple[Hashable, ...]:
        """See :class:`Accelerator`."""
        return self._secant.recalled

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """See :class:`Accelerator`."""
        self._secant.observe(evaluation, rho)
        self._mixer.observe(evaluation, rho)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """See :class:`Accelerator`."""
        found = self._secant.propose(evaluation, rho)
        return self._mixer.propose(evaluation, rho) if found is None else found

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`."""
        if name == "secant":
            self._secant.reject(name)

    def accept(self, name: str) -> None:
        """See :class:`Accelerator`."""
        if name == "secant":
            self._secant.accept(name)


class HybridAccelerator:
    """Two accelerators that take turns."""

    def __init__(self, curved: CurvedAccelerator, bundle: BundleModel, angular: bool) -> None:
        self._both = curved, bundle
        self._turn = int(angular)
        self._rates = np.full(2, PROMISE)
        self._rounds, self._first, self._least = 0, math.nan, math.inf

    @property
    def learnt(self) -> Learnt | None:
        """See :class:`Accelerator`."""
        return self._both[0].learnt

    @property
    def recalled(self) -> tuple[Hashable, ...]:
        """See :class:`Accelerator`."""
        return self._both[0].recalled

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """See :class:`Accelerator`."""
        for one in self._both:
            one.observe(evaluation, rho)
        size = evaluation.size(rho)
        if math.isnan(size):
            return
        self._least = min(self._least, size)
        if math.isnan(self._first):
            self._first = size
        self._rounds += evaluation.is_whole
        if self._rounds == TURN and self._least > 0:
            self._rates[self._turn] = self._first / self._least
            self._turn = int(self._rates.argmax())
            self._first, self._rounds = self._least, 0

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """See :class:`Accelerator`."""
        found = self._both[self._turn].propose(evaluation, rho)
        if found is None and self._turn:
            curved, bundle = self._both
            if bundle.is_spent:
                self._rates[1], self._turn = 1.0, 0
                self._first, self._rounds = self._least, 0
            found = curved.propose(evaluation, rho)
        elif found is None and not evaluation.is_whole:
            found = self._both[1].propose(evaluation, rho)  # turns are counted in whole rounds
        return found

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`."""
        for one in self._both:
            one.reject(name)

    def accept(self, name: str) -> None:
        """See :class:`Accelerator`."""
        for one in self._both:
            one.accept(name)
