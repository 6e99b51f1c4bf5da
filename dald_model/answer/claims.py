"""Whether clients that cvxpy alone can solve were minimised, as its solver claimed.

Such a client is solved in the user's units, whatever these are, and what its solver leaves cannot
be read off an answer. So at the end its Lagrangian is minimised once more, in natural units around
the answer (:mod:`dald_model.answer.rescaling`), where a solver's tolerances mean something.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from dald_model.answer.answer import Answer
from dald_model.answer.gap import BOXES, charged, least_near
from dald_model.answer.wishes import cost_of

CLAIMED = 1e-4
"""What a client's answer may be above the minimum, relative to the energy of the natural units."""


def overstated(result: Answer) -> tuple[Hashable, float] | None:
    """The client that is farthest above its minimum, and by how much relative to the energy.

    None where no client is by more than is allowed, or none is solved by cvxpy alone.
    """
    compiled, state = result.compiled, result.state
    if state is None or result.left or result.dropped or not result.recovered.values:
        return None
    alone = [
        name
        for name, sub in compiled.items()
        if sub.form is None and not (sub.client.is_server or sub.client.is_remote)
    ]
    if not alone:
        return None
    mu = np.concatenate([result.multipliers[edge.ends] for edge in compiled.edges])
    points, units = compiled.gather(result.recovered), state.units
    found: dict[Hashable, float] = {}
    for name in alone:
        sub, point = compiled[name], points[name]
        price, _ = charged(sub, mu)
        box = BOXES * units.point_lengths[compiled.columns[name]]
        least = least_near(sub, price, point, box)
        here = cost_of(sub, point) + float(price @ point)
        if np.isfinite(least) and np.isfinite(here):
            found[name] = (here - least) / units.energy
    worst = max(found, key=found.__getitem__, default=None)
    return None if worst is None or found[worst] <= CLAIMED else (worst, found[worst])
