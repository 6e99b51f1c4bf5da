"""Lengths that the rows of a client's constraints tell, where its objective has no curvature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dald_model.compile.form import ConeProgram, Form
from dald_model.compile.subproblem import Subproblem
from dald_model.sizes import FEW
from dald_model.solvers.exact.balance import balance, lengths_of_linear

MET_TO = 1e-7
"""Share of what a row adds up of which less is left where it holds the point: rounding."""


def told_by_rows(
    sub: Subproblem,
    bends: np.ndarray,
    around: np.ndarray,
    noise: np.ndarray,
    reach: float = 0.0,
) -> tuple[float, np.ndarray]:
    """Energy and lengths of a client by its costs and rows, seen from a point known up to a noise.

    The lengths bring the numbers of its cone program near to one, right-hand sides included, of
    which nothing is left but rounding where a row holds the point. Where all do, the longest is as
    long as ``reach``, or as the point is far from zero. Ones without a cone program.
    """
    if sub.form is None:
        return 1.0, np.ones(sub.size)
    rows = SeenRows.around(sub.form, around, noise)
    lengths = rows.lengths(np.full(sub.size, np.nan))
    if not rows.rhs.any():  # rows tell nothing but ratios
        lengths *= (reach or np.abs(np.nan_to_num(around)).max()) / lengths[: sub.size].max() or 1.0
    own, costs = lengths[: sub.size], np.abs(rows.linear) * lengths
    energy = max(costs.max(initial=0.0), (bends * own**2).max(initial=0.0))
    return float(energy) or 1.0, own


class SeenRows(NamedTuple):
    """Costs and rows of a client, with right-hand sides seen from a point.

    A few linear rows of one without anything else are dense; else they are of its ``cone`` program.
    """

    linear: np.ndarray
    matrix: Any
    rhs: np.ndarray
    cone: ConeProgram | None

    @classmethod
    def around(cls, form: Form, point: np.ndarray, noise: np.ndarray) -> SeenRows:
        """Those of a form from a point, (m,), known up to a noise, (m,).

        Of a row that holds the point nothing is left. How much that may be only its own numbers
        tell: what is left of other rows has other units.
        """
        is_linear = form.complete and not (form.terms or form.extra)
        cone = None if is_linear and sum(form.heights) + point.size <= FEW else form.cone
        if cone is None:
            parts = zip(form.equalities, form.inequalities, strict=True)
            matrix, rhs = map(np.concatenate, parts)
            linear = form.quadratic.linear
        else:
            matrix, rhs, linear = cone.rows, cone.rhs, cone.linear
        at = np.nan_to_num(point)
        if cone is None:
            sizes = abs(matrix)
            met, terms, shaken = matrix @ at, sizes @ np.abs(at), sizes @ noise
        else:
            met, terms, shaken = _products(cone, at, noise)
        left, terms = rhs - met, np.abs(rhs) + terms
        is_held = np.abs(left) <= MET_TO * terms + shaken
        return cls(linear, matrix, np.where(is_held, 0.0, left), cone)

    @property
    def stands(self) -> np.ndarray:
        """Which variables stand in a row, (n,) bool."""
        return abs(self.matrix).sum(axis=0) > 0

    def lengths(self, known: np.ndarray) -> np.ndarray:
        """Those of all variables, (n,); of the client's own, (m,), what is NaN is found."""
        whole = np.full(self.linear.size, np.nan)
        whole[: known.size] = known
        if self.cone is None:
            return lengths_of_linear(self.matrix, self.rhs, whole)
        return balance(self.cone._replace(rhs=self.rhs), whole).lengths


def _products(
    cone: ConeProgram, point: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What rows add up at a point of the client's own variables, in sizes too, and of a noise."""
    starts = cone.rows.indptr[: point.size + 1]
    own, cells = cone.rows.indices[: starts[-1]], cone.rows.data[: starts[-1]]
    columns, sizes = np.repeat(np.arange(point.size), np.diff(starts)), np.abs(cells)
    pairs = (cells, point), (sizes, np.abs(point)), (sizes, noise)
    one, two, three = (np.bincount(own, a * x[columns], cone.rhs.size) for a, x in pairs)
    return one, two, three
