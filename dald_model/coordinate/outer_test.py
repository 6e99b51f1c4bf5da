"""Outer test: whether a run ends with the outer loop that ended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Goal, Method
from dald_model.coordinate.scaling.edge_values import Parts
from dald_model.coordinate.settings import EndProof, Settings
from dald_model.coordinate.state import State
from dald_model.engines.idle import Layer
from dald_model.schedule.round_state import Residuals

SMALL_LENGTH = 1e-2
"""Lengths below which what clients agree on counts in their place."""
ROUNDS_WAITED = 5
"""Rounds that a run goes on for :class:`Nearness`, and no more: it has met its tolerances."""
RETRIES = 3
"""Rounds that a run goes on because an answer fell short of its accuracy."""
REFUSED_MOST = 3
"""How often a run goes on whose residuals met their tolerances and whose gap is not proved: once in
the scales of the proof, then each time with tolerances ten times as small."""
SHRINKS = 0.1
"""By how much tolerances shrink with each refusal but the first."""
KEPT = ("retried", "waited", "certifies_from", "refused")
"""Of its attributes, those that a file holds."""


class Nearness:
    r"""The test :math:`|\mathcal C_r| \le \epsilon \max_s |x_s|` over the part of an edge.

    Lengths are how far apart the local minimisers are. Desks that would each buy a thousand times
    the budget that they share have lengths of a thousand budgets, of which :math:`\epsilon_{pri}`
    may be what one reads off the answer.

    Of parts where the right-hand side is below ``SMALL_LENGTH`` lengths, but not below
    :math:`\epsilon` of them: that is zero.
    """

    def __init__(self, compiled: Decomposition) -> None:
        self._parts = Parts(compiled)

    def is_met(self, state: State, eps: float) -> bool:
        """Whether it holds everywhere."""
        lengths = state.units.lengths
        gap = np.abs(state.primal) / lengths
        size = self._parts.largest(np.abs(state.sides).max(axis=0) / lengths)
        least = np.where((size < SMALL_LENGTH) & (size > eps), size, 1.0)
        return not state.reduce.any(bool((gap > eps * least).any()))


class OuterTest:
    """The test at the end of an outer loop: residuals, accuracy of the answers, and the proof.

    A run ends where both residuals are within their tolerances, all clients were solved to the
    accuracy that this asks for, and a gap is proved.

    Attributes
    ----------
    retried : int
        Rounds that the run went on because an answer fell short of its accuracy.
    waited : int
        Rounds that it waited for :class:`Nearness`.
    certifies_from : int
        The first round after which a certificate is asked for again.
    refused : int
        How often the residuals met their tolerances and no gap was proved.
    """

    def __init__(
        self, membership: Membership, method: Method, settings: Settings, layer: Layer
    ) -> None:
        self._membership, self._method = membership, method
        self._settings, self._layer = settings, layer
        self._is_tested = settings.tests(method)
        self.retried, self.waited, self.certifies_from, self.refused = 0, 0, 1, 0

    @cached_property
    def _nearness(self) -> Nearness:
        """Which runs that are accelerated alone ask for."""
        return Nearness(self._membership.compiled)

    def kept(self) -> dict[str, Any]:
        """Its data for a checkpoint file."""
        return {name: getattr(self, name) for name in KEPT}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take the data that :meth:`kept` gave."""
        for name in KEPT:
            setattr(self, name, kept[name])

    def is_answer(self, state: State) -> bool:
        """Whether everybody who counts was solved."""
        return self._method.ignore_absent or self._membership.complete(state)

    def is_met(
        self, state: State, found: Residuals, at: int, tolerance: float, is_accelerated: bool
    ) -> bool:
        """Whether the run ends after this round, whose clients were minimised to a tolerance."""
        settings, reduce = self._settings, state.reduce
        is_exact = settings.accuracy.suffices(tolerance) or not reduce.any(not self._layer.is_exact)
        is_done = self._membership.is_final(at) and self.is_answer(state)
        if not (self._is_tested and is_exact and is_done):
            return False
        is_fixed = self._method.goal is Goal.FIXED_POINT  # clients need not agree there
        sharper = SHRINKS ** max(0, self.refused - 1)
        agrees = is_fixed or found.primal_scaled <= sharper * settings.eps_pri
        if not (agrees and found.dual_scaled <= sharper * settings.eps_dual):
            return False
        if is_accelerated and self.waited < ROUNDS_WAITED:
            self.waited += 1
            if not self._nearness.is_met(state, settings.eps_pri):
                return False
        is_short = reduce.any(bool(state.inaccurate.any()))
        self.retried += is_short
        return not is_short or self.retried > RETRIES

    def refusal(self, state: State) -> EndProof | None:
        """The proof of an iterate that met the test, where its gap is too large; else None."""
        found = self._proof(state)
        if found is None:
            return None
        self.refused += not found.is_proved
        return None if found.is_proved and not found.falls_beyond else found

    def certificate(self, state: State) -> EndProof | None:
        """What is proved of an iterate of any residuals; None if there may be no minimiser."""
        found = self._proof(state, is_met=False)
        return None if found is None or found.falls_beyond else found

    def _proof(self, state: State, *, is_met: bool = True) -> EndProof | None:
        """What is proved of an iterate; None where nobody can, or nothing is claimed."""
        test, membership = self._settings.end_test, self._membership
        is_claim = self._method.goal is Goal.OPTIMUM and membership.whole
        return test(state, is_met=is_met) if test is not None and is_claim else None

    def certified(self, state: State, at: int) -> str:
        """The certificate of the iterate, "" where too weak; asked at 1.5 times the rounds."""
        test = self._settings.gap_test
        if test is None or at < self.certifies_from or not self.is_answer(state):
            return ""
        self.certifies_from = at + 1 + at // 2
        return test(state) if self._membership.whole else ""
