r"""Scales of a problem: what a difference of a variable, of a constraint and of F is held against.

They come from the problem and a solution :math:`x^*` of it, never from the iterates of a run
(:mod:`dald_model.answer.calibration`), and follow when the objective is multiplied, a variable (or
one entry of it) is measured in other units, or the origin is moved. With :math:`x_i^{own}` what
client i alone would choose, :math:`\arg\min_{X_i} f_i`:

* the worth, or variation of the objective, is what agreeing costs,
  :math:`V = \sum_i [f_i(x^*) - f_i(x_i^{own})]`, and of a client that alone is unbounded the
  change of :math:`f_i(x^* + \theta \circ X)` over some samples :math:`\theta \in [-1, 1]`;
* the spread :math:`X_e` of an entry is the farthest that a client's wish moves it,
  :math:`\max_i t_i |x_{i,e}^{own} - x_e^*|`, each shrunk by a :math:`t_i \le 1` until F rises by
  no more than 2 V on the way (to the median wish by the root of that): a client that hardly
  cares may wish for something far away, and that is no scale. Entries that consensus makes one
  have one spread, and an entry of a symmetric matrix has at least
  :math:`10^{-3} \sqrt{X_{ii} X_{jj}}`;
* the reach of a constraint is the change of its value over the same samples, and :math:`|A| X`
  where it is affine.

What a solver's digits do not resolve, because a point or F hardly changes, counts as no move; and
as such counts every move where scales do not stay when the problem is solved in their units, as
where all clients want zero.
Last resorts, each only where the one before says nothing: where everybody agrees on everything, a
point inside of a client's constraints takes the place of its wish; an entry that everybody wants
where it is has the spread :math:`|x_e^*|` or, if that is less, its natural length
(:mod:`dald_model.coordinate.units`), then the largest spread in its variable, the largest of all,
or one; a problem in which everybody agrees is worth what F changes by over the spreads. Where
solvers resolve none of these, as where all want zero, they are the natural lengths and what F
changes by over them.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import is_affine_throughout
from dald_model.compile.affine import affine_map
from dald_model.compile.measures import Measure
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.client import unique_variables
from dald_model.values import entries, flat, preserved

SAMPLES = 8
"""How many random moves, and their opposites, a reach is found from."""
NEARER = (1.0, 1e-1, 1e-2, 1e-3)
"""Shares of the spreads that these moves go, where farther ones leave the domain."""

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


def reach(expressions: Sequence[cp.Expression], around: Mapping[int, Measure]) -> np.ndarray:
    r"""How far each entry of some expressions moves where variables move by their spreads, flat.

    Of an affine one :math:`|A| X`. Of another half the range of its values at the samples; where
    fewer than two of them could be computed at nearer ones, times as much. Zero where nothing
    changes.
    """
    variables = unique_variables(expressions)
    if not variables:
        return np.zeros(sum(e.size for e in expressions))
    if all(is_affine_throughout(e) for e in expressions):
        spread = np.concatenate([flat(around[v.id].spread) for v in variables])
        maps = [affine_map(e, variables)[0] for e in expressions]
        return np.concatenate([abs(matrix) @ spread for matrix in maps])
    found = np.zeros(sum(e.size for e in expressions))
    missing = np.ones(found.size, dtype=bool)
    for share in NEARER:
        sampled = _sampled(expressions, variables, around, share)
        inside = np.isfinite(sampled)
        highest = np.where(inside, sampled, -np.inf).max(axis=0, initial=-np.inf)
        lowest = np.where(inside, sampled, np.inf).min(axis=0, initial=np.inf)
        half = np.where(highest > lowest, (highest - lowest) / 2, 0.0)
        found[missing] = half[missing] / share
        missing &= inside.sum(axis=0) < 2
        if not missing.any():
            break
    return found


def _sampled(
    expressions: Sequence[cp.Expression],
    variables: Sequence[cp.Variable],
    around: Mapping[int, Measure],
    share: float,
) -> np.ndarray:
    """The entries of expressions at the samples, a row each, so many spreads away."""
    found = np.full((1 + 2 * SAMPLES, sum(e.size for e in expressions)), np.nan)
    with preserved(variables), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for row, moves in zip(found, _samples(sum(v.size for v in variables)), strict=True):
            at = 0
            for v in variables:
                part = share * moves[at : at + v.size].reshape(v.shape, order="F")
                if v.is_symmetric():  # tr_inv is infinite at any other matrix
                    part = (part + part.T) / 2
                v.save_value(around[v.id].centre + part * around[v.id].spread)
                at += v.size
            row[:] = np.concatenate([entries(e) for e in expressions])
    return found


def _samples(size: int) -> Iterator[np.ndarray]:
    """No move at all, then moves of every entry, each with its opposite; the same in every run."""
    generator = np.random.default_rng(0)
    yield np.zeros(size)
    for _ in range(SAMPLES):
        moves = generator.uniform(-1.0, 1.0, size)
        yield moves
        yield -moves
