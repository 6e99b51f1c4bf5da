r"""Penalties above the negative curvature of clients that are not convex.

The augmented Lagrangian of client i is convex near its point if the penalty exceeds the negative
curvature along what it shares, :math:`2 \rho^2 > \nu_i` (Remark 3 of the paper). Consensus ADMM
converges to a stationary point where it exceeds twice the Lipschitz constant of the gradient (Hong,
Luo, Razaviyayn 2016; Wang, Yin, Zeng 2019). Both are measured by second differences of the
objectives, the Lipschitz constant at the start, and the negative curvature along each move of a
client,

.. math:: \nu_i = \max_k \; -\frac{f_i(x^k) + f_i(x^{k-1}) - 2 f_i(\tfrac{x^k + x^{k-1}}{2})}
                                  {\tfrac14 \|G_i (x^k - x^{k-1})\|^2} .
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.objectives import objective
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.state import State

ABOVE = 3.0
"""How many times the curvature the penalty :math:`2 \\rho^2` is at least. Hong, Luo and Razaviyayn
ask for more than 2, where an error neither grows nor falls; rounds grow with the penalty."""
DIFFERENCE = 1e-3
"""Step of the second differences, beside 1 + |x|: about the fourth root of the precision, where
truncation and rounding of a second difference are equal."""
LOOPS_PATIENT = 10
"""Outer loops in which the primal residual has to have fallen, else the penalty doubles."""
LEAST_CURVATURE = 1e-6
"""Share of the largest curvature that an entry without any counts with."""
WIDE_DIFFERENCE = 1.0
"""Step of the differences of convex clients, beside 1 + |x|: of a kink a small step would see a
curvature without bound, and no penalty has to exceed that of a convex client."""


@dataclass
class AboveCurvature:
    """Penalties that start at three times the curvature at the start, and never fall.

    They are raised to three times the negative curvature that answers show, and doubled if the
    primal residual does not fall in ten outer loops; so they rest once the run is in one valley,
    which the theory asks for.

    Attributes
    ----------
    points : dict
        Client -> the vector of its variables at which the run starts.
    negative : dict
        Client -> the largest negative curvature found.
    """

    points: Mapping[Hashable, np.ndarray]
    negative: dict[Hashable, float] = field(default_factory=dict)
    _compiled: Decomposition | None = None
    _before: dict[Hashable, np.ndarray] = field(default_factory=dict)
    _best: float = np.inf
    _since: int = 0

    def init(self, compiled: Decomposition) -> np.ndarray:
        self._compiled, found = compiled, np.zeros(compiled.size)
        for sub in compiled.values():
            if not (sub.client.is_server or sub.client.is_coupling):
                found[sub.entries] = np.maximum(
                    found[sub.entries], _curvatures(sub, self.points[sub.name])
                )
        most = found.max(initial=0.0) or 1.0
        return np.sqrt(ABOVE * np.maximum(found, LEAST_CURVATURE * most) / 2)

    def update(self, state: State, outer: int) -> np.ndarray:
        assert self._compiled is not None
        rho, gap = state.rho, float(np.abs(state.primal).max())
        for name, sub in self._compiled.items():
            if not sub.client.is_convex:
                point = state.points[self._compiled.columns[name]].copy()
                rho = self._raised(rho, sub, point)
                self._before[name] = point
        if gap < self._best:
            self._best, self._since = gap, outer
        elif outer - self._since >= LOOPS_PATIENT:
            rho, self._best, self._since = np.sqrt(2) * rho, gap, outer
        return rho

    def _raised(self, rho: np.ndarray, sub: Subproblem, point: np.ndarray) -> np.ndarray:
        """The penalties, with those of a client above the negative curvature of its last move."""
        before = self._before.get(sub.name)
        if before is None:
            return rho
        length = float(np.square(sub.sides[0] @ (point - before)).sum())
        if length <= (DIFFERENCE * (1 + float(np.abs(point).max()))) ** 2:
            return rho  # so near by a second difference is rounding
        found = -_second(sub, (point + before) / 2, (point - before) / 2) / (length / 4)
        if not found > self.negative.get(sub.name, 0.0):
            return rho
        self.negative[sub.name] = found
        raised, at = rho.copy(), sub.entries
        raised[at] = np.maximum(raised[at], np.sqrt(ABOVE * found / 2))
        return raised

    @property
    def said(self) -> str:
        """The curvature that was found, in words."""
        worst = max(self.negative, key=self.negative.__getitem__, default=None)
        if worst is None or not self.negative[worst]:
            return "no negative curvature was met on the way"
        return (
            f"the largest negative curvature met is {self.negative[worst]:.2g}, at client "
            f"{worst!r}; penalties 2 rho^2 are at least three times that on its edges"
        )


def _curvatures(sub: Subproblem, here: np.ndarray) -> np.ndarray:
    r""":math:`|\partial^2 f|` along each entry of a client's edges at a point, (q,)."""
    near = WIDE_DIFFERENCE if sub.client.is_convex else DIFFERENCE
    step = near * (1 + float(np.abs(here).max()))
    found = np.zeros(sub.entries.size)
    for at, row in enumerate(sub.sides[0].toarray()):
        size = float(row @ row)
        if size > 0:
            second = abs(_second(sub, here, step * row / size)) / step**2
            found[at] = second if np.isfinite(second) else 0.0
    return found


def _second(sub: Subproblem, middle: np.ndarray, way: np.ndarray) -> float:
    """The second difference of a client's objective, f(x + d) + f(x - d) - 2 f(x)."""
    points = (middle + way, middle - way, middle)
    ahead, behind, here = (objective(sub, point) for point in points)
    return ahead + behind - 2 * here
