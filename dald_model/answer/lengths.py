r"""How far each entry of an answer may be said to move.

With S the cost of consensus and y what clients would choose, the length of an entry,

.. math::
    L_e = \max\Big( \min\big( \max_i |y_{i,e} - x_e|, \;
        \max(|x_e|, m_e(S)) \big), \; m_e(u / 10^{-4}) \Big),

is the longest way that a client would go, or less: the size of the entry, but no more than its two
bounds are apart, of which rows imply some, or, where that is longer, the move :math:`m_e(S)` of
this entry alone that changes a client's objective by S; and no shorter than a move that nobody sees
in F. So neither a far origin nor a client that hardly knows its own minimiser can make it large. An
entry that all want where it is has the length of that move, or of one that a row of constraints
notices. Lengths bound the box of a proof and how far constraints may be violated, never the
objective.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, NamedTuple

import numpy as np

from dald_model.answer.alike import Alike
from dald_model.answer.client_rows import ClientRows
from dald_model.compile.affine_maps import transposed
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.stiffness import alike_in_matrices
from dald_model.sizes import ROOM, ROUNDING
from dald_model.solvers.arrays.terms import Terms

FAINT = 1e-6
"""Share of the move that is worth S, or that a row would notice, below which a length is what
residuals of 1e-6 leave of zero, as where all clients agree on a bound."""
LEAST_LENGTH = 1e-2
"""Share of the move that is worth S that every length has at least: 1e-4 of it then changes an
objective by 1e-6 of S."""
ROWS_AWAY = 3
"""So many rows away a length is told to entries without one of their own."""
FAINTLY = 0.1
"""Share of that move which then is the length: a thousandth of 1e-4 of it is what they leave."""
NO_LENGTH = 1e-13
"""Lengths below this share of a right-hand side, or of one where there is none, are of entries that
are zero for everybody and of which nothing else says how far they move."""
SETTLED = 1e-9
"""The same where all clients agree on everything, and a solver's zero may be as large."""


class Slopes(NamedTuple):
    """What is known of the objectives at the point, of all variables one after the other.

    Attributes
    ----------
    steep, bent : ndarray
        How steep and how curved each is along each entry; zero where that is not known.
    prices, sizes : ndarray
        What each entry is charged, and how far it may go: as far as it is from zero, or to the
        minimum of its own curvature; at zero without one, as far as rows or others of its variable.
    is_zero : ndarray of bool
        The entries that are at zero.
    """

    steep: np.ndarray
    bent: np.ndarray
    prices: np.ndarray
    sizes: np.ndarray
    is_zero: np.ndarray

    def of(self, columns: Any) -> Slopes:
        """Those of some variables."""
        return Slopes(*(one[columns] for one in self))

    def ways(self, down: np.ndarray) -> list[np.ndarray]:
        """Two ways down, in sizes."""
        ways = down / np.where(self.bent > 0, self.bent, np.inf), down / self.steep**2
        return [self.scaled(np.where(np.isfinite(way), way, 0.0)) for way in ways]

    def scaled(self, way: np.ndarray) -> np.ndarray:
        """A way along which the entries that move do so by their sizes, in the geometric mean."""
        shares = np.abs(way / self.sizes)
        logs = np.where(shares > 0, np.log(shares), 0.0).sum(axis=-1, keepdims=True)
        return way / np.exp(logs / np.maximum((shares > 0).sum(axis=-1, keepdims=True), 1))

    def moves(self, cost: float) -> np.ndarray:
        r"""How far an entry alone has to move for a client's objective to change by a cost.

        :math:`|g_e| d + \tfrac12 h_e d^2 = S` with slopes g and curvatures h at the point, of which
        the shorter of both solutions is enough; infinite where an objective says nothing of it.
        """
        if not cost > 0:
            return np.full(self.steep.size, np.inf)
        with np.errstate(divide="ignore"):
            return np.fmin(cost / self.steep, np.sqrt(2 * cost / self.bent))


def slopes_at(
    compiled: Decomposition,
    names: Collection[Hashable],
    at: np.ndarray,
    prices: np.ndarray,
    sizes: np.ndarray,
    allowed: np.ndarray,
    ranges: np.ndarray,
) -> Slopes:
    """What is known at a point.

    ``sizes`` are how far entries are from zero, ``allowed`` how far rows allow, and ``ranges`` how
    far their bounds are apart.
    """
    whole = Alike.by_variable(compiled).most(sizes)
    steep, bent = _steepness(compiled, names, at)
    with np.errstate(all="ignore"):
        ways = np.where(bent > 0, np.abs(prices) / bent, 0.0)
    is_zero = np.abs(at) <= FAINT * np.where(bent > 0, ways, whole)
    boxes = np.where(is_zero, np.where(np.isfinite(allowed), allowed, whole), sizes)
    boxes = np.where(bent > 0, np.maximum(sizes, ways), boxes)
    return Slopes(steep, bent, prices, np.minimum(boxes, ranges), is_zero)


def lengths_of(
    compiled: Decomposition,
    rows: ClientRows,
    cones: Collection[Hashable],
    at: np.ndarray,
    sizes: np.ndarray,
    ranges: np.ndarray,
    ways: np.ndarray,
    worth: np.ndarray,
    unseen: np.ndarray,
) -> np.ndarray:
    """L of each entry, from the ways that clients would go and the moves worth S.

    No shorter than those that change F by nothing that is seen. Infinite where none is known.
    Entries of a matrix whose eigenvalues a client of ``cones`` sees have the longest in common.
    """
    ways, equal = Alike.by_entry(compiled).most(ways), Alike.by_edges(compiled)
    own, move, least = equal.most(np.abs(at)), equal.least(worth), equal.least(unseen)
    of_array = Alike.by_variable(compiled)
    size, largest = of_array.most(np.maximum(own, sizes)), of_array.most(own)
    # Of an array that is zero a way may be what a solver left, of another only rounding
    ways = np.where(ways > np.where(size > largest, SETTLED, ROUNDING) * size, ways, 0.0)
    size, own = np.minimum(size, ranges), np.minimum(own, ranges)
    is_known = np.isfinite(move)
    most = np.where(is_known, np.maximum(own, move), np.where(size > 0, size, np.inf))
    own = np.where(own > FAINT * size, own, size)
    whole = np.where(ways > 0, np.minimum(ways, most), np.where(is_known, move, own))
    whole = np.maximum(whole, np.where(is_known, np.maximum(LEAST_LENGTH * move, least), 0.0))
    is_told = is_known | ((ways > 0) & np.isfinite(ways))
    whole = np.where(np.isfinite(whole), whole, 0.0)
    mixed = np.zeros(at.size)
    for name in cones:
        if (form := compiled[name].form) is not None and not form.complete:
            part = compiled.columns[name]
            longer = alike_in_matrices(compiled[name], whole[part])
            mixed[part] = np.where(longer > whole[part], longer, 0.0)
    if mixed.any():
        whole = np.maximum(whole, equal.most(mixed))
    whole = _passed_on(compiled, whole, is_told)
    is_agreed, right = not ways.any(), np.full(at.size, np.inf)
    for _ in range(ROWS_AWAY):
        moves, right = rows.moves(whole, asks_all=is_agreed)
        moves = np.where(np.isfinite(moves), moves, 0.0)
        moves = np.maximum(moves, _moves_of_edges(compiled, whole))
        is_faint = whole <= FAINT * moves
        if not (is_faint & (moves > 0)).any():
            break
        whole = np.where(is_faint, FAINTLY * moves, whole)
    last = np.where(np.isfinite(right), right, 1.0)
    nothing = SETTLED if is_agreed else NO_LENGTH
    whole = np.where(whole <= nothing * last, FAINTLY * last, whole)
    whole = Alike.by_entry(compiled).most(whole)
    return np.where(whole > 0, whole, 1.0)


def single_bounds(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """What the rows of a single entry each allow it, (low, high)."""
    high = np.full(form.size, np.inf)
    low = -high
    rows, entries, slopes, _ = form.single_rows
    at, is_upper = form.inequalities.rhs[rows] / slopes, slopes > 0
    np.minimum.at(high, entries[is_upper], at[is_upper])
    np.maximum.at(low, entries[~is_upper], at[~is_upper])
    return low, high


def implied_bounds(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """What a client's rows allow each entry beside the bounds of the others, (low, high).

    As ``x >= 0, sum(x) == 1`` bounds each from above; by interval arithmetic, in two passes.
    """
    low, high = single_bounds(form)
    held, kept = form.equalities, form.inequalities
    if not (held.rhs.size or form.single_rows[-1]):
        return low, high
    matrix = np.vstack([kept.matrix, held.matrix, -held.matrix])
    rhs = np.concatenate([kept.rhs, held.rhs, -held.rhs])
    is_asked = ((matrix != 0).sum(axis=1) > 1) & ~matrix[:, form.size :].any(axis=1)
    matrix, rhs = matrix[is_asked, : form.size], rhs[is_asked]
    row, col = np.nonzero(matrix)
    if not row.size or not (np.isfinite(low) | np.isfinite(high)).any():
        return low, high
    slopes = matrix[row, col]
    is_upper = slopes > 0
    for _ in range(2):
        least = slopes * np.where(is_upper, low[col], high[col])
        is_known = np.isfinite(least)
        least = np.where(is_known, least, 0.0)
        others = np.bincount(row, least, rhs.size)[row] - least
        unknown = np.bincount(row, ~is_known, rhs.size)[row] - ~is_known
        at = np.where(
            unknown == 0, (rhs[row] - others) / slopes, np.where(is_upper, np.inf, -np.inf)
        )
        np.minimum.at(high, col[is_upper], at[is_upper])
        np.maximum.at(low, col[~is_upper], at[~is_upper])
    return low, high


def ranges_of(compiled: Decomposition) -> np.ndarray:
    """How far the bounds of an entry are apart, of all its copies; infinite without two."""
    found = np.full(sum(sub.size for sub in compiled.values()), np.inf)
    known: dict[tuple[int, int], np.ndarray] = {}  # as most have the same rows
    for name, sub in compiled.items():
        if (form := sub.form) is not None and form.inequalities.rhs.size:
            rows = id(form.equalities), id(form.inequalities)
            if rows not in known:
                low, high = implied_bounds(form)
                known[rows] = high - low
            found[compiled.columns[name]] = known[rows]
    return Alike.by_edges(compiled).least(np.where(found > 0, found, np.inf))


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


def sizes_of(compiled: Decomposition, at: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The absolute value of each entry; of a variable that is zero what a row allows it, or one."""
    allowed = np.where(np.isfinite(allowed), allowed, 1.0)
    is_zero = Alike.by_variable(compiled).most(np.abs(at)) <= SETTLED * allowed
    return np.where(is_zero, allowed, np.abs(at))


def _moves_of_edges(compiled: Decomposition, lengths: np.ndarray) -> np.ndarray:
    """How far an entry alone moves the longest of its edges as far as the other end does."""
    found = np.zeros(lengths.size)
    row, col, data = compiled.stacked.known("cells that move rows", lambda: _moving(compiled))
    other = np.roll(compiled.stacked.sizes @ lengths, compiled.size)[row]
    np.maximum.at(found, col, other / data)
    return found


def _moving(compiled: Decomposition) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and sizes of what of the sides is more than rounding beside its row."""
    cells = compiled.stacked.cells
    largest, data = np.zeros(2 * compiled.size), np.abs(cells.data)
    np.maximum.at(largest, cells.row, data)
    is_held = data > ROUNDING * largest[cells.row]
    return cells.row[is_held], cells.col[is_held], data[is_held]


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
        at_once = max(1, ROOM // (8 * max(1, subs[0].size ** 2)))
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
            terms = Terms.of([form.smooth for form in forms], points.shape[1])
            slopes = slopes + terms.gradients(None, points)
            bends = bends + np.diagonal(terms.hessians(None, points), axis1=1, axis2=2)
        for form, sharp in zip(forms, kinks, strict=True):
            for term in form.terms:
                if not (term.is_smooth or term.is_set):  # it is as steep as its weights either way
                    sharp += transposed(abs(term.matrix), np.repeat(term.weight, term.width))
        steep = _beyond_rounding(np.abs(slopes) + kinks, ROUNDING)
        return steep, _beyond_rounding(np.maximum(bends, 0.0), ROUNDING**2)


def _beyond_rounding(sizes: np.ndarray, share: float) -> np.ndarray:
    """Zero in the place of what rounding left of it beside the largest of a row."""
    return np.where(sizes > share * sizes.max(axis=1, keepdims=True, initial=0.0), sizes, 0.0)
