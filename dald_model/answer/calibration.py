"""Calibration: the scales of a problem, found at a solution of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from dald_model.answer.agreeing import Agreeing
from dald_model.answer.rescaling import costs_of
from dald_model.answer.scales import Points, Scales, measures, reach
from dald_model.answer.wishes import (
    LITTLE,
    NOISE,
    farthest,
    felt,
    middles,
    moved,
    raised,
    shrunk,
    wished,
)
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.measurement import CAUTION
from dald_model.coordinate.units import Units
from dald_model.values import flat

RAW = 1e-9
"""The same of an objective that was given to it as it stands, of its size."""
FLOOR = 1e-10
"""Of the sizes of the objectives: what they vary by at least, as doubles do not resolve less."""


def calibrated(
    compiled: Decomposition,
    agreeing: Agreeing,
    points: Points,
    before: Scales | None,
    units: Units | None = None,
    is_agreed: bool = False,
) -> Scales:
    """The scales at a solution.

    Parameters
    ----------
    compiled : Decomposition
    agreeing : Agreeing
        The clients that are there, and which of their entries are one.
    points : dict
        Client -> its part of the solution.
    before : Scales or None
        Units in which the clients' own problems are given to the solver.
    units : Units or None
        Of the run, whose lengths count for entries that everybody wants where they are, if they are
        less than these are from zero.
        Where clients would go on for ever, a hundredth of them is the least scale.
    is_agreed : bool
        Whether no client wishes for anything but the solution.
    """
    subs = {name: compiled[name] for name in agreeing.columns}
    here = _costs(subs, points)
    wishes = {} if is_agreed else wished(subs, points, before)
    alone = _costs({name: subs[name] for name in wishes}, wishes)
    regrets = {name: abs(here[name] - cost) for name, cost in alone.items()}
    missing = [n for n in subs if not (is_agreed or np.isfinite(regrets.get(n, np.nan)))]
    paid = sum(r for r in regrets.values() if np.isfinite(r))
    size = sum(abs(cost) for cost in here.values() if np.isfinite(cost))
    noise = NOISE * paid + (RAW if before is None else FLOOR) * size
    if missing:  # what those pay who would go on for ever is part of the regret
        noise += NOISE * size
    moves = {
        # Who pays nothing has its wish, and another that is as good is no move
        name: felt(subs[name], points[name], move, noise) if regrets[name] > noise else 0.0 * move
        for name, move in moved(points, wishes, before).items()
    }
    agreed = not any(move.any() for move in moves.values())
    apart = None if units is None else units.point_lengths / CAUTION
    if agreed:
        moves = moved(points, middles(subs, points, before), before)
        share = NOISE if before is None else 0.0
        for name, move in moves.items():
            least = share * np.abs(points[name])
            if apart is not None:  # what solvers leave between two zeros is no move
                least = np.fmax(
                    least, (LITTLE if missing else NOISE) * apart[compiled.columns[name]]
                )
            moves[name] = np.where(np.abs(move) > least, move, 0.0)
    shares = {
        name: shrunk(subs, agreeing, points, here, name, move, 0.0 if agreed else paid)
        for name, move in moves.items()
    }
    found = farthest(agreeing, moves, shares)
    if not agreed:
        found = raised(subs, agreeing, points, here, found, paid)
    lengths = {name: np.abs(points[name]) for name in subs}
    if apart is not None:  # zero may be far away for no reason
        lengths = {n: np.fmin(far, apart[compiled.columns[n]]) for n, far in lengths.items()}
        if agreed and (missing or is_agreed):  # nor is near to it how far anybody may go
            for name, far in lengths.items():
                least = LITTLE * apart[compiled.columns[name]]
                lengths[name] = np.fmax(far, np.fmin(least, far.max(initial=0.0)))
    spreads = _filled(subs, agreeing, points, lengths, found, NOISE * (paid + size))
    counted = subs if agreed else {name: subs[name] for name in missing}
    worth = sum(_changes(counted, points, spreads).values()) + (0.0 if agreed else paid)
    return Scales(max(worth, FLOOR * size) or 1.0, spreads)


def natural(compiled: Decomposition, agreeing: Agreeing, points: Points, units: Units) -> Scales:
    """The scales where solvers resolve none: the model's natural lengths, and F's changes there."""
    subs = {name: compiled[name] for name in agreeing.columns}
    found = np.zeros(agreeing.many)
    for name, place in agreeing.columns.items():
        one = units.point_lengths[compiled.columns[name]] / agreeing.factors[place]
        np.maximum.at(found, agreeing.classes[place], one)
    spreads = _local(agreeing, found)
    return Scales(sum(_changes(subs, points, spreads).values()) or 1.0, spreads)


def is_unresolved(compiled: Decomposition, points: Points, found: Scales) -> bool:
    """Whether the worth is the least that there is: what solvers leave where all agree."""
    here = _costs({name: compiled[name] for name in points}, points)
    size = sum(abs(cost) for cost in here.values() if np.isfinite(cost))
    return found.worth <= FLOOR * size * (1 + FLOOR)


def _costs(subs: Mapping[Hashable, Subproblem], points: Points) -> dict[Hashable, float]:
    """What each client pays at its point."""
    values = {key: x for n, sub in subs.items() for key, x in sub.spread(points[n]).items()}
    found = costs_of([sub.client for sub in subs.values()], values)
    return dict(zip(subs, found.tolist(), strict=True))


def _filled(
    subs: Mapping[Hashable, Subproblem],
    agreeing: Agreeing,
    points: Points,
    lengths: Points,
    found: np.ndarray,
    noise: float,
) -> dict[Hashable, np.ndarray]:
    """The spreads of all entries, those that nobody moves by last resort."""
    sizes = np.zeros(agreeing.many)
    for name, place in agreeing.columns.items():
        if not subs[name].client.is_server and not found[agreeing.classes[place]].all():
            one = felt(subs[name], points[name], lengths[name], noise)
            np.maximum.at(sizes, agreeing.classes[place], one / agreeing.factors[place])
    found = np.where(found > 0, found, sizes)
    for name, place in agreeing.columns.items():
        one = _across(subs[name], found[agreeing.classes[place]] * agreeing.factors[place])
        np.maximum.at(found, agreeing.classes[place], one / agreeing.factors[place])
    overall = found.max(initial=0.0) or 1.0
    spreads = _local(agreeing, found)
    for name, spread in spreads.items():
        at = 0
        for v in subs[name].variables:
            part = spread[at : at + v.size]  # a view
            part[part == 0] = part.max(initial=0.0) or overall
            at += v.size
    return spreads


def _across(sub: Subproblem, spread: np.ndarray) -> np.ndarray:
    r"""What entries of symmetric matrices have at least, a ``LITTLE`` of :math:`\sqrt{X_ii X_jj}`.

    Where everybody wants a diagonal matrix, what solvers leave beside it is no scale. Zero where
    they leave nothing.
    """
    found, at = np.zeros(spread.size), 0
    for v in sub.variables:
        if v.ndim == 2 and v.is_symmetric():
            root = np.sqrt(spread[at : at + v.size].reshape(v.shape).diagonal())
            found[at : at + v.size] = LITTLE * flat(np.outer(root, root))
        at += v.size
    return np.where(spread > 0, found, 0.0)


def _local(agreeing: Agreeing, found: np.ndarray) -> dict[Hashable, np.ndarray]:
    """What classes have, as vectors of the clients' variables."""
    return {
        name: found[agreeing.classes[place]] * agreeing.factors[place]
        for name, place in agreeing.columns.items()
    }


def _changes(
    subs: Mapping[Hashable, Subproblem], points: Points, spreads: Points
) -> dict[Hashable, float]:
    """The reach of each client's objective."""
    return {
        name: float(reach([sub.client.cost], measures(sub, points[name], spreads[name])).max())
        for name, sub in subs.items()
        if not sub.client.is_server
    }
