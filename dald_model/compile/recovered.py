"""What a decomposition's iterates mean in the user's terms, see :meth:`Decomposition.recover`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Recovered:
    """What the iterates mean in the user's terms; keys are ids of cvxpy objects.

    Attributes
    ----------
    values : dict
        Variable id -> value. A shared variable has the server's value, or the mean of its
        copies where there is no server.
    at_clients : dict
        Client -> {id of the user's variable: value at that client}.
    duals : dict
        Constraint id -> values of its cvxpy ``dual_variables``, for local and consensus
        constraints, with cvxpy's signs.
    local_duals : dict
        Client -> the same for each of its own constraints, in their order. A constraint that
        stands in several clients has a share in each, and the sum of them in ``duals``.
    """

    values: dict[int, np.ndarray]
    at_clients: dict[Hashable, dict[int, np.ndarray]] | Copies
    duals: dict[int, tuple[Any, ...]]
    local_duals: Mapping[Hashable, Any]


class Copies(Mapping[Hashable, dict[int, np.ndarray]]):
    """Client -> {id of the user's variable: value at that client}, made when asked for.

    Parameters
    ----------
    names : mapping
        By client, in order.
    points : dict
        Client -> vector of its local variables.
    spread : callable
        Of a client and its vector: the values by id of variable.
    """

    def __init__(
        self,
        names: Mapping[Hashable, Any],
        points: Mapping[Hashable, np.ndarray],
        spread: Callable[[Hashable, np.ndarray], dict[int, np.ndarray]],
    ) -> None:
        self._names, self.points, self._spread = names, points, spread
        self._made: dict[Hashable, dict[int, np.ndarray]] = {}

    def is_made(self, name: Hashable) -> bool:
        """Whether somebody asked for this client's, and may have written into them."""
        return name in self._made

    def __getitem__(self, name: Hashable) -> dict[int, np.ndarray]:
        if name not in self._made:
            self._made[name] = self._spread(name, self.points[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __or__(self, other: Mapping[Any, Any]) -> dict[Hashable, Any]:
        return {**self, **other}

    def __deepcopy__(self, memo: dict[int, Any]) -> Copies:
        found = Copies(self._names, deepcopy(self.points, memo), self._spread)
        found._made = deepcopy(self._made, memo)
        return found
