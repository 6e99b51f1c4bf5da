"""Client over its own copies of the variables that it shares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import with_parts
from dald_model.declare.client import Client
from dald_model.declare.outline import Outlined

Goal = cp.Minimize | cp.Maximize
Rules = tuple[cp.Constraint, ...]


class LocalClient(Client):
    """A client whose expressions are over copies of some variables, and are made when asked for.

    Most never are: of clients with one outline the data are all that is asked for.

    Parameters
    ----------
    given : Client
        Over the user's variables.
    copies : dict
        Id of a variable -> what stands in its place.
    """

    _declared: Client

    def __init__(self, given: Client, copies: Mapping[int, cp.Variable]) -> None:
        variables = [copies.get(v.id, v) for v in given.variables]
        self.__dict__.update(name=given.name, _declared=given, variables=variables)
        self.__dict__["is_convex"] = given.is_convex

    @property
    def given(self) -> Client:
        """See :class:`Client`."""
        return self._declared

    @cached_property
    def _instead(self) -> dict[int, cp.Variable]:
        pairs = zip(self.given.variables, self.variables, strict=True)
        return {id(v): copy for v, copy in pairs}

    @cached_property
    def objective(self) -> Goal:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        """See :class:`Client`."""
        goal = self.given.objective
        return type(goal)(with_parts(goal.expr, self._instead))

    @cached_property
    def constraints(self) -> Rules:  # pyright: ignore[reportIncompatibleVariableOverride] - made when read
        """See :class:`Client`."""
        return tuple(with_parts(rule, self._instead) for rule in self.given.constraints)

    @property
    def outlined(self) -> Outlined | None:
        """See :class:`Client`."""
        known = self.given.outlined
        return known and known._replace(variables=self.variables)

    @property
    def maximises(self) -> bool:
        """See :class:`Client`."""
        return self.given.maximises

    @property
    def is_constrained(self) -> bool:
        """See :class:`Client`."""
        return self.given.is_constrained

    def cost_at(self, values: Mapping[int, np.ndarray]) -> float:
        """See :class:`Client`."""
        pairs = zip(self.given.variables, self.variables, strict=True)
        return self.given.cost_at({v.id: values[copy.id] for v, copy in pairs})
