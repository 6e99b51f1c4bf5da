"""Calibration: the scales of a problem, found at a solution of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from dald_model.answer.agreeing import Agreeing
from dald_model.answer.regrets import FLOOR, costs, regretted, size_of
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
    wishes = {} if is_agreed else wished(subs, points, before)
    regrets = regretted(subs, points, wishes, before, is_agreed)
    paid = regrets.paid
    apart = None  # how far clients' wishes may be from one another
    if units is not None:
        apart = {n: units.point_lengths[compiled.columns[n]] / CAUTION for n in subs}
    moves = {
        # Who pays nothing has its wish, and another that is as good is no move
        name: felt(subs[name], points[name], move, regrets.noise)
        if regrets.own[name] > regrets.noise
        else 0.0 * move
        for name, move in moved(points, wishes, before).items()
    }
    agreed = not any(move.any() for move in moves.values())
    if agreed:
        share = LITTLE if regrets.missing else NOISE
        moves = _inwards(subs, points, before, apart, share)
    shares = {
        name: shrunk(subs, agreeing, points, regrets.here, name, move, 0.0 if agreed else paid)
        for name, move in moves.items()
    }
    found = farthest(agreeing, moves, shares)
    if not agreed:
        found = raised(subs, agreeing, points, regrets.here, found, paid)
    is_open = agreed and bool(regrets.missing or is_agreed)
    lengths = {name: np.abs(points[name]) for name in subs}
    if apart is not None:
        lengths = {n: _length(far, apart[n], is_open) for n, far in lengths.items()}
    spreads = _filled(subs, agreeing, points, lengths, found, NOISE * (paid + regrets.size))
    counted = subs if agreed else {name: subs[name] for name in regrets.missing}
    worth = sum(_changes(counted, points, spreads).values()) + (0.0 if agreed else paid)
    return Scales(max(worth, FLOOR * regrets.size) or 1.0, spreads)


def _inwards(
    subs: Mapping[Hashable, Subproblem],
    points: Points,
    before: Scales | None,
    apart: Points | None,
    share: float,
) -> dict[Hashable, np.ndarray]:
    """Moves to points inside of clients' constraints, longer than a share of how far is apart."""
    moves = moved(points, middles(subs, points, before), before)
    own = NOISE if before is None else 0.0
    for name, move in moves.items():
        least = own * np.abs(points[name])
        if apart is not None:  # what solvers leave between two zeros is no move
            least = np.fmax(least, share * apart[name])
        moves[name] = np.where(np.abs(move) > least, move, 0.0)
    return moves


def _length(far: np.ndarray, apart: np.ndarray, is_open: bool) -> np.ndarray:
    """How far entries are from zero, which may be far away for no reason.

    ``is_open`` says that nobody wishes for anything, and somebody may go on for ever: then near to
    zero is not how far anybody may go.
    """
    found = np.fmin(far, apart)
    return np.fmax(found, np.fmin(LITTLE * apart, found.max(initial=0.0))) if is_open else found


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
    size = size_of(costs({name: compiled[name] for name in points}, points))
    return found.worth <= FLOOR * size * (1 + FLOOR)


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
    sizes[~_is_something(subs, agreeing, found, sizes)] = 0.0
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


def _is_something(
    subs: Mapping[Hashable, Subproblem], agreeing: Agreeing, found: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Which classes' sizes are beyond what solvers leave of a zero, beside moves of a variable."""
    known = np.zeros(agreeing.many, dtype=bool)
    for name, place in agreeing.columns.items():
        classes, factors, at = agreeing.classes[place], agreeing.factors[place], 0
        for v in subs[name].variables:
            mine = slice(at, at + v.size)
            most = (found[classes[mine]] * factors[mine]).max(initial=0.0)
            known[classes[mine]] |= sizes[classes[mine]] * factors[mine] >= NOISE * most
            at += v.size
    return known


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
