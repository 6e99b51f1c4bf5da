"""Owners of an ordinary problem's variables, and what of it is whose.

A part of a problem is a summand of its objective or a constraint. A part whose variables have one
owner is that owner's; what is left couples several.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx

from dald_model._cvxpy import Equality
from dald_model.declare.client import check_name, short
from dald_model.errors import DecompositionError

Owned = dict[int, Hashable]
"""Variable id -> its owner."""


class Division(NamedTuple):
    """The parts of a problem by owner, and groups of parts that several owners have in common."""

    owners: Owned
    own: dict[Hashable, list[Any]]
    common: list[list[Any]]


def named_owners(variables: Sequence[cp.Variable], parts: Sequence[Any], clients: Any) -> Owned:
    """The owners that a user gave, see :func:`dald_model.decompose`.

    Raises
    ------
    DecompositionError
        If these are no owners of this problem's variables.
    """
    if isinstance(clients, Mapping):
        return _listed(variables, parts, clients)
    if callable(clients):
        return _asked(variables, clients)
    if isinstance(clients, int) and not isinstance(clients, bool):
        return _dealt(variables, parts, clients)
    raise DecompositionError(
        f"decompose: given clients={clients!r} of type {type(clients).__name__}, expected a dict "
        "from owners to variables or constraints, a number of clients, or a function from a "
        "variable to its owner"
    )


def owners_by_summand(terms: Sequence[cp.Expression]) -> Owned:
    """An owner for each set of variables that hang together by summands: "client 0", ..."""
    graph = nx.Graph()
    for term in terms:
        nx.add_path(graph, [v.id for v in term.variables()])
    pieces = nx.connected_components(graph)
    return {key: f"client {at}" for at, piece in enumerate(pieces) for key in piece}


def _listed(
    variables: Sequence[cp.Variable], parts: Sequence[Any], clients: Mapping[Hashable, Any]
) -> Owned:
    known, rules = {v.id: v for v in variables}, {id(part) for part in parts}
    found: Owned = {}
    by_rules: Owned = {}
    for name, given in clients.items():
        check_name(name)
        several = isinstance(given, Iterable) and not isinstance(given, cp.Expression)
        for one in given if several else [given]:
            if isinstance(one, cp.Variable) and one.id in known:
                into, mine = found, [one]
            elif isinstance(one, cp.Constraint) and id(one) in rules:
                into, mine = by_rules, one.variables()
            else:
                raise DecompositionError(
                    f"decompose: clients: {name!r} is given {short(one)} of type "
                    f"{type(one).__name__}, expected variables or constraints of this problem, the "
                    "very objects"
                )
            for v in mine:
                if into.setdefault(v.id, name) != name:
                    raise DecompositionError(
                        f"decompose: clients: variable {v.name()!r} is given to {into[v.id]!r} and "
                        f"to {name!r}, expected one owner; give it to one, and leave constraints "
                        "over several owners out, which couple them"
                    )
    return by_rules | found


def _asked(variables: Sequence[cp.Variable], clients: Callable[[cp.Variable], Any]) -> Owned:
    found: Owned = {}
    for v in variables:
        name = clients(v)
        if name is not None:
            check_name(name)
            found[v.id] = name
    return found


def _dealt(variables: Sequence[cp.Variable], parts: Sequence[Any], count: int) -> Owned:
    """Parts of about as many variables each, with few parts of the problem between them.

    The largest is cut in two, by the algorithm of Kernighan and Lin, until there are enough.
    """
    if not 2 <= count <= len(variables):
        raise DecompositionError(
            f"decompose: given clients={count}, expected at least 2 and at most the number of "
            f"variables, {len(variables)}"
        )
    graph = nx.Graph()
    graph.add_nodes_from(v.id for v in variables)
    for part in parts:
        keys = list(dict.fromkeys(v.id for v in part.variables()))
        # A part over k variables counts once, however many pairs these are
        for at, one in enumerate(keys):
            for two in keys[at + 1 :]:
                before = graph.edges[one, two]["weight"] if graph.has_edge(one, two) else 0.0
                graph.add_edge(one, two, weight=before + 1 / (len(keys) - 1))
    pieces: list[set[int]] = [set(graph)]
    while len(pieces) < count:
        largest = max(pieces, key=len)
        pieces.remove(largest)
        halves = nx.community.kernighan_lin_bisection(graph.subgraph(largest), seed=0)
        pieces.extend(map(set, halves))
    order = {v.id: at for at, v in enumerate(variables)}
    pieces.sort(key=lambda piece: min(map(order.__getitem__, piece)))
    return {key: f"client {at}" for at, piece in enumerate(pieces) for key in piece}


def divide(parts: Sequence[Any], owners: Owned) -> Division:
    """The parts by owner; a variable that stands in the parts of one owner alone becomes its.

    What several own, or nobody, is in common; such parts are one group where a variable that
    nobody owns is in them, else where they are between the same owners, equalities apart.
    """
    owners = _spread(parts, owners)
    own: dict[Hashable, list[Any]] = {name: [] for name in dict.fromkeys(owners.values())}
    common: list[Any] = []
    for part in parts:
        names = {owners.get(v.id) for v in part.variables()}
        if len(names) == 1 and None not in names:
            own[next(iter(names))].append(part)
        elif names:
            common.append(part)
    graph = nx.Graph()
    for at, part in enumerate(common):
        graph.add_node(at)
        free = [("free", v.id) for v in part.variables() if v.id not in owners]
        names = frozenset(owners[v.id] for v in part.variables() if v.id in owners)
        is_edge = len(names) == 2 and isinstance(part, Equality)
        nx.add_star(graph, [at, *free] if free or is_edge else [at, ("between", names)])
    pieces = nx.connected_components(graph)
    groups = [sorted(node for node in piece if isinstance(node, int)) for piece in pieces]
    return Division(owners, own, [[common[at] for at in group] for group in sorted(groups)])


def _spread(parts: Sequence[Any], owners: Owned) -> Owned:
    """Give what nobody owns to the one owner that it stands together with, if it is one."""
    owners = dict(owners)
    while True:
        near: dict[int, set[Hashable]] = {}
        for part in parts:
            keys = [v.id for v in part.variables()]
            names = {owners[key] for key in keys if key in owners}
            for key in keys:
                if key not in owners:
                    near.setdefault(key, set()).update(names)
        sure = {key: next(iter(names)) for key, names in near.items() if len(names) == 1}
        if not sure:
            return owners
        owners |= sure
