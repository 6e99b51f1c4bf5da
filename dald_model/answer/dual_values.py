r"""Dual values of constraints: whether they support the client's own point to first order.

With :math:`\lambda` the dual values of a client's constraints c and p its prices, near its point

.. math:: f(y) + p^\top y + \lambda^\top c(y) \ge f(x) + p^\top x - \epsilon S \frac{|y - x|}{L},
    \qquad |\lambda^\top c(x)| \le \epsilon S.

Dual values need not be unique, so this is asked only where they differ from the all-in-one solve's.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality, Inequality, is_affine_throughout, is_approximated
from dald_model.answer.answer import Answer
from dald_model.answer.bound import prices_of
from dald_model.answer.judge import SHORT, Judge
from dald_model.answer.rescaling import minimise
from dald_model.answer.verdict import Row
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.affine import affine_map
from dald_model.declare.wording import short
from dald_model.sizes import SAME
from dald_model.solvers.arrays.terms import Terms
from dald_model.values import flat, holding, number

PRICEABLE = (Inequality, Equality, cp.Zero, cp.NonNeg, cp.PSD, cp.SOC, cp.ExpCone, cp.PowCone3D)
"""Constraints whose dual value may enter a Lagrangian; any other stays a constraint."""
REACHES = (SHORT, 10 * SHORT)
"""Boxes in lengths, until a solver comes to an end: of a quadrature in the place of an entropy of
matrices Clarabel does in the second."""

Duals = Mapping[int, Any]
"""Constraint id -> dual value, as cvxpy has it."""


class DualValues:
    """The dual values of a result beside those of the all-in-one solve."""

    def __init__(self, judge: Judge, result: Answer, reference: Duals) -> None:
        self._judge, self._result, self._reference = judge, result, reference
        self._apart: dict[int, float | None] = {}

    @property
    def row(self) -> Row:
        """Whether they are right: asked of the clients whose dual values differ."""
        judge = self._judge
        scale, contradiction = judge.scale.cost, _contradiction(self._result)
        if contradiction:
            return Row("dual values", np.inf, scale, judge.priced, contradiction)
        worst = Row("dual values", 0.0, scale, judge.priced)
        for name in self._differing():
            amount, worth = self._unsupported(name), judge.worth_of(name)
            where = f"constraints of {name!r}"
            there = replace(worst, difference=amount, scale=worth, where=where)
            if not there.measured <= worst.measured:
                worst = there
        is_seen = bool(judge.scale.noise <= SHORT * judge.priced * worst.scale)
        is_seen = is_seen and not judge.excuses(worst)
        return replace(worst, slack=judge.scale.open, is_seen=is_seen)

    @property
    def distance(self) -> Row:
        """How far they are from the all-in-one solve's, which is informational."""
        worst, where = 0.0, ""
        for rule in self._judge.claim.rules:
            amount = self._difference(rule)
            if amount is not None and amount > worst:
                worst, where = amount, short(rule, 40)
        return Row("dual value distance", worst, self._judge.scale.worth, None, where)

    def _difference(self, rule: Any) -> float | None:
        """What a difference is worth over the lengths, in units of the objective."""
        if rule.id not in self._apart:
            ours, theirs = self._result.duals.by_id.get(rule.id), self._reference.get(rule.id)
            amount = None
            if ours is not None and theirs is not None:
                gap, reach = np.abs(_flat(ours) - _flat(theirs)), self._reach_of(rule)
                alike = gap.size == reach.size
                amount = float(gap @ reach if alike else gap.max() * reach.max(initial=0.0))
            self._apart[rule.id] = amount
        return self._apart[rule.id]

    def _reach_of(self, rule: Any) -> np.ndarray:
        return self._judge.feasibility.reach_of(rule)

    def _differing(self) -> list[Hashable]:
        """The clients with constraints whose dual values are not the all-in-one solve's."""
        judge, result = self._judge, self._result
        found: list[Hashable] = []
        for name, client in result.compiled.model.stated.items():
            if name not in result.compiled or name in result.left:
                continue
            allowed = judge.priced * judge.worth_of(name) + judge.scale.open
            amounts = map(self._difference, client.constraints)
            if any(amount is None or not amount <= allowed for amount in amounts):
                found.append(name)
        # Clients share what they state in common in any way: whether the sum supports the point is
        # asked where it is held
        holder = result.compiled.holder
        return found if holder is None else [*found, holder]

    def _unsupported(self, name: Hashable) -> float:
        """How far a client's Lagrangian is from being least at its own point, to first order."""
        judge, result = self._judge, self._result
        sub, point = result.compiled[name], judge.claim.own[name]
        part = result.compiled.columns[name]
        price = prices_of(result.compiled, judge.claim.multipliers)[part]
        lengths = judge.scale.lengths[part]
        stated = result.compiled.stated(name)
        shares = result.recovered.local_duals[name]
        rules = list(zip(sub.client.constraints, shares, strict=True))
        terms = [_term(rule, share) for rule, share in rules if _is_priced(rule)]
        kept = [rule for rule, _ in rules if not _is_priced(rule)]
        wrong_signs = self._of_wrong_sign(list(zip(stated, shares, strict=False)))
        priced = sum(terms, cp.Constant(0.0))
        slopes = None if kept else _slopes(sub, price, point, priced)
        if slopes is not None:
            left, slack = slopes
            lost = _lost(sub, left, point, SHORT * lengths) / SHORT
            return max(lost, slack, wrong_signs)
        stacked = cp.hstack([cp.vec(v, order="F") for v in sub.variables])
        cost = sub.client.cost + price @ (stacked - point) + priced
        centres = sub.spread(point)
        with holding([(v, centres[v.id]) for v in sub.variables]), np.errstate(all="ignore"):
            slack = abs(number(priced.value))
            here = number(cost.value)
        for reach in REACHES:  # a larger box holds the smaller one, so it can lose no less
            spreads = sub.spread(reach * lengths)
            around = {key: Measure(centres[key], spreads[key]) for key in centres}
            found = minimise(cost, kept, around, max(judge.scale.worth, 1e-300), box=1.0)
            if found.is_optimal:
                return max((here - found.value) / SHORT, slack, wrong_signs)
        return float("nan")

    def _of_wrong_sign(self, rules: list[tuple[Any, Any]]) -> float:
        """What negative dual values of inequalities are worth over the lengths."""
        found = 0.0
        for rule, share in rules:
            if isinstance(rule, Inequality | cp.NonNeg) and _is_priced(rule):
                negative = np.maximum(-flat(share[0]), 0.0)
                if negative.any():
                    found = max(found, float((negative * self._reach_of(rule)).max(initial=0.0)))
        return found


def _lost(sub: Subproblem, slopes: np.ndarray, point: np.ndarray, reach: np.ndarray) -> float:
    """How much a linear function falls at most within reach of a point, and of declared bounds."""
    low, high = (sub.spread(np.full(point.size, far)) for far in (-np.inf, np.inf))
    for v in sub.variables:
        bounds = v.attributes.get("bounds")
        if bounds is not None:
            low[v.id], high[v.id] = (np.broadcast_to(np.asarray(b, float), v.shape) for b in bounds)
        if v.is_nonneg():
            low[v.id] = np.maximum(low[v.id], 0.0)
        if v.is_nonpos():
            high[v.id] = np.minimum(high[v.id], 0.0)
    first, last = (np.concatenate([flat(one[v.id]) for v in sub.variables]) for one in (low, high))
    least = np.clip(first - point, -reach, 0.0)
    most = np.clip(last - point, 0.0, reach)
    return float(np.maximum(-slopes * least, -slopes * most).sum())


def _slopes(
    sub: Subproblem, price: np.ndarray, point: np.ndarray, priced: cp.Expression
) -> tuple[np.ndarray, float] | None:
    """The slopes of a smooth client's Lagrangian, and what its constraints are worth.

    Of constraints that are affine, and variables without declarations but bounds, which have no
    dual values; None of all others, of which cvxpy has to find the least value.
    """
    form = sub.form
    if any(_is_declared(v) for v in sub.variables):
        return None
    if form is None or form.extra or not (form.complete and form.valued):
        return None
    if not (all(term.is_smooth for term in form.terms) and is_affine_throughout(priced)):
        return None
    found = form.quadratic.times(point) + form.quadratic.linear + price
    if form.smooth:
        found = found + Terms.of([form.smooth], form.size).gradients(None, point[None])[0]
    matrix, level = affine_map(priced, list(sub.variables))
    row = np.asarray(sp.csr_array(matrix).todense()).ravel()
    return found + row, abs(float(row @ point + flat(level)[0]))


def _is_declared(variable: cp.Variable) -> bool:
    """Whether a variable is declared as anything but between bounds."""
    given = {k for k, one in variable.attributes.items() if one is not None and one is not False}
    return not given <= {"nonneg", "nonpos", "pos", "neg", "bounds"}


def _is_priced(rule: Any) -> bool:
    return isinstance(rule, PRICEABLE) and not is_approximated(rule) and bool(rule.size)


def _term(rule: Any, share: tuple[Any, ...]) -> Any:
    """A constraint's term of the Lagrangian, with cvxpy's sign conventions."""
    if isinstance(rule, Inequality):
        return cp.scalar_product(np.maximum(share[0], 0.0), rule.expr)
    if isinstance(rule, Equality | cp.Zero):
        return cp.scalar_product(share[0], rule.expr)
    return -cp.scalar_product(rule.args, list(share))


def _contradiction(result: Answer) -> str:
    """Where reported dual values are not the multipliers or the sums over clients that they are."""
    compiled = result.compiled
    for edge in compiled.edges:
        mu = np.asarray(result.multipliers[edge.ends], float)
        for part in edge.parts:
            rule = part.agreement.constraint
            if rule is not None:
                stated = part.sign * flat(result.duals[rule])
                if _apart(stated, mu[part.start : part.stop]):
                    return f"{short(rule, 40)} has another dual value than multiplier"
    totals: dict[int, np.ndarray] = {}
    found = compiled.stated_duals(result.recovered.local_duals, result.left)
    for name, client in compiled.model.stated.items():
        if name not in compiled or name in result.left:
            continue
        shares = found.get(name, ())
        if len(shares) < len(client.constraints):
            return f"constraints of {name!r} have no dual values"
        for rule, share in zip(client.constraints, shares, strict=False):
            one = np.concatenate([flat(part) for part in share])
            if _is_priced(rule) or np.isfinite(one).all():
                totals[rule.id] = totals.get(rule.id, 0.0) + one
    for key, total in totals.items():
        stated = result.duals.by_id.get(key)
        if stated is None or _apart(_flat(stated), total):
            return "a dual value is not the sum of those of its clients"
    return ""


def _apart(one: np.ndarray, two: np.ndarray) -> bool:
    return one.size != two.size or not np.allclose(
        one, two, rtol=SAME, atol=SAME * np.abs(two).max(initial=0.0)
    )


def _flat(value: Any) -> np.ndarray:
    parts = value if isinstance(value, list) else [value]
    return np.concatenate([flat(part) for part in parts])
