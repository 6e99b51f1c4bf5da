r"""Certificate of a result by client solves alone: a proven gap, without the all-in-one problem.

With the multipliers :math:`\mu` of a result every client's dual function

.. math:: d_i(\mu) = \min_{x_i \in X_i} f_i(x_i) \pm \mu^\top (G_i x_i + g_i)

bounds the optimum: :math:`F^* \ge \sum_i d_i(\mu)`, whatever :math:`\mu` is, and each minimum
is one client's own. Servers and couplings have :math:`d_i = -\infty` unless :math:`\mu` is right to
the last digit. So the minima are taken over boxes around the result, and the bound is one of the
optimum within these boxes. As the problem is convex, a point t boxes away is better than the
bound by no more than t times the gap.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import Equality, Inequality
from dald_model.answer.answer import Answer
from dald_model.answer.rescaling import cost_at, costs_at, minimise
from dald_model.answer.scales import measures, reach
from dald_model.compile.decomposition import Decomposition, Recovered
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.units import Units
from dald_model.declare.client import unique_variables
from dald_model.declare.wording import short
from dald_model.errors import ResultError
from dald_model.later import pd
from dald_model.solvers.exact.smooth_bound import least_within
from dald_model.text import Bare, Heading, Part, Printed
from dald_model.values import flat, holding

BOXES = 10.0
"""How many natural lengths of each variable a box reaches to either side."""


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Printed):
    """What is proven of a result, see :func:`certify`; ``print`` shows it.

    Attributes
    ----------
    bound : float
        No point in the boxes is better than this, in the user's sense.
    value : float
        The objective at the result's values.
    gap : float
        How much better a point could be, relative to the size of the value or, where that is
        larger, to what the clients bargain for.
    apart : float
        How far the value that the run reported is from ``value``, relative to the same.
    violation : float
        The largest violation of a constraint at the result's values, in units of what the
        constraint moves by over natural lengths.
    where : str
        The constraint of it.
    weakest : Hashable
        The client that most of the gap is from.
    tolerances : tuple of float
        What is allowed of gap and violation.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> found = common_number([0, 1, 2]).solve().certificate()
    >>> found.ok, round(found.bound, 4)
    (True, 2.0)
    """

    name: str
    bound: float
    value: float
    gap: float
    apart: float
    violation: float
    where: str
    weakest: Hashable
    tolerances: tuple[float, float]

    @property
    def ok(self) -> bool:
        """Whether gap, reported value and violation are within their tolerances."""
        gap, violation = self.tolerances
        return bool(max(self.gap, self.apart) <= gap and self.violation <= violation)

    def __bool__(self) -> bool:
        return self.ok

    def report(self, *, wide: bool) -> list[Part]:
        """The bound, the gap and the violation."""
        rows = {
            "value": f"{self.value:.8g}",
            "bound": f"{self.bound:.8g}, by client solves alone",
            "gap": f"{self.gap:.1e}, most of it at {self.weakest!r}",
            "reported": f"{self.apart:.1e} from the value",
            "violation": f"{self.violation:.1e}" + (f" of {self.where}" if self.where else ""),
            "within": f"{BOXES:g} natural lengths; t times as far, t times the gap",
        }
        said = "passed" if self.ok else "FAILED"
        return [
            Heading(f"Certificate of {self.name!r}: {said}"),
            Bare(pd.DataFrame(rows.items())),
        ]


def certify(
    result: Answer, *, tol_objective: float = 1e-4, tol_feasibility: float = 1e-4
) -> Certificate:
    """Bound the optimum by the result's multipliers, one small solve a client.

    Parameters
    ----------
    result : Result
    tol_objective, tol_feasibility : float
        What is allowed of the gap and of the violation.

    Returns
    -------
    Certificate
        The user's variables and dual values are left as they are.

    Raises
    ------
    ResultError
        If the result has no point, or is of a problem that clients left.
    """
    if not result.recovered.values or result.state is None:
        raise ResultError(
            f"certificate: the result is {result.status} and has no point, expected one to bound; "
            "solve again, or read result.detail"
        )
    if result.left or result.dropped:
        raise ResultError(
            "certificate: clients left or edges were dropped on the way, so the multipliers are of "
            "another problem than the model; expected a result of the whole; use result.verify()"
        )
    then = [(p, value) for p, value in result.given if not isinstance(p, cp.CallbackParam)]
    with holding(then):
        mu = np.concatenate([result.multipliers[edge.ends] for edge in result.compiled.edges])
        tolerances = tol_objective, tol_feasibility
        return certified(result.compiled, result.state.units, result.recovered, mu, tolerances)


def first_witness(
    result: Answer, tol_objective: float, tol_feasibility: float
) -> Certificate | None:
    """The certificate of a result that has one, beside an all-in-one solve."""
    if not result.recovered.values or result.state is None or result.left or result.dropped:
        return None
    if not result.status.has_answer:
        return None  # an iterate on the way, whose multipliers say little and take long
    return certify(result, tol_objective=tol_objective, tol_feasibility=tol_feasibility)


def certified(
    compiled: Decomposition,
    units: Units,
    recovered: Recovered,
    mu: np.ndarray,
    tolerances: tuple[float, float],
) -> Certificate:
    """What is proven of points and multipliers, with the present values of Parameters."""
    values = recovered.values
    lengths = {name: units.point_lengths[part] for name, part in compiled.columns.items()}
    points = compiled.gather(recovered)
    local = {k: v for name, sub in compiled.items() for k, v in sub.spread(points[name]).items()}
    costs = costs_at([sub.client.cost for sub in compiled.values()], local)
    lower, lost = 0.0, {}
    for (name, sub), cost in zip(compiled.items(), costs, strict=True):
        price, level = charged(sub, mu)
        least = least_near(sub, price, points[name], BOXES * lengths[name])
        lower += least + level
        lost[name] = cost + price @ points[name] - least
    problem = compiled.model.monolithic()
    here = cost_at(compiled.sense * problem.objective.expr, values)
    scale = max(abs(here), units.energy)
    worst, where = _violation(compiled, values, problem.constraints, lengths)
    return Certificate(
        compiled.model.name,
        compiled.sense * lower,
        compiled.sense * here,
        max(here - lower, 0.0) / scale,
        abs(sum(costs) - here) / scale,
        worst,
        where,
        max(lost, key=lost.__getitem__),
        tolerances,
    )


def charged(sub: Subproblem, mu: np.ndarray) -> tuple[np.ndarray, float]:
    """What the multipliers charge a client for each of its variables, and in any case."""
    matrix, offset = sub.sides
    signed = sub.signs * mu[sub.entries]
    return matrix.T @ signed, float(signed @ offset)


def least_near(sub: Subproblem, price: np.ndarray, point: np.ndarray, box: np.ndarray) -> float:
    """A lower bound of a client's Lagrangian in its box."""
    if sub.client.is_server:
        return float(price @ point - np.abs(price) @ box)
    if sub.form is not None:
        return least_within(sub.form, price, point, box)
    around = measures(sub, point, box)
    stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
    near = [
        cp.abs(v - around[v.id].centre) <= around[v.id].spread
        for v in sub.variables  # cvxpy alone knows this client, and its solver's value is taken
    ]
    found = minimise(sub.client.cost + price @ stacked, [*sub.client.constraints, *near], around)
    return found.value if found.is_optimal else -np.inf


def _violation(
    compiled: Decomposition,
    values: Mapping[int, np.ndarray],
    rules: Sequence[cp.Constraint],
    lengths: Mapping[Hashable, np.ndarray],
) -> tuple[float, str]:
    """The largest violation at these values, in units of reaches, and whose it is."""
    local = {k: x for name, sub in compiled.items() for k, x in sub.spread(lengths[name]).items()}
    around = {
        key: Measure(values[key], np.max([local[v.id] for v in homes.values()], axis=0))
        for key, homes in compiled.form.homes.items()
    }
    worst, where = 0.0, ""
    variables = unique_variables(rules)
    with holding([(v, values[v.id]) for v in variables]), np.errstate(all="ignore"):
        for rule in rules:
            gap = flat(rule.violation())
            parts = [rule.expr] if isinstance(rule, Inequality | Equality) else list(rule.args)
            scale = reach(parts, around)
            scale = scale if scale.size == gap.size else scale.max(initial=0.0)
            share = float(np.where(gap == 0, 0.0, gap / scale).max(initial=0.0))
            if not share <= worst:
                worst, where = share, short(rule, 40)
    return worst, where
