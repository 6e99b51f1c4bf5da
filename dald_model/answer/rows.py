"""Rows of a verification: figures, the largest of some, and what they are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dald_model.values import flat

ROUNDING = 8 * np.finfo(float).eps
"""Of the size of two numbers: a difference that says nothing."""


@dataclass(frozen=True)
class Row:
    """One comparison: what was measured, what is allowed (None: told, not judged), where."""

    check: str
    measured: float
    allowed: float | None = None
    where: str = ""

    @property
    def ok(self) -> bool:
        """Whether the measured figure is within the allowed one; NaN never is."""
        return self.allowed is None or bool(self.measured <= self.allowed)


@dataclass
class Worst:
    """The largest of some figures and where it was met; NaN is larger than all."""

    measured: float = 0.0
    where: str = ""
    _met: bool = field(default=False, repr=False)

    def meets(self, figure: float, where: str) -> None:
        """Take one more figure."""
        if np.isnan(self.measured):
            return
        if not self._met or not figure <= self.measured:
            self.measured, self.where, self._met = figure, where, True

    def row(self, check: str, allowed: float | None) -> Row:
        """As a row."""
        return Row(check, self.measured, allowed, self.where if self.measured else "")


def relative(gap: Any, scale: Any) -> float:
    """The largest entry of a difference in units of a scale; zero of nothing is zero."""
    gap, scale = np.abs(flat(gap)), flat(scale)
    with np.errstate(all="ignore"):
        share = np.where(gap == 0, 0.0, gap / scale)
    return float(share.max(initial=0.0))
