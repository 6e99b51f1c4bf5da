r"""Newton's method on the optimality conditions of a cone program, from an interior point's answer.

An interior-point method knows the gap; where an objective is flat the error of its point is the
root of that, and no residual shows it. The conditions themselves,

.. math:: P x + q + A^\top z = 0, \qquad s = b - A x, \qquad s \circ z = 0,

with the Jordan product of each cone (the plain one of a nonnegative entry; :math:`(s^\top z, \;
s_0 \bar z + z_0 \bar s)` of a second-order cone; :math:`s = 0` of an equality), are smooth, and
regular where the answer is unique and strictly complementary (Alizadeh and Goldfarb 2003, Section
5). Two or three steps then find it to rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dald_model.sizes import STEPS

MOST_UNKNOWNS = 400
"""Unknowns of a program up to which its dense system is solved."""
SHARP = 1e-9
"""Steps shorter than this say that the point is right up to them."""
GAIN = 0.5
"""A step is kept where what is violated falls below this share."""
AWAY = 1e-6
"""Share of what is added up for the slack of a row above which it is eliminated, by a division by
the slack: rounding leaves 1e-10 of that then."""
GROWN = 1e3
"""Multipliers that grow by this factor in a step are anything."""

Cones = Sequence[tuple[str, Any]]


def is_polished(cones: Cones, unknowns: int) -> bool:
    """Whether such a program is small enough, and has only cones whose product is written here."""
    known = {"ZeroConeT", "NonnegativeConeT", "SecondOrderConeT"}
    return unknowns <= MOST_UNKNOWNS and all(kind in known for kind, _ in cones)


class Polisher:
    """Newton's method for programs that differ in q alone.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        P, the whole of it.
    rows : ndarray, shape (m, n)
        A.
    rhs : ndarray, shape (m,)
        b.
    cones : sequence
        Of the rows in turn, as in :class:`dald_model.compile.form.ConeProgram`.
    """

    def __init__(self, matrix: np.ndarray, rows: np.ndarray, rhs: np.ndarray, cones: Cones) -> None:
        self._matrix, self._rows, self._rhs = matrix, rows, rhs
        self._equal = np.zeros(rhs.size, dtype=bool)
        heads = np.arange(rhs.size)  # of each row the first of its cone
        at = 0
        for kind, size in cones:
            if kind == "SecondOrderConeT":
                heads[at : at + size] = at
            self._equal[at : at + size] = kind == "ZeroConeT"
            at += size
        self._tail = np.flatnonzero(heads != np.arange(rhs.size))
        self._head = heads[self._tail]
        self._first = ~self._equal
        self._first[self._tail] = False
        self._single = self._first.copy()
        self._single[self._head] = False
        self._sizes = np.abs(rows)

    def polish(
        self, linear: np.ndarray, x: np.ndarray, z: np.ndarray, *, is_near: bool = True
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """A better x and z, or these; and whether they are known to be sharp.

        They are where a step is shorter than ``SHARP`` in units of x, at least one. From the answer
        for another q, which is not ``is_near``, the way may lead out of the cones and has to end in
        them: the conditions hold there, as they do where an interior point comes from.
        """
        found = self._violated(linear, x, z)
        for _ in range(STEPS):
            step = self._step(x, z, found)
            if step is None:
                break
            nextx, nextz = x - step[: x.size], z - step[x.size :]
            if np.abs(nextz).max(initial=0.0) > GROWN * max(1.0, np.abs(z).max(initial=0.0)):
                break  # the system is singular, as multipliers are not unique
            if np.abs(step[: x.size]).max() <= SHARP * max(1.0, np.abs(x).max()):
                # Of multipliers that are not unique a step may find others, which are none
                is_within = self._within(nextx, nextz)
                found_z = nextz if is_within else z
                return nextx, self._into_cones(found_z), is_near or is_within
            then = self._violated(linear, nextx, nextz)
            is_less = np.abs(then).max() <= GAIN * np.abs(found).max()
            if not (is_less and (not is_near or self._within(nextx, nextz))):
                break
            x, z, found = nextx, nextz, then
        return x, self._into_cones(z), False

    def _into_cones(self, z: np.ndarray) -> np.ndarray:
        """The multipliers without the rounding errors by which they are outside of their cones."""
        found, lengths = z.copy(), self._lengths(z)
        found[self._first] = np.maximum(z, lengths * (1 + np.finfo(float).eps))[self._first]
        return found

    def _lengths(self, u: np.ndarray) -> np.ndarray:
        """At the first row of each second-order cone the length of the others; else zero."""
        squares = np.zeros(u.size)
        np.add.at(squares, self._head, u[self._tail] ** 2)
        return np.sqrt(squares)

    def _violated(self, linear: np.ndarray, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        s = self._rhs - self._rows @ x
        return np.concatenate(
            [
                self._matrix @ x + linear + self._rows.T @ z,
                np.where(self._equal, s, self._times(s, z)),
            ]
        )

    def _times(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The Jordan product of every cone."""
        tail, head = self._tail, self._head
        found = s * z
        np.add.at(found, head, s[tail] * z[tail])
        found[tail] = s[head] * z[tail] + z[head] * s[tail]
        return found

    @np.errstate(all="ignore")
    def _step(self, x: np.ndarray, z: np.ndarray, found: np.ndarray) -> np.ndarray | None:
        """Newton's step, None where it is not finite.

        Rows that do not hold x are eliminated, :math:`dz = (r + z A dx) / s`.
        """
        s, rows, size = self._rhs - self._rows @ x, self._rows, x.size
        added = np.abs(self._rhs) + self._sizes @ np.abs(x)
        is_away = self._single & (s > AWAY * added)
        kept, away = np.flatnonzero(~is_away), np.flatnonzero(is_away)
        of_x, of_rows = found[:size], found[size:]
        far, weights, wanted = rows[away], z[away] / s[away], of_rows[away] / s[away]
        system = np.zeros((size + kept.size, size + kept.size))
        system[:size, :size] = self._matrix + far.T @ (weights[:, None] * far)
        system[:size, size:] = rows[kept].T
        system[size:, :size] = np.where(
            self._equal[kept, None], -rows[kept], -self._times(rows, z[:, None])[kept]
        )
        own = np.where(self._equal, 0.0, s)
        at = size - 1 + np.cumsum(~is_away)  # of the rows that are kept, in the system
        tail, head = at[self._tail], at[self._head]
        system[at[kept], at[kept]] = own[kept]
        system[tail, tail] = own[self._head]
        system[tail, head] = system[head, tail] = own[self._tail]
        try:
            solved = np.linalg.solve(system, np.append(of_x - far.T @ wanted, of_rows[kept]))
        except np.linalg.LinAlgError:
            return None
        step = np.append(solved[:size], np.zeros(s.size))
        step[size + kept] = solved[size:]
        step[size + away] = wanted + weights * (far @ solved[:size])
        return step if np.isfinite(step).all() else None

    def _within(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether s and z are still in their cones, up to rounding.

        A slack is rounded by what its own row adds up, of variables that are one at least; those of
        other rows may be 1e9 times as large.
        """
        added = np.abs(self._rhs) + self._sizes @ np.maximum(np.abs(x), 1.0)
        most = np.full(z.size, max(1.0, float(np.abs(z).max(initial=0.0))))
        return self._in_cones(self._rhs - self._rows @ x, added) and self._in_cones(z, most)

    def _in_cones(self, u: np.ndarray, sizes: np.ndarray) -> bool:
        outside = self._lengths(u) - u
        return bool((outside <= 1e-9 * (sizes + self._lengths(sizes)))[self._first].all())
