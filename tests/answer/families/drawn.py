"""A drawn model, its true optimum, and the label of a result by that optimum alone.

Let x be the point that the user reads, F* the least objective, x* a minimiser, f_i the owners'
objectives (a coupling with a cost counts as one more owner).

* **S = sum_i [f_i(x*) - min f_i]** is the true cost of consensus. An owner that is unbounded alone
  counts |f_i(x*) - f_i(0)| instead, since its minimum is no number.
* **V = sum_i |f_i(x*) - f_i(0)|** is the worth of the optimum over the origin of the *natural*
  units, in which the data were drawn about 1. Offsets and units that the draw adds for the user
  are taken out before, so V cannot be inflated by them.
* **scale = max(S, FLOOR V)**: an error matters relative to what the owners give up for one another.
  Where they give up nothing (perfect fits, S = 0) the floor says that a fit to 3e-6 of its size is
  right, and one that is off by more than 3e-5 of its size is wrong.
* **grain** = what double precision leaves open: F(x*) after x* is rounded to doubles, and
  256 ulp of the sum of |f_i(x*)| and of constants.

The error of a result is the larger of |F(x) - F*| and |reported value - F*|, less the grain.

* **wrong**: a claimed answer is not finite; or a constraint or a copy is off by more than
  1e-3; or the error exceeds 1e-3 scale *and* the two values differ in plain sight, by 1e-3
  of the larger (without the constants that the draw has added). Of a status that claims
  no answer the same is said of the point; "infeasible" and "unbounded" are wrong, as every drawn
  model has an optimum.
* **right**: the error is at most 1e-5 scale, constraints and copies hold to 1e-6.
* **borderline**: everything else; a judge may say either.

With ``gap=`` a run asks for another tolerance than 1e-4, and all of these shares go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dald_model as dm

TOL = 1e-4
"""The judge's tolerance of an error relative to the scale, unless a run asks for another gap."""
WRONG, RIGHT = 10.0, 0.1
"""Errors relative to the tolerance times the scale: the band between is the judge's to decide."""
SIGHT = 10.0
"""Relative to the tolerance, so 1e-3: a reader sees that the first three digits differ."""
FAR_OFF, NEAR = 10.0, 0.01
"""Violations relative to the tolerance, each divided by the larger of 1 and the terms of its row in
natural units: 1e-3 is in plain sight, and default tolerances of 1e-6 have to hold."""
FLOOR = 1e-6
"""Times 1e-5 it is the square of 3e-6, a relative error of x that default tolerances resolve."""
ULPS = 256 * np.finfo(float).eps
"""Rounding of a sum of some hundred terms, as in the rule of the verdict."""

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Truth:
    """The optimum of a model, and functions of a point by names of variables, in the user's units.

    Attributes
    ----------
    optimum : float
        F*, including the constants.
    scale, grain : float
        As in the module's docstring.
    excess : callable
        F(x) - F*, computed without cancellation where that matters.
    violation : callable
        The largest violation of a constraint, relative to its row.
    units : dict
        Variable -> size of one natural unit of each entry.
    constant : float
        What the draw has added to the objective.
    point : dict
        A minimiser in double precision.
    """

    optimum: float
    scale: float
    grain: float
    excess: Callable[[Values], float]
    violation: Callable[[Values], float]
    units: Mapping[str, np.ndarray]
    point: Values
    constant: float = 0.0

    def objective(self, values: Values) -> float:
        """F at a point."""
        return self.optimum + self.excess(values)

    def label(self, result: Any, tol: float = TOL) -> str:
        """Label a result as "right", "wrong" or "borderline"."""
        if str(result.status) in ("infeasible", "unbounded"):
            return "wrong"
        values = {name: np.asarray(result[name], dtype=float) for name in self.units}
        apart = self._apart(result, values)
        return self.label_of(values, float(result.value), apart, tol)

    def label_of(self, values: Values, value: float, apart: float = 0.0, tol: float = TOL) -> str:
        """The label of a point with a reported value, whose copies are so far apart."""
        finite = all(np.isfinite(one).all() for one in values.values()) and np.isfinite(value)
        if not finite:
            return "wrong"
        excess, broken = self.excess(values), max(apart, self.violation(values))
        if not (np.isfinite(excess) and broken <= FAR_OFF * tol):
            return "wrong"
        errors = [max(0.0, abs(one) - self.grain) for one in (excess, value - self.optimum)]
        plain = [self._in_plain_sight(one, tol) for one in (self.objective(values), value)]
        seen = zip(errors, plain, strict=True)
        if any(error > WRONG * tol * self.scale and is_plain for error, is_plain in seen):
            return "wrong"
        return (
            "right"
            if max(errors) <= RIGHT * tol * self.scale and broken <= NEAR * tol
            else "borderline"
        )

    def _in_plain_sight(self, value: float, tol: float) -> bool:
        ours, best = value - self.constant, self.optimum - self.constant
        return abs(ours - best) > SIGHT * tol * max(abs(ours), abs(best))

    def _apart(self, result: Any, values: Values) -> float:
        """The largest distance of a client's copy from the point, relative to the variable."""
        worst = 0.0
        for name in result.compiled.model.clients:
            for variable, copy in result[name].items():
                key = variable.name()
                unit, at = self.units[key], values[key]
                size = max(1.0, float(np.abs(self.point[key] / unit).max(initial=0.0)))
                off = np.abs((np.asarray(copy, dtype=float) - at) / unit)
                worst = max(worst, float(off.max(initial=0.0)) / size)
        return worst


@dataclass(frozen=True, eq=False)
class Drawn:
    """A model of a family: ``build()`` declares it anew; the same seed draws the same model."""

    family: str
    kind: str
    seed: int
    build: Callable[[], dm.Model]
    truth: Truth

    @property
    def optimum(self) -> float:
        """The true least objective."""
        return self.truth.optimum

    def objective(self, values: Values) -> float:
        """The true objective at values by names of variables."""
        return self.truth.objective(values)

    def label(self, result: Any) -> str:
        """Label a result as "right", "wrong" or "borderline", by the truth alone."""
        return self.truth.label(result)

    def __str__(self) -> str:
        return f"{self.family}, {self.kind}, seed {self.seed}"
