"""What clients alone would choose, and how far that moves the entries of a solution."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import Inequality
from dald_model.answer.agreeing import Agreeing
from dald_model.answer.rescaling import Solved, costs_of, minimise
from dald_model.answer.scales import Points, Scales, measures
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.endless import breaks_rules, goes_on
from dald_model.declare.client import unique_variables
from dald_model.values import entries, flat, holding

NOISE = 1e-7
"""Of the units a problem is solved in: what a solver does not resolve."""
ROUNDED = 1e-13
"""Of the size of an entry: two points nearer than that are the same for doubles."""
ASKED = 4
"""How many others are asked what they lose where one has its wish."""
SMALL = 1e-3
"""Beside the largest move of a client: moves that may be a solver's noise."""
TRIALS = 200
"""How many groups of entries of a client are tried at most."""
AWAY = 10.0
"""How many times the way to its middle leads out of what has one."""
LITTLE = 1e-2
"""Share of what all paid that a move has to cost somebody, and of its client's largest move: what
is less in both is no scale of its own."""


def wished(
    subs: Mapping[Hashable, Subproblem], points: Points, before: Scales | None
) -> dict[Hashable, np.ndarray]:
    """What each client alone would choose; who alone is unbounded is left out.

    So is who falls for ever: -log x has no least value, and a solver ends at 1e13.
    """
    asked = {
        name: sub
        for name, sub in subs.items()
        if sub.client.constraints or not sub.client.cost.is_affine()
    }
    together = _own(list(asked.values()), points, before)
    if together.is_optimal:
        own = dict.fromkeys(asked, together)
    else:
        alone = {name: _own([sub], points, before) for name, sub in asked.items()}
        own = {name: solved for name, solved in alone.items() if solved.is_optimal}
    found = {name: _point(asked[name], solved.values) for name, solved in own.items()}
    return {n: wish for n, wish in found.items() if not goes_on(asked[n], wish, points[n])}


def middles(
    subs: Mapping[Hashable, Subproblem], points: Points, before: Scales | None
) -> dict[Hashable, np.ndarray]:
    """A point inside of each client's constraints, of those that have any.

    An interior-point solver without an objective ends about in the middle, if there is one: who
    stands at the edge and may go ``AWAY`` times as far is in a half-space, and left out.
    """
    found = {}
    for name, sub in subs.items():
        if sub.client.constraints:
            units = {} if before is None else measures(sub, points[name], before.spreads[name])
            middle = minimise(cp.Constant(0.0), sub.client.constraints, units)
            if middle.is_optimal:
                stands = sub.spread(points[name]) | middle.values
                inside = _point(sub, stands) - points[name]
                share = _closest(sub, points[name], inside)
                far = points[name] + AWAY * inside
                if share < 1.0 or breaks_rules(sub, far, points[name]):
                    found[name] = points[name] + share * inside
    return found


def _closest(sub: Subproblem, point: np.ndarray, move: np.ndarray) -> float:
    """The share of a move that changes the slack of an inequality by as much as there is.

    A half-space has no middle, and where a solver ends in it is its own scale.
    """
    rules = [rule.expr for rule in sub.client.constraints if isinstance(rule, Inequality)]
    here, there = (
        np.concatenate([np.zeros(0), *(_values(rules, sub.spread(x)))])
        for x in (point, point + move)
    )
    slack, change = np.abs(here), np.abs(there - here)
    counts = np.isfinite(change) & (slack > NOISE * change) & (change > 0)
    return min(1.0, float((slack[counts] / change[counts]).min(initial=1.0)))


def _values(
    expressions: Sequence[cp.Expression], values: Mapping[int, np.ndarray]
) -> list[np.ndarray]:
    """The entries of expressions where variables have these values."""
    variables = unique_variables(expressions)
    with holding([(v, values[v.id]) for v in variables]), np.errstate(all="ignore"):
        return [entries(expression) for expression in expressions]


def _own(subs: Sequence[Subproblem], points: Points, before: Scales | None) -> Solved:
    """The own answers of clients; they share no variable, so one problem does for all of them."""
    if not subs:
        return Solved("optimal", 0.0, {}, {})
    units: dict[int, Measure] = {}
    if before is not None:
        for sub in subs:
            units |= measures(sub, points[sub.name], before.spreads[sub.name])
    cost: Any = sum([sub.client.cost for sub in subs])
    rules = [rule for sub in subs for rule in sub.client.constraints]
    return minimise(cost, rules, units, 1.0 if before is None else before.worth)


def _point(sub: Subproblem, values: Mapping[int, np.ndarray]) -> np.ndarray:
    return np.concatenate([flat(values[v.id]) for v in sub.variables])


def moved(points: Points, wishes: Points, before: Scales | None) -> dict[Hashable, np.ndarray]:
    """From the solution to each client's wish; zero where a solver cannot tell them apart."""
    found = {}
    for name, wish in wishes.items():
        move = wish - points[name]
        units = 0.0 if before is None else before.spreads[name]
        same = np.abs(move) <= np.maximum(ROUNDED * np.abs(points[name]), NOISE * units)
        found[name] = np.where(same, 0.0, move)
    return found


def felt(sub: Subproblem, point: np.ndarray, move: np.ndarray, noise: float) -> np.ndarray:
    """A move without the entries that change a client's cost by less than noise, either way.

    The whole is tried first, and left out or kept; then what is small beside the others is doubted:
    groups of it are tried together and halved where they are felt.
    """
    here = cost_of(sub, point)
    doubted = np.flatnonzero((move != 0) & (np.abs(move) <= SMALL * np.abs(move).max(initial=0.0)))
    whole = np.flatnonzero(move)
    kept, groups = move.copy(), [group for group in (doubted, whole) if group.size]
    for _ in range(TRIALS):
        if not groups:
            break
        group = groups.pop()
        step = np.zeros(move.size)
        step[group] = move[group]
        costs = [cost_of(sub, p) for p in (point + step, point - step)]
        changes = [abs(cost - here) for cost in costs if np.isfinite(cost - here)]
        if changes and max(changes) <= noise:
            kept[group] = 0.0
            if group is whole:
                break
        elif group is not whole and group.size > 1:
            groups += np.array_split(group, 2)
    return kept


def cost_of(sub: Subproblem, point: np.ndarray) -> float:
    """What a client pays at a point; NaN outside of its domain."""
    return float(costs_of([sub.client], sub.spread(point))[0])


def shrunk(
    subs: Mapping[Hashable, Subproblem],
    agreeing: Agreeing,
    points: Points,
    here: Mapping[Hashable, float],
    name: Hashable,
    move: np.ndarray,
    paid: float,
) -> float:
    """The share of a move that costs all, of whom some are asked, little more than they paid."""
    mine = agreeing.columns[name]
    common = np.zeros(agreeing.many)
    common[agreeing.classes[mine]] = move / agreeing.factors[mine]
    touched = [(subs[name], points[name], move, here[name])]
    for other, place in agreeing.columns.items():
        theirs = common[agreeing.classes[place]] * agreeing.factors[place]
        if other != name and np.any(theirs) and not subs[other].client.is_server:
            touched.append((subs[other], points[other], theirs, here[other]))
        if len(touched) > ASKED:
            break

    def rises(share: float) -> np.ndarray:
        return np.array(
            [cost_of(sub, point + share * moved) - cost for sub, point, moved, cost in touched]
        )

    # Who stands at the edge of a domain has no value however short the step. Whose wish is anywhere
    # may wish for what is so far away that a share of it leaves all domains.
    size, reach = np.abs(points[name]).max(), np.abs(move).max(initial=0.0)
    short = NOISE * min(1.0, size / reach) if size and reach else NOISE
    touched = [t for t, rise in zip(touched, rises(short), strict=True) if np.isfinite(rise)]
    share = 1.0
    # Twice, as with two alike clients the rise is what is paid to the digit. NaN is too far.
    while share > short and paid > 0 and not rises(share).sum() <= 2 * paid:
        share /= 2
    return share


def farthest(agreeing: Agreeing, moves: Points, shares: Mapping[Hashable, float]) -> np.ndarray:
    """The farthest move of each class.

    One is shrunk by the root of its share only as far as the lower median of them: at a kink others
    lose at once what they would lose far away, and the clients' spread is what it is.
    """
    found = np.zeros(agreeing.many)
    if not moves:
        return found
    place = np.concatenate([agreeing.classes[agreeing.columns[name]] for name in moves])
    whole = np.concatenate(
        [np.abs(move) / agreeing.factors[agreeing.columns[name]] for name, move in moves.items()]
    )
    share = np.concatenate([np.full(move.size, shares[name]) for name, move in moves.items()])
    wished = whole > 0
    place, whole, share = place[wished], whole[wished], share[wished]
    order = np.lexsort((whole, place))
    seen, first, count = np.unique(place[order], return_index=True, return_counts=True)
    median = np.zeros(agreeing.many)
    median[seen] = whole[order][first + (count - 1) // 2]
    least = np.minimum(np.sqrt(share) * whole, median[place])
    np.maximum.at(found, place, np.maximum(share * whole, least))
    return found


def raised(
    subs: Mapping[Hashable, Subproblem],
    agreeing: Agreeing,
    points: Points,
    here: Mapping[Hashable, float],
    found: np.ndarray,
    paid: float,
) -> np.ndarray:
    """The moves of classes, those that are small beside their clients' others made to be felt.

    At the edge of a domain, or where all but one are held by a bound, wishes may be so near that
    nobody pays ``LITTLE`` of the worth for them, and no solver tells them apart. Such a move is as
    long as costs that, up to where it is not small any more: an objective is convex, so it is no
    longer than that. Some of the clients are asked.
    """
    least, asked = LITTLE * paid, np.zeros(found.size, dtype=int)
    rises, most = np.zeros((2, found.size))
    for name, sub in subs.items():
        mine, factors = (
            agreeing.classes[agreeing.columns[name]],
            agreeing.factors[agreeing.columns[name]],
        )
        moves = found[mine] * factors
        few = LITTLE * moves.max(initial=0.0)
        doubted = np.flatnonzero((moves > 0) & (moves < few) & (asked[mine] < ASKED))
        for entry in doubted[:TRIALS] if not sub.client.is_server else ():
            step = np.zeros(moves.size)
            step[entry] = moves[entry]
            changes = [abs(cost_of(sub, points[name] + s * step) - here[name]) for s in (1, -1)]
            at = mine[entry]
            asked[at] += 1
            rises[at] = max([rises[at], *filter(np.isfinite, changes)])
            most[at] = max(most[at], few / factors[entry])
    is_cheap = (asked > 0) & (rises < least)
    longer = found[is_cheap] * least / np.maximum(rises[is_cheap], NOISE * least)
    found[is_cheap] = np.minimum(longer, most[is_cheap])
    return found
