r"""Surrogate: clients minimise an upper bound that touches their objective where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import Client
from dald_model.declare.wording import short
from dald_model.errors import OptionError
from dald_model.solvers.base import FOUND, Answers, Session, Turn
from dald_model.solvers.exact.reference import Reference
from dald_model.values import evaluated

Refresh = Callable[[Mapping[cp.Variable, np.ndarray]], None]
"""Sets the user's own Parameters for the point {variable: value}."""

MakeSurrogate = Callable[[Client, Mapping[cp.Variable, cp.Parameter]], Any]
"""What a user writes: (client, {variable: Parameter with its last value}) -> cvxpy expression, or
a pair of that and a :data:`Refresh`."""

TOUCHING = 1e-6
"""How far a surrogate may be below the objective, or off where it is to touch it, relative to
max(1, its size)."""


class Surrogate:
    r"""Block successive upper-bound minimisation of one client (Razaviyayn, Hong and Luo 2013).

    .. math::
        x_i^{k+1} = \arg\min_{x_i} u_i(x_i; x_i^k) + \text{augmented terms}, \qquad
        u_i(x; y) \ge f_i(x), \quad u_i(y; y) = f_i(y)

    Both conditions are checked where they can be without another solve: that u touches f at
    :math:`x_i^k`, and that it is not below f at :math:`x_i^{k+1}`. How far :math:`x_i^{k+1}` is
    from minimising with f itself, condition (29), is :math:`\nabla f_i - \nabla u_i` there; where
    one of them has no gradient, :math:`2 \rho^2 (x_i^{k+1} - x_i^k)` stands for it, with the
    largest :math:`\rho` of the client.

    Parameters
    ----------
    make : callable
        (client, at) -> u as a cvxpy expression, see :class:`dald_model.BSUM`.
    solver : str
        The cvxpy solver of the subproblems.
    """

    name = "surrogate"
    batches = False
    is_exact = False

    def __init__(self, make: MakeSurrogate, solver: str = "CLARABEL") -> None:
        self.make = make
        self.reference = Reference(solver)

    def refuses(self, subproblem: Subproblem) -> str:
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`.

        Raises
        ------
        OptionError
            If the surrogate of a client is no convex DPP expression in its variables.
        """
        return _Session(self, subproblems)


class _Session:
    """One run: a cvxpy problem with the surrogate for each client."""

    def __init__(self, solver: Surrogate, subproblems: Sequence[Subproblem]) -> None:
        self._subproblems = subproblems
        self._points = [
            {v: cp.Parameter(v.shape, name=f"{v.name()} before") for v in sub.variables}
            for sub in subproblems
        ]
        pairs = zip(subproblems, self._points, strict=True)
        made = [_client(solver, sub, at) for sub, at in pairs]
        self._refresh = [refresh for _, refresh in made]
        self._bounded = [sub.instead(one) for sub, (one, _) in zip(subproblems, made, strict=True)]
        self._reference = solver.reference.open(self._bounded)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        own = [self._subproblems[at] for at in turn.which]
        stops = np.cumsum([sub.size for sub in own])[:-1]
        said: dict[int, str] = {}
        for i, point in enumerate(np.split(turn.points, stops)):
            at, sub = turn.which[i], own[i]
            values = dict(zip(sub.variables, sub.spread(point).values(), strict=True))
            for v, value in values.items():
                self._points[at][v].value = value
            self._refresh[at](values)
            gap = self._excess(at, point)
            if abs(gap) > TOUCHING:
                said[i] = f"the surrogate is {gap:.1e} off the objective where it is to touch it"
        found = self._reference.minimise(turn, tolerance)
        points = np.split(found.points, stops)
        objectives, statuses = found.objectives.copy(), list(found.statuses)
        slack, scaled = np.full((2, turn.which.size), np.nan)
        heights = np.cumsum([sub.entries.size for sub in own])[:-1]
        slopes = np.split(turn.slopes, stops)
        starts, rho = np.split(turn.points, stops), np.split(turn.rho, heights)
        for i, point in enumerate(points):
            if statuses[i] not in FOUND:
                continue
            gap = self._excess(turn.which[i], point)
            objectives[i] = evaluated(own[i].client.cost)
            left = self._left(turn.which[i])
            if left is None:
                left = 2 * rho[i].max() ** 2 * (point - starts[i])
            slack[i] = scaled[i] = np.abs(left).max()
            if turn.slopes.size:
                scaled[i] = np.max(np.abs(left) / slopes[i])
            if gap < -TOUCHING:
                said.setdefault(i, f"the surrogate is {-gap:.1e} below the objective")
            if i in said:
                statuses[i] = "solver_error"
        messages = {**found.messages, **{i: f"BSUM: {text}" for i, text in said.items()}}
        return found._replace(
            objectives=objectives,
            statuses=statuses,
            messages=messages,
            slack=slack,
            slack_scaled=scaled,
        )

    def _left(self, at: int) -> np.ndarray | None:
        """The gradient of the surrogate less the objective's where the variables stand.

        None where one of them has none.
        """
        sub, bound = self._subproblems[at], self._bounded[at].client.cost
        if not (sub.client.cost.is_smooth() and bound.is_smooth()):
            return None
        mine, its = (_slopes(cost, sub.variables) for cost in (sub.client.cost, bound))
        return None if mine is None or its is None else its - mine

    def _excess(self, at: int, point: np.ndarray) -> float:
        """The surrogate less the objective at a point, relative; sets the variables to it."""
        sub = self._subproblems[at]
        for v, value in zip(sub.variables, sub.spread(point).values(), strict=True):
            v.save_value(value)
        cost = evaluated(sub.client.cost)
        return (evaluated(self._bounded[at].client.cost) - cost) / max(1.0, abs(cost))


def _slopes(cost: cp.Expression, variables: Sequence[cp.Variable]) -> np.ndarray | None:
    """The gradient by cvxpy, flat; None outside of the domain."""
    found = {variable.id: slope for variable, slope in cost.grad.items()}
    parts = [found.get(v.id, np.zeros(v.size)) for v in variables]
    if any(part is None for part in parts):
        return None
    return np.concatenate([_flat(part) for part in parts])


def _flat(slope: Any) -> np.ndarray:
    return np.ravel(slope.toarray() if sp.issparse(slope) else slope)


def _client(
    solver: Surrogate, sub: Subproblem, at: dict[cp.Variable, cp.Parameter]
) -> tuple[Client, Refresh]:
    made: Any = solver.make(sub.client, at)
    bound, refresh = made if isinstance(made, tuple) else (made, lambda values: None)
    given = bound.expr if isinstance(bound, cp.Minimize) else bound
    known = {v.id for v in sub.variables}  # cvxpy makes a constraint of ==, so ids are compared
    stray = isinstance(given, cp.Expression) and any(v.id not in known for v in given.variables())
    if not isinstance(given, cp.Expression) or not given.is_scalar() or stray:
        raise OptionError(
            f"BSUM: the surrogate of client {sub.name!r} is {short(given)}, expected a scalar "
            f"cvxpy expression in its variables {', '.join(v.name() for v in sub.variables)}"
        )
    if not given.is_convex() or not cp.Minimize(given).is_dcp(dpp=True):
        raise OptionError(
            f"BSUM: the surrogate {short(given)} of client {sub.name!r} is not convex, or not DPP "
            "in its Parameters; expected a bound such as c + g @ x + L/2 * "
            "cp.sum_squares(x - y), where c, with -g @ y in it, and g are Parameters of your own "
            "that the function sets which you return beside it: (bound, refresh)"
        )
    rules, held = sub.client.constraints, tuple(sub.variables)
    return Client(sub.name, cp.Minimize(given), rules, held), refresh
