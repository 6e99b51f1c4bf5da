"""Runs of models with clients that are not convex: where they begin, and when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dald_model.answer.claim import Claim, split
from dald_model.answer.result import Result
from dald_model.answer.stationarity import STATIONARY, VIOLATION, conditions
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.above_curvature import AboveCurvature
from dald_model.coordinate.acceleration.anderson import Anderson
from dald_model.coordinate.acceleration.evaluation import Acceleration
from dald_model.coordinate.scaling.units import Units
from dald_model.coordinate.settings import EndProof, EndTest
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status
from dald_model.errors import OptionError
from dald_model.starting import starting_value

MIXING = Anderson(memory=10)
"""The acceleration in the place of the default, part of which assumes convexity: a low-rank
factorisation of four owners took 49 rounds, and more than 600 without."""


class LocalRun:
    """What a run of a model with clients that are not convex takes in place of measured scales.

    Parameters
    ----------
    compiled : Decomposition
    given : dict
        Options that assume convexity, or that send clients elsewhere; None where they are not
        given.

    Attributes
    ----------
    values : dict
        Variable id -> where the run starts.
    rule : AboveCurvature
        The default penalties.

    Raises
    ------
    OptionError
        If one of these options is given, naming it and a client that is not convex.
    """

    def __init__(self, compiled: Decomposition, given: Mapping[str, Any]) -> None:
        check_local(compiled, given)
        self._compiled = compiled
        self.values = {v.id: starting_value(v) for v in compiled.model.variables}
        self._points = split(compiled, self.values)
        self.rule = AboveCurvature(self._points)
        self._is_default = False

    def acceleration(self, given: Acceleration | None, is_default: bool) -> Acceleration | None:
        """The acceleration of the run: Anderson's, which assumes nothing of the clients, or none.

        Raises
        ------
        OptionError
            If another is given that assumes convexity.
        """
        self._is_default = is_default
        if is_default:
            return MIXING
        if given is None or isinstance(given, Anderson):
            return given
        return check_local(self._compiled, {"acceleration": given})

    @property
    def units(self) -> Units:
        """Residuals relative to 1 + |x| at the start, as a scale of its own is not known."""
        compiled, points = self._compiled, self._points
        start = np.concatenate([points[name] for name in compiled.layout])
        lengths = 1 + np.abs(compiled.sides(points)).max(axis=0)
        ones = np.ones(compiled.size)
        own = 1 + np.abs(start)
        return Units(lengths, ones, own, np.ones(start.size), ones, start)

    @property
    def test(self) -> EndTest:
        """The end: first-order conditions of the all-in-one problem at the agreed point."""
        return stationary_test(self._compiled)

    def rose(self, result: Result) -> bool:
        """Whether the default acceleration led from a feasible start to a higher point.

        Mixing past iterates solves for a fixed point, which a maximum is as well; the plain loop is
        repelled by it. The variables have their starting values then.
        """
        if not self._is_default or result.status is not Status.STATIONARY:
            return False
        problem = self._compiled.model.monolithic()
        before = conditions(problem, self.values)
        is_feasible = before.violation <= VIOLATION * before.scale
        after = self._compiled.sense * result.value
        if not is_feasible or after <= before.objective + VIOLATION * before.scale:
            return False
        for v in self._compiled.model.variables:
            v.save_value(self.values[v.id])
        return True

    def tell(self, result: Result) -> None:
        """Add to a result where it began, and what was found of the curvature."""
        result.began = self.values
        if result.status is Status.STATIONARY:
            result.detail = self.rule.said


CONVEX = "but this assumes convexity"
NOT_SENT = ("engine", "checkpoint")
"""Options for clients that are sent or written: derivatives of non-linear programs are neither."""


def check_local(compiled: Decomposition, given: Mapping[str, Any]) -> None:
    """Refuse options that assume convexity, or that need clients which can be sent elsewhere.

    Raises
    ------
    OptionError
        Naming the first option, and a client that is not convex.
    """
    for option, value in given.items():
        if value is not None:
            why = "and cannot be sent or written yet" if option in NOT_SENT else CONVEX
            refuse_nonconvex(compiled, f"{option}: given {value!r}", why)


def refuse_nonconvex(compiled: Decomposition, said: str, why: str = CONVEX) -> None:
    """Refuse a model with a client that is not convex, naming it."""
    for name, sub in compiled.items():
        if not sub.client.is_convex:
            raise OptionError(
                f"{said}: client {name!r} is declared with nonconvex=True, {why}; leave it out"
            )


def stationary_test(compiled: Decomposition) -> EndTest:
    """The end of a run: first-order conditions of the all-in-one problem at the agreed point."""
    problem = compiled.model.monolithic()

    def test(state: State, *, is_met: bool = True) -> EndProof:
        found = conditions(problem, Claim.of_state(compiled, state).values)
        said = (
            f"the first-order conditions of the whole problem do not hold: violation "
            f"{found.violation / found.scale:.1e} ({VIOLATION:.0e} is allowed), gradient of the "
            f"Lagrangian {found.residual / found.scale:.1e} ({STATIONARY:.0e} is allowed), "
            "relative to 1 + |F|"
        )
        near = found.residual <= 100 * STATIONARY * found.scale
        return EndProof(found.hold, False, near, False, found.residual, said, state.units)

    return test
