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

from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.answer.alike import Alike
from dald_model.answer.held_clients import held_bracket
from dald_model.answer.rescaling import minimise
from dald_model.answer.smooth_clients import SmoothClients, is_free_server
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.exact.smooth_bound import is_split, least_within

STEPS = 6
"""Newton steps at most; near an answer two are enough."""

NARROWER = 100.0
"""How many times as narrow a box is where a cone solver contradicts the point in its centre."""


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
    by_cones : frozenset
        The clients of which nothing but a cone solver knows a bound.
    """

    gap: float
    of_clients: dict[Hashable, float]
    noise: float = 0.0
    by_cones: frozenset[Hashable] = frozenset()

    @property
    def size(self) -> float:
        """How far F is from what is proved, on either side: below it constraints are broken."""
        return abs(self.gap)

    @property
    def weakest(self) -> Hashable:
        """The client that most of the gap is from."""
        return max(self.of_clients, key=self.of_clients.__getitem__)


class Bounds:
    """Bounds for one point and box, and multipliers that are tried one after the other.

    Parameters
    ----------
    compiled : Decomposition
    groups, others : lists
        The smooth clients and the rest, see :func:`smooth_groups`.
    at, own, reach, by_cones : ndarray
        The point, the clients' own points, and the box, all variables one after the other; the last
        is as much of it as a cone solver is asked for. What is proved is proved for the smaller box
        of all entries that are equal to one that only a cone solver knows.
    costs : dict
        Client -> its objective at the point.
    """

    def __init__(
        self,
        compiled: Decomposition,
        groups: list[SmoothClients],
        others: list[Hashable],
        at: np.ndarray,
        own: np.ndarray,
        reach: np.ndarray,
        by_cones: np.ndarray,
        costs: Mapping[Hashable, float],
    ) -> None:
        self._compiled, self._groups, self._others = compiled, groups, others
        self._at, self._own, self._costs = at, own, costs
        self._reach, self._by_cones = reach, by_cones
        self._sides = compiled.stacked

    def of(self, mu: np.ndarray, enough: float, of_others: float | None = None) -> Bound:
        """The bound for some multipliers, refined until the clients lose ``enough`` together.

        ``of_others`` is what those that are not smooth may lose, where that differs.
        """
        prices = prices_of(self._compiled, mu)
        tails, heads = self._sides.at(self._at)
        found: dict[Hashable, float] = {}
        share = enough / max(1, len(self._compiled))
        others = share if of_others is None else of_others / max(1, len(self._compiled))
        narrow: set[Hashable] = set()
        by_cones: set[Hashable] = set()
        for name in self._others:
            sub, part = self._compiled[name], self._compiled.columns[name]
            price, at, own = prices[part], self._at[part], self._own[part]
            reach, smaller = self._reach[part], self._by_cones[part]
            found[name] = _held(sub, price, at, own, reach)
            if found[name] <= others:
                continue
            if (smaller < reach).any():
                narrow.add(name)
                found[name] = _held(sub, price, at, own, smaller)
            if not found[name] <= others:
                cost, held = self._costs[name], found[name]
                found[name], is_blurred = _by_cones(sub, price, at, smaller, cost, held, others)
                by_cones |= {name} if is_blurred else set()
        reach = self._reach_beside(narrow)
        for name in free_servers(self._compiled):
            part = self._compiled.columns[name]
            found[name] = float(np.abs(prices[part]) @ reach[part])
        for group in self._groups:
            gaps = _smooth(group, prices, self._at, self._own, reach, share)
            found |= dict(zip(group.names, gaps.tolist(), strict=True))
        gap = sum(found.values()) - float(mu @ (tails - heads))
        noise = 0.0 if gap <= enough else sum(map(self._noise, self._groups))
        return Bound(gap if np.isfinite(gap) else np.inf, found, noise, frozenset(by_cones))

    def _reach_beside(self, narrow: Collection[Hashable]) -> np.ndarray:
        """The box of the others, where some clients are bounded in the smaller one."""
        if not narrow:
            return self._reach
        reach = self._reach.copy()
        for name in narrow:
            part = self._compiled.columns[name]
            reach[part] = self._by_cones[part]
        return Alike.by_edges(self._compiled).least(reach)

    def _noise(self, group: SmoothClients) -> float:
        """What rounding of gradients leaves of the brackets in the box."""
        error = group.gradient_errors(self._at[group.columns])
        return float((error * self._reach[group.columns]).sum())


def free_servers(compiled: Decomposition) -> tuple[Hashable, ...]:
    """The servers without constraints, whose prices have to be zero."""
    return tuple(name for name in compiled.servers if is_free_server(compiled[name]))


def prices_of(compiled: Decomposition, mu: np.ndarray) -> np.ndarray:
    """What multipliers charge for each variable, all clients' one after the other."""
    return compiled.stacked.matrix.T @ np.concatenate([mu, -mu])


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
            step = group.newton_steps(u, left)
            u = np.where(np.isfinite(step), u + step, u)
    return best


def _held(
    sub: Subproblem, price: np.ndarray, at: np.ndarray, own: np.ndarray, reach: np.ndarray
) -> float:
    """How much lower objective and prices can be in the box, if multipliers tell it."""
    form = sub.form
    if form is None or not is_split(form):
        return np.inf
    return held_bracket(form, price, at, own, reach)


def _by_cones(
    sub: Subproblem,
    price: np.ndarray,
    at: np.ndarray,
    reach: np.ndarray,
    cost: float,
    held: float,
    enough: float,
) -> tuple[float, bool]:
    """The same by a cone solver, and whether nothing else knows it to its digits.

    ``held`` is what multipliers tell.
    """
    form = sub.form
    if form is None or not is_split(form):
        here = cost + float(price @ at)
        found = here - least_near(sub, price, at, reach, enough)
        if found < -enough:
            # A bound above the value of a feasible point is a solver's error, of numbers that are
            # extreme in so wide a box; of a convex function a narrower one bounds it as well
            near = here - least_near(sub, price, at, reach / NARROWER, enough)
            found = NARROWER * near if near >= -enough else found
        return found, True
    # Counted from the centre, where the constant cancels before it is rounded
    here, nowhere = form.around(at), np.zeros(at.size)
    here = here.with_others(quadratic=here.quadratic._replace(constant=0.0))
    lower = here.cone.constant - form.around(at).quadratic.constant if here.smooth else 0.0
    cone = here.cone._replace(constant=lower) if here.smooth else None
    if cone is not None:
        here = here.with_others(program=lambda: cone)
    found = here.objective(nowhere) - least_within(here, price, nowhere, reach, enough)
    return min(held, found), bool(form.smooth) or not np.isfinite(held)


def least_near(
    sub: Subproblem, price: np.ndarray, at: np.ndarray, reach: np.ndarray, enough: float = 0.0
) -> float:
    """A lower bound of a client's objective plus its prices in the box, that loses ``enough``."""
    if sub.form is not None:
        return least_within(sub.form, price, at, reach, enough)
    centres, spreads = sub.spread(at), sub.spread(reach)
    around = {key: Measure(centres[key], spreads[key]) for key in centres}
    stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    near = [
        cp.abs(v - around[v.id].centre) <= around[v.id].spread
        for v in sub.variables  # cvxpy alone knows this client, and its solver's value is taken
    ]
    found = minimise(sub.client.cost + price @ stacked, [*sub.client.constraints, *near], around)
    return found.value if found.is_optimal else -np.inf
