"""Models written once: in the user's units to be solved, and in natural units for the truth.

``declare(units)`` makes variables by ``units.variable(name, shape)``, which gives the expression in
natural units, and returns :class:`Parts` over these expressions. The truth is the least value in
natural units by two solvers of cvxpy; the user's objective is s F + constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np

import dald_model as dm
from tests.answer.families.drawn import FLOOR, ULPS, Drawn, Truth, Values
from tests.answer.families.solvers import AGREE, DIGITS, is_unbounded, least, violation


@dataclass
class Units:
    """The user's variable is y = size (x + offset); the user's cost is objective * f + constant.

    Attributes
    ----------
    made : dict
        The user's variables by name.
    """

    size: float = 1.0
    offset: float = 0.0
    objective: float = 1.0
    constant: float = 0.0
    made: dict[str, cp.Variable] = field(default_factory=dict)

    def variable(self, name: str, *shape: int) -> cp.Expression:
        """A variable, in natural units."""
        self.made[name] = cp.Variable(shape, name=name)
        x = self.made[name]
        if self.size == 1 and not self.offset:
            return x
        return x / self.size - self.offset

    def shared(self, one: str, other: str) -> cp.Constraint:
        """The consensus equality of two of the user's variables."""
        return self.made[one] == self.made[other]

    def natural(self, name: str, value: Any) -> np.ndarray:
        """A value of the user's in natural units."""
        return np.asarray(value, dtype=float) / self.size - self.offset

    def user(self, name: str, value: np.ndarray) -> np.ndarray:
        """A value in natural units as the user has it."""
        return self.size * (value + self.offset)

    def unit(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The size of a natural unit of each entry."""
        return np.full(shape, self.size)

    @property
    def fresh(self) -> Units:
        """The same units, no variable made."""
        return replace(self, made={})


Rules = Sequence[Any]
"""Constraints; of an expression of unknown type a type checker takes them for a bool."""


@dataclass
class Parts:
    """The owners' costs and constraints, consensus equalities, and a coupling with its cost."""

    owners: Mapping[str, tuple[Any, Rules]]
    consensus: Rules = ()
    coupling: Rules = ()
    joint: cp.Expression | None = None

    @property
    def costs(self) -> list[cp.Expression]:
        """All that is added up."""
        found = [cp.Constant(0) + cost for cost, _ in self.owners.values()]
        return found if self.joint is None else [*found, self.joint]

    @property
    def rules(self) -> list[cp.Constraint]:
        """All constraints."""
        own = [rule for _, rules in self.owners.values() for rule in rules]
        return [*own, *self.consensus, *self.coupling]


def program(
    family: str,
    kind: str,
    seed: int,
    declare: Callable[[Units], Parts],
    solvers: Sequence[str],
    units: Units | None = None,
    published: float | None = None,
) -> Drawn | None:
    """The model and its truth; None where the solvers do not agree.

    With a ``published`` optimum one solver is enough, if it agrees to ``PRINTED``.
    """
    mine, plain = units or Units(), Units()
    parts = declare(plain)
    variables = plain.made
    needed = None if published is None else 1
    found = least(
        cp.sum(cp.hstack(parts.costs)), parts.rules, list(variables.values()), solvers, needed
    )
    if found is None:
        return None
    best = dict(zip(variables, found.values, strict=True))

    def at(values: Values) -> np.ndarray:
        for name, variable in variables.items():
            variable.save_value(np.asarray(values[name], dtype=float).reshape(variable.shape))
        return np.array([float(np.asarray(cost.value).reshape(-1)[0]) for cost in parts.costs])

    scale = _scale(parts, at(best), at({k: 0 * v for k, v in best.items()}))
    apart, optimum = found.apart, found.value
    if published is not None:
        apart, optimum = abs(found.value - published), min(found.value, published)
        if apart > PRINTED * abs(published):
            return None
    elif apart > max(AGREE * scale, DIGITS * float(np.abs(at(best)).max())):
        return None
    s, constant = mine.objective, mine.constant * len(parts.owners)

    def excess(values: Values) -> float:
        return s * float(sum(at({k: mine.natural(k, v) for k, v in values.items()})) - optimum)

    def broken(values: Values) -> float:
        at({k: mine.natural(k, v) for k, v in values.items()})
        return violation(parts.rules)

    point = {name: mine.user(name, value) for name, value in best.items()}
    grain = s * apart + abs(excess(point))
    grain += ULPS * (s * float(np.abs(at(best)).sum()) + abs(constant))
    truth = Truth(
        s * optimum + constant,
        s * scale,
        grain,
        excess,
        broken,
        {name: mine.unit(name, np.shape(v)) for name, v in best.items()},
        point,
        constant,
    )
    return Drawn(
        family,
        kind,
        seed,
        lambda: modelled(f"{family} {seed}", declare(here := mine.fresh), here),
        truth,
    )


PRINTED = 2e-6
"""Published optima have seven digits and more; solvers find PRIMALC1's to 6e-7."""


def _scale(parts: Parts, costs: np.ndarray, origin: np.ndarray) -> float:
    """max(S, FLOOR V); an owner of whom no minimum is found counts like an unbounded one."""
    worth = np.where(np.isfinite(origin), np.abs(costs - origin), np.abs(costs))
    paid = 0.0
    owners = [*parts.owners.values()]
    if parts.joint is not None:
        owners.append((parts.joint, parts.coupling))
    for (cost, rules), here, there in zip(owners, costs, worth, strict=True):
        expression = cp.Constant(0) + cost
        variables = list({v.id: v for r in [expression, *rules] for v in r.variables()}.values())
        if expression.is_constant() or not variables:
            continue
        alone = (
            None
            if is_unbounded(expression, rules)
            else least(expression, rules, variables, ("CLARABEL",))
        )
        paid += there if alone is None else max(0.0, here - alone.value)
    return max(paid, FLOOR * float(worth.sum()))


def modelled(name: str, parts: Parts, units: Units) -> dm.Model:
    """The model of parts that were declared in some units."""
    model = dm.Model(name)
    for owner, (cost, rules) in parts.owners.items():
        scaled = units.objective * (cp.Constant(0) + cost) if units.objective != 1 else cost
        model.client(owner, scaled + units.constant if units.constant else scaled, list(rules))
    if parts.consensus:
        model.consensus(*parts.consensus)
    if parts.joint is not None:
        model.couple(*parts.coupling, objective=units.objective * parts.joint)
    elif parts.coupling:
        model.couple(*parts.coupling)
    return model
