"""Values of a round for the functions of the options ``metrics`` and ``callback``."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.errors import ResultError


class Iterate:
    """Values of one round.

    ``iterate[w]`` is the value of a variable as in a :class:`Result`: of a shared variable the
    server's, or the mean over its copies. :meth:`copies` has those of all clients.

    Attributes
    ----------
    objective : float
        The sum of the clients' objectives at their own variables, in the user's sense, of those
        who are there.
    round : int
        From 1.
    row : Mapping
        The row of the history: ``primal_scaled``, ``dual_scaled``, ``rho``, ``seconds``, ...

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> model = common_number([0, 1, 2])
    >>> w = model.variables[0]
    >>> apart = lambda at: max(at.copies(w).values()) - min(at.copies(w).values())
    >>> history = model.solve(metrics={"apart": apart}).history
    >>> bool(history.apart.iloc[-1] < 1e-6)
    True
    """

    def __init__(
        self,
        compiled: Decomposition,
        state: State,
        row: Mapping[str, Any],
        at: int,
        left: Collection[Hashable] = (),
    ) -> None:
        self._compiled, self._state, self._left = compiled, state, left
        self.round, self.row = at, MappingProxyType(row)
        self.objective: float = row["objective"]

    def copies(self, variable: cp.Variable) -> Mapping[Hashable, np.ndarray]:
        """Client -> its value of a variable, servers left out where there are other copies."""
        pieces = self._pieces(variable)
        if pieces:
            found: dict[Hashable, dict[int, np.ndarray]] = {}
            for piece in pieces:
                for name, value in self.copies(piece).items():
                    found.setdefault(name, {})[piece.id] = value
            arrays = self._compiled.arrays
            return {n: arrays.with_arrays(x, np.nan)[variable.id] for n, x in found.items()}
        homes = self._homes(variable)
        names = [name for name in homes if name not in self._compiled.servers] or list(homes)
        return {name: self._value(name, homes[name]) for name in names}

    def __getitem__(self, variable: cp.Variable) -> Any:
        pieces = self._pieces(variable)
        if pieces:
            found = {piece.id: self[piece] for piece in pieces}
            return self._compiled.arrays.with_arrays(found)[variable.id]
        homes = self._homes(variable)
        copies = {name: self._value(name, local) for name, local in homes.items()}
        return self._compiled.agreed(copies, self._left)

    def _pieces(self, variable: cp.Variable) -> list[cp.Variable]:
        """Those of an array of which clients use different entries; of others none."""
        if not isinstance(variable, cp.Variable):
            raise ResultError(
                f"metrics: given {variable!r}, expected a cvxpy Variable of "
                f"{self._compiled.model.name!r}, as in lambda at: at[w]"
            )
        return [piece.variable for piece in self._compiled.arrays.pieces.get(variable.id, ())]

    def _homes(self, variable: cp.Variable) -> Mapping[Hashable, cp.Variable]:
        compiled = self._compiled
        if variable.id not in compiled.form.homes:
            raise ResultError(
                f"metrics: {variable.name()!r} is no variable of {compiled.model.name!r}"
            )
        return compiled.form.homes[variable.id]

    def _value(self, name: Hashable, local: cp.Variable) -> np.ndarray:
        part = self._compiled.columns[name]
        return self._compiled[name].spread(self._state.points[part])[local.id]
