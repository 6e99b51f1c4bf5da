"""All accelerations together: the default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.anderson import Anderson
from dald_model.coordinate.acceleration.bundle import (
    FEW_AGREED,
    MOST_AT_ALL,
    MOST_COORDINATES,
    BundleModel,
)
from dald_model.coordinate.acceleration.evaluation import (
    Accelerator,
    Evaluation,
    Opening,
    Proposal,
)
from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.acceleration.secant import Secant, SecantModel
from dald_model.coordinate.scaling.curvature import is_angular
from dald_model.values import BYTES

LATER, WORK = 200, 2e7
"""Clients of up to so many shared entries are learned where rounds are slow without; and as long as
their cubes sum up to no more, the cost per round of the coordinator's own eigenproblems."""
SERVERLESS, LABOUR = 400, 1e9
"""The same where there is no server, so that news takes as many rounds as the graph is wide. On
grids of 64 to 400 logistic clients of 60 to 220 columns models saved 44 to more than 77 % of the
rounds, of lassos none to 20 %; through servers of 12 to 1,000 wide clients none in the mean."""
SURE = 0.1
"""Share of the residual that the models' error, and then the next residual, is at most where models
propose in the turn of bounds."""
TOLD_NEAR = 10.0
"""How many times the residual clients are then told otherwise at most: models that were asked for
little steps along few directions are right about these. (A linear program on a path takes 188
rounds without for 37.)"""
TURN = 12
"""Rounds of a turn. With 4 and with 36, 33 models of the panel take 1.08 and 1.01 times the rounds,
a linear program on a path 2.5 times and absolute values of unequal columns 1.6 times."""
PROMISE = 10.0
"""How many times smaller each way is expected to make the residual in its first turn. With 2 and
with 100 the 33 take 1.00 and 1.03 times the rounds."""


@dataclass(frozen=True)
class Hybrid:
    """Learned curvature, bounds or Anderson acceleration, whichever makes more of the rounds.

    They take turns (:class:`Portfolio`): secant coordination, with Anderson acceleration where its
    models cannot be trusted; and the bounds of :mod:`.bundle`, which have the first turn where most
    clients with data have kinks or no curvature at all. In their turn models propose where they are
    sure (:class:`Sure`). All learn from every round.

    Where a client has more shared entries than :class:`Secant` takes, most smooth problems are
    solved by :class:`Anderson` before a model is learned. So that begins alone, and models have
    their turn where it is slow, up to ``LATER`` entries, or ``SERVERLESS`` without a server;
    where clients have kinks they have it beside the bounds.

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
        compiled, mixer = opening.compiled, self.anderson.open(opening)
        sizes = self.secant.sizes(compiled)
        if not self._learns(compiled):
            return mixer
        secant = SecantModel(opening)
        ways: list[tuple[Accelerator, ...]] = [(secant, mixer)]
        first = 0
        size, agreed = secant.coordinates.size, secant.master.agreed.weight.size
        is_narrow = self._takes(sizes) or _is_within(sizes, LATER, WORK)
        is_small = is_narrow and size <= MOST_COORDINATES
        may_bound = is_small or (is_narrow and size <= MOST_AT_ALL and agreed <= FEW_AGREED)
        has_kinks = may_bound and _has_kinks(compiled)
        if not (self._takes(sizes) or secant.recalled or has_kinks):
            ways.insert(0, (mixer,))
        if is_small or has_kinks:  # many smooth clients do not repay what bounds cost per round
            first = len(ways) if has_kinks else 0
            bundle = BundleModel(secant.master, opening.heads)
            ways.append((Sure(secant), bundle, secant, mixer))
        return Portfolio(ways, first)

    def reveals(self, compiled: Decomposition) -> str:
        """See :class:`Acceleration`: the bounds are made of objectives, too."""
        if not self._learns(compiled):
            return self.anderson.reveals(compiled)
        return f"{self.secant.reveals(compiled)}, objectives"

    def added(self, compiled: Decomposition) -> int:
        """See :class:`Acceleration`: prices and objectives; who sees all edges makes the sums."""
        if not self._learns(compiled):
            return self.anderson.added(compiled)
        return self.secant.added(compiled) + BYTES * (len(compiled) - len(compiled.servers))

    def explain(self) -> str:
        return (
            f"{self.secant.explain()}; or, if clients have kinks, minimises the lower bounds "
            f"from their answers and objectives; else {self.anderson.explain()}"
        )

    def _learns(self, compiled: Decomposition) -> bool:
        """Whether clients are small enough to be learned, at once or later."""
        sizes = self.secant.sizes(compiled)
        most = (LATER, WORK) if compiled.servers else (SERVERLESS, LABOUR)
        return self._takes(sizes) or _is_within(sizes, *most)

    def _takes(self, sizes: np.ndarray) -> bool:
        """The same at once."""
        return bool(sizes.max(initial=0) <= self.secant.directions)


def _is_within(sizes: np.ndarray, most: int, work: float) -> bool:
    """Whether no client has more shared entries than that, nor all together ask for more work."""
    return bool(sizes.max(initial=0) <= most and (sizes.astype(float) ** 3).sum() <= work)


def _has_kinks(compiled: Decomposition) -> bool:
    """Whether most clients with data have kinks, or no curvature at all."""
    others = {*compiled.servers, *compiled.couplings}  # they have no data
    clients = [name for name in compiled if name not in others]
    return 2 * sum(is_angular(compiled[name]) for name in clients) > len(clients)


class Sure(Accelerator):
    """The proposals of learned models that will leave next to nothing, if they are right again.

    On the piece of a polyhedron, or of a quadratic with kinks, where all clients answer at last,
    the models are exact, and their consensus is the optimum. Bounds come to it by halves, and give
    nothing for that up.
    """

    name = "sure"

    def __init__(self, secant: SecantModel) -> None:
        self._secant = secant

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        if self._secant.error > SURE:
            return None
        found, reach = self._secant.propose(evaluation, rho), self._secant.reach
        if found is None or reach > TOLD_NEAR or self._secant.error * reach > SURE:
            return None
        return found._replace(name=self.name)


class Portfolio(Accelerator):
    """Ways to propose points, of which one has its turn.

    A way is a tuple of accelerators, of which the first that has a proposal makes it. All learn
    from every round. After ``TURN`` rounds the way with the highest rate has the next turn: how
    many times smaller its last turn made the residual, ``PROMISE`` before its first.

    Parameters
    ----------
    ways : sequence of tuple of Accelerator
    first : int
        Which way has the first turn.
    """

    def __init__(self, ways: Sequence[tuple[Accelerator, ...]], first: int) -> None:
        self._ways, self._turn = ways, first
        self._all = list(dict.fromkeys(one for way in ways for one in way))
        self.recalled = next((one.recalled for one in self._all if one.recalled), ())
        self._rates = np.full(len(ways), PROMISE)
        self._rounds = 0
        self._begun: Evaluation | None = None
        self._best: Evaluation | None = None

    @property
    def learnt(self) -> ModelState | None:
        return next((one.learnt for one in self._all if one.learnt is not None), None)

    def observe(self, evaluation: Evaluation, rho: np.ndarray) -> None:
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
            # Both in the metric of the present penalties
            best = self._best.size(rho)
            self._end(self._begun.size(rho) / best if best else math.inf)

    def propose(self, evaluation: Evaluation, rho: np.ndarray) -> Proposal | None:
        way = self._ways[self._turn]
        if not evaluation.is_whole:  # turns are counted in whole rounds
            way = (*way, *self._all)
        for one in dict.fromkeys(way):
            found = one.propose(evaluation, rho)
            if found is not None:
                return found
            if one.is_spent and one in self._ways[self._turn]:
                self._end(1.0)
        return None

    def _end(self, rate: float) -> None:
        """End a turn that made the residual so many times smaller."""
        self._rates[self._turn] = rate
        self._turn = int(self._rates.argmax())
        self._begun, self._rounds = self._best, 0

    def reject(self, name: str) -> None:
        """See :class:`Accelerator`: the accelerator of this name is told."""
        for one in self._all:
            if one.name == name:
                one.reject(name)
