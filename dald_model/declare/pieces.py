"""Pieces of an ordinary problem: what hangs together but for the equalities between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model._cvxpy import Equality, NegExpression
from dald_model.declare.consensus import ConsensusEquality


class Pieces(NamedTuple):
    """Sets of variable ids that hang together, and the equalities between two and between more."""

    sets: list[set[int]]
    agreements: list[ConsensusEquality]
    common: list[cp.Constraint]

    @classmethod
    def of(cls, problem: cp.Problem, terms: Sequence[cp.Expression]) -> Self:
        """What hangs together without the equalities, and those that are between such pieces."""
        near = nx.Graph()
        near.add_nodes_from(v.id for v in problem.variables())
        equalities = [c for c in problem.constraints if isinstance(c, Equality | cp.Zero)]
        others = [c for c in problem.constraints if not isinstance(c, Equality | cp.Zero)]
        for part in (*terms, *others):
            nx.add_path(near, ids_of([part]))
        groups = {c.id: _groups(c) for c in equalities}
        for found in groups.values():
            for group in found:
                nx.add_path(near, ids_of(group))
        sets = [set(piece) for piece in nx.connected_components(near)]
        home = {key: at for at, piece in enumerate(sets) for key in piece}
        agreements, common = [], []
        for rule in equalities:
            sides: dict[int, list[cp.Expression]] = {}
            for group in groups[rule.id]:
                sides.setdefault(home[ids_of(group)[0]], []).extend(group)
            if len(sides) == 2:
                agreements.append(_agreement(rule, *sides.values()))
            elif len(sides) > 2:
                common.append(rule)
        return cls(sets, agreements, common)


def _groups(rule: Equality | cp.Zero) -> list[list[cp.Expression]]:
    """The parts of an equality that belong to one client each: its sides, or its terms."""
    if isinstance(rule, Equality) and all(side.variables() for side in rule.args):
        return [[rule.args[0]], [rule.args[1]]]
    return [[t] for t in _affine_terms(rule.expr) if t.variables()]


def _affine_terms(expression: cp.Expression) -> list[cp.Expression]:
    if isinstance(expression, cp.AddExpression):
        return [term for arg in expression.args for term in _affine_terms(arg)]
    if isinstance(expression, NegExpression):
        return [-term for term in _affine_terms(expression.args[0])]
    return [expression]


def _agreement(
    rule: Equality | cp.Zero, one: list[cp.Expression], two: list[cp.Expression]
) -> ConsensusEquality:
    zero = cp.Constant(np.zeros(rule.expr.shape))  # gives smaller terms the equality's shape
    if isinstance(rule, Equality) and all(side.variables() for side in rule.args):
        left, right = (s if s.shape == zero.shape else s + zero for s in rule.args)
        return ConsensusEquality(left, right, rule)
    constants = [t for t in _affine_terms(rule.expr) if not t.variables()]
    left = sum([*one, *constants], zero)
    return ConsensusEquality(left, -sum(two, zero), rule)


def ids_of(parts: Iterable[Any]) -> list[int]:
    """The ids of the variables of summands and constraints, each once."""
    return list({v.id: None for part in parts for v in part.variables()})
