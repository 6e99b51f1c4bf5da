"""Clients, edges and couplings of an ordinary problem, declared in a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp

from dald_model.declare.client import summands
from dald_model.declare.declaration import Declaration
from dald_model.declare.owners import Division
from dald_model.declare.pieces import Pieces, ids_of


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


def declare_division(model: Declaration, problem: cp.Problem, division: Division) -> None:
    """Declare owners, each with what is its own, and couplings of what is in common."""
    stated = (*summands(problem.objective.args[0]), *problem.constraints)
    kind = type(problem.objective)
    alone = [part for part in stated if not part.variables()]
    for name, parts in division.own.items():
        mine: list[Any] = [p for p in (*parts, *alone) if isinstance(p, cp.Expression)]
        held = [p for p in (*parts, *alone) if isinstance(p, cp.Constraint)]
        alone = []
        if not parts:  # all that it has is in couplings
            theirs = [v for v in problem.variables() if division.owners.get(v.id) == name]
            mine += [0 * cp.sum(v) for v in theirs]
        model.client(name, kind(_sum(mine)), held)
    for parts in division.common:
        mine = [p for p in parts if isinstance(p, cp.Expression)]
        held = [p for p in parts if isinstance(p, cp.Constraint)]
        model.couple(*held, objective=kind(_sum(mine)) if mine else None)


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
