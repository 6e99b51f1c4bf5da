r"""Minimisers of many quadratics plus norms and balls of anything linear, by their duals.

.. math::
    \min_x \tfrac12 x^\top H x + c^\top x + \sum_g \varphi_g(A_g x + b_g)
    \;=\; -\min_s \tfrac12 (c + A^\top s)^\top H^{-1} (c + A^\top s) - b^\top s
    + \sum_g \varphi_g^*(s_g), \qquad x = -H^{-1} (c + A^\top s).

The conjugate of :math:`w \|\cdot\|` is the ball of radius w and that of a ball of radius r is
:math:`r \|\cdot\|`: norms and balls of groups of variables, whatever A is, which
:mod:`dald_model.solvers.exact.accelerated_proximal` minimises. Where :math:`A H^{-1} A^\top` is a
multiple of the identity, as for :math:`\|x_i - x_j\|` under one penalty, its first step is the
closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Quadratic, Rows, Term
from dald_model.compile.kinds import named
from dald_model.solvers.arrays.indexing import double, selection, times
from dald_model.solvers.exact.accelerated_proximal import Proximal
from dald_model.solvers.exact.cholesky import FLAT, inverse_roots
from dald_model.solvers.exact.quadratic_step import Errors, Step, rows_of


class DualProximal:
    """Quadratics with norms, balls and absolute values of at most as many entries as variables."""

    is_exact: ClassVar[bool] = False

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are."""
        terms = _nonsmooth(form)
        height = sum(term.offset.size for term in terms)
        reasons = [
            rows_of("equalities", form.equalities.rhs.size),
            rows_of("inequalities", form.inequalities.rhs.size),
            "" if height else "it has no norms, balls or absolute values",
            f"its norms, balls and absolute values have {height} entries of {form.size} variables"
            if height > form.size
            else "",
        ]
        if found := next((reason for reason in reasons if reason), ""):
            return found
        rank = np.linalg.matrix_rank(np.vstack([_dense(term.matrix) for term in terms]))
        return "" if rank == height else f"the rows of its {terms[0].kind.name} terms are dependent"

    def __init__(self, forms: Sequence[Form]) -> None:
        count, size = len(forms), forms[0].size
        terms = [_nonsmooth(form) for form in forms]
        self._matrix = np.array([np.vstack([_dense(t.matrix) for t in own]) for own in terms])
        self._offset = np.array([np.concatenate([t.offset for t in own]) for own in terms])
        self._roots = np.zeros((count, size, size))
        # How far the multipliers move x: its rows bound the errors
        self._spread = np.ones((count, size))
        self._failed = np.ones(count, dtype=bool)
        self._dual = Proximal([_conjugate(own) for own in terms])
        stops = np.cumsum([term.offset.size for term in terms[0]])
        self._balls = [
            (slice(int(stop) - term.offset.size, int(stop)), term.width)
            for stop, term in zip(stops, terms[0], strict=True)
            if term.is_set
        ]

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H; failed are also those where A H^-1 A' is too ill-conditioned."""
        roots, failed = inverse_roots(hessians, FLAT)
        spread = self._matrix[which] @ roots
        moves = np.linalg.norm(spread @ roots.transpose(0, 2, 1), axis=1)
        self._roots[which], self._spread[which] = roots, moves
        failed |= self._dual.factor(which, spread @ spread.transpose(0, 2, 1))
        self._failed[which] = failed
        return failed

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear`` to errors of these sizes, from the last multipliers."""
        at = selection(which)
        roots, matrix = self._roots[at], self._matrix[at]
        pulls = times(matrix, double(roots, linear)) - self._offset[at]
        moves = np.maximum(self._spread[at], np.finfo(float).tiny)
        allowed = (np.broadcast_to(0.0 if errors is None else errors, linear.shape) / moves).min(1)
        dual = self._dual.solve(which, pulls, np.broadcast_to(allowed[:, None], pulls.shape))
        total = linear + (dual.points[:, None, :] @ matrix)[:, 0, :]
        points, failed = -double(roots, total), dual.failed | self._failed[which]
        points[failed] = np.nan
        balls = [
            np.linalg.norm(dual.points[:, part].reshape(which.size, -1, width), axis=2)
            for part, width in self._balls
        ]
        nothing = np.zeros((which.size, 0))
        energy = -np.vecdot(points, total)
        return Step(points, nothing, nothing, failed, energy, np.hstack([nothing, *balls]))


def _nonsmooth(form: Form) -> list[Term]:
    return [term for term in form.terms if not term.is_smooth]


def _conjugate(terms: Sequence[Term]) -> Form:
    """The conjugates of the terms as a form in their multipliers, one after the other."""
    size, at, found = sum(term.offset.size for term in terms), 0, []
    for term in terms:
        rows: Any = sp.eye_array(term.offset.size, size, k=at, format="csr")
        zeros = np.zeros(term.offset.size), np.zeros(term.weight.size)
        if term.is_set:
            found.append(Term(named("norm"), term.parameter, rows, *zeros, term.width))
        else:
            ones = np.ones(term.weight.size)
            found.append(Term(named("ball"), ones, rows, zeros[0], term.weight, term.width))
        at += term.offset.size
    none = Rows(np.zeros((0, size)), np.zeros(0))
    quadratic = Quadratic(np.zeros((size, size)), np.zeros(size), 0.0)
    return Form(size, quadratic, none, none, tuple(found), True, _no_program)


def _no_program() -> Any:
    raise AssertionError("the dual of a client is given to one step method, which needs none")


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix
