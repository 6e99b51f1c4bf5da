"""Clients that have no answer of their own, where others answer at a pole of their objective."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.alone import ROUGH
from dald_model.coordinate.distances import Surveyed
from dald_model.coordinate.sides import place, sides_of
from dald_model.coordinate.together import Alike
from dald_model.coordinate.told_answers import is_remote
from dald_model.solvers.base import FOUND
from dald_model.solvers.exact.conic import ClarabelProgram
from dald_model.solvers.exact.one_by_one import Scaling

POLE = 10.0
"""How many times the energy of all clients with an answer one without may have where it was put."""


def away_from_poles(
    known: Surveyed, lengths: Callable[[Alike], np.ndarray], bends: np.ndarray
) -> Surveyed | None:
    r"""What is known with such clients where others hold them; None where nobody is at a pole.

    Where the others are their objective may have no end: what it changes by there is paid by
    nobody. They are put at

    .. math:: \arg\min_{x \in X_i} f_i(x) + \tfrac12 \sum_k h_k (x_k - \bar x_k)^2

    with the stiffness :math:`h` of the others around where these are, :math:`\bar x`.

    Parameters
    ----------
    known : Surveyed
        Whose answers, ``own``, are changed in place.
    lengths : callable
        Over which clients that are alike bargain, (k, m).
    bends : ndarray
        How stiff all clients' variables are, one after the other.
    """
    if known.curvatures.keys() <= known.having:
        return None
    compiled, energies = known.compiled, dict[Hashable, float]()
    others = np.zeros(compiled.size)
    for alike in known.together:
        if alike.subs[0].name not in known.curvatures:
            continue  # a server
        mine = bends[alike.columns]
        found = (mine * lengths(alike) ** 2).max(axis=1)
        energies.update(zip((sub.name for sub in alike.subs), found.tolist(), strict=True))
        having = [i for i, sub in enumerate(alike.subs) if sub.name in known.having]
        np.maximum.at(others, alike.entries[having], alike.sight.curvatures(mine[having]))
    most = max((energies[name] for name in energies.keys() & known.having), default=0.0)
    poles = {
        name
        for name in energies.keys() - known.having
        if energies[name] > POLE * most > 0 and _has_end(compiled[name])
    }
    if not poles:
        return None
    for alike in known.together:
        for sub, over in zip(alike.subs, lengths(alike), strict=True):
            own = known.of(sub)
            if sub.name in poles and not np.isnan(own).any():
                hold = others[sub.entries] @ sub.sight.squares
                held = _answer_held(sub, own, np.where(hold > 0, hold, most / over**2))
                own[:] = np.where(np.isnan(held), own, held)
    for name in compiled.averages:
        known.own[compiled.columns[name]] = np.nan
    place(compiled, known.own)
    return known._replace(sides=sides_of(compiled, known.own))


def _answer_held(sub: Subproblem, point: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What a client answers that springs of this stiffness, (m,), hold at a point; NaN if unknown.

    Its numbers are taken around the point.
    """
    if sub.form is None:
        return np.full(sub.size, np.nan)
    lengths = 1 / np.sqrt(weights)
    near = sub.around(point)
    assert near.form is not None
    program = ClarabelProgram(near.form.cone, Scaling(lengths, 1 / lengths), polishes=False)
    program.set(np.diag(weights))
    answer = program.minimise(np.zeros(sub.size), ROUGH)
    return point + answer.point if answer.status in FOUND else np.full(sub.size, np.nan)


def _has_end(sub: Subproblem) -> bool:
    """Whether a client's objective is not defined everywhere, as far as is known here."""
    return not is_remote(sub) and bool(sub.client.domain)
