r"""Newton's method with Hessians that are kept while they will do, many clients at once.

With f the client's own smooth part and K, c of the augmented terms, a step from x minimises

.. math::
    \tfrac12 y^\top H y + (g - H x)^\top y \; (+ \textstyle\sum_t w_t |a_t^\top y + b_t|)
    \quad\text{s.t. } E y = e,\; A y \le b, \qquad
    g = \nabla f(x) + K x + c, \quad H = \nabla^2 f(x_{\text{then}}) + K,

where H is that of an earlier point (simplified Newton, or chord, method): an iteration costs one
gradient. The steps :math:`d = y - x` shrink by a factor :math:`\theta` that tells how good H still
is, and the error of x is at most about :math:`\|d\| / (1 - \theta)`. A client whose steps do not
shrink is guarded: a Hessian at every point and an line search along d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.form import Form, Term
from dald_model.solvers.active_set import ActiveSet
from dald_model.solvers.augmented import Augmented
from dald_model.solvers.base import Answers, Turn
from dald_model.solvers.factor import Factor, selection, times
from dald_model.solvers.lifted import Lifted
from dald_model.solvers.proximal import Proximal
from dald_model.solvers.shrink import Shrink
from dald_model.solvers.step import Step, StepMethod
from dald_model.solvers.terms import Terms

if TYPE_CHECKING:
    from dald_model.subproblem import Subproblem

METHODS: tuple[type[StepMethod], ...] = (Factor, ActiveSet, Shrink, Proximal, Lifted)
"""Who takes the steps: the first that takes the rows and the terms without a gradient."""

LIMIT = 100
"""Trial points for one client in one turn."""

SAFETY = 0.2
"""Which share of the tolerance the estimated error may take."""

LOST, MOST_LOST = 0.5, 0.05
"""A function is lost whose curvature is below the first share of what it was when H was taken; H
is renewed before a client is done where more than the second share of the curvature was theirs.

The estimated error is blind to directions that the last steps hardly had and in which H has
become much too large. While nothing is lost, the step is too short by 1 / LOST at most.
"""

GOOD, BAD = 0.25, 0.9
r"""Below the first :math:`\theta` the estimate is believed; beyond the second a point is dropped.

The first must be below 1/2: close to a pole, as that of the logarithm, Newton's steps are tiny
however far the minimum is, and shrink by one half.
"""

UNKNOWN = np.nan
r"""The :math:`\theta` of an H that no full step has been taken with."""

DESCENT = 1e-4
"""Which share of the predicted descent a full guarded step must bring."""

HALVINGS = 40
"""Points along a guarded step that was too long; they cost no product with a matrix."""

INWARD = 0.9
"""Share of the way to the edge of the domain that a point goes which breaks a row."""

ROUNDING = 1e-14
"""Differences of objectives below this share of their parts are rounding errors."""

FLOOR = 1e-12
"""Steps between points are rounding errors below this size; without rows none are subtracted."""

STALLS = 3
"""Steps without progress after which a guarded client whose descent is rounding gives up."""

FIRST_SHIFT, LAST_SHIFT, SHIFT_GROWTH = 1e-11, 1e-2, 100.0
"""Levenberg's multiples of the diagonal, tried in turn where H is singular."""

FADING = 0.9
r"""How much of the worst :math:`\theta` seen counts one iteration later."""

PRICE, PRICE_PER_VARIABLE = 10.0, 0.1
"""What a Hessian and its factor cost, in gradients: a line through measured costs."""

RENEWALS = 3
"""After how many Hessians in one turn a client is guarded to the end of it."""

SHARED = 2**22
"""Bytes of one chunk's matrices: they stay in cache, and numpy's overhead is shared by many."""

ERROR, INACCURATE, OPTIMAL = 0, 1, 2
STATUSES = ("solver_error", "optimal_inaccurate", "optimal")


class Newton:
    """Clients with smooth terms; rows and ``abs`` terms as far as a step method takes them."""

    name = "newton"
    batches = True

    def refuses(self, subproblem: Subproblem) -> str:
        """Why this solver cannot take the client; empty if it can."""
        form = subproblem.form
        if form is None or not form.complete:
            return "parts of it have no form but a cone program"
        if not any(term.is_smooth for term in form.terms):
            return "it has no smooth term that is not quadratic"
        if any(term.kind == "entropy" and _mixes(term) for term in form.terms):
            return "an argument of its entropy terms is more than one variable"  # steps get stuck
        if any(term.is_set for term in form.terms):
            return "it has balls"
        reasons = [method.refuses(form) for method in METHODS]
        return "" if "" in reasons else "; ".join(dict.fromkeys(reasons))

    def open(self, subproblems: Sequence[Subproblem]) -> NewtonSession:
        """Start a run on clients of one ``form.shape``."""
        return NewtonSession(subproblems)


def _mixes(term: Term) -> bool:
    return any(np.count_nonzero(row) > 1 for row in sp.csr_array(term.matrix).toarray())


@dataclass
class _State:
    """What B clients begin their next turn with: all that is known at their last points.

    ``bends`` are those of the points where H was taken.
    """

    points: np.ndarray
    values: np.ndarray
    pulls: np.ndarray
    bends: np.ndarray
    last_bends: np.ndarray
    rates: np.ndarray
    radii: np.ndarray
    spent: np.ndarray
    is_cold: np.ndarray
    is_stale: np.ndarray
    is_feasible: np.ndarray


class NewtonSession:
    """One run of :class:`Newton`: points, Hessians and warm starts of B clients."""

    def __init__(self, subproblems: Sequence[Subproblem]) -> None:
        forms = [sub.form for sub in subproblems if sub.form is not None]
        first, count, size = forms[0], len(forms), forms[0].size
        self._subproblems = subproblems
        self._augmented = Augmented(subproblems)
        self.terms = Terms(forms)
        self.method = _method(forms)
        self.rows = first.equalities.right.size, first.inequalities.right.size
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
        self.state = _State(
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
        chunks: list[_Chunk] = []
        for start in range(0, which.size, self._at_once):
            piece = slice(start, start + self._at_once)
            chunks.append(_Chunk(self, which[piece], linear[piece], tolerance))
            chunks[-1].minimise()
            del chunks[-1].terms  # may be copies of the data; the duals are asked for later
        codes = np.concatenate([chunk.codes for chunk in chunks])
        points = self.state.points[which]
        objectives = self._objectives(which, points)
        messages = {}
        for i in np.flatnonzero(codes < OPTIMAL):
            chunk, at = chunks[i // self._at_once], i % self._at_once
            messages[int(i)] = _message(chunk.x[at], chunk.sizes[at])
        points[codes == ERROR] = np.nan
        objectives[codes == ERROR] = np.nan

        def duals(i: int) -> tuple[Any, ...]:
            chunk, at = chunks[i // self._at_once], i % self._at_once
            return self._subproblems[which[i]].local_duals(chunk.equality[at], chunk.inequality[at])

        statuses = [STATUSES[code] for code in codes.tolist()]
        return Answers(points.ravel(), objectives, statuses, duals, messages)

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
            _add_diagonal(full, self.penalty)
            self.penalty = full
        self.penalty[which] = diagonal if self.penalty.ndim == 2 else found
        self.state.is_stale[which] = True


def _message(point: np.ndarray, size: float) -> str:
    if not np.isfinite(point).all():
        return "Newton: no point found inside of the domain of the terms log and entropy"
    if not np.isfinite(size):
        return "Newton: the quadratic model has no minimiser"
    return f"Newton: the steps stay at {size:.1e}, relative to max(1, size)"


class _Model(NamedTuple):
    """Steps d from some points, their sizes relative to max(1, |x|), and the multipliers."""

    steps: np.ndarray
    sizes: np.ndarray
    equality: np.ndarray
    inequality: np.ndarray


class _Chunk:
    """The turn of some clients of a session, few enough for their matrices to stay in cache.

    Arrays have a row for every client of the chunk and hold what is known at the last point kept;
    ``bowls`` are the gradients of the quadratic part, ``pulls`` those of the terms.
    """

    def __init__(
        self, session: NewtonSession, which: np.ndarray, linear: np.ndarray, tolerance: float
    ) -> None:
        at = selection(which)
        self.session, self.which, self.linear = session, which, linear
        self.goal = SAFETY * tolerance
        self.terms = session.terms.part(which)
        self.penalty = session.penalty[at]
        self.quadratic = None if session.quadratic is None else session.quadratic[at]
        state = session.state
        self.x, self.values, self.pulls = (
            state.points[at].copy(),
            state.values[at].copy(),
            state.pulls[at].copy(),
        )
        self.bends = state.last_bends[at].copy()
        self.rates, self.radii = state.rates[at].copy(), state.radii[at].copy()
        self.spent = state.spent[at].copy()
        self.guarded, self.stale = state.is_cold[at].copy(), state.is_stale[at].copy()
        self.feasible = state.is_feasible[at].copy()
        self.codes = np.zeros(which.size, dtype=int)
        self.lengths = np.ones(which.size)
        self.falls = np.zeros(which.size, dtype=int)
        self.stalls = np.zeros(which.size, dtype=int)
        rows = session.rows
        self.bowls, self.steps = np.zeros_like(self.x), np.zeros_like(self.x)
        self.sizes = np.full(which.size, np.inf)
        self.equality = np.zeros((which.size, rows[0]))
        self.inequality = np.zeros((which.size, rows[1]))

    def minimise(self) -> None:
        """Leave the minimisers in the session's state and what else is asked for here."""
        live = np.flatnonzero(np.isfinite(self.x).all(axis=1))
        self.bowls[live] = self._bowl(live, self.x[live])
        self._renew(live[self.stale[live]])
        self._aim(live)
        is_known = (self.rates <= GOOD) & (self.sizes <= self.radii)
        is_there = self.sizes <= np.where(is_known, (1 - self.rates) * self.goal, 0.0)
        self.codes[is_there] = OPTIMAL
        for trial in range(LIMIT):
            live = live[(self.codes[live] == ERROR) & np.isfinite(self.sizes[live])]
            if live.size == 0:
                break
            if trial:
                self.spent[live] += 1
            self._try(live)
        self._write()

    def _try(self, live: np.ndarray) -> None:
        """Go along the steps of some clients and keep the points that are better."""
        at = selection(live)
        lengths, guarded = self.lengths[at].copy(), self.guarded[at].copy()
        x = self.x[at] + lengths[:, None] * self.steps[at]
        values, pulls, bends = self.terms.evaluate(live, x)
        bowls = self._bowl(live, x)
        is_inside = np.isfinite(values) & np.isfinite(pulls).all(axis=1)
        if not is_inside.all():
            pulls[~is_inside] = 0.0
        if self.terms.has_kinks:
            values = values + self.terms.kinks(live, x)
        with np.errstate(over="ignore", invalid="ignore"):  # a trial may be anywhere
            model = self._model(live, x, bowls + pulls)
        sizes = self.sizes[at].copy()
        theta = model.sizes / np.maximum(sizes, np.finfo(float).tiny)
        good = is_inside & (theta <= BAD)
        if guarded.any():
            self._search(live, good, x, values, bowls, is_inside, model.sizes)

        is_rounding = is_inside & (model.sizes <= self.session.floor)
        good |= is_rounding
        taken, kept = (at, slice(None)) if good.all() else (live[good], good)
        self.x[taken], self.values[taken] = x[kept], values[kept]
        self.pulls[taken], self.bowls[taken] = pulls[kept], bowls[kept]
        self.bends[taken] = bends[kept]
        self._take(taken, _Model(*(part[kept] for part in model)))

        is_full = lengths == 1
        rates = np.where(is_full, np.fmax(theta, FADING * self.rates[at]), UNKNOWN)
        believed = rates <= GOOD
        is_there = good & believed & (model.sizes <= (1 - rates) * self.goal)
        is_blind = is_there & self._has_lost(live, bends, is_there)
        is_there = (is_there & ~is_blind) | is_rounding
        self.codes[live[is_there]] = OPTIMAL
        self.radii[at] = np.where(believed, np.fmax(self.radii[at], sizes), self.radii[at])
        self.rates[taken] = rates[kept]
        self.feasible[live[good & is_full]] = True
        if is_there.all():
            return

        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(model.sizes / self.goal) / -np.log(theta)
        is_dear = (theta > GOOD) | (left + self.spent[at] > self.session.price)
        is_calm = is_full & (theta <= GOOD) & (self.falls[at] < 2)
        self.guarded[live[good & guarded & is_calm]] = False
        fallen = live[~good & ~guarded]
        self.falls[fallen] += 1
        self.guarded[fallen] = True
        self.lengths[live[good]] = 1.0
        renewed = np.where(good, np.where(guarded, ~is_calm, is_dear), ~guarded)
        renewed = (renewed | is_blind) & ~is_there
        # Steps can shrink under every H and yet run in a circle from one H to the next.
        again = live[renewed & good & ~guarded]
        self.falls[again] += 1
        self.guarded[again[self.falls[again] > RENEWALS]] = True
        if renewed.any():
            self._renew(live[renewed])
            self._aim(live[renewed])

    def _has_lost(self, live: np.ndarray, bends: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Whether too much curvature was lost since H was taken; False where not asked."""
        found = np.zeros(live.size, dtype=bool)
        if asked.any():
            now, chosen = (bends, live) if asked.all() else (bends[asked], live[asked])
            then = self.session.state.bends[selection(self.which[chosen])]
            lost = np.vecdot(then, (now < LOST * then).astype(float))
            found[asked] = lost > MOST_LOST * then.sum(axis=1)
        return found

    def _search(
        self,
        live: np.ndarray,
        good: np.ndarray,
        x: np.ndarray,
        values: np.ndarray,
        bowls: np.ndarray,
        is_inside: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        """Judge the full steps of guarded clients by Armijo's rule: set ``good``, else lengths."""
        i = np.flatnonzero(self.guarded[live])
        at = live[i]
        before, start, step, length = self.x[at], self.bowls[at], self.steps[at], self.lengths[at]
        linear = self.linear[at]
        merit = np.vecdot(before, start + linear) / 2 + self.values[at]
        now = np.vecdot(x[i], bowls[i] + linear) / 2 + values[i]
        parts = np.vecdot(np.abs(before), np.abs(start) + np.abs(linear)) + np.abs(self.values[at])
        descent = np.vecdot(start + self.pulls[at], step)
        if self.terms.has_kinks:
            descent += self.terms.kinks(at, before + step) - self.terms.kinks(at, before)
        noise = ROUNDING * parts
        share = np.where(length == 1, DESCENT, 0.0)  # else it was chosen for its descent
        enough = now <= merit + share * descent + noise
        good[i] = kept = is_inside[i] & (enough | ~self.feasible[at])

        # Where no descent is left that can be told from rounding, steps need not shrink any more.
        stuck = kept & (np.abs(descent) <= noise)
        stuck &= sizes[i] > GOOD * self.sizes[at]
        self.stalls[at[stuck]] += 1
        feasible = self.feasible[at]
        self.codes[at[feasible & (self.stalls[at] >= STALLS)]] = INACCURATE
        self.codes[at[feasible & stuck & (sizes[i] <= self.goal)]] = OPTIMAL

        long, bend = at[~kept], np.vecdot(bowls[i] - start, step) / length
        slope = np.vecdot(start, step)
        self.lengths[long] = self._slide(long, slope[~kept], bend[~kept], length[~kept])

    def _slide(
        self, at: np.ndarray, slope: np.ndarray, bend: np.ndarray, longest: np.ndarray
    ) -> np.ndarray:
        """Lengths, nearly the best, up to which the objective falls along the steps.

        With ``slope`` and ``bend``, the derivatives of its quadratic part along the steps.
        """
        if at.size == 0:
            return longest
        rise, feasible = self.terms.along(at, self.x[at], self.steps[at]), self.feasible[at]
        low, high = np.zeros(at.size), longest
        for _ in range(HALVINGS):
            middle = np.where(low == 0, high / 4, (low + high) / 2)
            found = rise(middle)
            # A point that breaks a row has no objective to go by: it need only stay in the domain
            is_falling = np.where(feasible, slope + middle * bend + found <= 0, np.isfinite(found))
            low, high = np.where(is_falling, middle, low), np.where(is_falling, high, middle)
            if (high <= 1.05 * low).all():
                break
        return np.where(low == 0, high, np.where(feasible, low, INWARD * low))

    def _bowl(self, live: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Gradients of the quadratic part, augmented terms included."""
        at = selection(live)
        penalty = self.penalty[at]
        found = penalty * x if penalty.ndim == 2 else times(penalty, x)
        found += self.linear[at]
        if self.quadratic is not None:
            found += times(self.quadratic[at], x)
        return found

    def _model(self, live: np.ndarray, x: np.ndarray, gradient: np.ndarray) -> _Model:
        """Steps from x to the minimisers of the quadratic models; NaN where there is none."""
        hessians, which = self.session.hessians, self.which[live]
        if hessians is None:
            # Without rows the step itself is the minimiser, free of the rounding errors of H x.
            step, failed, equality, inequality = _apart(self.session.method.solve(which, gradient))
        else:
            slopes = gradient - times(hessians[selection(which)], x)
            point, failed, equality, inequality = _apart(self.session.method.solve(which, slopes))
            step = point - x
        sizes = np.max(np.abs(step) / np.maximum(1.0, np.abs(x)), axis=1, initial=0.0)
        if failed.any():
            sizes[failed] = np.nan
        return _Model(step, sizes, equality, inequality)

    def _aim(self, live: np.ndarray) -> None:
        """Take steps from the points kept."""
        at = selection(live)
        self._take(at, self._model(live, self.x[at], self.bowls[at] + self.pulls[at]))
        self.lengths[at] = 1.0

    def _take(self, at: np.ndarray | slice, model: _Model) -> None:
        self.steps[at], self.sizes[at] = model.steps, model.sizes
        self.equality[at], self.inequality[at] = model.equality, model.inequality

    def _renew(self, live: np.ndarray) -> None:
        """Take the Hessians at the points kept."""
        if live.size == 0:
            return
        hessians = self.terms.hessians(live, self.x[live])
        if self.quadratic is not None:
            hessians += self.quadratic[live]
        if self.penalty.ndim == 2:
            _add_diagonal(hessians, self.penalty[live])
        else:
            hessians += self.penalty[live]
        method, which = self.session.method, self.which[live]
        failed = np.flatnonzero(method.factor(which, hessians))
        shift = FIRST_SHIFT
        while failed.size and shift <= LAST_SHIFT:
            diagonal = np.diagonal(hessians[failed], axis1=1, axis2=2)
            top = diagonal.max(axis=1, keepdims=True)
            floor = np.where(top > 0, top * FIRST_SHIFT, 1.0)
            hessians[failed] = _shifted(hessians[failed], shift * np.maximum(diagonal, floor))
            failed = failed[method.factor(which[failed], hessians[failed])]
            shift *= SHIFT_GROWTH
        if self.session.hessians is not None:
            self.session.hessians[which] = hessians
        self.rates[live], self.radii[live] = UNKNOWN, 0.0
        self.spent[live], self.stale[live] = 0.0, False
        self.session.state.bends[which] = self.bends[live]

    def _write(self) -> None:
        state, which, found = self.session.state, self.which, self.codes > ERROR
        if found.all():
            which, found = selection(which), slice(None)
        else:
            lost = which[~found]
            state.is_cold[lost] = state.is_stale[lost] = True
            which = which[found]
        state.points[which], state.values[which] = self.x[found], self.values[found]
        state.pulls[which], state.rates[which] = self.pulls[found], self.rates[found]
        state.last_bends[which] = self.bends[found]
        state.radii[which] = self.radii[found]
        state.spent[which], state.is_feasible[which] = self.spent[found], True
        state.is_cold[which] = state.is_stale[which] = False


def _apart(step: Step) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return step.points, step.failed, step.equality, step.inequality


def _add_diagonal(matrices: np.ndarray, diagonals: np.ndarray) -> None:
    size = diagonals.shape[1]
    matrices[:, range(size), range(size)] += diagonals


def _shifted(matrices: np.ndarray, diagonals: np.ndarray) -> np.ndarray:
    found = matrices.copy()
    _add_diagonal(found, diagonals)
    return found


def _method(forms: Sequence[Form]) -> StepMethod:
    for method in METHODS:
        if not any(method.refuses(form) for form in forms):
            return method(forms)
    raise ValueError("no step method takes all of these clients")
