"""All accelerations together: the default."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.acceleration.anderson import Anderson
from dald_model.coordinate.acceleration.bundle import AGREED, LARGEST, MANY, BundleModel
from dald_model.coordinate.acceleration.evaluation import BYTES, Accelerator, Opening
from dald_model.coordinate.acceleration.secant import Secant, SecantModel
from dald_model.coordinate.acceleration.sure import SureModel
from dald_model.coordinate.acceleration.turns import Member, Turns

LATER, WORK = 200, 2e7
"""Clients of up to so many shared entries are learned where rounds are slow without; and as long as
their cubes sum up to no more, what the coordinator's own eigenproblems take a round."""
FAR, LABOUR = 400, 1e9
"""The same where there is no server, so that news takes as many rounds as the graph is wide. On
grids of 64 to 400 logistic clients of 60 to 220 columns models saved 44 to more than 77 % of the
rounds, of lassos none to 20 %; through servers of 12 to 1,000 wide clients none in the mean."""


@dataclass(frozen=True)
class Hybrid:
    """Learned curvature, bounds or Anderson acceleration, whichever makes more of the rounds.

    They take turns (:mod:`.turns`): secant coordination, with Anderson acceleration where its
    models cannot be trusted; and the bounds of :mod:`.bundle`. Bounds begin where most clients with
    data have kinks or no curvature at all, and end their turn where they say no more, as they
    resolve points only to the root of rounding; in that turn models propose where they are sure
    (:mod:`.sure`). All learn from every round.

    Where a client has more shared entries than :class:`Secant` takes, most smooth problems are
    solved by :class:`Anderson` before a model is learned. So that begins alone, and models have
    their turn where it is slow, up to ``LATER`` entries, or ``FAR`` without a server; where clients
    have kinks they have it beside the bounds.

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
        sizes = self.secant.sizes(compiled)
        if not self._learns(compiled):
            return mixer
        secant = SecantModel(opening)
        ways: list[tuple[Member, ...]] = [(secant, mixer)]
        first = 0
        size, agreed = secant.coordinates.size, secant.joint.agreed.weight.size
        is_narrow = self._takes(sizes) or _is_within(sizes, LATER, WORK)
        is_small = is_narrow and size <= LARGEST
        may_bound = is_small or (is_narrow and size <= MANY and agreed <= AGREED)
        is_angular = may_bound and _is_angular(compiled, secant.angular)
        if not (self._takes(sizes) or secant.recalled or is_angular):
            ways.insert(0, (mixer,))
        if is_small or is_angular:  # many smooth clients do not need what bounds cost a round
            first = len(ways) if is_angular else 0
            bundle = BundleModel(secant.joint, opening.heads)
            ways.append((SureModel(secant), bundle, secant, mixer))
        return Turns(ways, first)

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
        """See :class:`Acceleration`."""
        return (
            f"{self.secant.explain()}; or, if clients have kinks, minimises the lower bounds "
            f"from their answers and objectives; else {self.anderson.explain()}"
        )

    def _learns(self, compiled: Decomposition) -> bool:
        """Whether clients are small enough to be learned, at once or later."""
        sizes = self.secant.sizes(compiled)
        most = (LATER, WORK) if compiled.servers else (FAR, LABOUR)
        return self._takes(sizes) or _is_within(sizes, *most)

    def _takes(self, sizes: np.ndarray) -> bool:
        """The same at once."""
        return bool(sizes.max(initial=0) <= self.secant.directions)


def _is_within(sizes: np.ndarray, most: int, work: float) -> bool:
    """Whether no client has more shared entries than that, nor all together ask for more work."""
    return bool(sizes.max(initial=0) <= most and (sizes.astype(float) ** 3).sum() <= work)


def _is_angular(compiled: Decomposition, angular: Collection[Hashable]) -> bool:
    """Whether most clients with data have kinks, or no curvature at all."""
    others = {*compiled.servers, *compiled.couplings}  # who have no data are as their clients
    clients = [name for name in compiled if name not in others]
    return 2 * sum(name in angular for name in clients) > len(clients)
