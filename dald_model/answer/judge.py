r"""The one judge of answers: certificates, verifications, ``gap=`` and the end of a run ask it.

It sees a :class:`Claim` and the model, and measures everything itself. With the cost of consensus S
and the lengths L of :mod:`dald_model.answer.scale` at the point x that the user reads, and
:math:`\epsilon = 10^{-4}` unless told otherwise, it holds

* the gap, :math:`F(x) - F^* \le \epsilon S`, by the proof of :mod:`dald_model.answer.bound` in the
  box of 10 L; and by that, or by 1e-3 S, in a wide one: ten times the ways that clients would go
  where all are smooth, 3e3 L where some have kinks or rows, 1e3 L where only a cone solver bounds
  one. An answer that is proved in the first box alone cannot be judged.
  A better point beyond, along the valley that all clients are in, refutes it
  (:mod:`dald_model.answer.valley`);
* the reported value, :math:`|value - F(x)| \le \epsilon \min(S, |F(x)|)`: it is but evaluated;
* constraints and copies, as in :mod:`dald_model.answer.feasibility`;
* the multipliers, by the same proof in a small box, where it is of first order. A gap of
  :math:`\epsilon S` resolves prices to :math:`\sqrt\epsilon` only: where it is proved, and prices
  or dual values are wrong by less than that but more than they may be, they are unproved and not
  wrong.

What doubles do not hold of F is allowed in any case; where that is more than :math:`\epsilon S`, a
gap that is not proved cannot be judged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import cvxpy as cp
import numpy as np

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Bound, Bounds, Parts, prices_of
from dald_model.answer.claim import Claim, Points, client_costs, costs_at
from dald_model.answer.cone_clients import ConeClient
from dald_model.answer.feasibility import (
    Agreement,
    Excess,
    Feasibility,
    agreements,
    are_together,
    copies_apart,
)
from dald_model.answer.lengths import ranges_of
from dald_model.answer.multipliers import balanced, improved
from dald_model.answer.scale import BOX, NOISE, Floor, Scale, wide
from dald_model.answer.smooth_clients import smooth_groups
from dald_model.answer.valley import fall_along_valley
from dald_model.answer.verdict import Row
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.subproblem import Subproblem
from dald_model.values import flat

SHORT, SHORTEST = 1e-2, 1e-6
"""How many lengths the box of the proof that multipliers are right reaches, of clients that only a
cone solver bounds and of smooth ones: so near by, a price that is wrong by a share d costs d of
what it moves. Of smooth clients the proof is exact and the box as small as that; of
others a cone solver leaves 1e-7 of S, which has to be little beside the box."""
PRICED = 1e-4
"""Share of what prices are worth over the lengths by which they may be wrong."""
COPIES = 1e-9
"""Share of x that copies of an exact method may differ by: 1e-4 of a length up to 1e5 lengths from
the origin."""
BLURRED = 3e-6
"""Share of S that a cone solver leaves of the least value of a client, at worst."""
SIGHT = 1e-3
"""Share of the larger of two values beyond which a reader sees that they differ; and of S that a
gap may be in the wide box, where no more is asked for: a point t boxes away gains t gaps."""
ZERO = 1e-9
"""Share of the sizes of what is added up below which a sum is zero for a reader."""
SPARE = 0.1
"""Share of what is allowed that reported multipliers have to prove unless told otherwise."""


class Judge:
    """What is measured of one claim; each part is found when it is asked for.

    Parameters
    ----------
    claim : Claim
    tolerance, feasible, priced : float
        What is allowed of gaps, of violations, and of multipliers.
    spare : float
        Share of what is allowed that reported multipliers have to prove before better ones are
        tried, and solvers asked.
    """

    def __init__(
        self,
        claim: Claim,
        tolerance: float,
        feasible: float,
        priced: float = PRICED,
        spare: float = SPARE,
    ) -> None:
        self.claim, self.compiled, self.spare = claim, claim.compiled, spare
        self.tolerance, self.feasible, self.priced = tolerance, feasible, priced
        self._at = claim.vector

    @cached_property
    def _levels(self) -> np.ndarray:
        """The clients' objectives at the point, at twice the point and at zero, (3, clients)."""
        return costs_at(self.compiled, [self._at, 2 * self._at, 0 * self._at], self.claim.live)

    @cached_property
    def _costs(self) -> dict[Hashable, float]:
        # As the value that is reported: of several points sums are rounded otherwise
        return client_costs(self.compiled, self.claim.points, self.claim.live)

    @cached_property
    def _ranges(self) -> np.ndarray:
        return ranges_of(self.compiled)

    @cached_property
    def _parts(self) -> Parts:
        groups, others = smooth_groups(self.compiled, self.claim.live)
        cones = {}
        for name in others:
            part = self.compiled.columns[name]
            here = self._at[part], self._own[part]
            told = self.claim.own_multipliers.get(name)
            cones[name] = ConeClient(self.compiled[name], *here, multipliers=told)
        return Parts(groups, cones)

    @cached_property
    def value(self) -> float:
        """F at the point, as minimised."""
        return float(sum(self._costs.values()))

    @cached_property
    def falls_beyond(self) -> bool:
        """Whether the point twice as far from zero is feasible and better by more than rounding.

        Then there may be no minimiser, as of separated data, whatever small gap is proved.
        """
        here, there, _ = self._levels.sum(axis=1)
        if not here - there > NOISE * np.abs(self._levels[0]).sum():
            return False
        beyond = {name: 2 * point for name, point in self.claim.points.items()}
        return keeps_constraints(self.compiled, beyond)

    @cached_property
    def is_right_at_once(self) -> bool:
        """Whether a yardstick that costs nothing proves gap and multipliers, of an exact method.

        Of one whose copies are equal, and that told its clients' multipliers.
        """
        lengths = Alike.by_variable(self.compiled).most(np.abs(self._at))
        is_exact = lengths.all() and (np.abs(self._own - self._at) <= COPIES * lengths).all()
        if not (is_exact and self._parts.cones.keys() <= self.claim.own_multipliers.keys()):
            return False
        short = Judge(self.claim, self.tolerance, self.feasible, self.priced, spare=np.inf)
        reach = wide(self._parts, lengths, self._ranges) if self._parts.cones else None
        scale = Floor(self.compiled, self.claim.live, self._levels, lengths, reach)
        known = {name: getattr(self, name) for name in ("_levels", "_costs", "_parts", "_own")}
        vars(short).update(known, scale=scale)
        near = short._by_multipliers
        # Below zero a bracket contradicts the point, and may not pay for another's
        is_sound = min(near.of_clients.values(), default=0.0) >= -short.allowed
        if not (is_sound and near.size <= short.allowed):
            return False
        if not scale.is_least and self.falls_beyond:
            return False
        if not short.gap_row().ok or short.has_wrong_prices:
            return False
        return short.loose_violation.share <= self.feasible

    @cached_property
    def scale(self) -> Scale | Floor:
        """The cost of consensus and the lengths."""
        prices = prices_of(self.compiled, self._multipliers)
        known = self._levels, self._ranges
        return Scale(self.claim, self._parts, self._at, prices, *known)

    @property
    def allowed(self) -> float:
        """How large a gap may be, in the units of the objective."""
        return self.tolerance * self.scale.cost + self.scale.open

    @property
    def is_blurred(self) -> bool:
        """Whether doubles hold less of F, or of its gradients, than is asked for."""
        rounded = max(self.scale.open, self.proof.noise)
        return rounded > self.tolerance * self.scale.cost

    @cached_property
    def _multipliers(self) -> np.ndarray:
        return balanced(self.compiled, self.claim.multipliers)

    @cached_property
    def _own(self) -> np.ndarray:
        own = self._at.copy()
        for name, point in self.claim.own.items():
            own[self.compiled.columns[name]] = point
        return own

    @property
    def are_together(self) -> bool:
        """Whether the clients' copies are those of the user, as far as constraints have to hold."""
        lengths = self.scale.lengths
        return are_together(self.claim, self._at, self._own, lengths, self.feasible)

    @property
    def loose_violation(self) -> Excess:
        """The worst violation of constraints that clients' answers may break.

        Those between clients, and those of whom a cone solver answers, as exactly as it does.
        """
        forms = {name: self.compiled[name].form for name in self._parts.cones}
        loose = (n for n, form in forms.items() if not form or not form.complete or form.extra)
        model = self.compiled.model
        names = dict.fromkeys([*model.couplings, *loose])
        owners = [model.stated[name] for name in names if name in model.stated]
        rules = [rule for owner in owners for rule in owner.constraints]
        if not rules:
            return Excess()
        variables = {v.id: v for rule in rules for v in rule.variables()}
        return self._feasibility_of(rules, list(variables.values())).violation(self.claim.answer)

    @property
    def has_wrong_prices(self) -> bool:
        """Whether multipliers are wrong by more than a proof of the gap excuses."""
        return not self.multiplier_row.measured <= self._excused

    @cached_property
    def proof(self) -> Bound:
        """The least gap that one of a few multipliers proves, in the box of 10 L.

        Or that in the wider box, where it is not small there. Where no objective is ever negative
        and multipliers prove too little, all of F; where a better point is known beyond the boxes,
        what it gains.
        """
        found, allowed = self._by_multipliers, self.allowed
        if allowed < found.size and 0 <= self.value < found.size and self._is_nonnegative:
            found = found._replace(gap=self.value)
        reach, enough = BOX * self.scale.lengths, max(found.size, allowed)
        fall = fall_along_valley(self.compiled, self._parts, self._at, reach, enough)
        if fall <= found.size:
            return found
        return found._replace(gap=fall, is_refuted=True, is_beyond=False)

    @property
    def _is_nonnegative(self) -> bool:
        subs = [self.compiled[name].client for name in self.claim.live]
        return all(one.is_server or (not one.is_remote and one.cost.is_nonneg()) for one in subs)

    @cached_property
    def _by_multipliers(self) -> Bound:
        """The least of some multipliers' bounds, each in both boxes."""
        enough, found = self.spare * self.allowed, []
        near, far = self._bounds(BOX * self.scale.lengths), self._bounds(self.scale.reach)
        # Beyond ten lengths it is for what a reader sees, whatever tolerance is asked within
        most = max(self.allowed, SIGHT * self.scale.cost)
        for mu in self._candidates():
            bound = near.of(mu, enough)
            if bound.size <= self.allowed:
                wide = far.of(mu, self.spare * most)
                if wide.size > most:
                    bound = wide._replace(is_beyond=True)
            found.append(bound)
            if bound.size <= enough:
                break
        return min(found, key=attrgetter("size"))

    def _bounds(self, reach: np.ndarray) -> Bounds:
        return Bounds(self.compiled, self._parts, self._at, self._own, reach, self._costs)

    def _candidates(self) -> Iterator[np.ndarray]:
        """Multipliers that may prove the gap, in the order in which they are tried."""
        mu = self._multipliers
        yield mu
        if self.scale.paid <= self.scale.least:
            yield np.zeros(self.compiled.size)  # nobody is paid for anything
        better = improved(self.compiled, self._parts, self._at, mu, self.edge_lengths)
        if better is not None and np.isfinite(better).all():
            yield better

    @property
    def edge_lengths(self) -> np.ndarray:
        """How far the sides of each entry of an edge move over the lengths, (Q,)."""
        sides = self.compiled.stacked.sizes @ self.scale.lengths
        found = np.maximum(*sides.reshape(2, -1))
        found[found == 0] = 1.0
        return found

    def gap_row(self) -> Row:
        """The proof of the objective."""
        gap = self.proof.size if np.isfinite(self.value) else np.nan
        where, slack = self.proof.where, self.scale.open
        row = Row("gap to the bound", gap, self.scale.cost, self.tolerance, where, slack=slack)
        return replace(row, is_seen=not (self.is_blurred or self.proof.is_beyond))

    def value_row(self) -> Row:
        """The value that is reported."""
        claimed = self.compiled.sense * self.claim.value
        size = max(abs(claimed), abs(self.value))
        scale, slack = min(self.scale.paid, self.seen_size(size)), self.scale.open
        return Row("reported value", abs(claimed - self.value), scale, self.tolerance, slack=slack)

    def sight_row(self, gap: float, other: float) -> Row:
        """Two values as a reader sees them: F and another, unless both are zero in their sums."""
        size = max(abs(self.value), abs(other))
        seen = self.seen_size(size)
        return Row("in plain sight", max(gap, 0.0) if np.isfinite(seen) else 0.0, size, SIGHT)

    def bound_row(self) -> Row:
        """F and its bound as a reader sees them, by the multipliers that prove most.

        A gap that is small beside S may be large beside F, and others may prove less of one.
        """
        bounds = self._bounds(BOX * self.scale.lengths)
        gaps = [self.proof.gap, *(bounds.of(mu, 0.0).size for mu in self._candidates())]
        rows = [self.sight_row(gap, self.value - gap) for gap in gaps]
        return replace(min(rows, key=attrgetter("measured")), is_seen=self.proof.is_refuted)

    def seen_size(self, size: float) -> float:
        """What a reader measures a difference of two values by, the larger of which is ``size``.

        Infinite where both are zero beside what is added up.
        """
        is_zero = size <= max(self.scale.digits, self.scale.unseen, ZERO * self.scale.total)
        return np.inf if is_zero else size

    @cached_property
    def multiplier_row(self) -> Row:
        """The multipliers, to first order."""
        scale = self.scale.worth
        own, groups = self._own, self._parts.groups
        shares = dict.fromkeys(self.compiled.layout, SHORT)
        shares |= {name: SHORTEST for group in groups for name in group.names}
        reach = np.array([*shares.values()])[self.compiled.owners] * self.scale.lengths
        costs = self._costs
        if not np.array_equal(own, self._at):
            costs = client_costs(self.compiled, self.claim.own, self.claim.live)
        bounds = Bounds(self.compiled, self._parts, own, own, reach, costs)
        enough = self.spare * self.priced * scale
        found = bounds.of(self.claim.multipliers, SHORTEST * enough, SHORT * enough)
        worst = Row("multipliers", 0.0, scale, self.priced)
        for name, one in found.of_clients.items():
            wrong = max(one, 0.0) / shares[name]
            if (client := self._parts.cones.get(name)) and client.is_blurred:
                wrong = max(wrong - BLURRED * scale / SHORT, 0.0)
            if wrong <= worst.measured * scale / own.size:  # which they are worth at least
                continue
            worth = self.worth_of(name)
            there = replace(worst, difference=wrong, scale=worth, where=f"at {name!r}")
            if not there.measured <= worst.measured:
                worst = there
        is_seen = self.scale.noise <= SHORT * self.priced * worst.scale
        return replace(worst, is_seen=bool(is_seen and not self.excuses(worst)))

    @property
    def _excused(self) -> float:
        """How wrong prices may be where the gap is proved, which resolves them no better."""
        return float(np.sqrt(self.tolerance))

    def excuses(self, row: Row) -> bool:
        """Whether a proved gap leaves open what a row says of prices."""
        return self.gap_row().ok and row.measured <= self._excused

    @cached_property
    def _paid(self) -> np.ndarray:
        return paid(self.compiled, self.claim.multipliers)

    def worth_of(self, name: Hashable) -> float:
        """What a client's prices are worth over the lengths: the most of an entry, or S / N.

        N is the number of all variables: a price may be zero, and an error of it is not small
        beside that.
        """
        sub, part = self.compiled[name], self.compiled.columns[name]
        met = np.abs(_met(sub, self._paid[part])) * self.scale.lengths[part]
        return max(float(met.max(initial=0.0)), self.scale.worth / self._at.size)

    @cached_property
    def rows(self) -> list[Row]:
        """All that is judged without the all-in-one solve."""
        return [
            self.gap_row(),
            self.value_row(),
            *self.feasibility_rows,
            self.multiplier_row,
        ]

    @cached_property
    def feasibility_rows(self) -> list[Row]:
        """The constraints at the point, and the copies."""
        claim, allowed = self.claim, self.feasible
        found = self.feasibility.violation(claim.answer)
        apart = copies_apart(claim, self.scale.lengths, self.lengths_by_variable, allowed)
        return [
            Row("constraint violation", found.amount, found.scale, allowed, found.where),
            Row("consensus violation", apart.amount, apart.scale, allowed, apart.where),
        ]

    @cached_property
    def feasibility(self) -> Feasibility:
        """The constraints of the all-in-one problem, beside how far they move over the lengths."""
        known = agreements(self.claim, self.scale.lengths)
        return self._feasibility_of(self.claim.rules, self.claim.variables, known)

    def _feasibility_of(
        self,
        rules: list[Any],
        variables: list[cp.Variable],
        known: dict[int, Agreement] | None = None,
    ) -> Feasibility:
        answer, lengths = self.claim.answer, self.lengths_by_variable
        return Feasibility(rules, variables, answer, lengths, self.feasible, known)

    @cached_property
    def lengths_by_variable(self) -> dict[int, np.ndarray]:
        """Id of a variable of the all-in-one problem, or of a client's copy -> lengths, flat."""
        found: dict[int, np.ndarray] = {}
        for name in self.claim.live:
            sub = self.compiled[name]
            for key, part in sub.spread(self.scale.lengths[self.compiled.columns[name]]).items():
                for one in (key, self.compiled.origins[key]):
                    found[one] = np.maximum(found.get(one, 0.0), flat(part))
        return {
            key: flat(part) for key, part in self.compiled.arrays.with_arrays(found, 1.0).items()
        }


def keeps_constraints(compiled: Decomposition, points: Points) -> bool:
    """Whether it is known that points of clients break no constraint of their own."""
    # What clients share breaks first where all of a point is scaled
    shared = {*compiled.couplings, compiled.holder}
    forms = (
        (compiled[name].form, name)
        for name in sorted(points, key=lambda name: name not in shared)
        if name not in compiled.averages
    )
    return all(
        form is not None and form.complete and not form.extra and not form.is_outside(points[name])
        for form, name in forms
    )


def paid(compiled: Decomposition, mu: np.ndarray) -> np.ndarray:
    """What all clients' variables are paid, one after the other; of a server what passes."""
    found = prices_of(compiled, mu)
    if compiled.servers:
        passing = compiled.stacked.sizes_across @ np.abs(np.concatenate([mu, mu]))
        for name in compiled.servers:
            found[compiled.columns[name]] = passing[compiled.columns[name]]
    return found


def _met(sub: Subproblem, price: np.ndarray) -> np.ndarray:
    """What of a price is ever paid: of a symmetric matrix its symmetric part.

    Prices of a consensus of all entries may differ by any skew matrix.
    """
    if all(len(v.shape) < 2 for v in sub.variables):
        return price
    parts = zip(sub.variables, sub.spread(price).values(), strict=True)
    is_matrix = [(part, v.is_symmetric() and part.ndim == 2) for v, part in parts]
    return np.concatenate([flat((p + p.T) / 2 if both else p) for p, both in is_matrix])
