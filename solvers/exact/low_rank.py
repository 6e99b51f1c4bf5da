r"""Low rank: wide quadratic clients with kinks of single variables, without an m x m matrix.

.. math:: \min_x \tfrac12 |R x|^2 + q^\top x + \sum_t \max(l_t u_t, h_t u_t)
    + \tfrac12 x^\top K x + c^\top x, \qquad u_t = e_t x_{k(t)} + b_t,

with the root R that a form keeps where P would have more entries: fewer rows than variables, or
sparse data. The augmented terms' K is the square of the edges' rows times their penalties, so these
rows join R. Rows of one entry, such as a ridge or the edges of single variables, make a diagonal;
see :mod:`dald_model.solvers.exact.low_rank_client` for the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.base import NOTHING, Answers, ClientAnswer, Encoding, Session, Turn
from dald_model.solvers.exact.low_rank_client import LowRankClient, Separable, multipliers
from dald_model.solvers.exact.nonsmooth_rows import height, single_rows
from dald_model.solvers.exact.quadratic_step import nonsmooth_terms, not_quadratic, rows_of


class LowRank:
    """Quadratics that are kept by a sparse root, with kinks and bounds of single variables."""

    name = "low_rank"
    batches = True
    is_exact = True

    def refuses(self, subproblem: Subproblem) -> str:
        form = subproblem.form
        reason = refuses_form(form)
        if form is None or reason:
            return reason
        parts: list[Any] = [form.quadratic.root, subproblem.sides[0]]
        held = np.concatenate([_diagonal(one, np.ones(one.shape[0])) for one in parts])
        if not held.reshape(2, -1).any(axis=0).all():
            return "neither an edge nor a ridge holds each of its variables alone"
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        return _Session(subproblems)


def refuses_form(form: Form | None) -> str:
    """Why the numbers of a client are not for this method; empty if they are."""
    reason = not_quadratic(form)
    if form is None or reason:
        return reason
    if not sp.issparse(form.quadratic.root):
        return "its quadratic is kept as a dense matrix, which is smaller"
    reason = nonsmooth_terms(form, but_polyhedral=True)
    reason = reason or rows_of("equalities", form.equalities.rhs.size)
    if not reason and height(form) and single_rows(form) is None:
        reason = "a kink or row of it is of more than one variable"
    return reason


class _Session:
    """One run over clients of one shape."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        self._augmented = Augmented(subproblems)
        forms = [form for sub in subproblems if (form := sub.form) is not None]
        self._clients = [
            PenalisedClient(form, sub.sides[0])
            for form, sub in zip(forms, subproblems, strict=True)
        ]
        self._heights = np.array([sub.signs.size for sub in subproblems])
        self._below = forms[0].inequalities.rhs.size

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        which = turn.which
        changed = self._augmented.changed(turn)
        linear = self._augmented.linear(turn).reshape(which.size, -1)
        if changed.any():
            penalties = np.split(turn.rho, np.cumsum(self._heights[which])[:-1])
            for i in np.flatnonzero(changed).tolist():
                self._clients[which[i]].take(penalties[i])
        found = [self._one(at, own) for at, own in zip(which.tolist(), linear, strict=True)]
        return Answers.joined(found, Encoding.ROWS)

    def _one(self, at: int, linear: np.ndarray) -> ClientAnswer:
        """One client's."""
        found = self._clients[at].minimise(linear)
        if found is None:
            nothing = np.full(self._below, np.nan)
            said = "no minimiser to working accuracy"
            return ClientAnswer.none("solver_error", linear.size, said, nothing)
        return ClientAnswer("optimal", *found)


class PenalisedClient:
    """One client's numbers with penalties on sides, (q, m) in CSR, and its method."""

    def __init__(self, form: Form, sides: Any) -> None:
        root: Any = form.quadratic.root
        self._sides, self._is_wide = sides, np.diff(sides.indptr) > 1
        self._root, self._height = root, np.count_nonzero(np.diff(root.indptr) > 1)
        self._linear, self._constant = form.quadratic.linear, form.quadratic.constant
        self._below = form.inequalities.rhs.size
        self._rows = single_rows(form) if height(form) else None
        if self._rows is None:
            functions = Separable.none(form.size)
        else:
            columns, levels, factors, *limits = self._rows
            self._ends = np.sort(factors * np.stack(limits), axis=0)
            functions = Separable.of(form.size, columns, levels, self._ends)
        # Bounds that contradict each other leave no slope
        self._is_possible = not np.isnan(functions.slopes).any()
        self._functions, self._is_bent = functions, False
        self._method = LowRankClient(root, functions)
        self._own = self._method.own

    def take(self, penalties: np.ndarray) -> None:
        """Take other penalties of the edges."""
        factors = np.sqrt(2.0) * penalties
        if self._is_wide.any():
            rows: Any = sp.diags_array(factors) @ self._sides
            stacked = sp.vstack([self._root, rows.tocsr()[self._is_wide]], "csr")
            self._method = LowRankClient(stacked, self._functions)
        single = _diagonal(self._sides, factors)
        self._is_bent = self._method.take(single) and self._is_possible

    def minimise(self, linear: np.ndarray) -> tuple[np.ndarray, float, np.ndarray] | None:
        """The minimiser, the objective there, and the multipliers of inequalities and kinks."""
        if not (self._is_bent and np.isfinite(linear).all()):
            return None
        found = self._method.minimise(self._linear + linear)
        if found is None:
            return None
        x, values, tilt = found
        mine = values[: self._height]  # the others are those of the edges
        objective = (mine @ mine + (self._own * x) @ x) / 2 + self._linear @ x + self._constant
        held = NOTHING
        if self._rows is not None:
            columns, levels, factors, _, high = self._rows
            count = columns.size - self._below
            bars = np.abs(factors[:count] * (x[columns[:count]] - levels[:count]))
            objective += high[:count] @ bars
            gradient = tilt + self._method.diagonal * x
            held = multipliers(columns, levels, self._ends, x, gradient) / factors
            held = np.concatenate([held[count:], held[:count]])
        return x, float(objective), held


def _diagonal(rows: Any, factors: np.ndarray) -> np.ndarray:
    """The squares of the rows of one entry, times factors, by variable."""
    single = np.diff(rows.indptr) == 1
    at = rows.indptr[:-1][single]
    squares = (factors[single] * rows.data[at]) ** 2
    return np.bincount(rows.indices[at], squares, rows.shape[1])
