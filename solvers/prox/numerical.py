r"""Proximal operators that have no closed form: by a step method, a cone program, or cvxpy.

A step method is given :math:`H = I / \alpha`. All answer for some of the clients they were made of.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import cvxpy as cp
import numpy as np

from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Problem
from dald_model.solvers.base import FOUND, NOTHING, Encoding
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.cone_program import ball_rows, cone_program
from dald_model.solvers.exact.conic import ClarabelProgram
from dald_model.solvers.exact.dual_box import DualBoxQP
from dald_model.solvers.exact.epigraph import EpigraphQP
from dald_model.solvers.exact.one_by_one import Scaling
from dald_model.solvers.exact.quadratic_step import StepMethod
from dald_model.solvers.prox.nonsmooth import NonsmoothPart, kinks_of
from dald_model.values import flat, panics_as_errors

TOLERANCE, OF_CONES = 1e-10, 1e-7
"""Accuracy that iterative methods are asked for; asked for more, Clarabel ends with less."""

CHUNK = 64
"""Clients whose matrices are made together."""

METHODS: tuple[tuple[type[StepMethod], str], ...] = (
    (ActiveSet, "DAQP"),
    (DualBoxQP, "DAQP on the dual"),
    (EpigraphQP, "DAQP with auxiliary variables"),
)
"""Step methods for what has no closed form: the first that takes it."""


class ProxAnswer(NamedTuple):
    """What was found for one client."""

    point: np.ndarray
    status: str
    said: str
    encoding: Encoding
    multipliers: np.ndarray


class Solved(Protocol):
    """The operators of some clients, where they are solved."""

    def __call__(
        self, members: list[int], points: list[np.ndarray], alpha: float
    ) -> list[ProxAnswer]:
        """Those of the ``members``, of which there is one at least, at their points."""
        ...


def method_of(form: Form | None) -> tuple[type[StepMethod] | None, str]:
    """Which step method takes a form, and what is said of it."""
    if form is None:
        return None, "cvxpy"
    takers = (one for one in METHODS if form.complete and not one[0].refuses(form))
    return next(takers, (None, "cone program"))


def solved_by(method: type[StepMethod] | None, parts: list[NonsmoothPart]) -> Solved:
    """Who solves clients of one shape by a method, or a client for which there is none."""
    if method is not None:
        return _Stepped(method, parts)
    return _ByCone(parts[0]) if parts[0].form else _ByCvxpy(parts[0].sub)


class _Stepped:
    """Clients of one shape whose rows and terms a step method takes."""

    def __init__(self, method: type[StepMethod], parts: list[NonsmoothPart]) -> None:
        self._nonsmooth = parts
        self._method = method([one.known for one in parts])
        self._alpha = np.nan
        self._failed = np.zeros(len(parts), dtype=bool)
        self._cones: dict[int, _ByCone] = {}

    def __call__(
        self, members: list[int], points: list[np.ndarray], alpha: float
    ) -> list[ProxAnswer]:
        """See :class:`Solved`; a client on which the method fails goes to its cone program."""
        if alpha != self._alpha:
            self._factor(alpha)
        which = np.array(members)
        step = self._method.solve(which, -np.stack(points) / alpha, TOLERANCE)
        failed = step.failed | self._failed[which]
        found = []
        for i, at in enumerate(members):
            if failed[i]:
                if at not in self._cones:
                    self._cones[at] = _ByCone(self._nonsmooth[at])
                found += self._cones[at]([0], [points[i]], alpha)
                continue
            held = np.concatenate([step.equality[i], step.inequality[i]])
            found.append(ProxAnswer(step.points[i], "optimal", "", Encoding.ROWS, held))
        return found

    def _factor(self, alpha: float) -> None:
        everyone = np.arange(len(self._nonsmooth))
        size = self._nonsmooth[0].known.size
        for part in np.array_split(everyone, range(CHUNK, everyone.size, CHUNK)):
            # A copy, since the methods may write into it
            eyes = np.broadcast_to(np.eye(size) / alpha, (part.size, size, size)).copy()
            self._failed[part] = self._method.factor(part, eyes)
        self._alpha = alpha


class _ByCone:
    """One client by the cone program of its rows and terms."""

    def __init__(self, part: NonsmoothPart) -> None:
        form = self._form = part.known
        self._ways = part.ways
        self._program = ClarabelProgram(
            cone_program(form) if form.complete else form.cone,
            Scaling(*np.ones((2, form.size))),
        )
        self._alpha = np.nan

    def __call__(
        self, members: list[int], points: list[np.ndarray], alpha: float
    ) -> list[ProxAnswer]:
        """See :class:`Solved`."""
        if alpha != self._alpha:
            self._program.set(np.eye(self._form.size) / alpha)
            self._alpha = alpha
        one = self._program.minimise(-points[0] / alpha, OF_CONES)
        z = np.array(one.multipliers)
        encoding = Encoding.ROWS if self._form.complete else Encoding.VALUES
        held = NOTHING if one.status not in FOUND else self._held(z)
        return [ProxAnswer(one.point, one.status, one.said, encoding, held)]

    def _held(self, z: np.ndarray) -> np.ndarray:
        form = self._form
        if not form.complete:
            # The rows are those of the kinks and constraints alone, not of the client's own form
            values = [flat(value) for rule in self._ways.cone_duals(z) for value in rule]
            return np.concatenate([NOTHING, *values])
        equal, below = form.equalities.rhs.size, form.inequalities.rhs.size
        return np.concatenate([z[: equal + below], z[ball_rows(form)]])


class _ByCvxpy:
    """One client that could not be written as a cone program."""

    def __init__(self, sub: Subproblem) -> None:
        self._sub = sub
        x = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
        self._point, self._scale = cp.Parameter(sub.size), cp.Parameter(nonneg=True)
        cost = cp.sum_squares(x - self._point) / 2 + self._scale * kinks_of(sub)
        self._problem = Problem(cp.Minimize(cost), list(sub.client.constraints))

    def __call__(
        self, members: list[int], points: list[np.ndarray], alpha: float
    ) -> list[ProxAnswer]:
        """See :class:`Solved`."""
        self._point.value, self._scale.value = points[0], alpha
        try:
            with warnings.catch_warnings(), panics_as_errors():
                # An inaccurate answer is told once, in the status
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                self._problem.solve(solver="CLARABEL")
        except cp.SolverError as error:
            nowhere = np.full(self._sub.size, np.nan)
            return [ProxAnswer(nowhere, "solver_error", str(error), Encoding.VALUES, NOTHING)]
        status = self._problem.status
        is_found = status in FOUND
        point = self._sub.point() if is_found else np.full(self._sub.size, np.nan)
        rules = self._sub.client.constraints
        duals = [d for r in rules for d in r.dual_variables] if is_found else []
        held = np.concatenate([NOTHING, *(flat(d.value) / alpha for d in duals)])
        said = "" if is_found else f"cvxpy: {status}"
        return [ProxAnswer(point, status, said, Encoding.VALUES, held)]
