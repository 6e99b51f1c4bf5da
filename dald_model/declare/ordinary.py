"""Ordinary problems: their independent parts, what only equalities connect, and the clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model._cvxpy import Equality, NegExpression
from dald_model.declare.client import summands
from dald_model.declare.consensus import ConsensusEquality
from dald_model.declare.declaration import Declaration


def independent(problem: cp.Problem) -> list[cp.Problem]:
    """The problems that a problem consists of: one, unless it falls apart.

    Over its own variables and constraints; what has no variable belongs to the first.
    """
    terms = summands(problem.objective.args[0])
    together = nx.Graph()
    together.add_nodes_from(v.id for v in problem.variables())
    for part in (*terms, *problem.constraints):
        nx.add_path(together, [v.id for v in part.variables()])
    pieces = list(nx.connected_components(together))
    if len(pieces) < 2:
        return [problem]
    home = {key: at for at, piece in enumerate(pieces) for key in piece}

    def place(part: cp.Expression | cp.Constraint) -> int:
        return next((home[v.id] for v in part.variables()), 0)

    found = []
    for at in range(len(pieces)):
        mine = [term for term in terms if place(term) == at]
        goal = sum(mine[1:], mine[0]) if mine else cp.Constant(0)
        rules = [rule for rule in problem.constraints if place(rule) == at]
        found.append(cp.Problem(type(problem.objective)(goal), rules))
    return found


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


def declare_pieces(
    model: Declaration,
    problem: cp.Problem,
    terms: Sequence[cp.Expression],
    pieces: Pieces,
) -> None:
    """Declare a client for each piece, consensus between two and couplings between more."""
    taken = {a.constraint.id for a in pieces.agreements if a.constraint is not None}
    taken |= {rule.id for rule in pieces.common}
    rules = [c for c in problem.constraints if c.id not in taken]
    homeless = [part for part in (*terms, *rules) if not part.variables()]
    for piece in pieces.sets:
        mine = [t for t in terms if piece.intersection(ids_of([t]))]
        held = [c for c in rules if piece.intersection(ids_of([c]))]
        if mine or held:
            mine += [part for part in homeless if isinstance(part, cp.Expression)]
            held += [part for part in homeless if isinstance(part, cp.Constraint)]
            homeless = []
            _declare(model, problem, mine, held)
    for agreement in pieces.agreements:
        model.agree(agreement)
    for rule in pieces.common:
        model.couple(rule)


def _sum(terms: Sequence[cp.Expression]) -> cp.Expression:
    return sum(terms[1:], terms[0]) if terms else cp.Constant(0)


def declare_summands(
    model: Declaration, problem: cp.Problem, terms: Sequence[cp.Expression]
) -> None:
    """Declare a client for each summand, and for constraints that none of them holds.

    Of these those are together whose variables one of them has: apart they would be steps of a
    recursion, say, which tell each other of the last step over as many rounds as there are.
    """
    constants = [t for t in terms if not t.variables()]
    goals = [[t] for t in terms if t.variables()]
    homes = [set(ids_of(mine)) for mine in goals]
    count = len(homes)
    if goals:
        goals[0].extend(constants)
    wanted = [set(ids_of([rule])) for rule in problem.constraints]
    owner: dict[int, int] = {}
    for at in sorted(range(len(wanted)), key=lambda at: -len(wanted[at])):
        fits = (home for home, has in enumerate(homes) if wanted[at] <= has and count)
        owner[at] = next(fits, len(homes))
        if owner[at] == len(homes):
            homes.append(wanted[at])
    for home in range(len(homes)):
        held = [rule for at, rule in enumerate(problem.constraints) if owner[at] == home]
        _declare(model, problem, goals[home] if home < count else [], held)


def _declare(
    model: Declaration,
    problem: cp.Problem,
    terms: Sequence[cp.Expression],
    rules: Sequence[cp.Constraint],
) -> None:
    goal = type(problem.objective)(_sum(terms))
    model.client(f"client {len(model.clients)}", goal, rules)
