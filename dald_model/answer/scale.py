r"""The two scales of a verdict: the cost of consensus, and how far each entry may be said to move.

With x the point that the user reads,

.. math:: S = \sum_i \Big[ f_i(x) - f_i(y_i) \Big]

is what the clients pay for agreeing, at least (:mod:`dald_model.answer.cost_of_consensus`). It is
made of differences of one function at two points, so constants and origins cancel, and it follows
every unit of the objective and of the variables.

Where clients pay little or nothing, no gap is small beside S, and what cannot be seen of F takes
its place: the yardstick is :math:`\max(S, u / 10^{-4})`, with

.. math::
    u = \max\Big( 10^{-7} \sum_i \min(|f_i(x) - c_i|, D_i), \; \frac{R^2}{\max(R, |F|)} \Big).

So errors of 1e-7 of F pass: solvers leave 1e-8, and a
proof adds several. The constants :math:`c_i` that a user adds do not count, and no client counts
for more than :math:`D_i`, by which its objective changes where all of x doubles or vanishes:
neither an offset of F nor one of x makes u large alone. R is what F changes by where x is rounded
to the eight digits that are printed, or 1e-7 of what it changes by where x doubles or vanishes,
whichever is least: far out in a valley F is not zero, whatever digits of x are worth; and
:math:`R / |F|` how far F is zero for who reads x. Every part is continuous, so nothing jumps where
clients begin to pay. The length of an entry,

.. math::
    L_e = \max\Big( \min\big( \max_i |y_{i,e} - x_e|, \;
        \max(|x_e|, m_e(S)) \big), \; m_e(u / 10^{-4}) \Big),

is the longest way that a client would go, or less: the size of the entry, but no more than its two
bounds are apart, or, where that is longer, the move :math:`m_e(S)` of this entry alone that changes
a client's objective by S; and no shorter than a move that nobody sees in F. So neither a far origin
nor a client that hardly knows its own minimiser can make it large. An entry that all want where it
is has the length of that move, or of one that a row of constraints notices. Lengths bound the box
of a proof and how far constraints may be violated, never the objective.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import NegExpression
from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts
from dald_model.answer.claim import Claim, client_costs
from dald_model.answer.cost_of_consensus import Slopes, least_paid, single_bounds
from dald_model.answer.smooth_clients import ROOM
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.arrays.terms import Terms

NOISE = 256 * np.finfo(float).eps
"""What doubles do not hold of a sum, as a share of the sizes of its summands: expressions of a few
hundred operations each round once."""
DIGITS = 1e-12
"""Share of each entry of x, and of what the clients pay at zero, that rounding x leaves open."""
DRAWS = 4
"""Directions in which x is rounded; the worst of a few is what counts, not the worst of all."""
FAINT = 1e-6
"""Share of the move that is worth S, or that a row would notice, below which a length is what
residuals of 1e-6 leave of zero, as where all clients agree on a bound."""
UNSURE = 1e-4
"""Share of the longest of its variable below which a way may be what a cone solver leaves of zero:
its gap of 1e-8 is a move of the root of that."""
LEAST = 1e-2
"""Share of the move that is worth S that every length has at least: 1e-4 of it then changes an
objective by 1e-6 of S."""
PASSES = 3
"""So many rows away a length is told to entries without one of their own."""
CANCELLED = 1e-14
"""Share of the largest coefficient of a row, or slope of a client, below which another is what
rounding left of zero; of a curvature the square."""
SHORTER = 1e-4
"""Share of a client's longest length below which an entry is compared with the others by rows."""
FAINTLY = 0.1
"""Share of that move which then is the length: a thousandth of 1e-4 of it is what they leave."""
NOTHING = 1e-13
"""Lengths below this share of a right-hand side, or of one where there is none, are of entries that
are zero for everybody and of which nothing else says how far they move."""
SETTLED = 1e-9
"""The same where all clients agree on everything, and a solver's zero may be as large."""
SEEN = 1e-7
"""Share of F that may be wrong unseen: solvers leave 1e-8 of it, and a proof adds up several."""
PRINTED = 1e-8
"""Share of each entry of x that the eight digits which are printed of it leave open."""
ALLOWED = 1e-4
"""Share of the cost of consensus that a gap may be by default, which turns one into the other. It
resolves prices to the root of it."""


REACH = 10.0
"""How many lengths a proof's box reaches, and how many ways that clients would go."""


class Scale:
    """The scales at a point, see the module.

    Attributes
    ----------
    paid, cost : float
        S, the cost of consensus, and the yardstick of gaps, which is more where S is not seen.
    unseen, least : float
        How wrong F may be before anybody sees it, and the yardstick that is the least for it.
    worth : float
        The yardstick of prices, of which a gap resolves no more than its root.
    total : float
        The sum of the absolute values of the clients' objectives.
    noise, digits : float
        What doubles do not hold of F, and what rounding x by 1e-12 changes of it.
    lengths : ndarray
        L, all clients' variables one after the other.
    farther : ndarray
        The same for prices: the longer where it is not known whether a length is a solver's error.
    reach : ndarray
        How far the wide box of a proof reaches: ten lengths, or ten times the longest way that a
        client would go.
    """

    def __init__(
        self,
        claim: Claim,
        parts: Parts,
        at: np.ndarray,
        costs: Mapping[Hashable, float],
        prices: np.ndarray,
    ) -> None:
        compiled = claim.compiled
        self.total = float(sum(abs(cost) for cost in costs.values() if np.isfinite(cost)))
        self.noise = NOISE * self.total
        sizes = _sizes(compiled, at)
        changes, together = _changes(claim, sizes, costs)
        rounded = min(_rounding(claim, sizes, costs, PRINTED), SEEN * together)
        digits = _rounding(claim, np.abs(at), costs, DIGITS)
        self.digits = min(digits, DIGITS * _at_zero(compiled, claim))
        whole, ranges = Alike.by_variable(compiled).most(sizes), _ranges(compiled)
        steep, bent = _steepness(compiled, claim.live, at)
        with np.errstate(all="ignore"):
            ways = np.where(bent > 0, np.abs(prices) / bent, 0.0)
        is_zero = np.abs(at) <= FAINT * np.where(bent > 0, ways, whole)
        allowed = _allowed_by_rows(compiled)
        boxes = np.where(is_zero, np.where(np.isfinite(allowed), allowed, whole), sizes)
        boxes = np.minimum(np.where(bent > 0, np.maximum(sizes, ways), boxes), ranges)
        slopes = Slopes(steep, bent, prices, boxes, is_zero)
        alone = least_paid(compiled, parts, at, costs, slopes)
        self.paid = float(sum(filter(np.isfinite, alone.falls.values())))
        self.unseen = self._unseen(claim, costs, changes, rounded)
        self.least = self.unseen / ALLOWED
        known = self.paid if alone.endless else max(self.paid, self.least)
        moves = [_moves(slopes.steep, slopes.bent, one) for one in (known, self.least)]
        self.reach = Alike.by_edges(compiled).most(alone.farthest)
        ways = Alike.by_entry(compiled).most(alone.ways)
        self.lengths = _lengths(compiled, at, ways, *moves)
        self.farther = _farther(compiled, at, self.lengths, ways, moves[0])
        self.reach = REACH * np.maximum(self.lengths, self.reach)
        self.paid += self._paid_within(claim, at, costs, alone.endless)
        self.cost = max(self.paid, self.least)
        change = sum(filter(np.isfinite, changes.values()))
        self.worth = max(self.paid, self.least / np.sqrt(ALLOWED), PRINTED * change)

    def _paid_within(
        self,
        claim: Claim,
        at: np.ndarray,
        costs: Mapping[Hashable, float],
        ways: Mapping[Hashable, np.ndarray],
    ) -> float:
        """What clients that fall for ever could gain on their way within the lengths."""
        near = {}
        for name, way in ways.items():
            part = claim.compiled.columns[name]
            with np.errstate(divide="ignore"):
                share = float((self.lengths[part] / np.abs(way)).min())
            near[name] = at[part] + min(share, 1.0) * way
        there = client_costs(claim.compiled, near, near)
        return sum(max(float(costs[name] - cost), 0.0) for name, cost in there.items())

    def _unseen(
        self,
        claim: Claim,
        costs: Mapping[Hashable, float],
        changes: Mapping[Hashable, float],
        rounded: float,
    ) -> float:
        """By how much F may be wrong before anybody sees it, see the module."""
        own = {name: abs(cost) for name, cost in costs.items()}
        if ALLOWED * self.paid < SEEN * self.total:  # else what is paid is more than that anyway
            subs = claim.compiled
            own = {name: abs(c - _constant(subs[name].client.cost)) for name, c in costs.items()}
        of_value = SEEN * float(np.nansum([min(own[name], one) for name, one in changes.items()]))
        size = max(rounded, float(np.nansum([*own.values()])))
        return max(of_value, rounded * rounded / (size or 1.0))

    @property
    def open(self) -> float:
        """What of a gap doubles leave open in any case."""
        return self.noise + self.digits


def _rounding(
    claim: Claim, sizes: np.ndarray, costs: Mapping[Hashable, float], share: float
) -> float:
    """How much F changes at most where the entries of x are rounded by a share of their sizes."""
    rng, worst, here = np.random.default_rng(0), 0.0, sum(costs.values())
    columns, at = claim.compiled.columns, claim.vector
    for _ in range(DRAWS):
        to = at + share * sizes * rng.choice([-1.0, 1.0], size=at.size)
        moved = {name: to[columns[name]] for name in claim.points}
        there = sum(client_costs(claim.compiled, moved, claim.live).values())
        if np.isfinite(there):
            worst = max(worst, abs(there - here))
    return worst


def _at_zero(compiled: Decomposition, claim: Claim) -> float:
    zero = {name: np.zeros(point.size) for name, point in claim.points.items()}
    found = sum(abs(cost) for cost in client_costs(compiled, zero, claim.live).values())
    return found if np.isfinite(found) else np.inf


def _constant(cost: Any) -> float:
    """What is added to an objective whatever its variables are, in sums and products by numbers."""
    if cost.is_constant():
        return float(cost.value)
    if isinstance(cost, cp.AddExpression):
        return sum(map(_constant, cost.args))
    if isinstance(cost, NegExpression):
        return -_constant(cost.args[0])
    if isinstance(cost, cp.MulExpression | cp.multiply) and all(a.size == 1 for a in cost.args):
        one, two = sorted(cost.args, key=lambda arg: not arg.is_constant())
        return float(np.asarray(one.value).item()) * _constant(two)
    return 0.0


def _changes(
    claim: Claim, sizes: np.ndarray, costs: Mapping[Hashable, float]
) -> tuple[dict[Hashable, float], float]:
    """The larger change of each client's objective where all entries move by their sizes.

    They double or vanish; and by how much all objectives change together, whichever is less.
    """
    columns, found, together = claim.compiled.columns, dict.fromkeys(costs, 0.0), np.inf
    for factor in (1.0, -1.0):
        moved = {
            name: x + factor * np.copysign(sizes[columns[name]], x)
            for name, x in claim.points.items()
        }
        there = client_costs(claim.compiled, moved, claim.live)
        changes = {name: abs(there[name] - costs[name]) for name in costs}
        found = {name: float(np.fmax(found[name], changes[name])) for name in costs}
        together = float(np.fmin(together, sum(changes.values())))
    return found, together


def _lengths(
    compiled: Decomposition,
    at: np.ndarray,
    ways: np.ndarray,
    worth: np.ndarray,
    unseen: np.ndarray,
) -> np.ndarray:
    """L of each entry, from the ways to the clients' own minimisers and the moves worth S.

    No shorter than those that change F by nothing that is seen. Infinite where none is known.
    """
    equal = Alike.by_edges(compiled)
    own, move, least = equal.most(np.abs(at)), equal.least(worth), equal.least(unseen)
    ranges = _ranges(compiled)
    size, own = np.minimum(Alike.by_variable(compiled).most(own), ranges), np.minimum(own, ranges)
    is_known = np.isfinite(move)
    most = np.where(is_known, np.maximum(own, move), np.where(size > 0, size, np.inf))
    own = np.where(own > FAINT * size, own, size)
    whole = np.where(ways > 0, np.minimum(ways, most), np.where(is_known, move, own))
    whole = np.maximum(whole, np.where(is_known, np.maximum(LEAST * move, least), 0.0))
    is_told = is_known | ((ways > 0) & np.isfinite(ways))
    whole = np.where(np.isfinite(whole), whole, 0.0)
    whole = _passed_on(compiled, whole, is_told)
    is_agreed, right = not ways.any(), np.full(at.size, np.inf)
    for _ in range(PASSES):
        moves, right = _moves_of_rows(compiled, whole, asks_all=is_agreed)
        moves = np.where(np.isfinite(moves), moves, 0.0)
        moves = np.maximum(moves, _moves_of_edges(compiled, whole))
        whole = np.where(whole <= FAINT * moves, FAINTLY * moves, whole)
    last = np.where(np.isfinite(right), right, 1.0)
    nothing = SETTLED if is_agreed else NOTHING
    whole = np.where(whole <= nothing * last, FAINTLY * last, whole)
    whole = Alike.by_entry(compiled).most(whole)
    return np.where(whole > 0, whole, 1.0)


def _ranges(compiled: Decomposition) -> np.ndarray:
    """How far the two bounds of an entry are apart, of all its copies; infinite without two."""
    found = np.full(sum(sub.size for sub in compiled.values()), np.inf)
    for name, sub in compiled.items():
        if sub.form is not None and sub.form.inequalities.rhs.size:
            low, high = single_bounds(sub.form)
            found[compiled.columns[name]] = high - low
    return Alike.by_edges(compiled).least(np.where(found > 0, found, np.inf))


def _farther(
    compiled: Decomposition,
    at: np.ndarray,
    lengths: np.ndarray,
    ways: np.ndarray,
    moves: np.ndarray,
) -> np.ndarray:
    """The lengths for prices: no shorter than the way, or the size of the variable if it is less.

    And the longest of its variable for an entry that all may want where it is.
    """
    by_variable = Alike.by_variable(compiled)
    size = by_variable.most(abs(at))
    longest = np.maximum(lengths, np.minimum(by_variable.most(lengths), size))
    is_unknown = np.isinf(Alike.by_edges(compiled).least(moves))
    is_unsure = is_unknown & (ways <= UNSURE * longest)
    return np.where(is_unsure, longest, np.maximum(lengths, np.minimum(ways, size)))


def _passed_on(compiled: Decomposition, lengths: np.ndarray, is_told: np.ndarray) -> np.ndarray:
    """Lengths of entries of which nothing says how far they move from those they have to equal."""
    cells, count = compiled.stacked.cells, compiled.size
    while not is_told.all():
        reach = np.bincount(
            cells.row, np.abs(cells.data) * np.where(is_told, lengths, 0.0)[cells.col], 2 * count
        )
        other = np.roll(reach, count)[cells.row]
        is_new = ~is_told[cells.col] & (other > 0) & (cells.data != 0)
        if not is_new.any():
            break
        found = np.zeros(lengths.size)
        np.maximum.at(found, cells.col[is_new], other[is_new] / np.abs(cells.data[is_new]))
        lengths = np.where(found > 0, found, lengths)
        is_told = is_told | (found > 0)
    return lengths


def _sizes(compiled: Decomposition, at: np.ndarray) -> np.ndarray:
    """The absolute value of each entry; of a variable that is zero what a row allows it, or one."""
    allowed = _allowed_by_rows(compiled)
    allowed = np.where(np.isfinite(allowed), allowed, 1.0)
    is_zero = Alike.by_variable(compiled).most(np.abs(at)) <= SETTLED * allowed
    return np.where(is_zero, allowed, np.abs(at))


def _allowed_by_rows(compiled: Decomposition) -> np.ndarray:
    """How far an entry alone moves a row as far as its right-hand side; infinite without any."""
    nothing = np.zeros(sum(sub.size for sub in compiled.values()))
    right = _moves_of_rows(compiled, nothing, asks_all=True)[1]
    return Alike.by_edges(compiled).least(right)


def _moves_of_edges(compiled: Decomposition, lengths: np.ndarray) -> np.ndarray:
    """How far an entry alone moves the longest of its edges as far as the other end does."""
    found = np.zeros(lengths.size)
    cells, count = compiled.stacked.cells, compiled.size
    reach = np.bincount(cells.row, np.abs(cells.data) * lengths[cells.col], 2 * count)
    largest = np.zeros(2 * count)
    np.maximum.at(largest, cells.row, np.abs(cells.data))
    is_held = np.abs(cells.data) > CANCELLED * largest[cells.row]
    other = np.roll(reach, count)[cells.row]
    moves = other[is_held] / np.abs(cells.data[is_held])
    np.maximum.at(found, cells.col[is_held], moves)
    return found


def _moves_of_rows(
    compiled: Decomposition, lengths: np.ndarray, *, asks_all: bool
) -> tuple[np.ndarray, np.ndarray]:
    """How far an entry alone moves a row of constraints as far as its others do.

    And how far it moves it as far as its right-hand side is. The least over the rows; infinite
    where no row with others of a length, or with a right-hand side, has the entry. Rows are asked
    of all clients, or of those with an entry that is far shorter than another.
    """
    found, right = np.full((2, lengths.size), np.inf)
    for name, sub in compiled.items():
        form = None if sub.client.is_remote else sub.form
        own = lengths[compiled.columns[name]]
        is_even = not asks_all and bool((own > SHORTER * own.max(initial=0.0)).all())
        if form is None or not sub.is_constrained or is_even:
            continue
        rows = abs(form.cone.rows[:, : sub.size]).tocoo()
        reach = rows.data * own[rows.col]
        others = np.bincount(rows.row, reach, rows.shape[0])[rows.row] - reach
        largest = np.zeros(rows.shape[0])
        np.maximum.at(largest, rows.row, rows.data)
        is_held = (others > 0) & (rows.data > CANCELLED * largest[rows.row])
        with np.errstate(all="ignore"):
            moves = np.where(is_held, others / rows.data, np.inf)
            rhs = np.abs(form.cone.rhs)[rows.row] / rows.data
        part = compiled.columns[name]
        np.minimum.at(found[part], rows.col, moves)
        np.minimum.at(right[part], rows.col, np.where(rhs > 0, rhs, np.inf))
    return found, right


def _moves(steep: np.ndarray, bent: np.ndarray, cost: float) -> np.ndarray:
    r"""How far an entry alone has to move for a client's objective to change by S.

    :math:`|g_e| d + \tfrac12 h_e d^2 = S` with slopes g and curvatures h at the point, of which the
    shorter of both solutions is enough; infinite where an objective says nothing of the entry.
    """
    if not cost > 0:
        return np.full(steep.size, np.inf)
    with np.errstate(divide="ignore"):
        return np.fmin(cost / steep, np.sqrt(2 * cost / bent))


def _steepness(
    compiled: Decomposition, names: Collection[Hashable], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The slopes and curvatures of all clients' objectives, zero where they are not known."""
    steep, bent = np.zeros((2, at.size))
    alike: dict[Hashable, list[Subproblem]] = {}
    for name in names:
        sub = compiled[name]
        if sub.client.is_server or sub.client.is_remote:
            continue
        if sub.form is not None and sub.form.valued:
            alike.setdefault(sub.form.shape, []).append(sub)
    for subs in alike.values():
        at_once = max(1, ROOM // max(1, subs[0].size ** 2))
        for first in range(0, len(subs), at_once):
            part = subs[first : first + at_once]
            columns = np.concatenate([np.r_[compiled.columns[sub.name]] for sub in part])
            slopes, bends = _steepness_alike([sub.form for sub in part if sub.form], at[columns])
            steep[columns], bent[columns] = slopes.ravel(), bends.ravel()
    return steep, bent


def _steepness_alike(forms: list[Form], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of clients of one shape, (k, m)."""
    points = at.reshape(len(forms), -1)
    pairs = list(zip([form.quadratic for form in forms], points, strict=True))
    slopes = np.stack([quadratic.times(point) + quadratic.linear for quadratic, point in pairs])
    bends = np.stack([quadratic.diagonal for quadratic, _ in pairs])
    kinks = np.zeros(slopes.shape)
    with np.errstate(all="ignore"):
        if forms[0].smooth:
            terms = Terms([form.smooth for form in forms], points.shape[1])
            slopes = slopes + terms.gradients(None, points)
            bends = bends + np.diagonal(terms.hessians(None, points), axis1=1, axis2=2)
        for form, sharp in zip(forms, kinks, strict=True):
            for term in form.terms:
                if not (term.is_smooth or term.is_set):  # it is as steep as its weights either way
                    rows = abs(sp.csr_array(term.matrix))
                    sharp += np.asarray(rows.T @ np.repeat(term.weight, term.width))
        steep = _beyond_rounding(np.abs(slopes) + kinks, CANCELLED)
        return steep, _beyond_rounding(np.maximum(bends, 0.0), CANCELLED**2)


def _beyond_rounding(sizes: np.ndarray, share: float) -> np.ndarray:
    """Zero in the place of what rounding left of it beside the largest of a row."""
    return np.where(sizes > share * sizes.max(axis=1, keepdims=True, initial=0.0), sizes, 0.0)
