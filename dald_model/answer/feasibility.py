r"""Violations: of constraints, of declarations of variables, and of copies that differ.

Entry k of a constraint with an affine expression :math:`A x + b` may be violated by

.. math:: \epsilon \, (|A| L)_k + 10^{-12} (|A| |x| + |b|)_k,

a share of how far it moves over the lengths L, and what a sum of such numbers is rounded by. Of any
other constraint the sizes of the values that it compares take the place of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import Equality, Inequality, is_affine_throughout, is_approximated
from dald_model.answer.claim import Claim
from dald_model.answer.rescaling import minimise
from dald_model.compile.measures import Measure
from dald_model.declare.affine import affine_map
from dald_model.declare.wording import short
from dald_model.sizes import EPSILONS, SUMMED
from dald_model.values import entries, flat, holding, violated

Lengths = Mapping[int, np.ndarray]
"""Variable id -> the length of each entry, flat."""


class Excess(NamedTuple):
    """The worst violation: by how much, beside what scale, and where.

    ``share`` is what is held against a tolerance.
    """

    share: float = 0.0
    amount: float = 0.0
    scale: float = np.nan
    where: str = ""

    def or_worse(self, other: Excess) -> Excess:
        """The worse of two; a number that is none is worse than all."""
        return other if not other.share <= self.share else self


Agreement = tuple[np.ndarray, np.ndarray, np.ndarray]
"""By how much an equality is violated, the size of what it adds up, and how far it moves."""


class Feasibility:
    """Constraints, and declarations of their variables, and how far they move over lengths.

    Parameters
    ----------
    rules, variables : list
    answer : dict
        Variable id -> the value around which scales are found, that all know.
    lengths : dict
    allowed : float
        The share of how far a constraint moves over the lengths by which it may be violated.
    known : dict
        Constraint id -> see :func:`agreements`, of those of which that is known at ``answer``.
    """

    def __init__(
        self,
        rules: Sequence[Any],
        variables: Sequence[cp.Variable],
        answer: Mapping[int, np.ndarray],
        lengths: Lengths,
        allowed: float,
        known: Mapping[int, Agreement] | None = None,
    ) -> None:
        self._rules, self._variables = rules, variables
        self._answer, self._lengths, self._allowed = answer, lengths, allowed
        self._known = known or {}
        self._maps: dict[int, tuple[Any, np.ndarray, np.ndarray] | None] = {}

    def violation(self, values: Mapping[int, np.ndarray]) -> Excess:
        """The worst violation at a point."""
        worst, broken = Excess(), None
        with holding((v, values[v.id]) for v in self._variables):
            for rule in self._rules:
                worse = worst.or_worse(self._of_rule(rule, values))
                if worse is not worst:
                    worst, broken = worse, rule
        if broken is not None:
            worst = worst._replace(where=short(broken, 40))
        for v in self._variables:
            value, is_whole = values[v.id], np.isfinite(values[v.id]).all()
            off = np.abs(flat(v.project(value)) - flat(value)) if is_whole else np.nan
            if np.any(off):
                scale = self._lengths[v.id] + SUMMED / self._allowed * np.abs(flat(value))
                where = f"what {short(v, 40)} is declared as"
                worst = worst.or_worse(_worst(off, scale, where))
        return worst

    def reach_of(self, rule: Any) -> np.ndarray:
        """How far each entry of a constraint moves over the lengths, flat."""
        with holding((v, self._answer[v.id]) for v in rule.variables()):
            return self._scales(rule, self._answer)[1]

    def _of_rule(self, rule: Any, values: Mapping[int, np.ndarray]) -> Excess:
        if values is self._answer and rule.id in self._known:
            off, made, near = self._known[rule.id]
            if (off <= EPSILONS * np.maximum(made, near)).all():
                return Excess()
            return _worst(off, near + SUMMED / self._allowed * made)
        with np.errstate(all="ignore"):  # cvxpy divides by the size of a cone's argument, even of 0
            off = violated(rule)
        if not off.any() or not self._is_beyond_rounding(rule, off):
            return Excess()
        if is_approximated(rule) or not np.isfinite(off).all():
            return _distance(rule, values, self._lengths)
        made, near = self._scales(rule, values)
        if made.size != off.size:
            made, near = (np.full(off.size, one.max(initial=0.0)) for one in (made, near))
        return _worst(off, near + SUMMED / self._allowed * made)

    def _is_beyond_rounding(self, rule: Any, off: np.ndarray) -> bool:
        """Whether it is violated by more than what it compares is rounded by.

        Here, or as far as its variables are long: what is 1e-50 is zero beside that.
        """
        if not isinstance(rule, Inequality | Equality | cp.Zero | cp.NonNeg):
            return True
        here = _size_of(rule, off.size)
        if (off <= EPSILONS * here).all():
            return False
        long = [(v, self._lengths[v.id].reshape(v.shape, order="F")) for v in rule.variables()]
        with holding(long), np.errstate(all="ignore"):
            there = _size_of(rule, off.size)
        return not (off <= EPSILONS * np.maximum(here, there)).all()

    def _scales(self, rule: Any, values: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The size of what each entry adds up, and how far it moves over the lengths."""
        if rule.id not in self._maps:
            self._maps[rule.id] = self._map(rule)
        known = self._maps[rule.id]
        if known is not None:
            matrix, offset, moves = known
            sizes = np.concatenate([np.abs(flat(values[v.id])) for v in rule.variables()])
            return matrix @ sizes + offset, moves
        with np.errstate(all="ignore"):
            made = np.concatenate([_size(part) for part in _parts(rule)])
        return made, made

    def _map(self, rule: Any) -> tuple[Any, np.ndarray, np.ndarray] | None:
        """Of a constraint that is affine the sizes of its coefficients, and how far it moves."""
        parts, variables = _parts(rule), rule.variables()
        if not variables or not all(is_affine_throughout(part) for part in parts):
            return None
        maps = [affine_map(part, variables) for part in parts]
        matrix = abs(sp.vstack([sp.csr_array(one) for one, _ in maps], format="csr"))
        offset = np.concatenate([np.abs(flat(level)) for _, level in maps])
        return matrix, offset, matrix @ np.concatenate([self._lengths[v.id] for v in variables])


def charged(rules: list[Any], values: Mapping[int, np.ndarray], duals: Mapping[int, Any]) -> float:
    r"""What a point gains at most by what it violates, :math:`\sum_k |\lambda_k| v_k`.

    By weak duality no point is better than the optimum by more, with optimal :math:`\lambda`.
    """
    total, variables = 0.0, {v.id: v for rule in rules for v in rule.variables()}
    with holding((v, values[key]) for key, v in variables.items()), np.errstate(all="ignore"):
        for rule in rules:
            off = violated(rule)
            if off.any() and rule.id in duals:
                parts = duals[rule.id] if isinstance(duals[rule.id], list) else [duals[rule.id]]
                prices = np.abs(np.concatenate([flat(part) for part in parts]))
                alike = off.size == prices.size
                total += float(off @ prices if alike else off.max() * prices.sum())
    return total if np.isfinite(total) else 0.0


def copies_apart(claim: Claim, lengths: np.ndarray, near: Lengths, allowed: float) -> Excess:
    """How far copies are from what the user reads, and the ends of edges apart.

    ``lengths`` are those of all clients' variables, ``near`` of the user's by id.
    """
    worst = Excess()
    if claim.is_whole:
        names = {v.id: v.name() for v in claim.compiled.model.variables}
        for name, copies in claim.copies.items():
            for key, copy in copies.items():
                if key not in names:
                    continue  # what couplings share among clients, of which nobody reads anything
                at = flat(claim.answer[key])
                scale = near[key] + SUMMED / allowed * np.abs(at)
                where = f"{names[key]} at {name!r}"
                worst = worst.or_worse(_worst(np.abs(np.nan_to_num(flat(copy) - at)), scale, where))
    return worst.or_worse(_edges_apart(claim, lengths, allowed))


def _edges_apart(claim: Claim, lengths: np.ndarray, allowed: float) -> Excess:
    """How far the two ends of edges are apart where the clients' points are those of the user."""
    off, scale = _differences(claim, claim.vector, lengths, allowed)
    worst = Excess()
    for edge in claim.compiled.edges:
        part = claim.compiled.slots[edge.ends]
        if off[part].any():
            worst = worst.or_worse(_worst(off[part], scale[part], f"edge {edge.ends!r}"))
    return worst


def are_together(
    claim: Claim, at: np.ndarray, own: np.ndarray, lengths: np.ndarray, allowed: float
) -> bool:
    """Whether the clients' own points are those of the user, and ends of edges agree there.

    But for what couplings share among clients, of which nobody reads anything.
    """
    compiled = claim.compiled
    off, scale = _differences(claim, at, lengths, allowed)
    near = lengths + SUMMED / allowed * np.abs(at)
    local = [v for name in compiled.layout for v in compiled[name].variables]
    is_made = [compiled.origins[v.id] in compiled.derived for v in local]
    is_near = (np.abs(own - at) <= allowed * near) | np.repeat(is_made, [v.size for v in local])
    return bool((off <= allowed * scale).all() and is_near.all())


def _differences(
    claim: Claim, at: np.ndarray, lengths: np.ndarray, allowed: float
) -> tuple[np.ndarray, np.ndarray]:
    """By how much the ends of each entry of an edge differ at a point, beside what scale."""
    compiled = claim.compiled
    tails, heads = compiled.stacked.at(at)
    matrix = compiled.stacked.sizes
    near = (matrix @ lengths).reshape(2, -1).max(axis=0)
    made = (matrix @ np.abs(at) + np.abs(compiled.stacked.offset)).reshape(2, -1).max(axis=0)
    return np.where(claim.off, 0.0, np.abs(tails - heads)), near + SUMMED / allowed * made


def agreements(claim: Claim, lengths: np.ndarray) -> dict[int, Agreement]:
    """Of each equality that the user stated between two clients, from the sides of its edge."""
    compiled = claim.compiled
    stacked, at = compiled.stacked, claim.vector
    off = np.abs(np.subtract(*stacked.at(at)))
    made = (stacked.sizes @ np.abs(at) + np.abs(stacked.offset)).reshape(2, -1).sum(axis=0)
    near = (stacked.sizes @ lengths).reshape(2, -1).sum(axis=0)
    found: dict[int, Agreement] = {}
    for edge, part in compiled.declared_parts if claim.is_whole else ():
        own, start = part.agreement.constraint.id, compiled.slots[edge.ends].start
        rows = slice(start + part.start, start + part.stop)
        found[own] = off[rows], made[rows], near[rows]
    return found


def _parts(rule: Any) -> list[Any]:
    return [rule.expr] if isinstance(rule, Inequality | Equality) else list(rule.args)


def _size_of(rule: Any, count: int) -> np.ndarray:
    """The size of the terms of each of so many entries of a constraint."""
    size = _size(rule.expr)
    return size if size.size == count else np.full(count, size.max(initial=0.0))


def _size(part: Any) -> np.ndarray:
    """The size of the terms that each entry of an expression adds up."""
    terms = [arg for arg in part.args if isinstance(arg, cp.Expression)] or [part]
    found = np.zeros(part.size)
    for one in terms:
        size = np.abs(np.nan_to_num(entries(one)))
        found = found + (size if size.size == part.size else size.max(initial=0.0))
    return found


def _distance(rule: Any, values: Mapping[int, np.ndarray], lengths: Lengths) -> Excess:
    """How many lengths a point is from what a solver takes a constraint for."""
    away = cp.Variable(nonneg=True)
    spreads = {
        v.id: Measure(values[v.id], lengths[v.id].reshape(v.shape, order="F"))
        for v in rule.variables()
    }
    near = [
        cp.abs(cp.multiply(1 / spreads[v.id].spread, v - spreads[v.id].centre)) <= away
        for v in rule.variables()
    ]
    found = minimise(away, [rule, *near], spreads)
    share = found.value if found.is_optimal else np.nan
    return Excess(share, share, 1.0)


def _worst(off: Any, scale: np.ndarray, where: str = "") -> Excess:
    off = np.broadcast_to(np.asarray(off, float), scale.shape)
    with np.errstate(all="ignore"):
        shares = np.where(off == 0, 0.0, off / scale)
    if not shares.size:
        return Excess()
    at = int(np.argmax(np.where(np.isnan(shares), np.inf, shares)))
    return Excess(float(shares[at]), float(off[at]), float(scale[at]), where)
