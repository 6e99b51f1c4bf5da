r"""The coordinator of an interior point: it adds, takes one minimum, factors and tells.

A round is one iteration. With the sums of :mod:`.participant` the step of :math:`\tau` follows from

.. math::
    \Delta\tau = \frac{r_\tau - d_\kappa / \tau + (g + H \xi)^\top x_1 + b^\top z_1}
    {\|x_2 - \xi\|_H^2 + \|W z_2\|^2 + \kappa / \tau},

where 1 is the direction of the residuals and 2 that of the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.sizes import HALVINGS, ORDER
from dald_model.solvers.interior.clients import Aggregator, Call, Clients, Plain
from dald_model.solvers.interior.factor import factored
from dald_model.solvers.interior.scaled import Units

BALANCE_PASSES = 4
"""Passes of the balance of columns, of which more change the number of rounds by less than one."""
FALL = 1e-2
"""Share of what a linear residual would fall by that one has to fall by, as in Armijo's rule."""
NEGLIGIBLE = 1e-8
"""A residual, in units in which slopes are about one, that shortens no step of Newton's: it has the
digits of a double left, and rounding may not cost a message."""
KEPT = (
    "step",
    "residual",
    "slope",
    "right",
    "product",
    "value",
    "degree",
    "infeasible",
    "steepness",
    "length",
    "largest",
    "steep",
    "private_square",
    "mu",
    "first_ratio",
)
"""Attributes that follow from the clients' last answers."""
SHORTEST = 2.0**-HALVINGS
"""A step that is not halved any more."""
ALMOST = 0.99
"""Share of the way to the boundary that a step takes, as in Clarabel."""


class Found(NamedTuple):
    """Where a round stands: relative infeasibility, slope and gap, the value and its dual bound."""

    primal: float
    dual: float
    gap: float
    value: float
    bound: float
    step: float


class Coordinator:
    """Everything but the clients' own data.

    Parameters
    ----------
    clients : Clients
    places : list of ndarray
        Of each client where its shared unknowns lie in the coordinator's vector.
    is_multiplier : ndarray of bool
        Which of the entries of that vector are multipliers of equalities.
    aggregator : Aggregator or None
    kept : dict or None
        Of a run that goes on, of which the clients have heard already.
    """

    def __init__(
        self,
        clients: Clients,
        places: Sequence[np.ndarray],
        is_multiplier: np.ndarray,
        aggregator: Aggregator | None = None,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        self._clients, self._places = clients, places
        self._sum = aggregator or Plain()
        self._size, self._is_multiplier = is_multiplier.size, is_multiplier
        self._is_variable = ~is_multiplier
        self._is_one = len(places) == 1 and places[0].size == self._size
        self._unit = 0.0
        self._factor: tuple[Any, Any] = None, None
        if kept is not None:
            vars(self).update({f"_{name}": kept[name] for name in KEPT})
            self.tau, self.kappa, self.cost = kept["tau"], kept["kappa"], kept["cost"]
            return
        self.begin()

    def begin(self, *, is_balanced: bool = False) -> None:
        """Begin in the middle of the constraints."""
        self.tau = self.kappa = 1.0
        self._step = 0.0
        if is_balanced:
            self._begin(*self._sizes(self._ask(("scale",))[0]))
        else:
            self._balance()
        self._measure()
        self._first_ratio = self._residual_norm() / self._mu

    def kept(self) -> dict[str, Any]:
        """What a file holds of it, beside what the clients were told."""
        found = {name: getattr(self, f"_{name}") for name in KEPT}
        return found | {"tau": self.tau, "kappa": self.kappa, "cost": self.cost}

    def _ask(self, *calls: Call) -> list[Any]:
        """What the clients answer to each call, in one exchange; of vectors each gets its part."""
        each = [calls]
        if not self._is_one:
            each = [[tuple(_part(v, at) for v in call) for call in calls] for at in self._places]
        return list(zip(*self._clients.ask(each), strict=True))

    def _total(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Vectors over the shared unknowns of each, added."""
        if self._is_one:
            return arrays[0]
        full = []
        for array, at in zip(arrays, self._places, strict=True):
            one = np.zeros(self._size)
            one[at] = array
            full.append(one)
        return self._sum.total(full)

    def _number(self, numbers: Sequence[float]) -> float:
        return float(self._sum.total([np.array([one]) for one in numbers])[0])

    def _largest_of(self, numbers: Sequence[float]) -> float:
        return -self._sum.least([-one for one in numbers])

    def _balance(self) -> None:
        """Units of all variables, in which rows and curvature are of one size."""
        (told,) = self._ask(("norms",))
        for _ in range(BALANCE_PASSES - 1):
            _, told = self._ask(("balance", self._total(told)), ("norms",))
        _, units = self._ask(("balance", self._total(told)), ("scale",))
        self._begin(*self._sizes(units))

    def rescale(self) -> None:
        """Take other numbers in balanced units of earlier ones, if all are about as large."""
        (units,) = self._ask(("scale",))
        length, cost = self._sizes(units)
        known = self._unit, self.cost
        ratios = length / self._unit, cost / self.cost
        if max(*ratios, *(1 / one for one in ratios)) > ORDER:
            known = length, cost
        self._unit, self.cost = known
        self._ask(("take_units", *known))

    def _sizes(self, units: Sequence[Units]) -> tuple[float, float]:
        """A length of the variables and a factor of the objective with which all is about one."""
        square = self._number([one.square for one in units])
        count = self._number([one.rights for one in units])
        slopes = self._total([one.slopes for one in units])
        bends = self._total([one.bends for one in units])
        own = self._largest_of([max(one.steepest, one.private_slope) for one in units])
        slope = max(float(np.abs(slopes).max(initial=0.0)), own)
        own = self._largest_of([one.private_bend for one in units])
        bend = min(1.0, max(float(bends.max(initial=0.0)), own))
        # Variables are as large as right sides ask, or where there are none as costs do
        length = float(np.sqrt(square / count)) if count else 1.0
        if not count and slope and bend:
            length = slope / bend
        size = max(slope * length, bend * length**2)
        return length, 1 / size if size > 0 else 1.0

    def _begin(self, length: float, cost: float) -> None:
        self._unit, self.cost = length, cost
        (begun,) = self._ask(("begin", length, self.cost))
        product, degree = (self._number(column) for column in zip(*begun, strict=True))
        if degree:
            self.kappa = product / degree
            self._ask(("centre", self.kappa))

    def _measure(self, *before: Call) -> None:
        """Where the clients are, after the calls before."""
        told = self._ask(*before, ("measure", self.tau))[-1]
        self._residual = self._total([one.residual for one in told])
        numbers, most = told[0][1:8], told[0][8:]
        if len(told) > 1:
            numbers = self._sum.total([np.array(one[1:8]) for one in told]).tolist()
            most = map(self._largest_of, zip(*(one[8:] for one in told), strict=True))
        self._slope, self._right, self._product, self._value, self._degree = numbers[:5]
        self._steepness, self._private_square = numbers[5:]
        self._infeasible, self._length, self._largest, own = most
        self._steep = max(float(np.abs(self._residual[self._is_variable]).max(initial=0)), own)
        self._mu = (self._product + self.tau * self.kappa) / (self._degree + 1)

    @property
    def found(self) -> Found:
        """The present point against the program, in the user's units where they have some."""
        cost, tau = self.cost, self.tau
        gap = (self._slope + self._right) / tau
        value = self._value / cost
        # What the multipliers prove below: the Lagrangian's tangent there
        bound = (self._value - gap) / cost
        primal = self._infeasible / (tau + self._length + self._largest)
        return Found(primal, self._steep / tau, gap / cost, value, bound, self._step)

    @property
    def infeasible_ray(self) -> float:
        """What the multipliers, as a ray, leave of the zero that proves by Farkas' lemma.

        As a share of what they prove: no point within its inverse is feasible.
        """
        left = self._steep + self._steepness
        return left / -self._right if self._right < 0 else np.inf

    @property
    def falling_ray(self) -> float:
        """The same of the variables, as a ray that keeps all constraints and falls."""
        falls = self._number(self._ask(("falls",))[0])
        return (self._infeasible + self._largest) / -falls if falls < 0 else np.inf

    def iterate(self) -> None:
        """One round."""
        tau, kappa = self.tau, self.kappa
        parts, constants, sides = self._ask(("curvature",), ("constant",), ("predicted",))
        solve = self._factored(parts)
        fixed, moved = (solve(self._total(one)) for one in (constants, sides))
        bent, heard = self._ask(("hear_constant", fixed), ("hear_step", moved))
        bends = self._sum_of(bent) + kappa / tau
        away = self._slope + self._right + kappa
        dtau = (away - kappa + self._sum_of(heard)) / bends
        dkappa = -(kappa * tau + kappa * dtau) / tau
        step = self._longest(self._ask(("combine", dtau), ("longest",))[1], dtau, dkappa)
        centring = (1 - step) ** 3
        target, share = centring * self._mu, 1 - centring
        (sides,) = self._ask(("corrected", target, share))
        (heard,) = self._ask(("hear_step", solve(self._total(sides))))
        wanted = kappa * tau + dkappa * dtau - target
        dtau = (share * away - wanted / tau + self._sum_of(heard)) / bends
        dkappa = -(wanted + kappa * dtau) / tau
        longest = self._longest(self._ask(("combine", dtau), ("longest",))[1], dtau, dkappa)
        step = ALMOST * longest if longest < 1 else 1.0
        before, mu, now = self._residual_norm(), self._mu, (tau, dtau, kappa, dkappa)
        is_linear = self._clients.is_linear
        if not is_linear:
            step = self._sum.least(self._ask(("defined", step))[0])
        self._go(step, now)
        # Newton's step of what is not linear may overshoot; rounding is no overshoot
        while not is_linear and step > SHORTEST and not self._falls(before, mu, tau, step * share):
            step /= 2
            self._go(step, now)

    def resume(self, points: Sequence[np.ndarray]) -> None:
        """Begin where the participants ended an earlier run."""
        self._clients.ask([[("resume", point)] for point in points])
        self.tau, self.kappa = 1.0, 0.0
        self._measure()

    @property
    def is_free(self) -> bool:
        """Whether there are no cones, so that an active set is known: it is empty."""
        return self._degree == 0

    def begin_free(self) -> None:
        """Begin with the empty active set of a program without cones."""
        self.tau, self.kappa = 1.0, 0.0
        self._measure()

    def confirm(self) -> None:
        """One round with the active set held: two steps of Newton's with one factor.

        The second takes away what rounding left, and what held rows moved.
        """
        self._step = 1.0
        parts, sides = self._ask(("curvature",), ("predicted",))
        solve = self._factored(parts)
        settle: tuple[Call, ...] = () if self.is_free else (("settle",),)
        for after in ((), settle):
            if not sides:
                (sides,) = self._ask(("predicted",))
            self._ask(("hear_step", solve(self._total(sides))), ("combine", 0.0))
            before, step = self._residual_norm() if self.is_free else 0.0, 1.0
            sides = []
            if settle and not after:  # nobody asks where the first step is
                self._ask(("go", step), ("stand", self.tau))
                continue
            self._measure(("go", step), *after)
            # Newton's step of what is not linear may overshoot
            while self.is_free and step > SHORTEST and not self._drops(before, step):
                step /= 2
                self._measure(("go", step))

    def _drops(self, before: float, step: float) -> bool:
        """Whether the residual fell by a little, or is small; a linear one falls in any case."""
        left = self._residual_norm()
        return self._clients.is_linear or left <= max((1 - FALL * step) * before, NEGLIGIBLE)

    def _go(self, step: float, now: tuple[float, float, float, float]) -> None:
        tau, dtau, kappa, dkappa = now
        self.tau, self.kappa, self._step = tau + step * dtau, kappa + step * dkappa, step
        self._measure(("go", step))

    def _sum_of(self, pairs: Sequence[tuple[float, float]]) -> float:
        """The sum of all clients' pairs of numbers."""
        if self._is_one:
            return sum(pairs[0])
        return float(self._sum.total([np.array(two) for two in pairs]).sum())

    def _residual_norm(self) -> float:
        shared = self._residual[self._is_variable]
        return float(np.sqrt(shared @ shared + self._private_square))

    def _falls(self, before: float, mu: float, tau: float, share: float) -> bool:
        """Whether the residual fell by a little, or by as much as complementarity did so far."""
        norm, worth = self._residual_norm(), min(mu, self._mu)
        if self.kappa <= self.tau:
            # Of an optimum what is left over tau counts: all is small where tau is
            norm *= tau / self.tau
        return norm <= max((1 - FALL * share) * before, self._first_ratio * worth)

    def _longest(self, steps: Sequence[float], dtau: float, dkappa: float) -> float:
        found = self._sum.least(steps)
        for at, move in ((self.tau, dtau), (self.kappa, dkappa)):
            if move < 0:
                found = min(found, -at / move)
        return found

    def _factored(self, parts: Sequence[Any]) -> Callable[[np.ndarray], np.ndarray]:
        """A function that solves with the sum of the clients' curvatures."""
        total, factor = self._factor
        if self._is_one:
            if parts[0] is total:  # as where an active set was right
                return factor
            total = parts[0]
        else:
            full = []
            for part, at in zip(parts, self._places, strict=True):
                one = np.zeros((self._size, self._size))
                one[np.ix_(at, at)] = part.toarray() if sp.issparse(part) else part
                full.append(one)
            total = self._sum.total(full)
        self._factor = total, factored(total, self._is_multiplier)
        return self._factor[1]


def _part(given: Any, at: np.ndarray) -> Any:
    return given[at] if isinstance(given, np.ndarray) else given
