r"""Check that the answers of a client can be those of one convex function.

An answer x to a turn minimises :math:`f(x) + \pm\mu^\top s(x) + \|\rho \circ (s(x) - z)\|^2` with
:math:`s(x) = G x + g_0`, so that

.. math:: g = -G^\top \big(\pm\mu + 2 \rho^2 \circ (s(x) - z)\big) \in \partial f(x).

Of a convex f, and of its least value over private variables, any two answers satisfy

.. math:: (g_j - g_k)^\top (x_j - x_k) \ge 0, \qquad f(x_k) \ge f(x_j) + g_j^\top (x_k - x_j).

An honest client is as near to its minimiser as it was asked to be, :math:`|x - x^*| \le \delta`
with :math:`\delta = \text{tolerance} \cdot \text{lengths}`, entry by entry. That moves g by
:math:`e = |G|^\top (2 \rho^2 \circ |G| \delta)` at most, and what a solver claims to be off in the
gradient, its slack, adds to e. With d and D the differences of two answers in x and g, and all
absolute values entry by entry, the two hold up to

.. math::
    & |d|^\top (e_j + e_k) + |D|^\top (\delta_j + \delta_k)
        + (e_j + e_k)^\top (\delta_j + \delta_k), \\
    & |g_j|^\top (\delta_j + \delta_k) + e_j^\top (|d| + \delta_j + \delta_k)
        + |g_k|^\top \delta_k + \text{slopes}^\top \delta_j ,

the last term being what the objective rises by within :math:`\delta_j` where its gradient changes
by no more than its natural slope; and to a relative accuracy of 1.5e-8 in x, g and f. With kinks
it may rise far more, so that of clients that say they have some only the first is asked. (Of 150
random federations in odd units the first was met by 0.76 times what is allowed; the second was
exceeded by 12 of the 30 with hinge or quantile losses, and by no other.)

Before the first round no objective is told. Then an answer x that was held at t by weights w, with
:math:`x^0` the client's minimiser, has a gradient along :math:`W (t - x)`, so that it lies in the
ball :math:`(t - x)^\top W (x - x^0) \ge 0` from the one to the other.

Pairs are all that there is to see: where all of them hold there is a convex function that gives
these answers, the largest of the tangents (Rockafellar 1970, Theorem 24.8; Taylor, Hendrickx and
Glineur 2017). So a client that answers for another convex function all along is not seen, with data
of its own making, or a constant added to its objective; nor is one that stays at an old answer,
which is what a kink there does.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Turn

REMEMBERED = 32
"""Answers that a new one is compared with: with 10,000 shared entries they take 10 MB a client."""
ROOT_EPS = float(np.sqrt(np.finfo(float).eps))
"""Relative accuracy of points, prices and objectives that no solver promises to exceed, whatever it
is asked for: interior points stop at residuals of 1e-8 beside their data, which are not known here.
"""


HELD_BACK = 1e-3
"""Share of its distance from zero by which a minimiser may be off: it is held there, or where
others are, by a ten-thousandth of the curvature, more at a client with more edges."""


class Answered(NamedTuple):
    """One answer, the gradient that it tells, and how far both may be off; (m,) but for f."""

    x: np.ndarray
    g: np.ndarray
    f: float
    off: np.ndarray
    gradient_off: np.ndarray
    rise: float


class ConvexityCheck:
    """The last answers of one client, which may have kinks, to compare the next one with."""

    def __init__(self, sub: Subproblem, has_kinks: bool = False) -> None:
        self._has_kinks = has_kinks
        self._matrix, self._offset = sub.sides
        self._absolute, self._signs = abs(self._matrix), sub.signs
        self._known: deque[Answered] = deque(maxlen=REMEMBERED)

    def seen(self, turn: Turn, answers: Answers, tolerance: float) -> str:
        """The contradiction of an answer to earlier ones, or "", and then it is remembered."""
        if answers.statuses[0] != "optimal":
            return ""  # of which nothing is claimed
        new = self._answered(turn, answers, tolerance)
        for number, old in enumerate(reversed(self._known), 1):
            said = _turns(new, old)
            if not (said or self._has_kinks):
                said = _lies_below(new, old) or _lies_below(old, new)
            if said:
                return f"{said}, beside its answer {number} before"
        self._known.append(new)
        return ""

    def _answered(self, turn: Turn, answers: Answers, tolerance: float) -> Answered:
        x, f = answers.points, float(answers.objectives[0])
        slack = answers.slack.sum()  # of one client, or none
        weight, sides = 2 * turn.rho**2, self._matrix @ x + self._offset
        g = -(self._matrix.T @ (self._signs * turn.mu + weight * (sides - turn.neighbours)))
        off = tolerance * turn.lengths + ROOT_EPS * np.abs(x)
        terms = np.abs(turn.mu) + weight * (np.abs(sides) + np.abs(turn.neighbours))
        moves = self._absolute.T @ (weight * (self._absolute @ off) + ROOT_EPS * terms)
        return Answered(x, g, f, off, moves + slack, float(turn.slopes @ off) + ROOT_EPS * abs(f))


def is_outside(
    minimiser: np.ndarray, held: np.ndarray, weights: np.ndarray, found: np.ndarray
) -> bool:
    """Whether an answer is out of its ball, of several that were held at points, one a row."""
    off = HELD_BACK * (np.abs(held) + np.abs(minimiser))
    back, way = found - held, found - minimiser
    allowed = off * (np.abs(back) + np.abs(way) + off)
    return bool((np.vecdot(weights, back * way - allowed) > 0).any())


def _turns(one: Answered, other: Answered) -> str:
    """Whether the gradient falls where x rises."""
    d, D = one.x - other.x, one.g - other.g
    off, moves = one.off + other.off, one.gradient_off + other.gradient_off
    allowed = np.abs(d) @ moves + np.abs(D) @ off + moves @ off
    found = float(d @ D)
    if found >= -allowed:
        return ""
    return f"prices fall by {-found:.1e} along its way, expected at most {allowed:.1e}"


def _lies_below(one: Answered, other: Answered) -> str:
    """Whether the objective of one is below the tangent at the other."""
    d, off = one.x - other.x, one.off + other.off
    allowed = np.abs(other.g) @ off + other.gradient_off @ (np.abs(d) + off)
    allowed += np.abs(one.g) @ one.off + other.rise + ROOT_EPS * abs(one.f)
    below = other.f + float(other.g @ d) - one.f
    if below <= allowed:
        return ""
    return f"its objective is {below:.1e} below its tangent, expected at most {allowed:.1e}"
