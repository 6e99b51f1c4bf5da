r"""How much better the all-in-one problem can be than a point: a proof by client solves alone.

For any multipliers :math:`\mu` let :math:`p_i = \pm G_i^\top \mu` be the prices of client i's
variables. Then for every point y within a box around x

.. math::
    F(x) - F(y) \le \sum_i \Big[ f_i(x_i) + p_i^\top x_i
        - \min_{y_i \in X_i,\; |y_i - x_i| \le r_i} f_i(y_i) + p_i^\top y_i \Big]
        - \mu^\top \mathcal C(x).

Each bracket is one client's own. Of a smooth client with gradient g at any point u it is at most

.. math:: f(x) - f(u) - p^\top (u - x) + |g + p|^\top (|u - x| + r),

so where a client was minimised its own point proves it without a solve; else a few Newton steps do.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from dald_model.answer.cone_clients import ConeClient, minimised
from dald_model.answer.smooth_clients import SmoothClients, is_free_server
from dald_model.compile.decomposition import Decomposition
from dald_model.sizes import STEPS


class Bound(NamedTuple):
    """What is proved of a point.

    Attributes
    ----------
    gap : float
        No point of the box is better than x by more.
    of_clients : dict
        Client -> its bracket.
    noise : float
        What of it may be rounding of the smooth clients' gradients.
    is_refuted : bool
        Whether the gap is what a better point gains that is known, beyond the box.
    is_beyond : bool
        Whether it is small within 10 lengths, and only farther away is not enough proved.
    """

    gap: float
    of_clients: dict[Hashable, float]
    noise: float = 0.0
    is_refuted: bool = False
    is_beyond: bool = False

    @property
    def where(self) -> str:
        """What the gap is from, in words."""
        if self.is_refuted:
            return "a better point"
        said = f"most of it at {self.weakest!r}"
        return f"beyond 10 lengths, {said}" if self.is_beyond else said

    @property
    def size(self) -> float:
        """How far F is from what is proved, on either side: below it constraints are broken."""
        return abs(self.gap)

    @property
    def weakest(self) -> Hashable:
        """The client that most of the gap is from."""
        return max(self.of_clients, key=self.of_clients.__getitem__)


class Parts(NamedTuple):
    """The clients as they are bounded: smooth ones by shape, others one by one, around a point."""

    groups: list[SmoothClients]
    cones: dict[Hashable, ConeClient]


class Bounds:
    """Bounds for one point and box, and multipliers that are tried one after the other.

    Parameters
    ----------
    compiled : Decomposition
    parts : Parts
    at, own, reach : ndarray
        The point, the clients' own points, and the box, all variables one after the other.
    costs : dict
        Client -> its objective at the point.
    """

    def __init__(
        self,
        compiled: Decomposition,
        parts: Parts,
        at: np.ndarray,
        own: np.ndarray,
        reach: np.ndarray,
        costs: Mapping[Hashable, float],
    ) -> None:
        self._compiled, self._parts = compiled, parts
        self._at, self._own, self._costs = at, own, costs
        self._reach = reach
        self._sides = compiled.stacked

    def of(self, mu: np.ndarray, enough: float, of_cones: float | None = None) -> Bound:
        """The bound for some multipliers, refined until the clients lose ``enough`` together.

        ``of_cones`` is what those that are not smooth may lose in equal shares, where that differs.
        """
        prices, reach = prices_of(self._compiled, mu), self._reach
        tails, heads = self._sides.at(self._at)
        found: dict[Hashable, float] = {}
        share = enough / max(1, len(self._compiled))
        others = share if of_cones is None else of_cones / max(1, len(self._compiled))
        for name in free_servers(self._compiled):
            part = self._compiled.columns[name]
            found[name] = float(np.abs(prices[part]) @ reach[part])
        for group in self._parts.groups:
            gaps = _smooth(group, prices, self._at, self._own, reach, share)
            found |= dict(zip(group.names, gaps.tolist(), strict=True))
        base = sum(found.values()) - float(mu @ (tails - heads))
        total = -np.inf if of_cones is not None else enough - base
        found |= self._cones(prices, others, total)
        gap = base + sum(found[name] for name in self._parts.cones)
        noise = 0.0 if gap <= enough else sum(map(self._noise, self._parts.groups))
        return Bound(gap if np.isfinite(gap) else np.inf, found, noise)

    def _cones(self, prices: np.ndarray, share: float, total: float) -> dict[Hashable, float]:
        """The brackets of other clients, from those that lose most on by a solver.

        Until none loses more than a share, or all of them no more than a total. First come those
        below zero, which contradict the point: they may not pay for what others lose.
        """
        given = {
            name: (prices[part], self._at[part], self._costs[name], self._reach[part], share)
            for name, part in self._compiled.columns.items()
            if name in self._parts.cones
        }
        cones = self._parts.cones
        found = {name: cones[name].bracket(*told, asks=False) for name, told in given.items()}
        order = sorted(found, key=lambda name: (found[name] >= -share, -abs(found[name])))
        rest = np.cumsum([found[name] for name in order[::-1]])[::-1]
        known, at = 0.0, 0

        def is_enough(k: int) -> bool:
            is_sound = found[order[k]] >= -share
            return bool((is_sound and known + rest[k] <= total) or abs(found[order[k]]) <= share)

        while at < len(order):
            # Those that have to be asked even if all of them are found to lose nothing
            stop = next((k for k in range(at, len(order)) if is_enough(k)), len(order))
            if stop == at:
                break
            asked, at = order[at:stop], stop
            wanted = [name for name in asked if found[name] > share]
            clients = [cones[name] for name in wanted]
            told = [given[name][0] for name in wanted], [given[name][3] for name in wanted]
            cuts = dict(zip(wanted, minimised(clients, *told, share), strict=True))
            for name in asked:
                found[name] = cones[name].bracket(*given[name], own=cuts.get(name, ()))
                known += found[name]
        return found

    def _noise(self, group: SmoothClients) -> float:
        """What rounding of gradients leaves of the brackets in the box."""
        error = group.gradient_errors(self._at[group.columns])
        return float((error * self._reach[group.columns]).sum())


def free_servers(compiled: Decomposition) -> tuple[Hashable, ...]:
    """The servers without constraints, whose prices have to be zero."""
    return tuple(name for name in compiled.servers if is_free_server(compiled[name]))


def prices_of(compiled: Decomposition, mu: np.ndarray) -> np.ndarray:
    """What multipliers charge for each variable, all clients' one after the other."""
    return compiled.stacked.across @ np.concatenate([mu, -mu])


def _smooth(
    group: SmoothClients,
    prices: np.ndarray,
    at: np.ndarray,
    own: np.ndarray,
    reach: np.ndarray,
    enough: float,
) -> np.ndarray:
    """The brackets of smooth clients, (k,); infinite where none was found."""
    price, x, wide = (one[group.columns] for one in (prices, at, reach))
    best = np.full(len(price), np.inf)
    for start in (own[group.columns], x):
        u = start
        for _ in range(STEPS):
            with np.errstate(all="ignore"):
                left = group.gradients(u) + price
                away = u - x
                fallen, error, _ = group.falls(x, u)
                gained = fallen + error - np.vecdot(price, away)
                gaps = gained + group.losses(left, np.abs(away) + wide, enough - gained)
            best = np.fmin(best, gaps)
            if (best <= enough).all():
                return best
            step = group.steps(u, left)[0]
            u = np.where(np.isfinite(step), u + step, u)
    return best
