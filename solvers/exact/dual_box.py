r"""Minimisers of many quadratics plus weighted absolute values, by their duals.

.. math::
    \min_x \tfrac12 x^\top H x + c^\top x + \sum_t w_t |a_t^\top x + b_t|
    \;=\; -\min_{-w \le s \le w} \tfrac12 (c + A^\top s)^\top H^{-1} (c + A^\top s) - b^\top s,
    \qquad x = -H^{-1} (c + A^\top s).

The dual is a quadratic program over a box, as many variables as absolute values, for DAQP. It is
given to it in units in which its Hessian :math:`A H^{-1} A^\top` has a diagonal of ones and the
largest bound is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

import daqp
import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.solvers.arrays.indexing import double, outer, selection, times
from dald_model.solvers.arrays.terms import has_arguments_of
from dald_model.solvers.exact.active_set import FLAT, MISSED, made_up, run
from dald_model.solvers.exact.cholesky import inverse_roots, triangles
from dald_model.solvers.exact.elimination import variable_scales
from dald_model.solvers.exact.quadratic_step import (
    Errors,
    Products,
    Step,
    nonsmooth_terms,
    rows_of,
)


class DualBoxQP:
    """Quadratics with absolute values and without rows, see the module."""

    is_exact: ClassVar[bool] = True

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        values = sum(term.weight.size for term in form.terms if term.kind.is_polyhedral)
        reasons = [
            rows_of("equalities", form.equalities.rhs.size),
            rows_of("inequalities", form.inequalities.rhs.size),
            nonsmooth_terms(form, but_polyhedral=True),
            "" if values else "it has no absolute values",
            f"it has {values} absolute values of {form.size} variables, more than one of each"
            if values > form.size
            else "",
        ]
        return next((reason for reason in reasons if reason), "")

    def __init__(self, forms: Sequence[Form]) -> None:
        self._models: list[daqp.Model] = []
        self._terms: list[list[Term]] = []
        self.take(forms)

    def take(self, forms: Sequence[Form]) -> None:
        """See :class:`dald_model.solvers.exact.quadratic_step.LastingMethod`."""
        terms = [[term for term in form.terms if term.kind.is_polyhedral] for form in forms]
        pairs = zip(chain(*terms), chain(*self._terms), strict=False)
        if not (self._terms and all(has_arguments_of(*pair) for pair in pairs)):
            self._read(terms)
        self._terms = terms
        self._weight = np.stack([np.concatenate([t.weight for t in own]) for own in terms])
        count, values, size = self._matrix.shape
        self._roots = np.empty((count, size, size))
        self._duals = np.empty((count, values, values))
        self._units = np.ones((count, values))
        self._gains = np.ones((count, values))
        self._failed = np.ones(count, dtype=bool)
        self._is_new = np.ones(count, dtype=bool)
        self._models = self._models or [made_up(values, 0, values) for _ in forms]

    def _read(self, terms: list[list[Term]]) -> None:
        """Take what is inside of the bars."""
        self._products = Products()
        self._matrix = np.stack([np.concatenate([_dense(t.matrix) for t in own]) for own in terms])
        self._offset = np.stack([np.concatenate([t.offset for t in own]) for own in terms])
        _, values, size = self._matrix.shape
        # Absolute values of single variables, as in the lasso, need no products with A
        self._columns: np.ndarray | None = None
        columns = np.abs(self._matrix).argmax(axis=2)
        if ((self._matrix != 0).sum(axis=2) == 1).all() and (columns == columns[:1]).all():
            self._columns = columns[0]
            self._entries = self._matrix[:, range(values), columns[0]]
        # All variables: then the values inside the bars are the point
        self._covers = self._columns is not None and set(self._columns) == set(range(size))

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H; failed are also those where A H^-1 A' is not positive definite."""
        roots, duals, scales, broken = self._products.of(which, hessians, self._multiplied)
        failed = broken.copy()
        bounds = self._weight[which] / scales
        largest = bounds.max(axis=1, keepdims=True)
        bounds /= largest
        self._roots[which], self._duals[which] = roots, duals
        self._units[which], self._gains[which] = scales * largest, scales / largest
        for i in np.flatnonzero(~failed):
            at = which[i]
            # Marks for the bounds take the working set away, which is the warm start
            sense = np.zeros(bounds.shape[1], dtype=np.intc) if self._is_new[at] else None
            self._is_new[at] = False
            model, dual = self._models[at], self._duals[at]
            failed[i] = model.update(dual, None, None, bounds[i], -bounds[i], sense) < 0
        self._failed[which] = failed
        return failed

    def _multiplied(self, which: np.ndarray, hessians: np.ndarray) -> tuple[np.ndarray, ...]:
        """Roots of the inverse of H, A H^-1 A' in units, these units, and where it fails."""
        roots, failed = inverse_roots(hessians, FLAT)
        if self._columns is None:
            spread = self._matrix[which] @ roots
        else:
            spread = self._entries[which][:, :, None] * roots[:, self._columns]
        duals = spread @ spread.transpose(0, 2, 1)
        scales = variable_scales(duals)
        duals *= outer(scales)
        return roots, duals, scales, failed | triangles(duals, FLAT)[1]

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear``, from where each client's last solve ended."""
        at = selection(which)
        roots, gains, weight = self._roots[at], self._gains[at], self._weight[at]
        pulls = gains * (self._values(at, double(roots, linear)) - self._offset[at])
        live = np.flatnonzero(~self._failed[which])
        duals, forces, ended = run(self._models, which, live, pulls, pulls.shape[1])
        # DAQP's multiplier is the value inside the bars; where it is none the kink is the minimum
        missed = np.abs(times(self._duals[at], duals) + pulls + forces).max(axis=1)
        failed = ~(ended & (missed <= MISSED * np.maximum(np.abs(pulls).max(axis=1), 1)))
        duals = np.clip(self._units[at] * duals, -weight, weight)
        np.copyto(duals, np.copysign(weight, forces), where=forces != 0)
        total = linear + self._pushes(at, duals)
        if self._columns is not None:
            points = np.empty(linear.shape) if self._covers else -double(roots, total)
            values = (forces / gains - self._offset[at]) / self._entries[at]
            kinks = -self._offset[at] / self._entries[at]
            is_own = (forces == 0) | self._covers
            values = np.where(forces == 0, kinks, values)
            points[:, self._columns] = np.where(is_own, values, points[:, self._columns])
        else:
            points = -double(roots, total)
        energy = -np.vecdot(points, total)
        points[failed] = np.nan
        nothing = np.zeros((which.size, 0))
        return Step(points, nothing, nothing, failed, energy)

    def _values(self, at: np.ndarray | slice, points: np.ndarray) -> np.ndarray:
        """A x."""
        if self._columns is not None:
            return self._entries[at] * points[:, self._columns]
        return times(self._matrix[at], points)

    def _pushes(self, at: np.ndarray | slice, duals: np.ndarray) -> np.ndarray:
        """A's."""
        if self._columns is None:
            return (duals[:, None, :] @ self._matrix[at])[:, 0, :]
        pushes = np.zeros((duals.shape[0], self._roots.shape[1]))
        pushes[:, self._columns] = self._entries[at] * duals
        return pushes


def _dense(matrix: np.ndarray | sp.csr_array) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
