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

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form, Term
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.augmented import Augmented
from dald_model.solvers.arrays.indexing import Index, selection, times
from dald_model.solvers.arrays.matrices import SHARED
from dald_model.solvers.arrays.terms import Terms, shared
from dald_model.solvers.base import Answers, Multipliers, Turn
from dald_model.solvers.exact.active_set import ActiveSet
from dald_model.solvers.exact.cholesky import Factor
from dald_model.solvers.exact.newton_guard import ERROR, OPTIMAL
from dald_model.solvers.exact.newton_model import FLOOR, add_diagonal
from dald_model.solvers.exact.newton_points import First, NewtonState, TermGroup
from dald_model.solvers.exact.newton_turn import UNKNOWN, NewtonBatch
from dald_model.solvers.exact.quadratic_step import StepMethod, again
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton

PRICE, PRICE_PER_VARIABLE = 10.0, 0.1
"""What a Hessian and its factor cost, in gradients: a line through measured costs."""

STATUSES = ("solver_error", "optimal_inaccurate", "optimal")

METHODS: tuple[type[StepMethod], ...] = (Factor, ActiveSet, SemismoothNewton)
"""What takes steps, in this order: a factor is cheaper than rows, and rows than terms."""


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
        if mixed := [t.kind.name for t in form.terms if t.kind.is_of_entries and _mixes(t)]:
            return f"an argument of its {mixed[0]} terms is more than one variable"
        reasons = [method.refuses(form) for method in METHODS]
        return "" if "" in reasons else "; ".join(dict.fromkeys(reasons))

    def open(self, subproblems: Sequence[Subproblem]) -> NewtonSession:
        """Start a run on clients of one ``form.shape``."""
        return NewtonSession(subproblems)


def _mixes(term: Term) -> bool:
    return any(np.count_nonzero(row) > 1 for row in sp.csr_array(term.matrix).toarray())


class NewtonSession:
    """One run of :class:`Newton`: points, Hessians and warm starts of B clients.

    Attributes
    ----------
    method : StepMethod
        What takes the steps.
    rows : tuple of int
        Equalities, inequalities and balls of a client.
    price : float
        What a Hessian and its factor cost, in gradients.
    floor : float
        Steps between points below this size are rounding errors.
    hessians : ndarray, shape (B, m, m), or None
        Where steps are taken between points; None where there are neither rows nor kinks.
    quadratic : ndarray, shape (B, m, m), or None
    penalty : ndarray, shape (B, m) or (B, m, m)
        The augmented terms' K, or its diagonal.
    state : NewtonState
    """

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        forms = [sub.form for sub in subproblems if sub.form is not None]
        self._augmented = Augmented(subproblems)
        self.method = _step_method(forms)(forms)
        self._set(forms)
        size, valued = forms[0].size, list(map(_valued, forms))
        self._group = np.zeros(len(forms), dtype=int)
        self._member = np.zeros(len(forms), dtype=int)
        self._groups: list[TermGroup] = []
        for clients in shared(valued, np.full(len(forms), size)):
            self._group[clients], self._member[clients] = len(self._groups), range(clients.size)
            terms = Terms([valued[at] for at in clients], size)
            self._groups.append(_started(clients, terms))
            self._put(self._groups[-1])

    def begin_again(self, subproblems: Sequence[Subproblem]) -> bool:
        """See :class:`dald_model.solvers.base.Lasting`."""
        forms = [sub.form for sub in subproblems if sub.form is not None]
        is_alike = all(map(_has_terms_of, forms, self._forms))
        if not is_alike or _step_method(forms) is not type(self.method):
            return False  # a stack of terms is what takes time
        self._augmented = self._augmented.again(subproblems)
        self.method = again(self.method, forms)
        self._set(forms)
        for group in self._groups:
            self._put(group)
        return True

    def _set(self, forms: list[Form]) -> None:
        """Take all numbers but those of the terms, and know nothing of turns before."""
        first, count, size = forms[0], len(forms), forms[0].size
        self._forms = forms
        balls = sum(term.weight.size for term in first.terms if term.is_set)
        self.rows = first.equalities.rhs.size, first.inequalities.rhs.size, balls
        self.price = PRICE + size * PRICE_PER_VARIABLE
        has_kinks = any(not (term.is_smooth or term.is_set) for term in first.terms)
        is_free = not (any(self.rows) or has_kinks)
        self.hessians = None if is_free else np.zeros((count, size, size))
        self.floor = 0.0 if is_free else FLOOR

        matrices = [form.quadratic.full for form in forms]
        self.quadratic = np.stack(matrices) if any(a.any() for a in matrices) else None
        self._linear = np.stack([form.quadratic.linear for form in forms])
        self._constants = np.array([form.quadratic.constant for form in forms])
        self.penalty = np.zeros((count, size))  # the diagonals of K, or all K: see `_penalise`
        self.state = NewtonState(
            np.zeros((count, size)),
            np.zeros(count),
            np.zeros((count, size)),
            rates=np.full(count, UNKNOWN),
            radii=np.zeros(count),
            spent=np.zeros(count),
            is_cold=np.ones(count, dtype=bool),
            is_stale=np.ones(count, dtype=bool),
            is_new=np.ones(count, dtype=bool),
            is_feasible=np.full(count, not any(self.rows)),
        )

    def _put(self, group: TermGroup) -> None:
        """Put clients at the point of their domain that is known of their terms."""
        state, clients, first = self.state, group.clients, group.first
        state.points[clients], state.values[clients] = first.points, first.values
        state.smooth_gradients[clients] = first.gradients
        group.curvatures, group.last_curvatures = first.curvatures.copy(), first.curvatures.copy()

    def _begin(self, which: np.ndarray, linear: np.ndarray, points: np.ndarray) -> None:
        """Have clients that are asked for the first time begin where they stand, if that is less.

        ``linear`` and ``points`` are (k, m) of all that are asked.
        """
        at = np.flatnonzero(self.state.is_new[which])
        self.state.is_new[which] = False
        for place, group in self._parts(which[at]):
            mine, x = which[at[place]], points[at[place]]
            members = self._member[mine]
            values, gradients, curvatures = group.terms.evaluate(members, x)
            values = values + group.terms.kinks(members, x)
            known, state = linear[at[place]], self.state
            with np.errstate(all="ignore"):
                merits = [
                    np.vecdot(y, self._quadratic_part(mine, y) / 2 + known) + value
                    for y, value in ((x, values), (state.points[mine], state.values[mine]))
                ]
                is_less = np.isfinite(merits[0]) & ~(merits[1] < merits[0])
            is_less &= np.isfinite(gradients).all(axis=1)
            mine, members = mine[is_less], members[is_less]
            state.points[mine], state.values[mine] = x[is_less], values[is_less]
            state.smooth_gradients[mine] = gradients[is_less]
            group.last_curvatures[members] = curvatures[is_less]

    def _quadratic_part(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The gradients of the quadratic parts, augmented terms included, but for linear ones."""
        at = selection(which)
        penalty = self.penalty[at]
        found = penalty * points if penalty.ndim == 2 else times(penalty, points)
        return found if self.quadratic is None else found + times(self.quadratic[at], points)

    def minimise(self, turn: Turn, tolerance: float) -> Answers:
        """See :class:`dald_model.solvers.base.Session`."""
        which = turn.which
        linear = self._augmented.linear(turn).reshape(which.size, -1)
        linear += self._linear[selection(which)]
        self._penalise(which[self._augmented.changed(turn)])
        if turn.points.size and self.state.is_new[which].any():
            self._begin(which, linear, turn.points.reshape(linear.shape))
        codes = np.zeros(which.size, dtype=int)
        multipliers = np.zeros((which.size, sum(self.rows)))
        lengths, slopes = turn.tables(linear.shape[1])
        left = np.zeros(linear.shape)
        messages = {}
        for at, group in self._parts(which):
            mine = which[at]
            members = mine if len(self._groups) == 1 else self._member[mine]
            batch = NewtonBatch(self, group, mine, members, linear[at], lengths[at], tolerance)
            batch.minimise()
            codes[at], multipliers[at] = batch.codes, batch.points.multipliers
            left[at] = batch.left
            if (batch.codes < OPTIMAL).any():
                places = np.arange(which.size)[at].tolist()
                for i in np.flatnonzero(batch.codes < OPTIMAL).tolist():
                    messages[places[i]] = _message(batch.points.x[i], batch.points.sizes[i])
        points = self.state.points[which]
        objectives = self._objectives(which, points)
        points[codes == ERROR] = np.nan
        objectives[codes == ERROR] = np.nan

        held = Multipliers.table(multipliers)
        statuses = [STATUSES[code] for code in codes.tolist()]
        slack = left.max(axis=1), (left / slopes).max(axis=1)
        return Answers(points.ravel(), objectives, statuses, held, messages, *slack)

    def _parts(self, which: np.ndarray) -> Iterator[tuple[Index, TermGroup]]:
        """The positions in ``which`` of clients that are worked on together, and their group."""
        if len(self._groups) == 1:
            (group,) = self._groups
            for start in range(0, which.size, group.at_once):
                yield slice(start, start + group.at_once), group
            return
        for number, group in enumerate(self._groups):
            own = np.flatnonzero(self._group[which] == number)
            for start in range(0, own.size, group.at_once):
                yield own[start : start + group.at_once], group

    def _objectives(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The clients' own at their last points, where the values of the terms are known."""
        at = selection(which)
        linear = self._linear[at]
        if self.quadratic is not None:
            linear = linear + times(self.quadratic[at], points) / 2
        return self._constants[at] + np.vecdot(linear, points) + self.state.values[at]

    def _penalise(self, which: np.ndarray) -> None:
        """Take the K of some clients anew; only diagonals are kept where there is nothing else."""
        if which.size == 0:
            return
        found = self._augmented.last_hessians(which)
        diagonal = np.diagonal(found, axis1=1, axis2=2)
        if self.penalty.ndim == 2 and np.count_nonzero(found) > np.count_nonzero(diagonal):
            full = np.zeros((*self.penalty.shape, self.penalty.shape[1]))
            add_diagonal(full, self.penalty)
            self.penalty = full
        self.penalty[which] = diagonal if self.penalty.ndim == 2 else found
        self.state.is_stale[which] = True


def _step_method(forms: Sequence[Form]) -> type[StepMethod]:
    """The first that takes all forms."""
    return next(one for one in METHODS if not any(map(one.refuses, forms)))


def _started(clients: np.ndarray, terms: Terms) -> TermGroup:
    """Clients at a point of their domain."""
    points = terms.inner()
    values, gradients, curvatures = terms.evaluate(None, points)
    first = First(points, values + terms.kinks(None, points), gradients, curvatures)
    at_once = max(1, SHARED // max(1, terms.bytes, 8 * terms.size**2))
    return TermGroup(clients, terms, first, curvatures, curvatures.copy(), at_once)


def _message(point: np.ndarray, size: float) -> str:
    if not np.isfinite(point).all():
        return "Newton: no point found inside of the domain of its terms"
    if not np.isfinite(size):
        return "Newton: the quadratic model has no minimiser"
    return f"Newton: the steps stay at {size:.1e} natural lengths"


def _valued(form: Form) -> list[Term]:
    return [term for term in form.terms if not term.is_set]


def _has_terms_of(form: Form, other: Form) -> bool:
    """Whether the objectives' terms are the same."""
    if form is other:
        return True
    pairs = zip(_valued(form), _valued(other), strict=True)
    return all(
        one.kind is two.kind
        and one.matrix is two.matrix
        and np.array_equal(one.offset, two.offset)
        and np.array_equal(one.weight, two.weight)
        and np.array_equal(one.parameter, two.parameter)
        for one, two in pairs
    )
