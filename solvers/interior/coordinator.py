r"""The coordinator of an interior point: it adds, takes one minimum, factors and tells.

A round is one iteration. With the sums of :mod:`.participant` the step of :math:`\tau` follows from

.. math::
    \Delta\tau = \frac{r_\tau - d_\kappa / \tau + (g + H \xi)^\top x_1 + b^\top z_1}
    {\|x_2 - \xi\|_H^2 + \|W z_2\|^2 + \kappa / \tau},

where 1 is the direction of the residuals and 2 that of the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from dald_model.solvers.interior.participant import REGULAR, Participant

PASSES = 4
"""Passes of the balance of columns; more change the number of rounds by less than one."""
PROVED = 1e-7
"""What of a ray of length one may be left of the zero that it ought to be: then no point within
1e7 units is feasible, or the fall goes on as far."""
FALL = 1e-2
"""Share of what a linear residual would fall by that one has to fall by, as in Armijo's rule."""
SHORTEST = 1e-8
"""A step that is not halved any more."""
ALMOST = 0.99
"""Share of the way to the boundary that a step takes, as in Clarabel."""


class Aggregator(Protocol):
    """What adds the arrays of all clients, and takes a minimum: all that a server is told."""

    def total(self, arrays: Sequence[Any]) -> Any:
        """The sum of one array per client, dense or sparse."""
        ...

    def least(self, numbers: Sequence[float]) -> float:
        """The minimum of one number per client."""
        ...


class Plain:
    """The reference of an aggregator, which adds in one process."""

    def total(self, arrays: Sequence[Any]) -> Any:
        """See :class:`Aggregator`."""
        first, *others = arrays
        return sum(others, first)

    def least(self, numbers: Sequence[float]) -> float:
        """See :class:`Aggregator`."""
        return min(numbers)


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
    participants : list of Participant
    places : list of ndarray
        Of each participant where its shared unknowns lie in the coordinator's vector.
    size : int
        Entries of that vector.
    is_multiplier : ndarray of bool, (size,)
        Which of these are multipliers of equalities.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        places: Sequence[np.ndarray],
        is_multiplier: np.ndarray,
        aggregator: Aggregator | None = None,
    ) -> None:
        self._those, self._places = participants, places
        self._sum = aggregator or Plain()
        self._size, self._is_multiplier = is_multiplier.size, is_multiplier
        self.tau = self.kappa = 1.0
        self._step = 0.0
        self._balance()
        self._measure()
        self._first_ratio = self._residual_norm() / self._mu

    def _total(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Vectors over the shared unknowns of each, added."""
        if len(arrays) == 1 and arrays[0].size == self._size:
            return arrays[0]
        full = []
        for array, at in zip(arrays, self._places, strict=True):
            one = np.zeros(self._size)
            one[at] = array
            full.append(one)
        return self._sum.total(full)

    def _number(self, numbers: Sequence[float]) -> float:
        return float(self._sum.total([np.array([one]) for one in numbers])[0])

    def _balance(self) -> None:
        """Units of all variables, in which rows and curvature are of one size."""
        columns = [np.ones(one.programme.size) for one in self._those]
        for _ in range(PASSES):
            norms = [one.norms(unit) for one, unit in zip(self._those, columns, strict=True)]
            total = self._shared_columns(norms)
            columns = [
                unit / np.sqrt(np.sqrt(np.where(norm > 0, norm, 1.0)))
                for unit, norm in zip(columns, total, strict=True)
            ]
        told = [one.scale(unit) for one, unit in zip(self._those, columns, strict=True)]
        slopes = [slope for slope, _, _ in told]
        square, count = self._number([one[1] for one in told]), self._number([t[2] for t in told])
        bends = [one.norms(unit) for one, unit in zip(self._those, columns, strict=True)]
        largest = [np.abs(one).max(initial=0.0) for one in self._shared_columns(slopes)]
        steepest = [one.steepest for one in self._those]
        bent = [float(one.max(initial=0.0)) for one in self._shared_columns(bends)]
        slope = -self._sum.least([-float(one) for one in (*largest, *steepest)])
        bend = min(1.0, max(bent))
        # Variables are as large as right sides ask, or where there are none as costs do
        length = np.sqrt(square / count) if count else (slope / bend if slope and bend else 1.0)
        for one in self._those:
            one.stretch(float(length))
        size = max(slope * length, bend * length**2)
        begun = [one.begin(1 / size if size > 0 else 1.0) for one in self._those]
        product, degree = (self._number(column) for column in zip(*begun, strict=True))
        if degree:
            self.kappa = product / degree
            for one in self._those:
                one.centre(self.kappa)

    def _shared_columns(self, vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sums over all of what is shared, and each one's own of the rest."""
        told = []
        for one, vector in zip(self._those, vectors, strict=True):
            nothing = np.zeros(one.programme.equal_right.size)
            told.append(np.concatenate([vector, nothing])[one.shared])
        total = self._total(told)
        found = []
        for one, vector, at in zip(self._those, vectors, self._places, strict=True):
            full = np.concatenate([vector, np.zeros(one.programme.equal_right.size)])
            full[one.shared] = total[at]
            found.append(full[: vector.size])
        return found

    def _measure(self) -> None:
        told = [one.measure(self.tau) for one in self._those]
        self._residual = self._total([one.residual for one in told])
        numbers = self._sum.total([np.array(one[1:6]) for one in told])
        self._slope, self._right, self._product, self._value, self._degree = numbers.tolist()
        self._infeasible = -self._sum.least([-one.infeasible for one in told])
        self._steepness = self._number([one.steepness for one in told])
        self._length = -self._sum.least([-one.size for one in told])
        self._largest = -self._sum.least([-one.largest for one in told])
        own = -self._sum.least([-one.private_residual() for one in self._those])
        self._steep = max(float(np.abs(self._residual[~self._is_multiplier]).max(initial=0)), own)
        self._mu = (self._product + self.tau * self.kappa) / (self._degree + 1)

    @property
    def found(self) -> Found:
        """The present point against the program, in the user's units where they have some."""
        cost, tau = self._those[0].cost, self.tau
        gap = (self._slope + self._right) / tau
        value = self._value / cost
        # What the multipliers prove below: the Lagrangian's tangent there
        bound = (self._value - gap) / cost
        primal = self._infeasible / (tau + self._length + self._largest)
        return Found(primal, self._steep / tau, gap / cost, value, bound, self._step)

    @property
    def proves_infeasible(self) -> bool:
        """Whether the multipliers are a ray that no point can meet, by Farkas' lemma."""
        left = self._steep + self._steepness
        return self._right < 0 and left <= PROVED * -self._right

    @property
    def falls_along_a_ray(self) -> bool:
        """Whether the variables are a ray that keeps all constraints and falls, to some digits."""
        falls = self._number([one.falls() for one in self._those])
        return falls < 0 and self._infeasible + self._largest <= PROVED * -falls

    def iterate(self) -> None:
        """One round."""
        those, tau, kappa = self._those, self.tau, self.kappa
        solve = self._factored([one.curvature() for one in those])
        self._solve("constant", solve, [one.constant_side() for one in those])
        bends = sum(sum(two) for two in self._heard) + kappa / tau
        away = self._slope + self._right + kappa
        self._solve("step", solve, [one.predicted_side() for one in those])
        dtau = (away - kappa + sum(sum(two) for two in self._heard)) / bends
        dkappa = -(kappa * tau + kappa * dtau) / tau
        step = self._longest([one.combine(dtau) for one in those], dtau, dkappa)
        centring = (1 - step) ** 3
        target = centring * self._mu
        share = 1 - centring
        sides = [one.corrected_side(target, share) for one in those]
        self._solve("step", solve, sides)
        wanted = kappa * tau + dkappa * dtau - target
        dtau = (share * away - wanted / tau + sum(sum(two) for two in self._heard)) / bends
        dkappa = -(wanted + kappa * dtau) / tau
        longest = self._longest([one.combine(dtau) for one in those], dtau, dkappa)
        step = ALMOST * longest if longest < 1 else 1.0
        step = self._sum.least([one.defined(step) for one in those])
        before, mu, now = self._residual_norm(), self._mu, (tau, dtau, kappa, dkappa)
        self._go(step, now)
        if all(one.is_linear for one in those):
            return
        # Newton's step of what is not linear may overshoot; rounding is no overshoot
        while step > SHORTEST and not self._falls(before, mu, step * share):
            step /= 2
            self._go(step, now)

    def _go(self, step: float, now: tuple[float, float, float, float]) -> None:
        tau, dtau, kappa, dkappa = now
        for one in self._those:
            one.go(step)
        self.tau, self.kappa, self._step = tau + step * dtau, kappa + step * dkappa, step
        self._measure()

    def _residual_norm(self) -> float:
        own = self._number([one.private_square() for one in self._those])
        shared = self._residual[~self._is_multiplier]
        return float(np.sqrt(shared @ shared + own))

    def _falls(self, before: float, mu: float, share: float) -> bool:
        """Whether the residual fell by a little, or by as much as complementarity did so far."""
        norm = self._residual_norm()
        return norm <= max((1 - FALL * share) * before, self._first_ratio * min(mu, self._mu))

    def _solve(
        self, name: str, solve: Callable[[np.ndarray], np.ndarray], sides: Sequence[np.ndarray]
    ) -> None:
        found = solve(self._total(sides))
        self._heard = [
            one.solved(name, found[at]) for one, at in zip(self._those, self._places, strict=True)
        ]

    def _longest(self, steps: Sequence[float], dtau: float, dkappa: float) -> float:
        found = self._sum.least(steps)
        for at, move in ((self.tau, dtau), (self.kappa, dkappa)):
            if move < 0:
                found = min(found, -at / move)
        return found

    def _factored(self, parts: Sequence[Any]) -> Callable[[np.ndarray], np.ndarray]:
        """A function that solves with the sum of the clients' curvatures."""
        if len(parts) == 1 and parts[0].shape[0] == self._size:
            total = parts[0]
        else:
            full = []
            for part, at in zip(parts, self._places, strict=True):
                one = np.zeros((self._size, self._size))
                one[np.ix_(at, at)] = part.toarray() if sp.issparse(part) else part
                full.append(one)
            total = self._sum.total(full)
        return _factored(total, self._is_multiplier)


def _factored(total: Any, is_multiplier: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A solve with one step of refinement; the matrix is quasidefinite with a regularisation."""
    diagonal = total.diagonal()
    size = float(np.abs(diagonal).max(initial=0.0))
    bump = REGULAR * np.where(diagonal != 0, np.abs(diagonal), size or 1.0)
    bump = np.where(is_multiplier, -REGULAR, bump + 1e-16 * size)
    if sp.issparse(total):
        options = {"SymmetricMode": True}
        matrix = sp.csc_array(total + sp.diags_array(bump))
        plain = splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        ).solve
    else:
        matrix = total.copy()
        at = np.arange(bump.size)
        matrix[at, at] += bump
        plain = _dense(matrix, bool(is_multiplier.any()))

    def solve(side: np.ndarray) -> np.ndarray:
        found = plain(side)
        for _ in range(2):
            found = found + plain(side - total @ found)
        return found

    return solve


def _dense(matrix: np.ndarray, is_indefinite: bool) -> Callable[[np.ndarray], np.ndarray]:
    if not is_indefinite:
        try:
            factor = sl.cho_factor(matrix, check_finite=False)
            return lambda side: sl.cho_solve(factor, side, check_finite=False)
        except sl.LinAlgError:
            pass
    factor = sl.lu_factor(matrix, check_finite=False)
    return lambda side: sl.lu_solve(factor, side, check_finite=False)
