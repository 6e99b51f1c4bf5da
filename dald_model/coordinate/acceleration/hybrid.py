"""Both accelerations together: the default."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.anderson import Anderson, AndersonMixer
from dald_model.coordinate.acceleration.evaluation import Evaluation, Proposal
from dald_model.coordinate.acceleration.secant import Secant, SecantModel


@dataclass(frozen=True)
class Hybrid:
    """Secant coordination where its models can be trusted, Anderson acceleration where not.

    Both learn from every round. Where a client has too many shared entries for :class:`Secant`,
    it is :class:`Anderson` alone.

    Attributes
    ----------
    secant : Secant
    anderson : Anderson
    """

    secant: Secant = field(default_factory=Secant)
    anderson: Anderson = field(default_factory=Anderson)

    def open(
        self, compiled: Decomposition, heads: np.ndarray, rho: np.ndarray
    ) -> AndersonMixer | HybridAccelerator:
        """See :class:`Acceleration`."""
        mixer = self.anderson.open(compiled, heads, rho)
        if not self.secant.takes(compiled):
            return mixer
        return HybridAccelerator(self.secant.open(compiled, heads, rho), mixer)

    def explain(self) -> str:
        """See :class:`Acceleration`."""
        return f"{self.secant.explain()}; else {self.anderson.explain()}"


class HybridAccelerator:
    """A secant model with a mixer for the rounds in which it has nothing to propose."""

    def __init__(self, secant: SecantModel, mixer: AndersonMixer) -> None:
        self._secant, self._mixer = secant, mixer

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
