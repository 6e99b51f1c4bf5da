r"""Stiffness of objectives where curvature alone does not tell it: by values, rows and bounds.

At bounds of single variables that edges see. A client that one of them holds at its minimiser,
where its objective slopes by g, stays there until its price is g, and is at the next of its rows,
D farther, where that is :math:`g + h D`. That is a kink where next to nothing bends on the way, and
none where the way has no end: of steepness :math:`g \cdot g / (g + h D)`. (Of sixteen days of five
plants with ramps four stall or take more than 600 rounds without, and the others 1.0 to 5 times as
many. With bounds that no edge sees, as those of plants within an area, IEEE 118 takes 304 for 88.)

Along equality rows: what an area of a network sends out costs nothing itself; but somebody must
make it. Along a variable k that the edges see, the others that they see held,

.. math:: h_k = \min_d \{ d^\top D d : E d = 0, \; d_k = 1, \; d_j = 0
    \text{ for the other seen } j \}

is the stiffness of the client's optimal value, D being its own curvatures and E its equality rows.

Along bounds of which a coupling pays for the largest, as of losses in min-max fairness: no
objective sees such a bound :math:`s_k`, its client has it as high as it likes, and the coupling
minimises :math:`c\,t` under rows :math:`a_k s_k - g_k t \le b_k`. But what the coupling pays for t
is what its rows bargain for, each on average an equal part of c; and they bargain over how far the
:math:`t_k = (a_k s_k - b_k) / g_k` of the local minimisers are apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from dald_model.compile.form import cone_height
from dald_model.compile.subproblem import Subproblem
from dald_model.coordinate.scaling.curvature import Curvature
from dald_model.sizes import DEPENDENT, FEW, HALVINGS, MANY, ORDER, ROUNDING
from dald_model.values import evaluated, is_inside, preserved

SINGULAR_SHARE = 0.1
"""Share of the change over a length that its second half leaves where the first half begins at a
singularity; a quadratic leaves three quarters, a kink one half."""


def alike_in_matrices(sub: Subproblem, lengths: np.ndarray) -> np.ndarray:
    """Lengths (m,) of which entries of one semidefinite matrix have the longest in common.

    Its eigenvalues mix them: one entry is no stiffer for being near zero where others are not.
    """
    if sub.form is None or sub.form.complete:
        return lengths
    found, at = lengths.copy(), 0
    rows = abs(sp.csr_array(sub.form.cone.rows))
    for kind, argument in sub.form.cone.cones:
        height = cone_height(kind, argument)
        if kind == "PSDTriangleConeT":
            sizes = rows[at : at + height, : sub.size].max(axis=0).toarray().reshape(-1)
            mixed = np.flatnonzero(sizes)
            longest = (sizes[mixed] * lengths[mixed]).max(initial=0.0)
            found[mixed] = np.maximum(found[mixed], longest / sizes[mixed])
        at += height
    return found


def probed(
    sub: Subproblem, own: np.ndarray, lengths: np.ndarray, steep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""The stiffness of an objective from its values so far from the client's answer, (m,).

    And from those half as far, again and again, where that is far less: :math:`1 / x` is steep
    beyond all measure next to zero, and :math:`e^x` ten lengths away, where the client would
    not go for any price. Gives also how straight
    it is on the way: 1 where half as far is half the rise, 0 where a quarter. Of many variables
    random signs of all lengths are gone, and the rise is shared as they are ``steep``, as far as
    that is known.
    """
    centre = np.nan_to_num(own)
    steps = np.diag(lengths)
    is_many = sub.size > FEW and not (sub.form and sub.form.valued and carries(sub))
    if is_many:
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FEW, sub.size))
        steps = signs * lengths
    part = np.ones(len(steps))  # of the whole step, as far as it is gone

    def values(share: float) -> np.ndarray:
        ways = (share * part)[:, None] * steps
        return np.array([_objectives(sub, centre + ways), _objectives(sub, centre - ways)])

    with preserved(sub.variables), np.errstate(all="ignore"):
        here = _objectives(sub, centre[None])
        ends, middles = values(1.0), values(0.5)
        rise = half = _changes(here, ends, middles)
        for _ in range(HALVINGS):
            nearest = values(0.25)
            half = 4 / part**2 * _changes(here, middles, nearest)
            sudden = (half > 0) & (rise > ORDER * half)
            if not sudden.any():
                break
            middles = np.where(sudden, nearest, middles)
            rise, part = np.where(sudden, half, rise), np.where(sudden, part / 2, part)
    if is_many:
        shares = steep * lengths if steep.any() else np.ones(sub.size)
        rise, half = (one.mean() * shares / shares.sum() for one in (rise, half))
    straight = np.divide(half, rise, out=np.ones(rise.size), where=rise > 0) - 1
    return 2 * rise / lengths**2, np.clip(straight, 0.0, 1.0)


def _changes(here: np.ndarray, ends: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """The largest change of the objective over a step or its opposite, (k,); 0 if not known.

    That is where it has no value, or where rounding is all that there is of the change. Where next
    to all of it is made at once the step begins at a singularity: there it is what would change as
    much over the second half of the way.
    """
    whole, rest = np.abs(ends - here), np.abs(ends - middles)
    change = np.where(rest < SINGULAR_SHARE * whole, 4 / 3 * rest, whole)
    is_known = change > ROUNDING * np.maximum(np.abs(here), np.abs(ends))
    return np.where(np.isfinite(change) & is_known, change, 0.0).max(axis=0)


def _objectives(sub: Subproblem, points: np.ndarray) -> np.ndarray:
    """The client's objective at points, feasible or not, (k,); NaN outside its domain."""
    if sub.form is not None and sub.form.valued:
        return sub.form.objectives(points)
    found = []
    for point in points:
        for variable, value in zip(sub.variables, sub.spread(point).values(), strict=True):
            variable.save_value(value)
        inside = is_inside(sub.client.domain)
        found.append(evaluated(sub.client.cost) if inside else np.nan)
    return np.array(found)


class _Ways(NamedTuple):
    """How variables that are ``free`` follow, (f, a), where one that is ``asked`` for moves by one.

    And whether the rows let it, (a,), and along what they leave the free ones at rest, (f, k).
    """

    asked: np.ndarray
    free: np.ndarray
    moves: np.ndarray
    is_way: np.ndarray
    idle: np.ndarray


def kinks_of_bounds(
    sub: Subproblem, known: Curvature, own: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How steep the kinks are that bounds make of a client's objective at its minimiser, (m,).

    And how straight it is on the way between two bounds, (m,), as of :func:`probed`.
    See the module. ``own`` is the minimiser, (m,), and ``noise`` how well it is known, (m,).
    """
    form, found, straight = sub.form, np.zeros(sub.size), np.zeros(sub.size)
    if form is None or not form.valued or np.isnan(own).any():
        return found, straight
    singles, entries, factors, _ = form.single_rows
    others = np.delete(np.arange(form.inequalities.rhs.size), singles)
    matrix, rest = form.inequalities.matrix[others, : sub.size], form.inequalities.rhs[others]
    rest, room = rest - matrix @ own, form.inequalities.rhs[singles] - factors * own[entries]
    is_seen = sub.sight.of_variables > 0  # what no edge sees has no price
    is_bound = (room <= np.abs(factors) * noise[entries]) & is_seen[entries]
    bounded, signs = entries[is_bound], np.sign(factors[is_bound])
    if not bounded.size:
        return found, straight
    with np.errstate(all="ignore"):
        slopes = form.quadratic.times(own) + form.quadratic.linear
        slopes = slopes + sum(term.subgradient(own) for term in form.smooth)
    if not np.isfinite(slopes).all():  # as of an entropy at zero
        return found, straight
    # Along rows of several variables these make room for each other
    is_met = rest <= np.abs(matrix) @ noise
    rows = np.vstack([form.equalities.matrix[:, : sub.size], matrix[is_met]])
    is_free = np.ones(sub.size, dtype=bool)
    is_free[bounded] = False
    if rows.size and is_free.any():
        slopes = slopes - rows.T @ lsmr(rows[:, is_free].T, slopes[is_free])[0]
    steep = np.maximum(np.abs(slopes[bounded]) - known.kinks[bounded], 0.0)
    ends = np.full((2, sub.size), np.inf)  # of what a variable can fall and rise by
    np.minimum.at(ends, ((factors > 0).astype(int), entries), room / np.abs(factors))
    closer = -signs * matrix[:, bounded]
    ways = np.divide(rest[:, None], closer, out=np.full(closer.shape, np.inf), where=closer > 0)
    ways = np.vstack([ends[(signs < 0).astype(int), bounded], ways])
    bends, way = known.diagonal[bounded], np.maximum(ways.min(axis=0), 0.0)
    rise = np.multiply(bends, way, out=np.zeros(way.size), where=bends > 0)
    straight[bounded] = np.divide(steep, steep + rise, out=np.zeros(steep.size), where=steep > 0)
    found[bounded] = steep * straight[bounded]
    return found, straight


def carries(sub: Subproblem) -> bool:
    """Whether equality rows let variables that are not seen follow one that is, by itself."""
    ways = _ways(sub, np.ones(sub.size, dtype=bool))
    return ways is not None and bool(ways.is_way.any())


def carried(sub: Subproblem, diagonal: np.ndarray) -> np.ndarray:
    """Own curvatures, shape (m,), with those that rows carry where a seen variable has none.

    Zero stays where the rows leave no such way, or one that costs nothing.
    """
    ways = _ways(sub, diagonal == 0)
    if ways is None or not diagonal[ways.free].any():
        return diagonal
    moves, is_way = ways.moves, ways.is_way
    idle, own = ways.idle, diagonal[ways.free]
    if idle.shape[1]:
        root = np.sqrt(own)[:, None]
        moves = moves - idle @ np.linalg.lstsq(root * idle, root * moves)[0]
    found = diagonal.copy()
    energies = own @ moves**2
    is_way &= energies > DEPENDENT * own.max() * (moves**2).sum(axis=0)
    found[ways.asked[is_way]] = energies[is_way]
    return found


def _ways(sub: Subproblem, among: np.ndarray) -> _Ways | None:
    """Those of the seen variables among some, (m,) bool; None where there is nothing to ask."""
    form = sub.form
    if form is None or not form.equalities.rhs.size or sub.size > MANY:
        return None
    is_seen, rows = sub.sight.of_variables > 0, form.equalities.matrix
    # A variable that stands nowhere else does what its row asks
    rows = rows[~rows[:, sub.size :].any(axis=1), : sub.size]
    asked = np.flatnonzero(is_seen & among & rows.any(axis=0))
    free = np.flatnonzero(~is_seen)
    if not asked.size or not free.size:
        return None
    left, values, right = np.linalg.svd(rows[:, free])
    rank = int(np.count_nonzero(values > DEPENDENT * values.max(initial=0.0)))
    missed = left[:, rank:].T @ rows[:, asked]
    largest = np.abs(rows[:, asked]).max(axis=0)
    is_way = np.abs(missed).max(axis=0, initial=0.0) <= DEPENDENT * largest
    moves = -right[:rank].T @ ((left[:, :rank].T @ rows[:, asked]) / values[:rank, None])
    return _Ways(asked, free, moves, is_way, right[rank:].T)


def bounds_of_largest(
    sub: Subproblem, slopes: np.ndarray, point: np.ndarray, caution: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Stiffness and distances of a coupling's variables, two of shape (m,); zero of others.

    With n rows of t, whose :math:`t_k` are O apart, :math:`\gamma = |a_k / g_k|` and
    the ``caution`` of natural lengths, these are
    :math:`\gamma^2 |c| / (n \cdot \text{caution} \cdot O)` and :math:`O / \gamma`.

    Parameters
    ----------
    sub : Subproblem
    slopes : ndarray, shape (m,)
        Of its objective.
    point : ndarray, shape (m,)
        Its answer; NaN counts as zero.
    caution : float
    """
    bends, lengths = np.zeros((2, sub.size))
    if sub.form is None or sub.form.extra:
        return bends, lengths
    matrix, rhs = sub.form.inequalities
    is_free = sub.sight.of_variables == 0
    paid = np.flatnonzero(is_free & (slopes != 0))
    held = np.nan_to_num(np.where(is_free, 0.0, point))
    for at in paid:
        mine = np.flatnonzero(
            (matrix[:, at] != 0) & (np.count_nonzero(matrix[:, paid], axis=1) == 1)
        )
        if not mine.size:
            continue
        gain = np.where(is_free, 0.0, np.abs(matrix[mine] / matrix[mine, at][:, None]))
        apart = np.ptp((matrix[mine] @ held - rhs[mine]) / matrix[mine, at])
        if apart > 0:
            share = np.abs(slopes[at]) / (mine.size * caution * apart)
            bends = np.maximum(bends, share * (gain**2).max(axis=0))
            near = np.divide(apart, gain, out=np.zeros(gain.shape), where=gain > 0)
            lengths = np.maximum(lengths, near.max(axis=0))
    return bends, lengths
