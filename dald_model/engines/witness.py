r"""Witness of a client: what it has answered, and whether one convex function can have.

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
by no more than its natural slope; and to a relative accuracy of 1.5e-8 in x, g and f.

What no pair of answers shows is not seen: a client that answers for another convex function all
along, such as one that never moves, or adds a constant to its objective.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Answers, Turn

REMEMBERED = 32
"""Answers that a new one is compared with: with 10,000 shared entries they take 10 MB a client."""
ROOT = float(np.sqrt(np.finfo(float).eps))
"""Relative accuracy of points, prices and objectives that no solver promises to exceed, whatever it
is asked for: interior points stop at residuals of 1e-8 beside their data, which are not known here.
"""


class Answered(NamedTuple):
    """One answer, the gradient that it tells, and how far both may be off; (m,) but for f."""

    x: np.ndarray
    g: np.ndarray
    f: float
    off: np.ndarray
    gradient_off: np.ndarray
    rise: float


class Witness:
    """The last answers of one client."""

    def __init__(self, sub: Subproblem) -> None:
        self._matrix, self._offset = sub.sides
        self._absolute, self._signs = abs(self._matrix), sub.signs
        self._known: deque[Answered] = deque(maxlen=REMEMBERED)

    def seen(self, turn: Turn, answers: Answers, tolerance: float) -> str:
        """What an answer contradicts; empty where nothing, and then it is remembered."""
        if answers.statuses[0] != "optimal":
            return ""  # of which nothing is claimed
        new = self._answered(turn, answers, tolerance)
        for number, old in enumerate(reversed(self._known), 1):
            said = _turns(new, old) or _lies_below(new, old) or _lies_below(old, new)
            if said:
                return f"{said}, beside its answer {number} before"
        self._known.append(new)
        return ""

    def _answered(self, turn: Turn, answers: Answers, tolerance: float) -> Answered:
        x, f = answers.points, float(answers.objectives[0])
        slack = answers.slack.sum()  # of one client, or none
        weight, sides = 2 * turn.rho**2, self._matrix @ x + self._offset
        g = -(self._matrix.T @ (self._signs * turn.mu + weight * (sides - turn.neighbours)))
        off = tolerance * turn.lengths + ROOT * np.abs(x)
        terms = np.abs(turn.mu) + weight * (np.abs(sides) + np.abs(turn.neighbours))
        moves = self._absolute.T @ (weight * (self._absolute @ off) + ROOT * terms)
        return Answered(x, g, f, off, moves + slack, float(turn.slopes @ off) + ROOT * abs(f))


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
    allowed += np.abs(one.g) @ one.off + other.rise + ROOT * abs(one.f)
    below = other.f + float(other.g @ d) - one.f
    if below <= allowed:
        return ""
    return f"its objective is {below:.1e} below its tangent, expected at most {allowed:.1e}"
