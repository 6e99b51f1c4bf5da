r"""Step methods: exact minimisers of many quadratics of one shape, over simple sets.

A step method minimises, for k of the B clients it was made for,

.. math:: \tfrac12 x^\top H x + c^\top x \; (+ \textstyle\sum_t w_t |a_t^\top x + b_t|)
    \quad\text{s.t. } E x = e,\; A x \le b,

where H changes seldom (it holds the penalties) and c with every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import SPARSE_ROOT, Form
from dald_model.solvers.arrays.matrices import is_sparse
from dald_model.solvers.base import Encoding, Multipliers


class Step(NamedTuple):
    r"""Minimisers of k quadratics.

    Attributes
    ----------
    points : ndarray, shape (k, m)
    equality : ndarray, shape (k, p)
        Multipliers of ``E x = e``: :math:`Hx + c + E^\top\nu + A^\top\lambda + \dots = 0`.
    inequality : ndarray, shape (k, r)
        Multipliers of ``A x <= b``, nonnegative.
    failed : ndarray of bool, shape (k,)
        Where no minimiser was found; the caller goes on with another solver.
    energy : ndarray, shape (k,)
        :math:`x^\top H x`, which a step method knows without another pass over H.
    balls : ndarray, shape (k, number of balls)
        Multipliers of :math:`\|u\|_2 \le r` for terms that are balls, nonnegative.
    values : ndarray, shape (k,)
        The sums of the terms at the points; empty where the method takes none.
    left : ndarray, shape (k, m)
        What is left of the gradients there; empty where that is rounding.
    slopes : ndarray, shape (k, R)
        Multipliers of all arguments of norms, balls and kinks, in the order of ``Form.kinked``.
    counts : ndarray of int, shape (k,)
        How many of these a client has, the first ones; empty where the method tells none.
    """

    points: np.ndarray
    equality: np.ndarray
    inequality: np.ndarray
    failed: np.ndarray
    energy: np.ndarray
    balls: np.ndarray = np.zeros((0, 0))
    values: np.ndarray = np.zeros(0)
    left: np.ndarray = np.zeros((0, 0))
    slopes: np.ndarray = np.zeros((0, 0))
    counts: np.ndarray = np.zeros(0, int)

    @property
    def multipliers(self) -> Multipliers:
        """All of them: equality, inequality, balls, arguments."""
        if not (self.equality.size or self.inequality.size or self.balls.size or self.slopes.size):
            return Multipliers.none(len(self.points))
        balls = self.balls.reshape(len(self.points), -1)
        parts = [self.equality, self.inequality, balls]
        rows = np.concatenate(parts, axis=1)
        if not self.slopes.size:
            return Multipliers.table(rows)
        whole, lengths = np.hstack([rows, self.slopes]), rows.shape[1] + self.counts
        values = whole[np.arange(whole.shape[1]) < lengths[:, None]]
        return Multipliers(values, lengths, np.full(lengths.size, Encoding.ROWS, dtype=np.uint8))


Errors = np.ndarray | float | None
"""What is allowed of every variable, shape (k, m), or of all; None for working accuracy."""


class StepMethod(Protocol):
    """See the module. Made from the forms of B clients of one ``Form.shape``.

    ``is_exact`` says whether minimisers are found to working accuracy whatever the tolerance.
    """

    is_exact: ClassVar[bool]

    @classmethod
    def refuses(cls, form: Form) -> str:
        """Why the rows and non-smooth terms are not for this method; empty if they are.

        The quadratic and the smooth terms are not looked at.
        """
        ...

    def __init__(self, forms: Sequence[Form]) -> None: ...

    def factor(self, which: np.ndarray, hessians: np.ndarray) -> np.ndarray:
        """Take new H for the clients ``which``, shape (k, m, m); say where it failed, (k,) bool.

        Failed means that H is not positive definite to working accuracy where the method needs
        it to be. Warm starts are kept.
        """
        ...

    def solve(self, which: np.ndarray, linear: np.ndarray, errors: Errors = None) -> Step:
        """Minimise for c = ``linear``, shape (k, m).

        To working accuracy, or where the method is iterative to ``errors`` of these sizes.
        """
        ...


def again(method: StepMethod, forms: Sequence[Form]) -> StepMethod:
    """A step method for the forms of another run, of the same shape and number.

    One of which more is worth keeping than the forms say, such as a solver's memory, has ``take``,
    after which it holds no warm starts and no Hessians.
    """
    take = getattr(method, "take", None)
    if take is None:
        return type(method)(forms)
    take(forms)
    return method


def not_quadratic(form: Form | None) -> str:
    """A reason to refuse a client: it is more than a quadratic, rows and nonsmooth terms."""
    if form is None or not form.complete:
        return "its cone program has parts that are no quadratic and no known function"
    smooth = [term.kind.name for term in form.terms if term.is_smooth]
    return f"its objective has {' and '.join(smooth)} terms, which are not quadratic" * bool(smooth)


def rows_of(kind: str, count: int) -> str:
    """A reason to refuse a form: it has rows."""
    return f"it has {count} row{'s' * (count != 1)} of {kind}" if count else ""


def nonsmooth_terms(form: Form, *, but_polyhedral: bool = False) -> str:
    """A reason to refuse a form: it has non-smooth terms, perhaps other than absolute values."""
    if form.extra:
        return f"its rows need {form.extra} variables more than the client has"
    found = [term.kind for term in form.terms if not term.is_smooth]
    kinds = sorted({kind.name for kind in found if not (but_polyhedral and kind.is_polyhedral)})
    return f"it has non-smooth terms ({', '.join(kinds)})" if kinds else ""


def wide(form: Form) -> str:
    """A reason to refuse a form with rows: many variables, which few entries hold together.

    Dense methods square them; Clarabel does not. Measured, limits on sums of 2,400 variables: 2.4 s
    of a run by the active set and 1.2 s by cones, and with a cost of the sums 20 s and 6 s.
    """
    quadratic, rows = form.quadratic, [form.inequalities.matrix, form.equalities.matrix]
    has_root = sp.issparse(quadratic.root) or not quadratic.numbers.any()
    if form.size < SPARSE_ROOT or not has_root or form.smooth or not is_sparse(rows):
        return ""
    return f"its {form.size} variables have few entries, of which it would make squares"
