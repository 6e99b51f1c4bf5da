r"""Least squares in rational arithmetic: :math:`\|A x - b\|^2` without any rounding.

Every double is a rational number, so the normal equations of a few columns can be solved exactly by
Python's integers, whatever their condition. A rank-deficient system is consistent; its free entries
are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

Row = list[Fraction]


@dataclass(frozen=True)
class Squares:
    r""":math:`x^\top G x - 2 h^\top x + c`, the Gram matrix of a least-squares objective."""

    G: list[Row]
    h: Row
    c: Fraction

    @classmethod
    def of(cls, A: np.ndarray, b: np.ndarray) -> Squares:
        """The squared residuals of a system of doubles."""
        columns = [_integers(column) for column in np.asarray(A, dtype=float).T]
        right, shift = _integers(np.asarray(b, dtype=float))
        G = [[Fraction(_dot(a, other), s * t) for other, t in columns] for a, s in columns]
        h = [Fraction(_dot(a, right), s * shift) for a, s in columns]
        return cls(G, h, Fraction(_dot(right, right), shift * shift))

    def __add__(self, other: Squares) -> Squares:
        G = [_sum(one, two) for one, two in zip(self.G, other.G, strict=True)]
        return Squares(G, _sum(self.h, other.h), self.c + other.c)

    def at(self, x: Sequence[Fraction]) -> Fraction:
        """The value at a point."""
        Gx = [_product(row, x) for row in self.G]
        return _product(Gx, x) - 2 * _product(self.h, x) + self.c

    @cached_property
    def minimiser(self) -> Row:
        """A solution of the normal equations."""
        return solved(self.G, self.h)

    @cached_property
    def least(self) -> Fraction:
        """The least value: c - h' x where G x = h."""
        return self.c - _product(self.h, self.minimiser)

    def excess(self, x: np.ndarray) -> float:
        """The value at a point of doubles less the least value."""
        return float(self.at([Fraction(float(one)) for one in x]) - self.least)


def solved(G: list[Row], h: Row) -> Row:
    """Gaussian elimination of a consistent symmetric system; free entries are zero."""
    n = len(h)
    rows = [[*row, right] for row, right in zip(G, h, strict=True)]
    pivots: list[int] = []
    for column in range(n):
        top = len(pivots)
        found = next((at for at in range(top, n) if rows[at][column]), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        for at in range(top + 1, n):
            if rows[at][column]:
                factor = rows[at][column] / rows[top][column]
                rows[at] = [a - factor * b for a, b in zip(rows[at], rows[top], strict=True)]
        pivots.append(column)
    x = [Fraction(0)] * n
    for at in reversed(range(len(pivots))):
        row, column = rows[at], pivots[at]
        rest = sum((row[j] * x[j] for j in range(column + 1, n) if row[j]), Fraction(0))
        x[column] = (row[n] - rest) / row[column]
    return x


def _integers(values: np.ndarray) -> tuple[list[int], int]:
    """Integers and the power of two that they are divided by."""
    ratios = [float(one).as_integer_ratio() for one in values]
    shift = max((bottom for _, bottom in ratios), default=1)
    return [top * (shift // bottom) for top, bottom in ratios], shift


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _product(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def _sum(a: Row, b: Row) -> Row:
    return [x + y for x, y in zip(a, b, strict=True)]
