"""Owners of an ordinary problem's variables, and what of it is whose.

A part of a problem is a summand of its objective or a constraint. A part whose variables have one
owner is that owner's; what is left couples several.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import cvxpy as cp
import networkx as nx
import numpy as np

from dald_model._cvxpy import Equality
from dald_model.declare.checked import check_name
from dald_model.declare.wording import short
from dald_model.errors import DecompositionError

Owned = dict[int, Hashable]
"""Variable id -> its owner."""
UNEVEN, CUTS = 300, 10
"""How many thousandths more variables than on average a client may be dealt, and how many
partitions the best is of. (Eight blocks of 100 variables with 80 rows between any: the borders of
3 clients cut 104 times, 311 times where all must be as large; repeated bisection by Kernighan and
Lin cut 87 times, into clients of 400, 200 and 200.)"""
PRECISION = 5040
"""METIS takes whole numbers: this is divided by all up to 10."""


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


def owners_by_summand(terms: Sequence[cp.Expression], start: int) -> Owned:
    """An owner for each set of variables that hang together by summands: "client 0", ...

    Counted from ``start`` on.
    """
    graph = nx.Graph()
    for term in terms:
        nx.add_path(graph, [v.id for v in term.variables()])
    pieces = nx.connected_components(graph)
    return {key: f"client {at}" for at, piece in enumerate(pieces, start) for key in piece}


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
    """Parts of about as many variables each, with few parts of the problem between them, by METIS.

    A part of the problem over k variables counts once, however many pairs these are.
    """
    if not 2 <= count <= len(variables):
        raise DecompositionError(
            f"decompose: given clients={count}, expected at least 2 and at most the number of "
            f"variables, {len(variables)}; more clients take more variables, such as one for each "
            "row of a matrix, and cp.vstack or cp.hstack of them where all are meant"
        )
    metis, order = metis_of(count), {v.id: at for at, v in enumerate(variables)}
    weights: dict[tuple[int, int], float] = {}
    for part in parts:
        keys = sorted({order[v.id] for v in part.variables()})
        for pair in combinations(keys, 2):
            weights[pair] = weights.get(pair, 0.0) + 1 / (len(keys) - 1)
    near: list[dict[int, int]] = [{} for _ in variables]
    for (one, two), weight in weights.items():
        near[one][two] = near[two][one] = max(1, round(PRECISION * weight))
    found = metis.part_graph(
        count,
        adjacency=metis.CSRAdjacency(
            np.cumsum([0, *map(len, near)]), [two for own in near for two in own]
        ),
        eweights=[weight for own in near for weight in own.values()],
        options=metis.Options(ufactor=UNEVEN, ncuts=CUTS, seed=0),
    )
    pieces: dict[int, list[int]] = {}  # in the order of their first variables
    for v, piece in zip(variables, found.vertex_part, strict=True):
        pieces.setdefault(piece, []).append(v.id)
    if len(pieces) < count:  # so few variables a client that METIS leaves one without
        pieces = {at: [v.id for v in own] for at, own in enumerate(_even(variables, count))}
    return {key: f"client {at}" for at, own in enumerate(pieces.values()) for key in own}


def _even(variables: Sequence[cp.Variable], count: int) -> list[Sequence[cp.Variable]]:
    """The variables in their order, as many for each."""
    stops = [len(variables) * at // count for at in range(count + 1)]
    return [variables[start:stop] for start, stop in pairwise(stops)]


def metis_of(count: int) -> Any:
    """The package that deals to so many clients."""
    try:
        return import_module("pymetis")
    except ImportError as error:
        raise DecompositionError(
            f"decompose: given clients={count}, which takes the package pymetis to deal the "
            "variables; expected it to be installed: pip install pymetis; or say whose which "
            'variable is by clients={"a": [x], "b": [y]}'
        ) from error


def divide(parts: Sequence[Any], owners: Owned) -> Division:
    """The parts by owner; a variable that stands in the parts of one owner alone becomes its.

    What several own, or nobody, is in common; such parts are one group where a variable that
    nobody owns is in them, else where they are between the same owners, equalities apart. A
    variable that stands in such parts alone is nobody's, where its owner has more.
    """
    owners = _spread(parts, _at_home(parts, _spread(parts, owners)))
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


def _at_home(parts: Sequence[Any], owners: Owned) -> Owned:
    """Without variables that no part of their owner's alone holds, if others are held so."""
    held: set[int] = set()
    for part in parts:
        keys = [v.id for v in part.variables()]
        names = {owners.get(key) for key in keys}
        if len(names) == 1:
            held.update(keys)
    settled = {owners[key] for key in held if key in owners}
    return {key: name for key, name in owners.items() if key in held or name not in settled}


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
