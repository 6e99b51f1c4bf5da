"""Parts of a problem and of a model that have no variable in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import cvxpy as cp
import networkx as nx

from dald_model.declare.client import Client, summands
from dald_model.declare.consensus import ConsensusEquality


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


def independent_clients(
    stated: Iterable[Client], agreements: Iterable[ConsensusEquality]
) -> list[list[Hashable]]:
    """The names of clients and couplings by part, in order of declaration."""
    together = nx.Graph()
    held = {client.name: [v.id for v in client.variables] for client in stated}
    sides = ((*a.left.variables(), *a.right.variables()) for a in agreements)
    for keys in (*held.values(), *([v.id for v in both] for both in sides)):
        nx.add_path(together, keys)
    pieces = nx.connected_components(together)
    home = {key: at for at, piece in enumerate(pieces) for key in piece}
    parts: dict[int, list[Hashable]] = {}
    for name, keys in held.items():
        parts.setdefault(home[keys[0]], []).append(name)
    return list(parts.values())
