"""Iterate: the values of a round, as the functions of the option ``metrics`` see them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.compiler import Compiled
from dald_model.errors import ResultError
from dald_model.state import State


class Iterate:
    """The iterate of one round.

    ``iterate[w]`` is the value of a variable as in a :class:`Result`: of a shared variable the
    server's, or the mean over its copies. :meth:`copies` has those of all clients.

    Attributes
    ----------
    objective : float
        The sum of the clients' objectives at their own variables, in the user's sense.
    """

    def __init__(self, compiled: Compiled, state: State) -> None:
        self._compiled = compiled
        self._state = state
        self.objective = compiled.sense * float(state.objectives.sum())

    def copies(self, variable: cp.Variable) -> Mapping[Hashable, np.ndarray]:
        """Client -> its value of a variable, servers left out where there are other copies."""
        compiled = self._compiled
        homes = compiled.form.homes.get(variable.id)
        if homes is None:
            raise ResultError(
                f"metrics: {variable.name()!r} is no variable of {compiled.model.name!r}"
            )
        names = [name for name in homes if name not in compiled.servers] or list(homes)
        return {name: self._value(name, homes[name]) for name in names}

    def __getitem__(self, variable: cp.Variable) -> Any:
        copies, homes = self.copies(variable), self._compiled.form.homes[variable.id]
        agreed = [name for name in homes if name in self._compiled.servers]
        if agreed:
            return self._value(agreed[0], homes[agreed[0]])
        return np.mean(list(copies.values()), axis=0)

    def _value(self, name: Hashable, local: cp.Variable) -> np.ndarray:
        part = self._compiled.columns[name]
        return self._compiled[name].spread(self._state.points[part])[local.id]
