r"""Where the next answer of a path is expected, from the last ones and their Parameters.

Answers of a convex problem are piecewise smooth in its Parameters; of a quadratic program they are
piecewise linear. So they are extrapolated, with weights w that combine the earlier values
:math:`\theta_i` of the Parameters to the present ones,

.. math::
    \sum_i w_i = 1, \quad \sum_i w_i \theta_i = \theta, \quad \min |w|^2,

and, where all values lie on one line, their powers up to some degree as well; along logarithms,
too, where they are of one sign. Which way is gone is chosen by hindsight: the one that would have
told the last answer best, or none if staying there would. It is only where a run begins: whatever
is foretold, the same residuals decide when it ends.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from dald_model.coordinate.acceleration.learnt import Learnt
from dald_model.coordinate.state import State
from dald_model.values import flat

Way = tuple[str, int, int]
"""Coordinates, degree, and how many answers."""

Windows = tuple[list[tuple[int, int]], np.ndarray]
"""Degree and how many answers of each window, and its weight of each answer, (windows, k)."""

KEPT = 32
"""Answers that are known at most."""
LARGEST = 2_000_000
"""And how many numbers they may be all together."""
WINDOWS = ((1, 2), (2, 3), (3, 4), (3, 7), (4, 5), (5, 10), (6, 14))
"""Degrees of polynomials, and how many of the last answers each is laid through: of higher ones the
errors of answers are amplified more than what is left of a smooth path."""
LONGEST = max(count for _, count in WINDOWS)
DIGITS = 13
"""To which values of Parameters are known, relative to the farthest."""
AMPLIFIED = 100.0
"""Sum of the sizes of weights from which on errors of answers would be most of what they give."""
EQUAL = 1e-8
"""Residuals of an answer in natural units below which models have nothing to add to it."""
SIGNS = np.array([[1.0], [-1.0]])
"""Of the ends of an edge."""
SMALL = 4096
"""Values of Parameters up to which weights are remembered by them."""
REACHED = 1e-7
"""Values of Parameters are combined up to this share of how far they moved."""


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
        learnt: Learnt | None = None,
    ) -> Self | None:
        """One that has a further answer; None where it has too many numbers.

        ``learnt`` are the models of the run that found it.
        """
        answer = np.concatenate([*_nearer(state, learnt), state.points])
        kept = min(KEPT, LARGEST // (answer.size + values.size))
        if kept < 2 or not values.size:
            return None
        if before is None:
            return cls(values[None], answer[None])
        is_other = np.flatnonzero((before.values != values).any(axis=1))[1 - kept :]
        then = before.values[is_other], before.answers[is_other]
        return cls(np.vstack([then[0], values]), np.vstack([then[1], answer]))

    def foretell(self, values: np.ndarray, state: State) -> bool:
        """Set multipliers, sides and points to those expected with these values; whether any are.

        The points are where solvers begin.
        """
        known, answers = self
        if len(known) < 3 or (values == known[-1]).all():
            return False
        units = state.units
        scale = np.concatenate([units.slopes, units.lengths, units.lengths, units.point_lengths])
        ways, weights = _ways(known[:-1], known[-1])
        there = weights @ answers[:-1]
        missed = (np.vstack([answers[-2], there]) - answers[-1]) / scale
        squares = np.vecdot(missed, missed)
        squares[np.isnan(squares)] = math.inf
        chosen = int(squares.argmin())  # the first is to stay
        found = _weights(ways[chosen - 1], known, values) if chosen else None
        if found is None:
            return False
        told, size = found @ answers, state.mu.size
        state.mu, state.points = told[:size], told[3 * size :]
        state.sides = told[size : 3 * size].reshape(2, -1)
        return True


def _nearer(state: State, learnt: Learnt | None) -> tuple[np.ndarray, ...]:
    """Multipliers and sides of an answer: where the models of its run expect them to agree.

    What a run leaves within its tolerance is as nothing for the user, but weights of several
    answers amplify it to more than the error of a smooth path. A plain answer is rounded no more
    than numbers are where both ends are equal to ``EQUAL`` of their lengths.
    """
    mu, units = state.estimate, state.units
    weight, dual = 2 * state.rho**2, state.dual
    is_equal = (np.abs(state.primal) <= EQUAL * units.lengths).all()
    is_equal &= (np.abs(weight * dual) <= EQUAL * units.slopes).all()
    if learnt is None or is_equal:
        return mu, *state.sides
    there = learnt.coordinates
    # The price that each end balanced: what it was told of the other is not where that is now
    prices = mu + weight * dual * SIGNS
    points, slopes = there.points(state.sides), there.slopes(prices)
    found = learnt.joint.solve(points, slopes, learnt.stiffness, mu)
    if found is None or not all(np.isfinite(one).all() for one in found):
        return mu, *state.sides
    return found[2], *there.sides(found[0])


def present(values: Iterable[Any]) -> np.ndarray:
    """The values of all Parameters as one vector."""
    return np.concatenate([*map(flat, values), np.zeros(0)])


def _ways(known: np.ndarray, values: np.ndarray) -> tuple[list[Way], np.ndarray]:
    """All ways from k known values to others, and the weights of each, (ways, k)."""
    ways, weights = [], []
    for name, *points in _coordinates(known, values):
        windows, found = _along(*points)
        ways += [(name, *window) for window in windows]
        weights.append(found)
    return ways, np.concatenate(weights)


def _weights(way: Way, known: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """The weights of one of them."""
    name, degree, count = way
    for called, *points in _coordinates(known, values):
        if called == name:
            windows, found = _along(*points)
            # Of values that do not lie on one line any more there is one window, of them all
            for window in ((degree, count), (1, len(known))):
                if window in windows:
                    return found[windows.index(window)]
    return None


def _coordinates(known: np.ndarray, values: np.ndarray) -> Iterator[tuple[str, Any, Any]]:
    """Names of coordinates, and the values in them that differ."""
    is_moved = (known != values).any(axis=0)
    known, values = known[:, is_moved], values[is_moved]
    yield "values", known, values
    if (known * values > 0).all():
        yield "logarithms", np.log(np.abs(known)), np.log(np.abs(values))


def _along(known: np.ndarray, values: np.ndarray) -> Windows:
    """The windows in some coordinates, and the weights of each."""
    if known.size > SMALL:
        return _windows(known, values)
    return _remembered(known.tobytes(), values.tobytes(), len(known))


@lru_cache(maxsize=8)
def _remembered(known: bytes, values: bytes, count: int) -> Windows:
    """The same: what is foretold with is what is judged by hindsight at the next step."""
    return _windows(np.frombuffer(known).reshape(count, -1), np.frombuffer(values))


def _windows(known: np.ndarray, values: np.ndarray) -> Windows:
    at = known - values
    at /= np.abs(at).max(axis=0)
    if at.shape[1] > 1:
        way = at - at[-1]
        squares = np.vecdot(way, way)
        line = way[squares.argmax()] / math.sqrt(squares.max())
        along = at @ line
        if np.abs(at - along[:, None] * line).max() > REACHED * np.abs(along).max():
            found = _least(np.vstack([np.ones(len(at)), at.T]))
            if found is None:
                return [], np.zeros((0, len(at)))
            return [(1, len(at))], found[None]
        at = along[:, None]
    points = at[-LONGEST:, 0]
    windows, last = _fitted_windows(np.round(points / np.abs(points).max(), DIGITS).tobytes())
    found = np.zeros((len(windows), len(at)))
    found[:, -len(points) :] = last
    return windows, found


@lru_cache(maxsize=8)
def _fitted_windows(points: bytes) -> Windows:
    """The same of the last points of a line; those of an even path are the same at every step."""
    at, windows, weights = np.frombuffer(points).tolist(), [], []
    for degree, count in WINDOWS:
        found = _fitted(at[-count:], degree) if count <= len(at) else None
        if found is not None:
            windows.append((degree, count))
            weights.append([0.0] * (len(at) - count) + found)
    return windows, np.reshape(weights, (len(windows), len(at)))


def _fitted(points: list[float], degree: int) -> list[float] | None:
    r"""The weights of values at these points in their polynomial of least squares at zero.

    By polynomials that are orthogonal on the points (Forsythe 1957),
    :math:`w_i = \sum_k p_k(0) p_k(t_i) / |p_k|^2`: one goes through values at degree + 1 points.
    """
    farthest = max(map(abs, points))
    points = [one / farthest for one in points]
    found, before, now = [0.0] * len(points), [0.0] * len(points), [1.0] * len(points)
    zeros, size = (0.0, 1.0), 1.0  # of the two polynomials at zero, and the last one's square
    for at in range(degree + 1):
        squares = [one * one for one in now]
        length = sum(squares)
        if not length:
            return None
        found = [w + zeros[1] * one / length for w, one in zip(found, now, strict=True)]
        middle = sum(map(operator.mul, points, squares)) / length
        back = length / size if at else 0.0
        size = length
        after = zip(points, now, before, strict=True)
        now, before = [(t - middle) * one - back * two for t, one, two in after], now
        zeros = zeros[1], -middle * zeros[1] - back * zeros[0]
    return found if sum(map(abs, found)) <= AMPLIFIED else None


def _least(features: np.ndarray) -> np.ndarray | None:
    """The least weights of which the first feature is one in all and the others nothing.

    None where there are none, or where they would amplify errors.
    """
    wanted = np.eye(len(features))[0]
    for solve in (_normal, np.linalg.lstsq):
        try:
            found = solve(features, wanted)[0]
        except np.linalg.LinAlgError:  # of values that depend on each other
            continue
        if np.abs(features @ found - wanted).max() <= REACHED:
            return found if np.abs(found).sum() <= AMPLIFIED else None
    return None


def _normal(features: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray]:
    """The same by the normal equations, which take less time than singular values."""
    return (features.T @ np.linalg.solve(features @ features.T, wanted),)
