"""The closed forms of many clients, computed together whatever the clients' shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.kinds.piecewise import ABSOLUTE
from dald_model.solvers.base import NOTHING
from dald_model.solvers.prox.closed_form_reader import Closed, VariableSet


class Elements(NamedTuple):
    """Absolute values of single variables and boxes; None where there are none of them.

    A number stands for all variables.
    """

    weight: np.ndarray | float | None
    centre: np.ndarray | float | None
    lower: np.ndarray | float | None
    upper: np.ndarray | float | None

    @classmethod
    def of(cls, closed: dict[int, Closed], starts: np.ndarray, total: int) -> Elements:
        """Of clients whose variables start at these columns."""
        found = []
        for name, nothing in (("weight", 0), ("centre", 0), ("lower", -np.inf), ("upper", np.inf)):
            values = np.full(total, float(nothing))
            for at, one in closed.items():
                values[starts[at] : starts[at] + one.weight.size] = getattr(one, name)
            is_level = bool((values == values[0]).all())
            level = None if values[0] == nothing else float(values[0])
            found.append(level if is_level else values)
        return cls(*found)

    def take(self, columns: np.ndarray | slice) -> Elements:
        """Of some variables."""
        return Elements(*(p[columns] if isinstance(p, np.ndarray) else p for p in self))

    def prox(self, points: np.ndarray, alpha: float) -> np.ndarray:
        """The soft threshold and then the box, which is exact for functions of one variable."""
        found = points
        if self.weight is not None:
            if self.centre is not None:
                found = found - self.centre
            found = ABSOLUTE.prox(found, alpha * self.weight, NOTHING)
            if self.centre is not None:
                found += self.centre
        if self.lower is not None or self.upper is not None:
            found = np.clip(found, self.lower, self.upper)
        return found.copy() if found is points else found


class Set(NamedTuple):
    """Sets of variables of one operator, (G, width) columns each, and which clients they are of."""

    prox: Callable[..., np.ndarray]
    columns: np.ndarray
    owners: np.ndarray
    arrays: tuple[np.ndarray, ...]

    def take(self, is_in: np.ndarray, shifts: np.ndarray) -> Set:
        """Those of some clients, whose variables start at ``shifts``."""
        kept = is_in[self.owners]
        owners = self.owners[kept]
        columns = self.columns[kept] + shifts[owners][:, None]
        return Set(self.prox, columns, owners, tuple(one[kept] for one in self.arrays))


def sets_of(closed: dict[int, Closed]) -> list[Set]:
    """The sets of some clients, those of one operator together."""
    together: dict[Any, list[tuple[int, VariableSet]]] = {}
    for at, one in closed.items():
        for part in one.sets:
            together.setdefault(part.key, []).append((at, part))
    found = []
    for members in together.values():
        owners = np.concatenate([np.full(len(part.columns), at) for at, part in members])
        columns = np.concatenate([part.columns for _, part in members])
        several = zip(*(part.arrays for _, part in members), strict=True)
        arrays = tuple(np.concatenate(alike) for alike in several)
        found.append(Set(members[0][1].prox, columns, owners, arrays))
    return found
