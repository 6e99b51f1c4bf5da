r"""Scales of a problem: what a difference of a variable, of a constraint and of F is held against.

They come from the problem and a solution :math:`x^*` of it, never from a run, and follow when the
objective is multiplied, a variable (or one entry of it) is measured in other units, or the origin
is moved. With :math:`x_i^{own}` what client i alone would choose, :math:`\arg\min_{X_i} f_i`:

* the worth, or variation of the objective, is what agreeing costs,
  :math:`V = \sum_i [f_i(x^*) - f_i(x_i^{own})]`, and of a client that alone is unbounded the
  change of :math:`f_i(x^* + \theta \circ X)` over some samples :math:`\theta \in [-1, 1]`;
* the spread :math:`X_e` of an entry is the farthest that a client's wish moves it,
  :math:`\max_i t_i |x_{i,e}^{own} - x_e^*|`, each shrunk by a :math:`t_i \le 1` until F rises by
  no more than 2 V on the way, but not to below the median wish: a client that hardly cares may
  wish for something far away, and that is no scale. Entries that consensus makes one have one
  spread;
* the reach of a constraint is the change of its value over the same samples.

Last resorts, each only where the one before says nothing: an entry that everybody wants where it
is has the spread :math:`|x_e^*|`, the largest spread in its variable, the largest of all, or one; a
problem in which agreeing costs nothing is worth what F changes by over the spreads.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from dald_model.answer.agreeing import Agreeing
from dald_model.answer.rescaling import Measure, Solved, cost_at, minimise
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.values import flat, preserved

NOISE = 1e-7
"""Of the units a problem is solved in: what a solver does not resolve."""
RAW = 1e-9
"""The same of an objective that was given to it as it stands, of its size."""
ROUNDED = 1e-13
"""Of the size of an entry: two points nearer than that are the same for doubles."""
FREE = 1e-8
"""Of what F changes by over the spreads: agreeing that costs less costs nothing."""
FLOOR = 1e-10
"""Of the sizes of the objectives: what they vary by at least, as doubles do not resolve less."""
ASKED = 4
"""How many others are asked what they lose where one has its wish."""
SMALL = 1e-3
"""Beside the largest move of a client: moves that may be a solver's noise."""
TRIALS = 200
"""How many groups of entries of a client are tried at most."""
SAMPLES = 8
"""How many random moves, and their opposites, a reach is found from."""

Points = Mapping[Hashable, np.ndarray]
"""Client -> vector of its local variables."""


class Scales(NamedTuple):
    """See the module.

    Attributes
    ----------
    worth : float
        Of the objective.
    spreads : dict
        Client -> the spreads of its local variables, a vector.
    """

    worth: float
    spreads: dict[Hashable, np.ndarray]

    def differ(self, other: Scales, factor: float) -> bool:
        """Whether the worth or a spread is larger or smaller by more than a factor."""
        ours, theirs = (np.concatenate([[s.worth], *s.spreads.values()]) for s in (self, other))
        return bool(np.abs(np.log(ours / theirs)).max() > np.log(factor))


def measures(sub: Subproblem, point: np.ndarray, spread: np.ndarray) -> dict[int, Measure]:
    """A client's point and spreads by variable."""
    centres, spreads = sub.spread(point), sub.spread(spread)
    return {key: Measure(centres[key], spreads[key]) for key in centres}


def scales(
    compiled: Decomposition, agreeing: Agreeing, points: Points, before: Scales | None
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
    """
    subs = {name: compiled[name] for name in agreeing.columns}
    here = {name: cost_at(sub.client.cost, sub.spread(points[name])) for name, sub in subs.items()}
    wishes = _wishes(subs, points, before)
    regrets = {
        name: abs(here[name] - cost_at(subs[name].client.cost, subs[name].spread(wish)))
        for name, wish in wishes.items()
    }
    missing = [name for name in subs if not np.isfinite(regrets.get(name, np.nan))]
    paid = sum(r for r in regrets.values() if np.isfinite(r))
    size = sum(abs(cost) for cost in here.values() if np.isfinite(cost))
    noise = NOISE * paid + (RAW * size if before is None else 0.0)
    moves = {
        name: felt(subs[name], points[name], move, noise)
        for name, move in _moves(points, wishes, before).items()
    }
    shares = {
        name: _shrunk(subs, agreeing, points, here, name, move, paid)
        for name, move in moves.items()
    }
    found = _farthest(agreeing, moves, shares)
    spreads = _filled(subs, agreeing, points, found, NOISE * (paid + size))
    changes = _changes(subs, points, spreads)
    worth = paid + sum(changes.get(name, 0.0) for name in missing)
    if worth <= FREE * sum(changes.values()):
        worth = sum(changes.values())
    return Scales(max(worth, FLOOR * size) or 1.0, spreads)


def reach(expressions: Sequence[cp.Expression], around: Mapping[int, Measure]) -> np.ndarray:
    """How far each entry of some expressions moves where variables move by their spreads, flat.

    Half the range of its values at the samples; zero where fewer than two could be computed.
    """
    variables = list({v.id: v for e in expressions for v in e.variables()}.values())
    found = np.full((1 + 2 * SAMPLES, sum(e.size for e in expressions)), np.nan)
    with preserved(variables), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for row, moves in zip(found, _samples(sum(v.size for v in variables)), strict=True):
            at = 0
            for v in variables:
                part = moves[at : at + v.size].reshape(v.shape, order="F")
                v.save_value(around[v.id].centre + part * around[v.id].spread)
                at += v.size
            values = [e.value for e in expressions]
            if all(value is not None for value in values):
                row[:] = np.concatenate([flat(value) for value in values])
    inside = np.isfinite(found)
    highest = np.where(inside, found, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(inside, found, np.inf).min(axis=0, initial=np.inf)
    return np.where(highest > lowest, (highest - lowest) / 2, 0.0)


def _samples(size: int) -> Iterator[np.ndarray]:
    """No move at all, then moves of every entry, each with its opposite; the same in every run."""
    generator = np.random.default_rng(0)
    yield np.zeros(size)
    for _ in range(SAMPLES):
        moves = generator.uniform(-1.0, 1.0, size)
        yield moves
        yield -moves


def _wishes(
    subs: Mapping[Hashable, Subproblem], points: Points, before: Scales | None
) -> dict[Hashable, np.ndarray]:
    """What each client alone would choose; who alone is unbounded is left out."""
    asked = {
        name: sub
        for name, sub in subs.items()
        if sub.client.constraints or not sub.client.cost.is_affine()
    }
    together = _own(list(asked.values()), points, before)
    if together.is_optimal:
        return {name: _point(sub, together.values) for name, sub in asked.items()}
    alone = {name: _own([sub], points, before) for name, sub in asked.items()}
    return {name: _point(asked[name], own.values) for name, own in alone.items() if own.is_optimal}


def _own(subs: Sequence[Subproblem], points: Points, before: Scales | None) -> Solved:
    """The own answers of clients; they share no variable, so one problem does for all of them."""
    if not subs:
        return Solved("optimal", 0.0, {}, {})
    units: dict[int, Measure] = {}
    if before is not None:
        for sub in subs:
            units |= measures(sub, points[sub.name], before.spreads[sub.name])
    cost = sum(sub.client.cost for sub in subs)
    rules = [rule for sub in subs for rule in sub.client.constraints]
    return minimise(cost, rules, units, 1.0 if before is None else before.worth)


def _point(sub: Subproblem, values: Mapping[int, np.ndarray]) -> np.ndarray:
    return np.concatenate([flat(values[v.id]) for v in sub.variables])


def _moves(points: Points, wishes: Points, before: Scales | None) -> dict[Hashable, np.ndarray]:
    """From the solution to each client's wish; zero where a solver cannot tell them apart."""
    found = {}
    for name, wish in wishes.items():
        move = wish - points[name]
        units = 0.0 if before is None else before.spreads[name]
        same = np.abs(move) <= np.maximum(ROUNDED * np.abs(points[name]), NOISE * units)
        found[name] = np.where(same, 0.0, move)
    return found


def _shrunk(
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
    common = np.zeros(agreeing.count)
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
            [
                cost_at(sub.client.cost, sub.spread(point + share * moved)) - cost
                for sub, point, moved, cost in touched
            ]
        )

    # Who stands at the edge of a domain has no value however short the step
    touched = [t for t, rise in zip(touched, rises(NOISE), strict=True) if np.isfinite(rise)]
    share = 1.0
    # Twice, as with two alike clients the rise is what is paid to the digit. NaN is too far.
    while share > NOISE and paid > 0 and not rises(share).sum() <= 2 * paid:
        share /= 2
    return share


def _farthest(agreeing: Agreeing, moves: Points, shares: Mapping[Hashable, float]) -> np.ndarray:
    """The farthest move of each class; one is not shrunk to below the lower median of them."""
    found = np.zeros(agreeing.count)
    if not moves:
        return found
    place = np.concatenate([agreeing.classes[agreeing.columns[name]] for name in moves])
    whole = np.concatenate(
        [np.abs(move) / agreeing.factors[agreeing.columns[name]] for name, move in moves.items()]
    )
    share = np.concatenate([np.full(move.size, shares[name]) for name, move in moves.items()])
    place, whole, share = (part[whole > 0] for part in (place, whole, share))
    order = np.lexsort((whole, place))
    seen, first, count = np.unique(place[order], return_index=True, return_counts=True)
    median = np.zeros(agreeing.count)
    median[seen] = whole[order][first + (count - 1) // 2]
    np.maximum.at(found, place, np.minimum(whole, np.maximum(share * whole, median[place])))
    return found


def _filled(
    subs: Mapping[Hashable, Subproblem],
    agreeing: Agreeing,
    points: Points,
    found: np.ndarray,
    noise: float,
) -> dict[Hashable, np.ndarray]:
    """The spreads of all entries, those that nobody moves by last resort."""
    sizes = np.zeros(agreeing.count)
    for name, place in agreeing.columns.items():
        if not subs[name].client.is_server and not found[agreeing.classes[place]].all():
            one = felt(subs[name], points[name], np.abs(points[name]), noise)
            np.maximum.at(sizes, agreeing.classes[place], one / agreeing.factors[place])
    found = np.where(found > 0, found, sizes)
    overall = found.max(initial=0.0) or 1.0
    spreads = _local(agreeing, found)
    for name, spread in spreads.items():
        at = 0
        for v in subs[name].variables:
            part = spread[at : at + v.size]  # a view
            part[part == 0] = part.max(initial=0.0) or overall
            at += v.size
    return spreads


def felt(sub: Subproblem, point: np.ndarray, move: np.ndarray, noise: float) -> np.ndarray:
    """A move without the entries that change a client's cost by less than noise, either way.

    Groups of entries are tried together and halved where they are felt; what is small beside the
    others alone is doubted.
    """
    here = cost_at(sub.client.cost, sub.spread(point))
    doubted = np.flatnonzero((move != 0) & (np.abs(move) <= SMALL * np.abs(move).max(initial=0.0)))
    if doubted.size == 0:
        doubted = np.flatnonzero(move)
    kept, groups = move.copy(), [doubted]
    for _ in range(TRIALS):
        if not groups:
            break
        group = groups.pop()
        step = np.zeros(move.size)
        step[group] = move[group]
        costs = [cost_at(sub.client.cost, sub.spread(p)) for p in (point + step, point - step)]
        changes = [abs(cost - here) for cost in costs if np.isfinite(cost - here)]
        if changes and max(changes) <= noise:
            kept[group] = 0.0
        elif group.size > 1:
            groups += np.array_split(group, 2)
    return kept


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
