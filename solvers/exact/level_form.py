r"""Clients with known functions in constraints, read off their cone programs.

.. math::
    \min_x \; \tfrac12 x^\top P x + q^\top x + \varphi_0(x) \quad\text{s.t. }
    E x = e, \; A x \le b, \; \varphi_j(x) \le a_j^\top x + \beta_j

with sums :math:`\varphi` of smooth functions of affine arguments, such as losses that a shared
variable bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form, Rows, Term, cone_height
from dald_model.compile.kinds.norm import SQUARES
from dald_model.compile.recognition import CONES, LINEAR, Canonical, Structure, with_levels

NAMES = {theirs: ours for ours, theirs in CONES.items()}
"""What recognition calls Clarabel's cones."""


class Limit(NamedTuple):
    r"""One constraint: the terms of :math:`\varphi`, and :math:`c^\top x + d`, at most zero."""

    terms: tuple[Term, ...]
    slope: np.ndarray
    level: float


class LevelForm(NamedTuple):
    """A client as above; ``places`` has the cone program's rows of e, b and the limits."""

    matrix: np.ndarray
    goal: Limit
    limits: list[Limit]
    equalities: Rows
    inequalities: Rows
    places: np.ndarray
    height: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for forms that go into the same arrays."""
        kinds = [[t.kind.name for t in one.terms] for one in (self.goal, *self.limits)]
        sizes = self.goal.slope.size, self.equalities.rhs.size, self.inequalities.rhs.size
        return *sizes, tuple(map(tuple, kinds))


_KNOWN: WeakKeyDictionary[Form, LevelForm | None] = WeakKeyDictionary()


def level_form(form: Form) -> LevelForm | None:
    """What a form is as above; None where its cone program has more. Read once."""
    if form not in _KNOWN:
        _KNOWN[form] = _read(form.cone, form.size)
    return _KNOWN[form]


def _read(cone: ConeProgram, size: int) -> LevelForm | None:
    change: Any
    source = cone.source
    if source is None:
        known = with_levels(_canonical(cone, size))
        change, shift = sp.csr_array(sp.eye_array(size)), np.zeros(size)
    else:
        known, change, shift = source.levels(), source.matrix, source.offset
    if known is None:
        return None
    part, structure, levels = known
    own = part.own
    if structure.extra.size or part.P[:, own:].count_nonzero() or not levels:
        return None
    at = change, shift
    goal = _limit(part, structure, part.q[:own], part.d, at)
    limits = []
    for level in levels:
        slope = np.zeros(own)
        for column, a in level.bound[0].items():
            slope[column] = -a
        limits.append(_limit(level.problem, level.structure, slope, -level.bound[1], at))
    if goal is None or any(one is None for one in limits):
        return None
    bent = part.P[:own, :own]
    upper, pull = (change.T @ bent @ change).toarray(), bent @ shift
    goal = goal._replace(slope=goal.slope + change.T @ pull, level=goal.level + shift @ pull / 2)
    sides, rows = (structure.zero, structure.nonneg), list[Rows]()
    for side in sides:
        matrix = part.A[side][:, :own]
        rows.append(Rows((matrix @ change).toarray(), part.b[side] - matrix @ shift))
    bounds = np.array([level.row for level in levels])
    places = np.concatenate([*(part.rows[side].indices for side in sides), bounds])
    kept = [one for one in limits if one is not None]
    return LevelForm(upper, goal, kept, rows[0], rows[1], places, cone.rhs.size)


def _canonical(cone: ConeProgram, size: int) -> Canonical:
    """The program as recognition takes it, where each linear row is a cone of its own."""
    cones, at = list[tuple[str, int, int]](), 0
    for kind, argument in cone.cones:
        height, name = cone_height(kind, argument), NAMES[kind]
        each = 1 if name in LINEAR else height
        cones += [(name, at + k, each) for k in range(0, height, each)] if height else []
        at += height
    rows = sp.csr_array(cone.rows)
    places, linear = sp.eye_array(cone.rhs.size, format="csr"), cone.linear
    return Canonical(cone.matrix, linear, cone.constant, rows, cone.rhs, cones, (), size, places)


def _limit(
    part: Canonical,
    structure: Structure,
    slope: np.ndarray,
    level: float,
    at: tuple[Any, np.ndarray],
) -> Limit | None:
    """The sum of what was recognised and an affine function, at F x + f; None with kinks."""
    change, shift = at
    terms, slope = [], slope.copy()
    for block in structure.blocks:
        weight, parameter = block.weights(part.P, part.q)
        slope += block.linear.T @ weight
        level += float(weight @ block.shift)
        if block.kind.name == "linear":
            continue
        if not block.kind.is_smooth:
            return None
        matrix, offset = (block.matrix @ change).toarray(), block.offset + block.matrix @ shift
        one = Term(block.kind, weight, matrix, offset, parameter, block.width)
        terms.append(_narrowed(one))
    return Limit(tuple(terms), change.T @ slope, level + float(slope @ shift))


def _narrowed(term: Term) -> Term:
    """The same sum of squares of no more arguments than one more than variables."""
    size = term.matrix.shape[1]
    if term.kind is not SQUARES or term.width <= size + 1 or term.weight.size > 1:
        return term
    rows = np.asarray(np.linalg.qr(np.column_stack([term.matrix, term.offset]), mode="r"))
    return term._replace(matrix=rows[:, :-1], offset=rows[:, -1], width=len(rows))
