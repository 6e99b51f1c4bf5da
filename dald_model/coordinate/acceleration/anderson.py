"""Anderson acceleration of the outer loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.evaluation import (
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
)
from dald_model.coordinate.reductions import Reductions
from dald_model.sizes import DEPENDENT
from dald_model.validate import argument, check_whole
from dald_model.values import BYTES


@dataclass(frozen=True)
class Anderson:
    r"""Anderson acceleration, type II, over the last ``memory`` outer loops.

    .. math::
        v_{k+1} = g_k - \sum_j \gamma_j \, (g_{j+1} - g_j), \qquad
        \gamma = \arg\min \big\| r_k - \sum_j \gamma_j (r_{j+1} - r_j) \big\|

    with :math:`v = (\mu, b)`, its image g and residual :math:`r = g - v`, in the metric of
    :mod:`dald_model.coordinate.acceleration.evaluation` (Anderson 1965; Walker and Ni 2011). It
    takes every model on every graph, and rests after rounds that not all clients took part in. Peer
    to peer it needs of all edges together the inner products of the residuals, an all-reduce of
    ``memory`` numbers per round; with a server nothing more.

    Raises
    ------
    OptionError
        If ``memory`` is no whole number from 1.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> print(common_number([0, 1, 2]).solve(acceleration=dm.Anderson(memory=10)).status)
    optimal
    """

    memory: int = 20

    def __post_init__(self) -> None:
        check_whole(argument(self, "memory"), self.memory)

    def open(self, opening: Opening) -> AndersonMixer:
        return AndersonMixer(self.memory, opening.rho, opening.reduce)

    def reveals(self, compiled: Decomposition) -> str:
        return "sums"

    def added(self, compiled: Decomposition) -> int:
        """See :class:`Acceleration`: each client's part of the inner products."""
        return BYTES * self.memory * (len(compiled) - len(compiled.servers))

    def explain(self) -> str:
        return (
            f"{self!r} mixes the last {self.memory} outer loops; it needs "
            f"{8 * self.memory} bytes of inner products per round over all edges"
        )


class AndersonMixer(Accelerator):
    """The differences of the last evaluations, and the inner products of their residuals.

    With other penalties the map is another one, so a change of them empties the memory; so does a
    change of the graph or of Parameters. It knows nothing of single clients.
    """

    name = "anderson"

    def __init__(self, memory: int, rho: np.ndarray, reduce: Reductions) -> None:
        size, self._reduce = rho.size, reduce
        # A checkpoint keeps them: memory that is not written yet may hold data of a client
        self._images, self._residuals = np.zeros((2, memory, 2, size))
        self._gram = np.zeros((memory, memory))
        self._count = 0
        self._last: Evaluation | None = None
        self._rho = rho

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
        if self._rho is not rho:
            self._rho, self._count, self._last = rho, 0, None
            return
        if not evaluation.is_whole:
            self._last = None
            return
        last, self._last = self._last, evaluation
        if last is None:
            return
        at = self._count % len(self._images)
        self._count += 1
        np.subtract(evaluation.after, last.after, out=self._images[at])
        residual = self._residuals[at]
        np.subtract(evaluation.after, evaluation.before, out=residual)
        residual -= last.after - last.before
        held = self._held
        self._gram[at, :held] = self._gram[:held, at] = self._products(residual)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        held = self._held if evaluation.is_whole else 0
        lengths = np.sqrt(self._gram.diagonal()[:held])
        if not (held and (lengths > 0).all() and np.isfinite(lengths).all()):
            return None
        right = self._products(evaluation.after - evaluation.before) / lengths
        scaled = self._gram[:held, :held] / np.outer(lengths, lengths)
        scaled.flat[:: held + 1] += DEPENDENT
        mixed = np.tensordot(np.linalg.solve(scaled, right) / lengths, self._images[:held], 1)
        return Proposal(evaluation.after - mixed, self.name)

    @property
    def _held(self) -> int:
        return min(self._count, len(self._images))

    def _products(self, residual: np.ndarray) -> np.ndarray:
        """Inner products with all residuals that are held."""
        weight = 2 * self._rho**2
        scaled = np.array([residual[0] / weight, residual[1] * weight])
        return self._reduce.products(self._residuals[: self._held], scaled)
