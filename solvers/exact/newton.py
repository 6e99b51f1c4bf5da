r"""Newton's method with Hessians that are kept while they will do, many clients at once.

With f the client's own smooth part and K, c of the augmented terms, a step from x minimises

.. math::
    \tfrac12 y^\top H y + (g - H x)^\top y \; (+ \textstyle\sum_t w_t |a_t^\top y + b_t|)
    \quad\text{s.t. } E y = e,\; A y \le b, \qquad
    g = \nabla f(x) + K x + c, \quad H = \nabla^2 f(x_{\text{then}}) + K,

where H is that of an earlier point (simplified Newton, or chord, method): an iteration costs one
gradient. The steps :math:`d = y - x` shrink by a factor :math:`\theta` that tells how good H still
is, and the error of x is at most about :math:`\|d\| / (1 - \theta)`. A client whose steps do not
shrink is guarded: a Hessian at every point and a line search along d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.indexing import selection, times
from dald_model.solvers.arrays.terms import Terms
from dald_model.solvers.base import Answers, Multipliers, Turn
from dald_model.solvers.exact.accelerated_proximal import Proximal
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.exact.dual_box import Shrink
from dald_model.solvers.exact.epigraph import Lifted
from dald_model.solvers.exact.newton_state import NewtonState
from dald_model.solvers.exact.newton_turn import ERROR, FLOOR, OPTIMAL, UNKNOWN, Chunk, add_diagonal
from dald_model.solvers.exact.quadratic_step import StepMethod

METHODS: tuple[type[StepMethod], ...] = (Factor, ActiveSet, Shrink, Proximal, Lifted)
"""Who takes the steps: the first that takes the rows and the terms without a gradient."""

PRICE, PRICE_PER_VARIABLE = 10.0, 0.1
"""What a Hessian and its factor cost, in gradients: a line through measured costs."""

SHARED = 2**22
"""Bytes of one chunk's matrices: they stay in cache, and numpy's overhead is shared by many."""

STATUSES = ("solver_error", "optimal_inaccurate", "optimal")


class Newton:
    """Clients with smooth terms; rows and ``abs`` terms as far as a step method takes them."""

    name = "newton"
    batches = True
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        """Why this solver cannot take the client; empty if it can."""
        form = subproblem.form
        if form is None or not form.complete:
            return "its cone program has parts that are no quadratic and no known function"
        if not any(term.is_smooth for term in form.terms):
            return "it has no smooth term that is not quadratic"
        if any(term.kind == "entropy" and _mixes(term) for term in form.terms):
            return "an argument of its entropy terms is more than one variable"  # steps get stuck
        reasons = [method.refuses(form) for method in METHODS]
        return "" if "" in reasons else "; ".join(dict.fromkeys(reasons))

    def open(self, subproblems: Sequence[Subproblem]) -> NewtonSession:
        """Start a run on clients of one ``form.shape``."""
        return NewtonSession(subproblems)


def _mixes(term: Term) -> bool:
    return any(np.count_nonzero(row) > 1 for row in sp.csr_array(term.matrix).toarray())


class NewtonSession:
    """One run of :class:`Newton`: points, Hessians and warm starts of B clients."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        forms = [sub.form for sub in subproblems if sub.form is not None]
        first, count, size = forms[0], len(forms), forms[0].size
        self._augmented = Augmented(subproblems)
        valued = [replace(f, terms=tuple(t for t in f.terms if not t.is_set)) for f in forms]
        self.terms = Terms(valued)
        self.method = _method(forms)
        balls = sum(term.weight.size for term in first.terms if term.is_set)
        self.rows = first.equalities.right.size, first.inequalities.right.size, balls
        self.price = PRICE + size * PRICE_PER_VARIABLE
        is_free = not (any(self.rows) or self.terms.has_kinks)
        self.hessians = None if is_free else np.zeros((count, size, size))
        self.floor = 0.0 if is_free else FLOOR

        matrices = [form.quadratic.full for form in forms]
        self.quadratic = np.stack(matrices) if any(a.any() for a in matrices) else None
        self._slopes = np.stack([form.quadratic.slope for form in forms])
        self._constants = np.array([form.quadratic.constant for form in forms])
        self.penalty = np.zeros((count, size))  # the diagonals of K, or all K: see `_penalise`
        self._at_once = max(1, SHARED // max(1, self.terms.bytes, 8 * size**2))

        points = self.terms.inner(size)
        values, pulls, bends = self.terms.evaluate(np.arange(count), points)
        self.state = NewtonState(
            points,
            values + self.terms.kinks(np.arange(count), points),
            pulls,
            bends=bends,
            last_bends=bends.copy(),
            rates=np.full(count, UNKNOWN),
            radii=np.zeros(count),
            spent=np.zeros(count),
            is_cold=np.ones(count, dtype=bool),
            is_stale=np.ones(count, dtype=bool),
            is_feasible=np.full(count, not any(self.rows)),
        )

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        which = turn.which
        linear = self._augmented.slopes(turn) + self._slopes[selection(which)]
        self._penalise(which[self._augmented.changed(turn)])
        chunks: list[Chunk] = []
        for start in range(0, which.size, self._at_once):
            piece = slice(start, start + self._at_once)
            chunks.append(Chunk(self, which[piece], linear[piece], tolerance))
            chunks[-1].minimise()
            del chunks[-1].terms  # may be copies of the data
        codes = np.concatenate([chunk.codes for chunk in chunks])
        points = self.state.points[which]
        objectives = self._objectives(which, points)
        messages = {}
        for i in np.flatnonzero(codes < OPTIMAL):
            chunk, at = chunks[i // self._at_once], i % self._at_once
            messages[int(i)] = _message(chunk.x[at], chunk.sizes[at])
        points[codes == ERROR] = np.nan
        objectives[codes == ERROR] = np.nan

        held = Multipliers.table(np.concatenate([chunk.multipliers for chunk in chunks]))
        statuses = [STATUSES[code] for code in codes.tolist()]
        return Answers(points.ravel(), objectives, statuses, held, messages)

    def _objectives(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The clients' own at their last points, where the values of the terms are known."""
        at = selection(which)
        linear = self._slopes[at]
        if self.quadratic is not None:
            linear = linear + times(self.quadratic[at], points) / 2
        return self._constants[at] + np.vecdot(linear, points) + self.state.values[at]

    def _penalise(self, which: np.ndarray) -> None:
        """Take the K of some clients anew; only diagonals are kept where there is nothing else."""
        if which.size == 0:
            return
        found = self._augmented.curvatures(which)
        diagonal = np.diagonal(found, axis1=1, axis2=2)
        if self.penalty.ndim == 2 and np.count_nonzero(found) > np.count_nonzero(diagonal):
            full = np.zeros((*self.penalty.shape, self.penalty.shape[1]))
            add_diagonal(full, self.penalty)
            self.penalty = full
        self.penalty[which] = diagonal if self.penalty.ndim == 2 else found
        self.state.is_stale[which] = True


def _message(point: np.ndarray, size: float) -> str:
    if not np.isfinite(point).all():
        return "Newton: no point found inside of the domain of the terms log and entropy"
    if not np.isfinite(size):
        return "Newton: the quadratic model has no minimiser"
    return f"Newton: the steps stay at {size:.1e}, relative to max(1, size)"


def _method(forms: Sequence[Form]) -> StepMethod:
    for method in METHODS:
        if not any(method.refuses(form) for form in forms):
            return method(forms)
    raise ValueError("no step method takes all of these clients")
