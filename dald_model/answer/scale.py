r"""What gaps are measured by: the cost of consensus, or what cannot be seen of the objective.

With x the point that the user reads,

.. math:: S = \sum_i \Big[ f_i(x) - f_i(y_i) \Big]

is what the clients pay for agreeing, at least (:mod:`dald_model.answer.cost_of_consensus`). It is
made of differences of one function at two points, so constants and origins cancel, and it follows
every unit of the objective and of the variables.

Where clients pay little or nothing, no gap is small beside S, and what cannot be seen of F takes
its place: the yardstick is :math:`\max(S, u / 10^{-4})`, with

.. math::
    u = \max\Big( 10^{-7} \sum_i \min(|f_i(x) - c_i|, D_i), \; \frac{R^2}{\max(R, |F|)} \Big).

So errors of 1e-7 of F pass: solvers leave 1e-8, and a proof adds several. The constants
:math:`c_i` that a user adds do not count, and no client counts for more than :math:`D_i`, by which
its objective changes where all of x doubles or vanishes: neither an offset of F nor one of x makes
u large alone. R is what F changes by where x is rounded to the eight digits that are printed, or
1e-7 of what it changes by where x doubles or vanishes, whichever is least: far out in a valley F is
not zero, whatever digits of x are worth; and :math:`R / |F|` how far F is zero for who reads x.
Every part is continuous, so nothing jumps where clients begin to pay.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts
from dald_model.answer.claim import Claim, costs_at
from dald_model.answer.client_rows import ClientRows
from dald_model.answer.cost_of_consensus import least_paid
from dald_model.answer.lengths import lengths_of, sizes_of, slopes_at
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.objectives import objectives
from dald_model.solvers.exact.smooth_bound import is_split

NOISE = 256 * np.finfo(float).eps
"""What doubles do not hold of a sum, as a share of the sizes of its summands: expressions of a few
hundred operations each round once."""
POINT_DIGITS = 1e-12
"""Share of each entry of x, and of what the clients pay at zero, that rounding x leaves open."""
DRAWS = 4
"""Directions in which x is rounded; the worst of a few is what counts, not the worst of all."""
SEEN = 1e-7
"""Share of F that may be wrong unseen: solvers leave 1e-8 of it, and a proof adds up several."""
PRINTED_DIGITS = 1e-8
"""Share of each entry of x that the eight digits which are printed of it leave open."""
ALLOWED = 1e-4
"""Share of the cost of consensus that a gap may be by default, which turns one into the other. It
resolves prices to the root of it."""
WIDE_REACH, SOLVED_REACH = 3e3, 1e3
"""How many lengths the wide box reaches where clients have kinks or rows, and where only a cone
solver bounds one: it loses more digits beyond than a proof has. At residuals of
1e-6 right answers lose some 1e-7 of S a length, and 1e-3 may be lost: a third of as far as these
are proved. Of three drawn models whose answers were 9 to 67 % wrong F falls for 1e5 lengths, as
linearly as a bound weakens, where clients by themselves would go nowhere. Of smooth clients a bound
is exact however wide the box is, and reaches as far as they would go."""
BOX = 10.0
"""How many lengths a proof's box reaches, and how many ways that clients would go."""


def wide(parts: Parts, lengths: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """As far as bounds of clients with kinks or rows hold, and those of entries allow."""
    forms = [client.form for client in parts.cones.values()]
    is_known = all(form is not None and is_split(form) for form in forms)
    return np.minimum((WIDE_REACH if is_known else SOLVED_REACH) * lengths, ranges)


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
    reach : ndarray
        How far the wide box of a proof reaches: if all clients are smooth ten lengths, or ten times
        the longest way that one would go; else see :func:`wide`.
    """

    def __init__(
        self,
        claim: Claim,
        parts: Parts,
        at: np.ndarray,
        prices: np.ndarray,
        levels: np.ndarray,
        ranges: np.ndarray,
    ) -> None:
        compiled = claim.compiled
        costs = dict(zip(claim.live, levels[0].tolist(), strict=True))
        self.total = float(sum(abs(cost) for cost in costs.values() if np.isfinite(cost)))
        self.noise = NOISE * self.total
        rows = ClientRows(compiled)
        allowed = Alike.by_edges(compiled).least(rows.allowed)
        sizes = sizes_of(compiled, at, allowed)
        near = Near(claim, at, sizes, levels)
        self.digits = near.digits
        slopes = slopes_at(compiled, claim.live, at, prices, sizes, allowed, ranges)
        alone = least_paid(compiled, parts, at, costs, slopes)
        self.paid = float(sum(filter(np.isfinite, alone.falls.values())))
        self.unseen = self._unseen(claim, costs, near)
        self.least = self.unseen / ALLOWED
        known = self.paid if alone.endless else max(self.paid, self.least)
        moves = [slopes.moves(one) for one in (known, self.least)]
        scales = sizes, ranges, alone.ways, *moves
        self.lengths = lengths_of(compiled, rows, parts.cones, at, *scales)
        if parts.cones:
            self.reach = wide(parts, self.lengths, ranges)
        else:
            farthest = Alike.by_edges(compiled).most(alone.farthest)
            self.reach = BOX * np.maximum(self.lengths, farthest)
        self.paid += self._paid_within(claim, at, alone.endless)
        self.cost = max(self.paid, self.least)
        change = float(near.changes[np.isfinite(near.changes)].sum())
        worth = max(self.paid, self.least / np.sqrt(ALLOWED), PRINTED_DIGITS * change)
        # Objectives that are constant have no unit that prices could have
        self.worth = worth or 1.0

    def _paid_within(
        self,
        claim: Claim,
        at: np.ndarray,
        ways: Mapping[Hashable, np.ndarray],
    ) -> float:
        """What clients that fall for ever could gain on their way within the lengths."""
        near = {}
        for name, way in ways.items():
            part = claim.compiled.columns[name]
            with np.errstate(divide="ignore"):
                share = float((self.lengths[part] / np.abs(way)).min())
            near[name] = np.stack([at[part], at[part] + min(share, 1.0) * way])
        declared = claim.compiled.as_declared
        subs = [declared.get(name) or claim.compiled[name] for name in near]
        costs = objectives(subs, [*near.values()])
        return float(np.fmax(costs[:, 0] - costs[:, -1], 0.0).sum())

    def _unseen(self, claim: Claim, costs: Mapping[Hashable, float], near: Near) -> float:
        """By how much F may be wrong before anybody sees it, see the module."""
        own = np.abs([*costs.values()])
        if ALLOWED * self.paid < SEEN * self.total:  # else what is paid is more than that anyway
            subs = claim.compiled
            own = np.abs([c - subs[name].client.constant for name, c in costs.items()])
        of_value = SEEN * float(np.nansum(np.minimum(own, near.changes)))
        size = max(near.rounded, float(np.nansum(own)))
        return max(of_value, near.rounded * near.rounded / (size or 1.0))

    @property
    def open(self) -> float:
        """What of a gap doubles leave open in any case."""
        return self.noise + self.digits


class Floor:
    r"""The yardstick of who pays nothing, and lengths that ask nobody: as far as x is from zero.

    A gap that is small beside :math:`u / 10^{-4}` in a box of so many such lengths is small beside
    more. So an exact method is judged without the cost of consensus.
    """

    def __init__(
        self,
        compiled: Decomposition,
        live: Sequence[Hashable],
        levels: np.ndarray,
        lengths: np.ndarray,
        reach: np.ndarray | None = None,
    ) -> None:
        here, *there = levels
        self.total = float(np.abs(here).sum())
        self.noise = NOISE * self.total
        self.is_least = bool(there[0].sum() >= here.sum() - self.noise)
        own = np.abs(here - [compiled[name].client.constant for name in live])
        least = np.minimum(own, np.fmax(*np.abs(there - here)))
        self.unseen = SEEN * float(least[~np.isnan(least)].sum())
        self.paid = self.open = self.digits = 0.0
        self.cost = self.least = self.unseen / ALLOWED
        self.worth = self.least / np.sqrt(ALLOWED)
        self.lengths, self.reach = lengths, WIDE_REACH * lengths if reach is None else reach


class Near:
    """What objectives change by near a point.

    Attributes
    ----------
    changes : ndarray, one for each client
        The larger change where all of x doubles or vanishes.
    rounded : float
        R, see the module.
    digits : float
        What rounding x by 1e-12 changes of F, at most.
    """

    def __init__(self, claim: Claim, at: np.ndarray, sizes: np.ndarray, levels: np.ndarray) -> None:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, at.size))
        ways = PRINTED_DIGITS * sizes, POINT_DIGITS * np.abs(at)
        printed, exact = (at + far * signs for far in ways)
        doubled = np.copysign(sizes, at)
        points = [*printed, *exact, at + doubled, at - doubled]
        found, here = costs_at(claim.compiled, points, claim.live), levels[0]
        falls = np.abs(found.sum(axis=1) - here.sum())
        falls = np.where(np.isfinite(falls), falls, 0.0)
        changes = np.abs(found[-2:] - here)
        self.changes = np.fmax(*changes)
        together = float(np.fmin(*changes.sum(axis=1)))
        # Outside of the domain nothing is known of a change together
        together = np.inf if np.isnan(together) else together
        self.rounded = min(float(falls[:DRAWS].max()), SEEN * together)
        at_zero = float(np.abs(levels[-1]).sum())
        at_zero = at_zero if np.isfinite(at_zero) else np.inf
        self.digits = min(float(falls[DRAWS : 2 * DRAWS].max()), POINT_DIGITS * at_zero)
