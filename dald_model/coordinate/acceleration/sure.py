"""Learned models where they are sure, in the turn of another."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from dald_model.coordinate.acceleration.evaluation import Evaluation, Proposal
from dald_model.coordinate.acceleration.learnt import Learnt
from dald_model.coordinate.acceleration.secant import LONGEST, SecantModel

SURE = 0.1
"""Share of the residual that the models' error, and then the next residual, is at most."""
NEAR = 10.0
"""How many times the residual clients are told otherwise at most: who was asked but for little
steps along few directions has models that are right about these and wrong about others."""


class SureModel:
    """The proposals of learned models that will leave next to nothing, if they are right again.

    On the piece of a polyhedron, or of a quadratic with kinks, where all clients answer at last,
    the models are exact, and their consensus is the optimum. Bounds come to it by halves, and give
    nothing for that up. After a proposal that did not keep its promise it rests, twice as long each
    time.
    """

    name = "sure"
    learnt: Learnt | None = None
    recalled: tuple[Hashable, ...] = ()
    is_spent = False

    def __init__(self, secant: SecantModel) -> None:
        self._secant = secant
        self._asked: tuple[np.ndarray, Evaluation] | None = None
        self._rest, self._pause = 0, 1

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """See :class:`Accelerator`."""
        asked, self._asked = self._asked, None
        if asked is None or evaluation.before is not asked[0]:
            return
        if evaluation.size(rho) <= SURE * asked[1].size(rho):
            self._pause = 1
        else:
            self._rest, self._pause = self._pause, min(2 * self._pause, LONGEST)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """See :class:`Accelerator`."""
        if self._rest:
            self._rest -= 1
            return None
        # Clients are to be told by more than the residual, so that the second needs the first
        if not self._secant.error <= SURE:
            return None
        found = self._secant.propose(evaluation, rho)
        reach = self._secant.reach
        if found is None or reach > NEAR or self._secant.error * reach > SURE:
            return None
        self._asked = found.point, evaluation
        return found._replace(name=self.name)

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`: that it did not keep its promise is known."""

    def accept(self, name: str) -> None:
        """See :class:`Accelerator`."""
