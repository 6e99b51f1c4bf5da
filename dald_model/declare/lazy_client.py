"""Clients whose expressions are made when asked for: over other variables, or with other data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import with_parts
from dald_model.declare.client import Client, added
from dald_model.declare.structure_key import Leaves, StructureKey
from dald_model.values import REFUSALS, number

Goal = cp.Minimize | cp.Maximize
Rules = tuple[cp.Constraint, ...]


class LocalClient(Client):
    """A client whose expressions are over copies of some variables, and are made when asked for.

    Most never are: of clients with one structure the data are all that is asked for.

    Parameters
    ----------
    given : Client
        Over the user's variables.
    copies : dict
        Id of a variable -> what stands in its place.
    """

    _declared: Client

    def __init__(self, given: Client, copies: Mapping[int, cp.Variable]) -> None:
        put = object.__setattr__  # by which an object of many has no dict of its own
        put(self, "name", given.name)
        put(self, "_declared", given)
        put(self, "variables", [copies.get(v.id, v) for v in given.variables])
        put(self, "is_convex", given.is_convex)

    @property
    def given(self) -> Client:
        return self._declared

    @cached_property
    def _instead(self) -> dict[int, cp.Variable]:
        pairs = zip(self.given.variables, self.variables, strict=True)
        return {id(v): copy for v, copy in pairs}

    @cached_property
    def objective(self) -> Goal:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        goal = self.given.objective
        return type(goal)(with_parts(goal.expr, self._instead))

    @cached_property
    def constraints(self) -> Rules:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        return tuple(with_parts(rule, self._instead) for rule in self.given.constraints)

    @property
    def leaves(self) -> Leaves | None:
        known = self.given.leaves
        return known and known._replace(variables=self.variables)

    @cached_property
    def key(self) -> StructureKey | None:
        return self.given.key

    @property
    def alike(self) -> Hashable:  # pyright: ignore[reportIncompatibleVariableOverride] - of its structure
        return self.given.alike

    @property
    def parameters(self) -> list[cp.Parameter]:  # pyright: ignore[reportIncompatibleVariableOverride] - those of the given
        return self.given.parameters

    @property
    def maximises(self) -> bool:
        return self.given.maximises

    @property
    def is_constrained(self) -> bool:
        return self.given.is_constrained

    @property
    def constant(self) -> float:
        return self.given.constant

    def cost_at(self, values: Mapping[int, np.ndarray]) -> float:
        pairs = zip(self.given.variables, self.variables, strict=True)
        return self.given.cost_at({v.id: values[copy.id] for v, copy in pairs})


class Datum(NamedTuple):
    """The value of a constant of which no expression is kept."""

    value: Any


class AlikeClient(Client):
    """A client of which its data are kept, and no expressions.

    They take several times the memory of small data. They are made again when asked for, from
    another client of the same structure.

    Parameters
    ----------
    name : Hashable
    first : Client
        Another of its structure.
    variables : list of cp.Variable
        In the places of the other's.
    constants : list
        The same, of :class:`Datum` or ``cp.Constant``.
    """

    _first: Client

    def __init__(
        self,
        name: Hashable,
        first: Client,
        variables: list[cp.Variable],
        constants: list[Any],
    ) -> None:
        known = first.leaves
        assert known is not None
        key, _, _, promoted, signed = known
        put = object.__setattr__  # see above
        put(self, "name", name)
        put(self, "_first", first)
        put(self, "variables", variables)
        put(self, "_own_leaves", Leaves(key, variables, constants, promoted, signed))
        put(self, "key", key)

    @property
    def alike(self) -> Hashable:  # pyright: ignore[reportIncompatibleVariableOverride] - of its structure
        return self._first.alike

    @property
    def parameters(self) -> list[cp.Parameter]:  # pyright: ignore[reportIncompatibleVariableOverride] - of its structure
        return []

    @property
    def _called(self) -> str:
        return f"Client {self.name!r}"

    @property
    def _both(self) -> tuple[Leaves, Leaves]:
        """Variables and constants of the other's, and what stands in their places."""
        theirs, ours = self._first.leaves, self.leaves
        assert theirs is not None
        assert ours is not None
        return theirs, ours

    @cached_property
    def _instead(self) -> dict[int, Any]:
        """Id of a leaf of the other's -> what stands in its place."""
        theirs, ours = self._both
        constants = [
            cp.Constant(one.value) if isinstance(one, Datum) else one for one in ours.constants
        ]
        # What it is made of now are these
        self.__dict__["_own_leaves"] = ours._replace(constants=constants)
        pairs = zip(
            [*theirs.variables, *theirs.constants], [*ours.variables, *constants], strict=True
        )
        return {id(one): two for one, two in pairs}

    @cached_property
    def objective(self) -> Goal:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        goal = self._first.objective
        return type(goal)(with_parts(goal.expr, self._instead))

    @property
    def constraints(self) -> Rules:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        """See :class:`Client`; one without data or variables of its own is the other's."""
        return self._constraints if self._first.constraints else ()

    @cached_property
    def _constraints(self) -> Rules:
        differs = {id(one) for one, _ in self._of_rules}
        if not differs:
            return self._first.constraints
        rules = zip(self._first.constraints, self._first.leaves_of_rules, strict=True)
        return tuple(
            rule if differs.isdisjoint(leaves) else self._own(rule) for rule, leaves in rules
        )

    @property
    def _of_rules(self) -> list[tuple[Any, Any]]:
        """The leaves of the other's constraints that are others here, beside these."""
        (_, variables, constants, _, _), (_, mine, own, _, _) = self._both
        places = self._first.places_in_rules
        found = [(variables[at], mine[at]) for at in places[0] if variables[at] is not mine[at]]
        found += [(constants[at], own[at]) for at in places[1] if constants[at] is not own[at]]
        return found

    def _own(self, rule: cp.Constraint) -> cp.Constraint:
        """A constraint of the other's with this client's data."""
        own = with_parts(rule, self._instead)
        # A copy has the id by which cvxpy knows the dual values of the other's
        return type(own)(*own.args)

    @property
    def is_constrained(self) -> bool:
        return self._first.is_constrained

    @property
    def does_without(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - of its structure
        return self._first.does_without

    @property
    def perhaps_common(self) -> Sequence[cp.Constraint | None]:
        """See :class:`Client`: the other's constraints that are this client's, too."""
        if not self.is_constrained:
            return ()
        own = {id(one) for one, two in self._of_rules if not _is_same(one, two)}
        if not own:
            return self._first.constraints
        rules = zip(self._first.constraints, self._first.leaves_of_rules, strict=True)
        return [rule if own.isdisjoint(leaves) else None for rule, leaves in rules]

    @property
    def _goal(self) -> str:
        """See :class:`Client`; the other's where it reads the same: of data the shapes are told."""
        theirs, ours = self._both
        is_same = all(map(is_, theirs.variables, ours.variables))
        pairs = zip(theirs.constants, ours.constants, strict=True)
        is_same = is_same and all(one is two or np.size(two.value) > 1 for one, two in pairs)
        return self._first._goal if is_same else super()._goal

    def keeping(self, places: tuple[int, ...]) -> Client:
        first, variables, constants = self._first.kept(places)
        _, mine, own, _, _ = self._both[1]
        return AlikeClient(
            self.name, first, [mine[at] for at in variables], [own[at] for at in constants]
        )

    @property
    def maximises(self) -> bool:
        return self._first.maximises

    @property
    def constant(self) -> float:
        if self._first.adds_no_data:
            return self._first.constant
        found = added(self._first.objective.expr, self._value({}))
        return -found if self.maximises else found

    def cost_at(self, values: Mapping[int, np.ndarray]) -> float:
        """See :class:`Client`; no variable has another value meanwhile."""
        try:
            found = number(self._value(values)(self._first.objective.expr))
        except REFUSALS:
            return float("nan")
        return -found if self.maximises else found

    def _value(self, values: Mapping[int, np.ndarray]) -> Callable[[Any], Any]:
        """What the other's expressions are worth with this client's data."""
        theirs, ours = self._both
        given = [
            *(values.get(v.id) for v in ours.variables),
            *(one.value for one in ours.constants),
        ]
        leaves = [*theirs.variables, *theirs.constants]
        known = {id(leaf): value for leaf, value in zip(leaves, given, strict=True)}

        def value(node: Any) -> Any:
            if id(node) in known:
                return known[id(node)]
            return node.numeric(list(map(value, node.args)))

        return value


def _is_same(leaf: Any, other: Any) -> bool:
    """Whether a variable or constant is another, or a constant of the same value."""
    if leaf is other or isinstance(leaf, cp.Variable):
        return leaf is other
    one, two = leaf.value, other.value
    if sp.issparse(one) or sp.issparse(two):
        return one is two
    return np.array_equal(one, two)
