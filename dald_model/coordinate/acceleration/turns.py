"""Ways to propose points that take turns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

import numpy as np

from dald_model.coordinate.acceleration.evaluation import Accelerator, Evaluation, Proposal
from dald_model.coordinate.acceleration.learnt import Learnt

PROMISE = 10.0
"""How many times smaller the residual is to become in the first turn of each."""
TURN = 12
"""Rounds after which it is asked who should go on."""


class Member(Accelerator, Protocol):
    """What may have turns.

    Attributes
    ----------
    name : str
        Of its proposals.
    is_spent : bool
        Whether it will have no proposals for now, so that its turn may end.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    @property
    def is_spent(self) -> bool:
        """See the class."""
        ...


class Turns:
    """An accelerator of several ways, one at a time.

    A way is a tuple of accelerators; the first that has a proposal makes it. All learn from every
    round. After a turn of ``TURN`` rounds the way with the highest rate goes on: how many times
    smaller its last turn made the residual, ``PROMISE`` before its first.

    Parameters
    ----------
    ways : sequence of tuple of Member
    first : int
        Whose turn is first.
    """

    def __init__(self, ways: Sequence[tuple[Member, ...]], first: int) -> None:
        self._ways, self._turn = ways, first
        self._all = list(dict.fromkeys(one for way in ways for one in way))
        self._rates = np.full(len(ways), PROMISE)
        self._rounds = 0
        self._begun: Evaluation | None = None
        self._best: Evaluation | None = None

    @property
    def learnt(self) -> Learnt | None:
        """See :class:`Accelerator`."""
        return next((one.learnt for one in self._all if one.learnt is not None), None)

    @property
    def recalled(self) -> tuple[Hashable, ...]:
        """See :class:`Accelerator`."""
        return next((one.recalled for one in self._all if one.recalled), ())

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        """See :class:`Accelerator`."""
        for one in self._all:
            one.observe(evaluation, rho)
        size = evaluation.size(rho)
        if math.isnan(size):
            return
        if self._best is None or size < self._best.size(rho):
            self._best = evaluation
        self._begun = self._begun or self._best
        self._rounds += evaluation.is_whole
        if self._rounds == TURN and size > 0:
            # Both by the present penalties: others measure otherwise
            best = self._best.size(rho)
            self._end(self._begun.size(rho) / best if best else math.inf)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        """See :class:`Accelerator`."""
        way: Iterable[Member] = self._ways[self._turn]
        if not evaluation.is_whole:  # turns are counted in whole rounds
            way = dict.fromkeys((*way, *self._all))
        for one in way:
            found = one.propose(evaluation, rho)
            if found is not None:
                return found
            if one.is_spent and one in self._ways[self._turn]:
                self._end(1.0)
        return None

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`: who proposed it is told."""
        for one in self._all:
            if one.name == name:
                one.reject(name)

    def accept(self, name: str) -> None:
        """See :class:`Accelerator`: who proposed it is told."""
        for one in self._all:
            if one.name == name:
                one.accept(name)

    def _end(self, rate: float) -> None:
        """End a turn that made the residual so many times smaller."""
        self._rates[self._turn] = rate
        self._turn = int(self._rates.argmax())
        self._begun, self._rounds = self._best, 0
