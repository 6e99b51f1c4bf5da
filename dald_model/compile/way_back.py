"""The way back from the multipliers of cvxpy's rows to the dual values of a template's rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model._cvxpy import CanonicalProblem
from dald_model.compile.affine_maps import transposed
from dald_model.declare.affine import MadeOnce
from dald_model.values import flat

TWICE = 2
"""Inversions by cvxpy itself, after which it pays to know how dual values depend on multipliers."""


class WayBack:
    """Dual values of some constraints of a canonical problem.

    What is learned of it is of the rows alone, whatever numbers they have: copies of a template
    share it.

    Attributes
    ----------
    height : int
        cvxpy's rows.
    """

    def __init__(self, canonical: CanonicalProblem, stated: Sequence[cp.Constraint]) -> None:
        self._canonical, self._stated, self.height = canonical, stated, canonical.height
        self._inverted, self._straight = 0, MadeOnce()

    def duals(self, rows: Any, multipliers: np.ndarray) -> tuple[tuple[Any, ...], ...]:
        """For each constraint the values of its cvxpy ``dual_variables``.

        From multipliers of rows that are sums of cvxpy's, (rows, cvxpy's).
        """
        self._inverted += 1
        picks = self._picks if self._inverted > TWICE and self.height else None
        if picks is None:
            return self.by_cvxpy(transposed(rows, multipliers))
        at, divisors = picks
        straight = self._straight.of(id(rows), [rows], lambda: _single(rows, at))
        if straight is None:
            found = transposed(rows, multipliers)[at]
        else:
            row, factors = straight
            found = multipliers[row] * factors
        found = found / divisors  # as cvxpy does, to the last bit
        return tuple(
            [
                tuple([found[part].reshape(shape, order="F") for part, shape in rule])
                for rule in self._places
            ]
        )

    @cached_property
    def _picks(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Of each entry of the dual values the row that it is a part of, and what divides that.

        None where cvxpy makes more of multipliers than that.
        """
        drawn = np.random.default_rng(0).normal(size=self.height)
        probes = np.ones(self.height), np.arange(1.0, self.height + 1), drawn
        each = [list(chain(*self.by_cvxpy(probe))) for probe in probes]
        if any(map(np.iscomplexobj, each[0])):
            return None
        factors, sums, found = (np.concatenate([*map(flat, one), np.zeros(0)]) for one in each)
        at = np.rint(sums / np.where(factors, factors, 1.0)).astype(int) - 1
        at = np.clip(at, 0, self.height - 1)
        nothing = np.full(factors.shape, np.inf)
        divisors = np.divide(1.0, factors, out=nothing, where=factors != 0)
        return (at, divisors) if np.allclose(found, drawn[at] / divisors) else None

    @cached_property
    def _places(self) -> list[list[tuple[slice, tuple[int, ...]]]]:
        """Where the dual values of each constraint lie one after the other, and their shapes."""
        at, found = 0, []
        for rule in self._stated:
            own = []
            for dual in rule.dual_variables:
                own.append((slice(at, at + dual.size), dual.shape))
                at += dual.size
            found.append(own)
        return found

    def by_cvxpy(self, full: np.ndarray) -> tuple[tuple[Any, ...], ...]:
        """The same by cvxpy itself."""
        found = self._canonical.duals(full)
        for rule in self._stated:
            rule.save_dual_value(found[rule.id])
        return tuple(tuple(d.value for d in rule.dual_variables) for rule in self._stated)


def _single(rows: Any, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Row and value of the one entry that each of these columns has; None if one has others."""
    if (
        not rows.shape[0]
        or (np.bincount(rows.indices, minlength=rows.shape[1]) != 1)[columns].any()
    ):
        return None
    row, value = np.zeros(rows.shape[1], dtype=int), np.zeros(rows.shape[1])
    row[rows.indices] = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    value[rows.indices] = rows.data
    return row[columns], value[columns]
