"""Consensus form: local copies of shared variables, and servers.

The step from what the user wrote to a problem in consensus form, where every variable belongs to
exactly one client (the paper's problems (8) and (16)).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import cvxpy as cp

from dald_model._cvxpy import twin, with_parts
from dald_model.declare.client import Client
from dald_model.declare.common_objective import common_objective
from dald_model.declare.common_rules import NOTHING, CommonRules, RuleServer, common_rules
from dald_model.declare.consensus import ConsensusEquality, Edge, Owners, check_sides, join
from dald_model.declare.couplings import fresh
from dald_model.declare.lazy_client import LocalClient
from dald_model.errors import DeclarationError, DisconnectedError
from dald_model.lazy_imports import nx
from dald_model.text import listed, parted


@dataclass(frozen=True, eq=False)
class ConsensusForm:
    """The declaration with one owner for each variable.

    Attributes
    ----------
    clients : dict
        The clients by name, over their local variables; servers come last.
    edges : list of Edge
        The consensus constraints, one edge for each pair of clients.
    homes : dict
        User's variable id -> {client: that client's local variable}. The server's copy of a
        shared variable stands under the server's name.
    common : CommonRules
        What the server holds of the clients' constraints or objectives.
    as_declared : dict
        The clients as declared, over their local variables, of whose objectives it holds a part.
    """

    clients: dict[Hashable, Client]
    edges: list[Edge]
    homes: dict[int, dict[Hashable, cp.Variable]]
    common: CommonRules = NOTHING
    as_declared: Mapping[Hashable, Client] = field(default_factory=dict)

    @cached_property
    def graph(self) -> nx.Graph:
        """A node a client, an edge an :class:`Edge`."""
        return consensus_graph(self.clients, self.edges)

    @cached_property
    def hub(self) -> Hashable:
        """Who has an edge to each of the others, which have no other; None where nobody has."""
        if not self.edges or len(self.edges) != len(self.clients) - 1:
            return None
        ends = self.edges[0].ends
        return next((n for n in ends if all(n == e.tail or n == e.head for e in self.edges)), None)


class Link(NamedTuple):
    """An equality between two clients, and the user's own where it is this one."""

    left: cp.Expression
    left_owner: Hashable
    right: cp.Expression
    right_owner: Hashable
    constraint: cp.Constraint | None = None


def consensus_form(
    clients: Mapping[Hashable, Client],
    agreements: Sequence[ConsensusEquality],
    topology: nx.Graph | None,
    further: Sequence[Link] = (),
    *,
    served: bool = False,
    may_part: bool = False,
) -> ConsensusForm:
    """The consensus form of a declaration: one owner a variable, and all edges.

    Parameters
    ----------
    clients : dict
        Clients, and couplings as clients.
    agreements : sequence of ConsensusEquality
    topology : networkx.Graph or None
    further : sequence of Link
        Edges that are known besides, such as those of couplings.
    served : bool
        Whether there is a server for shared variables also where none is needed.
    may_part : bool
        Whether the consensus graph may have several parts. A client that is one by itself then
        agrees on a variable with a server, which asks nothing of it.

    Raises
    ------
    DeclarationError
        If a side mixes clients or a client has no coupling.
    DisconnectedError
        If the consensus graph is not connected.

    Notes
    -----
    Where no variable is used by more than two of more clients, each is an edge between its two;
    else one server has all shared variables, as federated methods want it. It has them as well
    where edges would leave the clients in several parts, and so holds these together. A server that
    is not asked for also holds the constraints that its clients repeat; one that is asked for only
    averages, as the paper's.
    """
    owners = owners_of(clients.values())
    most = max(map(len, owners.values()), default=0)
    if not served and topology is None and most == 2 < len(clients):
        try:
            return _form(clients, owners, agreements, None, further, pairs=True, may_part=may_part)
        except DisconnectedError:
            pass
    common = NOTHING
    if not served and topology is None:
        common = common_objective([*clients.values()], owners)
        if common is NOTHING:
            common = common_rules(clients.values(), owners)
    return _form(
        clients, owners, agreements, topology, further, common, pairs=False, may_part=may_part
    )


def _form(
    clients: Mapping[Hashable, Client],
    owners: Owners,
    agreements: Sequence[ConsensusEquality],
    topology: nx.Graph | None,
    further: Sequence[Link],
    common: CommonRules = NOTHING,
    *,
    pairs: bool,
    may_part: bool,
) -> ConsensusForm:
    """The same with an edge for each shared variable, or one server where no topology is given."""
    shared = {v.id: v for c in clients.values() for v in c.variables if len(owners[v.id]) > 1}
    homes = _homes(clients, shared)
    local, declared = dict(clients), dict[Hashable, Client]()
    for name, client in clients.items():
        mine = {v.id: homes[v.id][name] for v in client.variables if v.id in shared}
        local[name] = _localised(common.clients.get(name, client), mine)
        if common.cost is not None:
            declared[name] = _localised(client, mine)
    servers = _explicit_servers(agreements, owners, local)
    links: list[Link] = []
    if pairs:
        links += [_pair(homes[key]) for key in shared]
    elif shared and topology is None:
        copies = {key: _copy(v) for key, v in shared.items()}
        server = _server(
            fresh("server", [*local, *servers]),
            list(copies.values()),
            [_over(rule, copies) for rule in common.rules],
            None if common.cost is None else _over(common.cost, copies),
        )
        servers[server.name] = server
        for key, copy in copies.items():
            links += [Link(copy, server.name, x, name) for name, x in homes[key].items()]
            homes[key][server.name] = copy
    elif topology is not None:
        for key, variable in shared.items():
            links += _peer_links(variable, homes[key], topology)
    for server in servers.values():
        for v in server.held:
            homes.setdefault(v.id, {})[server.name] = v
    local |= servers

    by_copy = owners_of(local.values()) if agreements else {}
    triples = [(a, *check_sides(a, by_copy)) for a in agreements]
    links += [_at_home(link, homes) for link in further]
    triples += [
        (ConsensusEquality(one.left, one.right, one.constraint), one.left_owner, one.right_owner)
        for one in links
    ]
    if may_part:
        triples += _of_lone(local, homes, triples)
    form = ConsensusForm(local, join(triples), homes, common, declared)
    if not may_part and form.hub is None:
        check_connected(local, form.graph)
    return form


def _homes(
    clients: Mapping[Hashable, Client], shared: Mapping[int, cp.Variable]
) -> dict[int, dict[Hashable, cp.Variable]]:
    """Variable id -> {client: the variable, or the client's copy of it if it is shared}."""
    homes: dict[int, dict[Hashable, cp.Variable]] = {}
    alike = {key: _copy(v, "") for key, v in shared.items()}
    for name, client in clients.items():
        for v in client.variables:
            one = alike.get(v.id)
            mine = v if one is None else twin(one, f"{v.name()}@{name}")
            homes.setdefault(v.id, {})[name] = mine
    return homes


def _of_lone(
    clients: dict[Hashable, Client],
    homes: dict[int, dict[Hashable, cp.Variable]],
    triples: Sequence[tuple[ConsensusEquality, Hashable, Hashable]],
) -> list[tuple[ConsensusEquality, Hashable, Hashable]]:
    """Edges of clients that have none, on their smallest variables, to a server that is added."""
    near = {name for _, *ends in triples for name in ends}
    theirs = {
        name: min(client.variables, key=lambda v: v.size)
        for name, client in clients.items()
        if name not in near
    }
    if not theirs:
        return []
    copies = {name: _copy(v) for name, v in theirs.items()}
    server = _server(fresh("server", clients), list(copies.values()))
    clients[server.name] = server
    for name, v in theirs.items():
        homes[v.id][server.name] = copies[name]
    return [(ConsensusEquality(copies[n], v), server.name, n) for n, v in theirs.items()]


def _at_home(link: Link, homes: Mapping[int, Mapping[Hashable, cp.Variable]]) -> Link:
    """The same over the owners' copies of shared variables."""

    def local(side: cp.Expression, name: Hashable) -> cp.Expression:
        mine = {id(v): homes[v.id][name] for v in side.variables()}
        return with_parts(side, mine)

    return link._replace(
        left=local(link.left, link.left_owner), right=local(link.right, link.right_owner)
    )


def owners_of(clients: Iterable[Client]) -> Owners:
    """Variable id -> the names of the clients that use it, in order of declaration."""
    owners: dict[int, list[Hashable]] = {}
    for client in clients:
        for v in client.variables:
            owners.setdefault(v.id, []).append(client.name)
    return owners


def check_connected(clients: Mapping[Hashable, Client], graph: nx.Graph) -> None:
    """Refuse a client without coupling and a consensus graph in several pieces (Remark 1)."""
    for name in clients:
        if graph.degree[name] == 0:
            named = {v.name() for v in clients[name].variables}
            raise DeclarationError(
                f"client {name!r} has no coupling: none of its variables "
                f"({', '.join(v.name() for v in clients[name].variables)}) stands in a consensus "
                f"equality, a coupling or another client{_namesake(name, named, clients)}; add "
                "model.consensus(...) or model.couple(...) for it, or solve it on its own with "
                "cvxpy"
            )
    pieces = list(nx.connected_components(graph))
    if len(pieces) > 1:
        raise DisconnectedError(
            f"the consensus graph falls into {len(pieces)} parts: {parted(pieces)}; expected one "
            "connected graph (Remark 1 of the paper); add a consensus equality between them or a "
            "coupling, or declare one model for each part"
        )


def _namesake(name: Hashable, named: set[str], clients: Mapping[Hashable, Client]) -> str:
    """A variable of another client with the name of one of these, which may be meant to be it."""
    for other, client in clients.items():
        for v in client.variables if other != name else ():
            if v.name() in named:
                return f" (the variable {v.name()!r} of client {other!r} is another object)"
    return ""


def consensus_graph(clients: Iterable[Hashable], edges: Iterable[Edge]) -> nx.Graph:
    """The consensus graph in networkx: a node a client, an edge an :class:`Edge`."""
    graph = nx.Graph()
    graph.add_nodes_from(clients)
    graph.add_edges_from((e.tail, e.head, {"edge": e, "size": e.size}) for e in edges)
    return graph


def _localised(client: Client, copies: Mapping[int, cp.Variable]) -> Client:
    """The same client over its own copies of the shared variables."""
    if not copies:
        return client
    if client.is_remote:
        return replace(client, held=tuple(copies.get(v.id, v) for v in client.held))
    return LocalClient(client, copies)


def _copy(variable: cp.Variable, owner: Hashable | None = None) -> cp.Variable:
    """A client's own copy, with the attributes; the server's copy is free, its clients are not."""
    if owner is None:
        return cp.Variable(variable.shape, name=f"{variable.name()}@server")
    kept = {k: v for k, v in variable.attributes.items() if v is not None and v is not False}
    return cp.Variable(variable.shape, name=f"{variable.name()}@{owner}", **kept)


def _explicit_servers(
    agreements: Sequence[ConsensusEquality], owners: Owners, taken: Iterable[Hashable]
) -> dict[Hashable, Client]:
    """A server for each group of variables that stand together in sides but that nobody owns."""
    together = nx.Graph()
    variables = {}
    for agreement in agreements:
        for side in (agreement.left, agreement.right):
            free = [v for v in side.variables() if v.id not in owners]
            variables |= {v.id: v for v in free}
            nx.add_path(together, [v.id for v in free])
    groups = list(nx.connected_components(together))
    servers: dict[Hashable, Client] = {}
    for group in groups:
        held = [v for key, v in variables.items() if key in group]
        wish = "server" if len(groups) == 1 else f"server {held[0].name()}"
        server = _server(fresh(wish, [*taken, *servers]), held)
        servers[server.name] = server
    return servers


def _server(
    name: Hashable,
    held: Sequence[cp.Variable],
    rules: Sequence[cp.Constraint] = (),
    cost: cp.Expression | None = None,
) -> Client:
    goal = cp.Minimize(cp.Constant(0) if cost is None else cost)
    if rules or cost is not None:
        return RuleServer(name, goal, tuple(rules), tuple(held))
    return Client(name, goal, (), tuple(held), is_server=True)


def _over(part: Any, copies: Mapping[int, cp.Variable]) -> Any:
    """A constraint or an expression over the server's copies."""
    return with_parts(part, {id(v): copies[v.id] for v in part.variables()})


def _pair(homes: Mapping[Hashable, cp.Variable]) -> Link:
    """The edge that a variable of two clients is; a server between them would be a detour."""
    (one, copy), (other, its) = homes.items()
    return Link(copy, one, its, other)


def _peer_links(
    variable: cp.Variable, homes: Mapping[Hashable, cp.Variable], topology: nx.Graph
) -> list[Link]:
    """The equalities between the copies of one shared variable along the user's graph."""
    check_reach(variable, homes, topology)
    return [Link(homes[a], a, homes[b], b) for a, b in topology.subgraph(homes).edges]


def check_reach(variable: cp.Variable, users: Iterable[Hashable], topology: nx.Graph) -> None:
    """Refuse a graph over which the users of a shared variable cannot reach one another."""
    users = list(users)
    missing = [name for name in users if name not in topology]
    if missing:
        raise DeclarationError(
            f"topology: client {listed(missing)} uses the shared variable "
            f"{variable.name()!r} but is no node of the graph; add it with at least one edge"
        )
    graph = topology.subgraph(users)
    pieces = list(nx.connected_components(graph))
    if len(pieces) > 1:
        raise DisconnectedError(
            f"topology: among the clients that use {variable.name()!r} the graph falls into "
            f"{len(pieces)} parts: {parted(pieces)}; expected one connected graph (Remark 1 of the "
            "paper); add an edge between them"
        )
