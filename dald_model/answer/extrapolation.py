r"""Extrapolated warm starts: the next answer of a path, from the last ones and their Parameters.

Answers of a convex problem are piecewise smooth in its Parameters; of a quadratic program they are
piecewise linear. So they are extrapolated, with weights w that combine the earlier values
:math:`\theta_i` of the Parameters to the present ones,

.. math::
    \sum_i w_i = 1, \quad \sum_i w_i \theta_i = \theta, \quad \min |w|^2.

Where all values lie on one line, the weights are those of the polynomial of degree d through the
last d + 1 answers. Both are tried in the values and, where they are of one sign, in their
logarithms; the one that would have predicted the last answer best is taken, or none if the answer
before would. The residuals that end a run are the same, wherever it begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from dald_model.coordinate.acceleration.local_models import ModelState
from dald_model.coordinate.state import State
from dald_model.values import flat

Way = tuple[str, int]
"""Coordinates and degree; degree 0 stands for values off a line."""

ANSWERS_KEPT = 32
"""Answers that are kept at most: as many Parameters can change at once as there are moves."""
MOST_NUMBERS = 2_000_000
"""Numbers that all kept answers may have together: 16 MB."""
DEGREES = range(1, 5)
"""Degrees of polynomials. With 1 and 2 alone paths take 1.15 times the rounds; with degree 5 and
fits by least squares to more answers, 1.00."""
AMPLIFIED = 100.0
"""Sum of the sizes of weights from which on errors of answers would be most of the result."""
EQUAL_RESIDUALS = 1e-8
"""Residuals of an answer in natural units below which models have nothing to add to it."""
SIGNS = np.array([[1.0], [-1.0]])
"""Signs of the ends of an edge."""
ROUNDED_MOVES = 1e-7
"""Share of the moves of Parameters below which a distance is none: Parameters are set by users, who
compute them."""


class Trail(NamedTuple):
    """The last answers of a path, of k different values of the Parameters.

    Attributes
    ----------
    values : ndarray, shape (k, p)
        Of all Parameters.
    answers : ndarray, shape (k, 3 Q + m)
        Multipliers and sides of the edges, and the clients' variables.
    """

    values: np.ndarray
    answers: np.ndarray

    @classmethod
    def after(
        cls,
        before: Trail | None,
        values: np.ndarray,
        state: State,
        learnt: ModelState | None = None,
    ) -> Self | None:
        """One that has a further answer; None where it has too many numbers.

        ``learnt`` are the models of the run that found it.
        """
        if not values.size:
            return None
        answer = np.concatenate([*_nearer(state, learnt), state.points])
        kept = min(ANSWERS_KEPT, MOST_NUMBERS // (answer.size + values.size))
        if kept < 2:
            return None
        if before is None:
            return cls(values[None], answer[None])
        is_other = np.flatnonzero((before.values != values).any(axis=1))[1 - kept :]
        then = before.values[is_other], before.answers[is_other]
        return cls(np.vstack([then[0], values]), np.vstack([then[1], answer]))

    def extrapolate(self, values: np.ndarray, state: State) -> bool:
        """Set multipliers, sides and points to those expected with these values; whether any are.

        The points are where solvers begin.
        """
        known, answers = self
        if len(known) < 3 or (values == known[-1]).all():
            return False
        units = state.units
        scale = np.concatenate([units.slopes, units.lengths, units.lengths, units.point_lengths])
        least = _square((answers[-2] - answers[-1]) / scale)
        chosen: Way | None = None
        for way, weights in _ways(known[:-1], known[-1]).items():
            square = _square((weights @ answers[:-1] - answers[-1]) / scale)
            if square < least:
                least, chosen = square, way
        if chosen is None:
            return False
        ways = _ways(known, values)
        # Values that are off the line now have the weights of degree 0 alone
        found = ways.get(chosen, ways.get((chosen[0], 0)))
        if found is None:
            return False
        expected, size = found @ answers, state.mu.size
        state.mu, state.points = expected[:size], expected[3 * size :]
        state.sides = expected[size : 3 * size].reshape(2, -1)
        return True


def _nearer(state: State, learnt: ModelState | None) -> tuple[np.ndarray, ...]:
    """Multipliers and sides of an answer: where the models of its run expect them to agree.

    What a run leaves within its tolerance is as nothing for the user, but weights of several
    answers amplify it to more than the error of a smooth path. A plain answer is rounded no more
    than numbers are where both ends are equal to ``EQUAL_RESIDUALS`` of their lengths.
    """
    mu, units = state.estimate, state.units
    weight, dual = 2 * state.rho**2, state.dual
    is_equal = (np.abs(state.primal) <= EQUAL_RESIDUALS * units.lengths).all()
    is_equal &= (np.abs(weight * dual) <= EQUAL_RESIDUALS * units.slopes).all()
    if learnt is None or is_equal:
        return mu, *state.sides
    there = learnt.coordinates
    # The price that each end balanced: what it was told of the other is not where that is now
    prices = mu + weight * dual * SIGNS
    points, slopes = there.points(state.sides), there.slopes(prices)
    found = learnt.master.solve(points, slopes, learnt.stiffness, mu)
    if found is None or not all(np.isfinite(one).all() for one in found):
        return mu, *state.sides
    return found[2], *there.sides(found[0])


def present(values: Iterable[Any]) -> np.ndarray:
    """The values of all Parameters as one vector."""
    return np.concatenate([*map(flat, values), np.zeros(0)])


def _ways(known: np.ndarray, values: np.ndarray) -> dict[Way, np.ndarray]:
    """Weights (k,) of the k known values for others, of each way that does not amplify errors."""
    is_moved = (known != values).any(axis=0)
    known, values = known[:, is_moved], values[is_moved]
    moves = {"values": known - values}
    if (known * values > 0).all():
        moves["logarithms"] = np.log(known / values)
    found: dict[Way, np.ndarray] = {}
    for name, move in moves.items():
        farthest = np.abs(move).max(axis=0)
        move = move / np.where(farthest > 0, farthest, 1.0)
        line = _on_line(move)
        if line is None:
            found[name, 0] = _least(move)
            continue
        for degree in DEGREES:
            if degree < len(line):
                weights = _through_points(line[-degree - 1 :])
                found[name, degree] = np.concatenate([np.zeros(len(line) - degree - 1), weights])
    return {way: one for way, one in found.items() if np.abs(one).sum() <= AMPLIFIED}


def _on_line(move: np.ndarray) -> np.ndarray | None:
    """Where moves (k, p) to the origin lie along one line through it; None where they do not."""
    way = move - move[-1]
    line = way[np.vecdot(way, way).argmax()]
    line = line / np.linalg.norm(line)
    along = move @ line
    across = np.abs(move - along[:, None] * line).max()
    return along if across <= ROUNDED_MOVES * np.abs(along).max() else None


def _through_points(at: np.ndarray) -> np.ndarray:
    r"""Weights of values at points in their polynomial at zero, after Lagrange.

    .. math:: w_i = \prod_{j \ne i} t_j / (t_j - t_i)
    """
    others = [np.delete(at, i) for i in range(at.size)]
    with np.errstate(divide="ignore", invalid="ignore"):  # equal points amplify without bound
        return np.array([np.prod(t / (t - one)) for one, t in zip(at, others, strict=True)])


def _least(move: np.ndarray) -> np.ndarray:
    """The least weights with the sum one that combine moves (k, p) to none; NaN if none do."""
    features = np.vstack([np.ones(len(move)), move.T])
    wanted = np.eye(len(features))[0]
    found = np.linalg.lstsq(features, wanted)[0]
    is_met = np.abs(features @ found - wanted).max() <= ROUNDED_MOVES
    return found if is_met else np.full(len(move), np.nan)


def _square(missed: np.ndarray) -> float:
    """The squared length; infinite where numbers are none."""
    found = float(missed.dot(missed))
    return math.inf if math.isnan(found) else found
