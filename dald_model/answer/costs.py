"""Objectives of clients at given points, as accurately as the user's expressions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import numpy as np

from dald_model.answer.rescaling import undisturbed
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.lowered import values
from dald_model.compile.subproblem import Subproblem

Points = Mapping[Hashable, np.ndarray]
"""Client -> vector of its local variables."""


def client_costs(
    compiled: Decomposition, points: Points, names: Collection[Hashable] | None = None
) -> dict[Hashable, float]:
    """Each client's objective, as minimised, at its point.

    From the affine pieces of the user's expressions, for all alike clients at once, or by cvxpy.
    A server has 0. NaN outside of the domain, and for a client whose objective is at a site.
    """
    subs = [compiled[name] for name in (compiled if names is None else names)]
    found = {sub.name: 0.0 if sub.client.is_server else np.nan for sub in subs}
    here = [sub for sub in subs if not (sub.client.is_server or sub.client.is_remote)]
    with np.errstate(all="ignore"):
        known = values([sub.lowered for sub in here], [points[sub.name] for sub in here])
    found.update(zip((sub.name for sub in here), known.tolist(), strict=True))
    left = [sub for sub in here if not np.isfinite(found[sub.name])]
    with undisturbed([v for sub in left for v in sub.client.given.variables]):
        for sub in left:
            found[sub.name] = sub.client.cost_at(sub.spread(points[sub.name]))
    return found


def client_cost(sub: Subproblem, point: np.ndarray) -> float:
    """One client's objective, as minimised, at its point."""
    with undisturbed(sub.client.given.variables):
        return sub.client.cost_at(sub.spread(point))
