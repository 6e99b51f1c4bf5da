"""Clarabel's own objects for our cone programs: cones, settings, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from clarabel import DefaultSettings, DefaultSolver  # pyright: ignore[reportAttributeAccessIssue]

from dald_model.compile.form import ConeProgram
from dald_model.deadline import TimeUpError, is_limited, seconds_left
from dald_model.values import is_panic

STATUSES = {
    "Solved": "optimal",
    "AlmostSolved": "optimal",  # by the reduced tolerances, see `attempts`
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded",
}
"""Clarabel's statuses in cvxpy's words; any other is the solver's failure."""

FINEST = 1e-13
"""Below this relative gap Clarabel's steps are rounding errors."""


def attempts(tolerance: float) -> list[dict[str, Any]]:
    """Clarabel's settings for this accuracy of the points, to be tried in turn.

    Where the objective is flat, as an exponential cone is along its rays, the error of a point is
    the root of its gap; so the first attempt asks for the square. Second-order cones cannot always
    follow, their residuals grow again near the boundary: steps shorter than Clarabel's 0.99 of the
    way to it lose fewer digits. The next attempts ask for less; what an attempt may call almost
    solved is the gap of the next one. Then another path, and last Clarabel's defaults.

    Each attempt ends after Clarabel's own 200 iterations at the latest. Points better than some
    3e-8 are out of reach beside a quadratic as large as data make it, but for :mod:`.polish`.
    """
    fine, coarse = max(0.1 * tolerance**2, FINEST), 1e-2 * tolerance
    middle = float(np.sqrt(fine * coarse))
    steps = [(fine, middle, 0.9), (middle, coarse, 0.8), (coarse, tolerance, 0.7)]
    tried: list[dict[str, Any]] = [
        dict.fromkeys(("tol_gap_abs", "tol_gap_rel"), gap)
        | dict.fromkeys(("reduced_tol_gap_abs", "reduced_tol_gap_rel"), almost)
        | {"tol_feas": coarse, "reduced_tol_feas": tolerance, "max_step_fraction": fraction}
        for gap, almost, fraction in steps
    ]
    other = {"equilibrate_enable": False, "static_regularization_constant": 1e-10}
    return [*tried, tried[-1] | other, {}]


def settings(options: dict[str, Any]) -> Any:
    """Clarabel's settings object: defaults but for these, for data updated in place."""
    found = DefaultSettings()
    found.verbose = False
    found.max_threads = 1
    if is_limited():
        found.time_limit = max(seconds_left(), 0.0)
    # Both would forbid to update the data.
    found.presolve_enable = found.chordal_decomposition_enable = False
    for name, value in options.items():
        setattr(found, name, value)
    return found


def solved_once(cone: ConeProgram, **options: Any) -> Any:
    """What Clarabel finds for a cone program once, by its defaults but for these settings."""
    cones = [native_cone(kind, argument) for kind, argument in cone.cones]
    data = upper(cone.matrix), cone.linear, cone.rows, cone.rhs, cones
    return answered(lambda: DefaultSolver(*data, settings(options)), cone)


def upper(matrix: Any) -> sp.csc_array:
    """The upper triangle, which is the matrix itself where that is diagonal, as it often is."""
    columns = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    return matrix if (matrix.indices <= columns).all() else sp.csc_array(sp.triu(matrix))


def answered(prepared: Callable[[], Any], cone: ConeProgram) -> Any:
    """What Clarabel finds; a panic of its Rust, in its set-up too, is a failure as any other."""
    try:
        found = prepared().solve()
    except BaseException as error:
        if not is_panic(error):
            raise
        x, z = np.full(cone.linear.size, np.nan), np.full(cone.rhs.size, np.nan)
        return SimpleNamespace(status=f"panicked ({error})", x=x, z=z, s=z)
    if str(found.status) == "MaxTime":
        raise TimeUpError
    return found


def native_cone(kind: str, argument: Any) -> Any:
    """Clarabel's own object for a cone of :class:`dald_model.compile.form.ConeProgram`."""
    if kind == "GenPowerConeT":
        # Clarabel wants them to add up to 1 to the last digit; cvxpy's bound one entry
        exponents = np.array(argument) / np.sum(argument)
        exponents[exponents.argmax()] += 1 - np.cumsum(exponents)[-1]
        return getattr(clarabel, kind)(exponents.tolist(), 1)
    return getattr(clarabel, kind)(*(() if argument is None else (argument,)))
