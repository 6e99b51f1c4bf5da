"""Values of the clients' objectives at given points."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import numpy as np

from dald_model.compile.affine_maps import AffineMaps
from dald_model.compile.alike_lowered import AlikeLowered
from dald_model.compile.pieces import values
from dald_model.compile.stacked_forms import Batch
from dald_model.compile.stacked_maps import StackedMaps
from dald_model.compile.subproblem import Subproblem
from dald_model.values import undisturbed


def objectives(subs: Sequence[Subproblem], points: Sequence[np.ndarray]) -> np.ndarray:
    """The clients' objectives, as minimised, at some points each, (p, m): shape (clients, p).

    From the affine pieces of the user's expressions, for all alike clients at once, or by cvxpy.
    A server has 0. NaN outside of the domain, and for a client whose objective is at a site.
    """
    found = np.full((len(subs), len(points[0]) if subs else 1), np.nan)
    clients = [sub.client for sub in subs]
    found[[one.is_server for one in clients]] = 0.0
    here = [at for at, one in enumerate(clients) if not (one.is_server or one.is_remote)]
    with np.errstate(all="ignore"):
        found[here] = _by_pieces([subs[at] for at in here], [points[at] for at in here])
    is_known = np.isfinite(found)
    if is_known.all():
        return found
    left = sorted({*here} & {*np.flatnonzero(~is_known.all(axis=1)).tolist()})
    if left:
        with undisturbed([v for at in left for v in clients[at].given.variables]):
            for at in left:
                for nth in np.flatnonzero(~is_known[at]):
                    found[at, nth] = clients[at].cost_at(subs[at].spread(points[at][nth]))
    return found


def batch_objectives(
    compiled: Mapping[Hashable, Subproblem], batch: Batch, points: np.ndarray
) -> np.ndarray:
    """The same of clients that were lowered at once, at points of shape (k, p, m), (k, p)."""
    if not batch.forms.like.valued:
        return np.full(points.shape[:2], np.nan)
    lowered = compiled[batch.names[-1]].lowered  # the first may be what the others are like
    assert isinstance(lowered, AlikeLowered)
    leaves = [compiled[name].client.given.leaves for name in batch.names]
    constants = [one.constants for one in leaves if one is not None]
    each, like = [lowered.instantiator] * len(points), lowered.representative
    with np.errstate(all="ignore"):
        return values(each, lambda part: like.stacked(constants[part]), points)


def objective(sub: Subproblem, point: np.ndarray) -> float:
    """One client's objective, as minimised, at its point, by cvxpy."""
    with undisturbed(sub.client.given.variables):
        return sub.client.cost_at(sub.spread(point))


def _by_pieces(subs: Sequence[Subproblem], points: Sequence[np.ndarray]) -> np.ndarray:
    """K clients' objectives at p points of shape (p, m) each, (k, p).

    From the values of the expressions' affine pieces and so as accurate as these, of all clients
    that differ in numbers alone at once; NaN where not all of a client is known so.
    """
    found = np.full((len(subs), len(points[0]) if points else 1), math.nan)
    together: dict[Hashable, list[int]] = {}
    known: dict[int, Hashable] = {}  # as most have one instantiator
    order: dict[int, int] = {}  # of those that were lowered at once, by which their maps are known
    for at, sub in enumerate(subs):
        one = sub.lowered
        if one is not None and one.alike.valued:
            order[at] = at
            if one.together is not None:
                like: Hashable = id(one.together[0])
                order[at] = one.together[1]
            elif isinstance(one, AlikeLowered):
                like = id(one.representative)
            elif (like := known.get(id(one.instantiator))) is None:
                like = known[id(one.instantiator)] = one.instantiator.form_of_values
            together.setdefault((like, points[at].shape), []).append(at)
    for alike in together.values():
        alike.sort(key=order.__getitem__)
        some, given = [subs[at] for at in alike], np.array([points[at] for at in alike])
        pieces = [one.instantiator for sub in some if (one := sub.lowered) is not None]
        found[alike] = values(pieces, partial(_maps_of, some), given)
    return found


def _maps_of(subs: Sequence[Subproblem], part: slice) -> Sequence[AffineMaps] | StackedMaps:
    """The maps of some of these clients; of those that were lowered at once, at once again."""
    some = subs[part]
    like = next((one.lowered for one in some if isinstance(one.lowered, AlikeLowered)), None)
    if like is None:
        return [lowered.maps for one in some if (lowered := one.lowered) is not None]
    leaves = [one.client.given.leaves for one in some]
    return like.representative.stacked([one.constants for one in leaves if one is not None])
