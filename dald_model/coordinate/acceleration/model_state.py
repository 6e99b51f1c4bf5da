"""Models of the clients at the end of a run, for a run that continues it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from dald_model.coordinate.acceleration.coordinates import Coordinates
from dald_model.coordinate.acceleration.local_models import LocalModels
from dald_model.coordinate.acceleration.master import Master


@dataclass(frozen=True, eq=False)
class ModelState:
    """The clients' models at the end of a run.

    A model says how a client responds whatever its neighbours, so it stays useful where the
    penalties, the values of Parameters or the graph change.

    Attributes
    ----------
    master : Master
        That of the run, with its coordinates.
    stiffness : sequence of ndarray
        Of each group of the coordinates.
    """

    master: Master
    stiffness: Sequence[np.ndarray]

    @property
    def coordinates(self) -> Coordinates:
        """Those of the run."""
        return self.master.coordinates

    def of(self) -> dict[int, np.ndarray]:
        """First coordinate of a client -> its matrix B, (r, r)."""
        return {
            int(columns[0]): matrix
            for group, one in zip(self.coordinates.groups, self.stiffness, strict=True)
            if not group.is_server
            for columns, matrix in zip(group.columns, one, strict=True)
        }


def recall(
    now: Coordinates, models: Sequence[LocalModels], learnt: ModelState | None
) -> tuple[Hashable, ...]:
    """Begin models with those of an earlier run, in the present coordinates.

    Gives the clients with such a model: none where edges see other directions now.
    """
    if learnt is None:
        return ()
    then = learnt.coordinates
    if then is now:
        for model, stiffness in zip(models, learnt.stiffness, strict=True):
            model.recall(slice(None), stiffness)  # of servers it is what it always is
        return tuple(now.clients)
    known, columns = learnt.of(), then.clients
    places = {
        int(group.columns[at, 0]): (model, at)
        for group, model in zip(now.groups, models, strict=True)
        for at in range(len(group.columns))
    }
    found = []
    for name, mine in now.clients.items():
        change = now.change(then, name)
        if change is not None:
            model, at = places[mine.start]
            matrix = change.T @ known[columns[name].start] @ change
            model.recall(slice(at, at + 1), matrix[None])
            found.append(name)
    return tuple(found)
