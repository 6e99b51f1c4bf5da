"""The graph over which clients agree on what they share, checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import cvxpy as cp

from dald_model.declare.client import Client
from dald_model.declare.consensus_form import check_reach, owners_of
from dald_model.errors import DeclarationError
from dald_model.lazy_imports import nx
from dald_model.text import listed


def rings(clients: Iterable[Client], shared: Iterable[cp.Variable]) -> nx.Graph:
    """A ring of those who use a variable, in order of declaration, for each shared variable."""
    users = owners_of(clients)
    graph = nx.Graph()
    for variable in shared:
        nx.add_cycle(graph, users[variable.id])
    return graph


def checked_topology(
    graph: Any, name: str, clients: Mapping[Hashable, Client], shared: Sequence[cp.Variable]
) -> nx.Graph:
    """A copy of the graph that a user gave for the model of this name.

    Raises
    ------
    DeclarationError
        If it is no undirected graph, a node is no client, nothing is shared, or those who share a
        variable cannot reach one another.
    """
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        raise DeclarationError(
            f"topology: given {type(graph).__name__}, expected an undirected networkx.Graph "
            "whose nodes are client names; the order of clients is solve's option sequence"
        )
    unknown = [node for node in graph if node not in clients]
    if unknown:
        are = "is no client" if len(unknown) == 1 else "are no clients"
        raise DeclarationError(
            f"topology: {listed(unknown)} {are} of {name!r}; expected nodes among {listed(clients)}"
        )
    loop = next(nx.selfloop_edges(graph), None)
    if loop is not None:
        raise DeclarationError(
            f"topology: client {loop[0]!r} has an edge to itself, expected edges between two "
            "clients; remove it"
        )
    if not shared:
        raise DeclarationError(
            f"topology: no variable of {name!r} is used by several clients, so a graph "
            "has nothing to connect; use model.consensus(...), or share a variable"
        )
    users = owners_of(clients.values())
    for variable in shared:
        check_reach(variable, users[variable.id], graph)
    return graph.copy()  # the user's may change
