r"""The two scales of a verdict: the cost of consensus, and how far each entry may be said to move.

With x the point that the user reads,

.. math:: S = \sum_i \Big[ f_i(x) - \min_{X_i} f_i \Big]

is what the clients pay for agreeing. It is made of differences of one function at two points, so
constants and origins cancel, and it follows every unit of the objective and of the variables. A
client without a minimiser of its own pays what it could gain within the lengths. Where nobody pays
anything, a hundredth of what F changes by over the lengths takes the place of S: solvers leave some
1e-7 of that. The length of an entry,

.. math::
    L_e = \min\Big( \max_i |x_{i,e}^{alone} - x_e|, \;
        \max\big( \max_{e'} |x_{e'}|, m_e \big) \Big),

is the way to the farthest standalone minimiser, or less: the size of its variable, but no more than
its two bounds are apart, or, where that is longer, the move :math:`m_e` of this entry alone that
changes a client's objective by S. So neither a far origin nor a client that hardly knows its own
minimiser can make it large. An entry that all want where it is has the length of the move that is
worth S, or that a row of constraints notices. Lengths bound the box of a proof and how far
constraints may be violated, never the objective.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import numpy as np
import scipy.sparse as sp

from dald_model.answer.alike import Alike
from dald_model.answer.claim import Claim, client_costs
from dald_model.answer.cone_clients import ConeClient
from dald_model.answer.standalone import Standalone
from dald_model.compile.decomposition import Decomposition
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
AGREE = 1e-15
"""Share of the change of F over the size of x below which a cost of consensus is rounding."""
AGREED = 1e-2
"""Share of the change of F over the lengths that stands in for a cost of consensus of zero."""


REACH = 10.0
"""How many lengths a proof's box reaches, and how many ways to the standalone minimisers."""


class Scale:
    """The scales at a point, see the module.

    Attributes
    ----------
    cost : float
        S, the cost of consensus.
    worth : float
        The same for prices: where nobody pays anything, the whole change of F over the lengths.
    total : float
        The sum of the absolute values of the clients' objectives.
    noise, digits : float
        What doubles do not hold of F, and what rounding x by 1e-12 changes of it.
    doubt : float
        What clients who pay nothing that is sure may pay.
    is_agreed : bool
        Whether nobody pays anything, so that :attr:`cost` is what stands in.
    lengths : ndarray
        L, all clients' variables one after the other.
    farther : ndarray
        The same for prices: where it is not known whether a length is a solver's error, the longer.
    reach : ndarray
        How far the wide box of a proof reaches: ten lengths, or ten times the way to the farthest
        standalone minimiser.
    """

    def __init__(
        self,
        claim: Claim,
        alone: Standalone,
        at: np.ndarray,
        costs: Mapping[Hashable, float],
    ) -> None:
        compiled = claim.compiled
        paid = {name: max(fall, 0.0) for name, fall in alone.falls.items() if np.isfinite(fall)}
        self.total = float(sum(abs(cost) for cost in costs.values() if np.isfinite(cost)))
        self.noise = NOISE * self.total
        self.digits = min(_rounding(compiled, claim, costs), DIGITS * _at_zero(compiled, claim))
        cost = float(sum(paid.values()))
        least = AGREE * _change(claim, _sizes(compiled, at), costs)
        nothing = max(self.open, least)
        self.doubt = alone.doubt if cost <= nothing else 0.0
        may_agree = self.doubt <= self.open
        self.is_agreed = not alone.missing and cost <= nothing and may_agree
        ways = np.abs(alone.points - at) * (not self.is_agreed)  # else what solvers leave of zero
        moves = _moves(compiled, claim.live, at, 0.0 if self.is_agreed else cost)
        ways = np.nan_to_num(ways, nan=0.0)
        self.lengths = _lengths(compiled, at, Alike.by_entry(compiled).most(ways), moves)
        self.farther = _farther(compiled, at, self.lengths, ways, moves)
        self.reach = REACH * np.maximum(self.lengths, Alike.by_edges(compiled).most(ways))
        for name in alone.missing:
            part = compiled.columns[name]
            client = alone.parts.cones.get(name) or ConeClient(compiled[name], at[part])
            paid[name] = client.fall(self.lengths[part], costs[name])
        self.cost = float(sum(paid.values()))
        self.is_agreed |= self.cost <= nothing and may_agree
        if self.is_agreed:
            self.cost = AGREED * _change(claim, self.lengths, costs)
        self.worth = self.cost / AGREED if self.is_agreed else self.cost

    @property
    def open(self) -> float:
        """What of a gap doubles leave open in any case."""
        return self.noise + self.digits


def _rounding(compiled: Decomposition, claim: Claim, costs: Mapping[Hashable, float]) -> float:
    """How much F changes at most where each entry of x is rounded by ``DIGITS`` of itself."""
    rng, worst, here = np.random.default_rng(0), 0.0, sum(costs.values())
    for _ in range(DRAWS):
        moved = {
            name: point * (1 + DIGITS * rng.choice([-1.0, 1.0], size=point.size))
            for name, point in claim.points.items()
        }
        there = sum(client_costs(compiled, moved, claim.live).values())
        if np.isfinite(there):
            worst = max(worst, abs(there - here))
    return worst


def _at_zero(compiled: Decomposition, claim: Claim) -> float:
    zero = {name: np.zeros(point.size) for name, point in claim.points.items()}
    found = sum(abs(cost) for cost in client_costs(compiled, zero, claim.live).values())
    return found if np.isfinite(found) else np.inf


def _change(claim: Claim, lengths: np.ndarray, costs: Mapping[Hashable, float]) -> float:
    """The largest change of the clients' objectives in sum where all entries move by lengths."""
    compiled, found = claim.compiled, 0.0
    for sign in (1.0, -1.0):
        moved = {n: x + sign * lengths[compiled.columns[n]] for n, x in claim.points.items()}
        there = client_costs(compiled, moved, claim.live)
        changes = [abs(there[name] - cost) for name, cost in costs.items()]
        found = max(found, sum(change for change in changes if np.isfinite(change)))
    return found


def _lengths(
    compiled: Decomposition, at: np.ndarray, ways: np.ndarray, worth: np.ndarray
) -> np.ndarray:
    """L of each entry, from the ways to the clients' own minimisers and the moves worth S.

    Moves are infinite where none is known.
    """
    equal = Alike.by_edges(compiled)
    own, move = equal.most(np.abs(at)), equal.least(worth)
    ranges = _ranges(compiled)
    size, own = np.minimum(Alike.by_variable(compiled).most(own), ranges), np.minimum(own, ranges)
    is_known = np.isfinite(move)
    most = np.maximum(size, np.where(is_known, move, np.where(size > 0, size, np.inf)))
    own = np.where(own > FAINT * size, own, size)
    whole = np.where(ways > 0, np.minimum(ways, most), np.where(is_known, move, own))
    whole = np.maximum(whole, np.where(is_known, LEAST * move, 0.0))
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
    """How far the two bounds of an entry are apart, of all its copies; infinite without two.

    An origin that is far beyond them does not make an entry long.
    """
    high = np.full(sum(sub.size for sub in compiled.values()), np.inf)
    low = -high
    for name, sub in compiled.items():
        if sub.form is None or sub.form.extra or not sub.form.inequalities.rhs.size:
            continue
        matrix, right = sub.form.inequalities
        single = np.count_nonzero(matrix, axis=1) == 1
        matrix, right = matrix[single], right[single]
        entries = np.abs(matrix).argmax(axis=1)
        slopes = matrix[np.arange(entries.size), entries]
        part = compiled.columns[name]
        at, is_upper = right / slopes, slopes > 0
        np.minimum.at(high[part], entries[is_upper], at[is_upper])
        np.maximum.at(low[part], entries[~is_upper], at[~is_upper])
    found = high - low
    return Alike.by_edges(compiled).least(np.where(found > 0, found, np.inf))


def _farther(
    compiled: Decomposition,
    at: np.ndarray,
    lengths: np.ndarray,
    ways: np.ndarray,
    moves: np.ndarray,
) -> np.ndarray:
    """The lengths, or the longest of its variable of an entry that all may want where it is.

    At most the size of the variable: its entries may be in units of their own.
    """
    by_variable = Alike.by_variable(compiled)
    longest = np.maximum(lengths, np.minimum(by_variable.most(lengths), by_variable.most(abs(at))))
    is_unknown = np.isinf(Alike.by_edges(compiled).least(moves))
    is_unsure = is_unknown & (Alike.by_entry(compiled).most(ways) <= UNSURE * longest)
    return np.where(is_unsure, longest, lengths)


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
    """The absolute value of each entry; one of a variable that is zero."""
    return np.where(Alike.by_variable(compiled).most(np.abs(at)) <= NOTHING, 1.0, np.abs(at))


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
        form = None if sub.client.is_server or sub.client.is_remote else sub.form
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


def _moves(
    compiled: Decomposition, names: Collection[Hashable], at: np.ndarray, cost: float
) -> np.ndarray:
    r"""How far an entry alone has to move for a client's objective to change by S.

    :math:`|g_e| d + \tfrac12 h_e d^2 = S` with slopes g and curvatures h at the point, of which the
    shorter of both solutions is enough; infinite where an objective says nothing of the entry.
    """
    found = np.full(at.size, np.inf)
    if not cost > 0:
        return found
    for name in names:
        sub, part = compiled[name], compiled.columns[name]
        form = None if sub.client.is_server or sub.client.is_remote else sub.form
        if form is None or not form.valued:
            continue
        point = at[part]
        slopes, bends = form.quadratic.times(point) + form.quadratic.linear, form.quadratic.diagonal
        kinks = np.zeros(form.size)
        with np.errstate(all="ignore"):
            for term in form.terms:
                if term.is_smooth:
                    slopes = slopes + term.subgradient(point)
                elif not term.is_set:  # whichever way it turns it is as steep as its weights
                    rows = abs(sp.csr_array(term.matrix))
                    kinks = kinks + np.asarray(rows.T @ np.repeat(term.weight, term.width))
            if form.smooth:
                hessian = Terms([form.smooth], form.size).hessians(None, point[None])[0]
                bends = bends + np.diagonal(hessian)
            by_slope = cost / _beyond_rounding(np.abs(slopes) + kinks, CANCELLED)
            by_bend = np.sqrt(2 * cost / _beyond_rounding(np.maximum(bends, 0.0), CANCELLED**2))
        found[part] = np.fmin(np.fmin(by_slope, by_bend), np.inf)
    return found


def _beyond_rounding(sizes: np.ndarray, share: float) -> np.ndarray:
    """Zero in the place of what rounding left of it beside the largest."""
    return np.where(sizes > share * sizes.max(initial=0.0), sizes, 0.0)
